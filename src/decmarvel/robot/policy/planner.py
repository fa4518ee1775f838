"""The learned planner: an actor behind the interface of every planner."""

from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from decmarvel.core.config import Config
from decmarvel.core.types import RETURN_HOME, Key, LocalView, Proposal
from decmarvel.robot.planners.base import Planner
from decmarvel.robot.policy.actor import Actor
from decmarvel.robot.policy.compute import PLAIN, Compute
from decmarvel.robot.policy.graph_actor import GraphActor, GraphActorConfig
from decmarvel.robot.policy.option_actor import OptionActor, OptionActorConfig
from decmarvel.robot.policy.predecessor import MarvelActor, MarvelConfig
from decmarvel.robot.policy.weights import Card, load_weights, read_card

ACTOR_CONFIGS: dict[str, type[Any]] = {
    OptionActor.name: OptionActorConfig,
    GraphActor.name: GraphActorConfig,
    MarvelActor.name: MarvelConfig,
}
"""Configuration class of each actor, by the name of its planner."""


class LearnedPlanner(Planner):
    """Chooses the most probable candidate, or draws one."""

    shown_candidates: ClassVar[int] = 5
    actor: Actor
    greedy: bool = eqx.field(static=True, default=True)
    compute: Compute = eqx.field(static=True, default=PLAIN)

    def start(self, config: Config, sites: int) -> None:
        self.actor.check(config)

    def propose(self, config: Config, key: Key, view: LocalView, memory: None) -> tuple[Proposal, None]:
        """Eq. 1, greedy (ties to the lower index) or sampled."""
        nodes, situation = self.actor.read(config, view, self.actor.places(config, view.visits.shape[0]))
        score = self.actor(nodes, situation, self.compute)
        flat = score.reshape(-1)
        choice = jnp.argmax(flat) if self.greedy else jax.random.categorical(key, flat)
        choice = jnp.where(self.actor.has_goal(situation), choice, RETURN_HOME)
        return Proposal(score, situation.heading_bin * config.degrees_per_bin, choice.astype(jnp.int32)), None


def published(name: str) -> Path:
    """Path of the package's own weights of a planner."""
    return Path(__file__).parent / "published" / f"{name}.safetensors"


def load_actor(path: str | Path) -> tuple[Actor, Card]:
    """A trained actor and its card. A fault in the files raises a `WeightsError` of one line."""
    card = read_card(path, "actor", ACTOR_CONFIGS)
    return load_weights(path, eqx.filter_eval_shape(card.network.build, jax.random.key(0))), card
