"""A planner that chooses at random: the lower bound of comparisons, and a test of the budget guard."""

import jax
import jax.numpy as jnp

from decmarvel.core.config import Config
from decmarvel.core.lattice import SLOTS
from decmarvel.core.types import Key, LocalView, Proposal
from decmarvel.robot.planners.base import Planner


class RandomPlanner(Planner):
    """Every candidate is equally likely."""

    def start(self, config: Config, sites: int) -> None:
        return None

    def propose(self, config: Config, key: Key, view: LocalView, memory: None) -> tuple[Proposal, None]:
        score = jax.random.uniform(key, (SLOTS, config.headings_per_node))
        masked = jnp.where(view.candidates.mask[:, None], score, -1.0)
        heading = view.candidates.heading_bin * config.degrees_per_bin
        return Proposal(score, heading, jnp.argmax(masked.reshape(-1)).astype(jnp.int32)), None
