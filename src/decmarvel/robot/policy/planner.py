"""The learned planner: an actor behind the interface of every planner."""

from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from decmarvel.core.config import Config
from decmarvel.core.types import RETURN_HOME, Key, LocalView, Proposal
from decmarvel.robot.observation import observe
from decmarvel.robot.planners.base import Planner
from decmarvel.robot.policy.actor import AnyActor, OptionActor, advised, new_actor
from decmarvel.robot.policy.blocks import PLAIN, Compute
from decmarvel.robot.policy.nodes import bucket_for, compact, situation
from decmarvel.robot.policy.weights import Card, load_weights, read_card

PUBLISHED = Path(__file__).parent / "published" / "dec-marvel.safetensors"
"""The package's own weights."""


class LearnedPlanner(Planner):
    """Chooses the most probable candidate, or draws one. The paper's never turns home: the guard does that."""

    shown_candidates: ClassVar[int] = 5
    actor: AnyActor
    greedy: bool = eqx.field(static=True, default=True)
    compute: Compute = eqx.field(static=True, default=PLAIN)

    def start(self, config: Config, sites: int) -> None:
        ours, theirs = (config.heading_bins, config.window_bins), (self.actor.config.bins, self.actor.config.window)
        if ours != theirs:
            raise ValueError(f"this actor was made for (heading_bins, window_bins) = {theirs}, not {ours}")
        return None

    def propose(self, config: Config, key: Key, view: LocalView, memory: None) -> tuple[Proposal, None]:
        """Eq. 1, greedy (ties to the lower index) or sampled. Advice counts with all nodes, however many there are."""
        observation = observe(config, view)
        everything = compact(observation, observation.node_mask.size)
        known = advised(self.actor, config, view, everything, situation(observation))
        only_weighs = isinstance(self.actor, OptionActor)
        nodes = everything if only_weighs else compact(observation, bucket_for(observation.node_mask.shape[0]))
        score = self.actor(nodes, known, self.compute)
        flat = score.reshape(-1)
        choice = jnp.argmax(flat) if self.greedy else jax.random.categorical(key, flat)
        if only_weighs:  # without an option there is nothing left to do
            choice = jnp.where((known.advice.action >= 0).any(), choice, RETURN_HOME)
        return Proposal(score, observation.heading_bin * config.degrees_per_bin, choice.astype(jnp.int32)), None


def load_actor(path: str | Path) -> tuple[AnyActor, Card]:
    """A trained actor and its card. Whatever is wrong with the files is a `WeightsError` of one line."""
    card = read_card(path, "actor")
    like = eqx.filter_eval_shape(new_actor, jax.random.key(0), card.network)
    return load_weights(path, like), card
