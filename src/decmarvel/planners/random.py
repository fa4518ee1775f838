"""A planner that chooses blindly: the floor of every comparison, and the hunter of guard violations."""

import jax
import jax.numpy as jnp

from decmarvel.config import Config
from decmarvel.geometry import SLOTS
from decmarvel.planners.base import Planner
from decmarvel.types import Key, LocalView, Proposal


class RandomPlanner(Planner):
    """Every candidate is equally likely."""

    def start(self, config: Config, sites: int) -> None:
        return None

    def propose(self, config: Config, key: Key, view: LocalView, memory: None) -> tuple[Proposal, None]:
        score = jax.random.uniform(key, (SLOTS, config.headings_per_node))
        masked = jnp.where(view.candidates.mask[:, None], score, -1.0)
        heading = view.candidates.heading_bin * config.degrees_per_bin
        return Proposal(score, heading, jnp.argmax(masked.reshape(-1)).astype(jnp.int32)), None
