"""The one interface of everything that decides: the learned actor, the classical planners, and yours."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.config import Config
from decmarvel.types import Key, Keys, LocalView, Proposal, Scalar

Memory = Any
"""A planner's own pytree between decisions, one per robot; None for a planner without memory."""


class Planner(eqx.Module):
    """Reads one robot's own view, scores its candidates. Pure, so that it can be jitted and mapped over robots."""

    communicates: ClassVar[bool] = False
    """Whether the planner needs a radio. Marked wherever its results are shown."""
    shares_maps: ClassVar[bool] = False
    """Whether the simulator merges the robots' maps after every decision."""
    weighs: ClassVar[int] = 0
    """Of so many candidates recordings keep the probability; not 0 only if the scores are log-probabilities."""

    @abstractmethod
    def start(self, config: Config, sites: int) -> Memory:
        """The memory at take-off."""

    @abstractmethod
    def propose(self, config: Config, key: Key, view: LocalView, memory: Memory) -> tuple[Proposal, Memory]:
        """Score the candidates and choose one, or RETURN_HOME."""


class RadioPlanner(Planner):
    """A planner whose robots share one map and tell each other their goals: a yardstick, not a rival.

    The simulator merges the robots' maps after every decision (radio.py), so the views differ in pose and budget only.
    """

    communicates: ClassVar[bool] = True
    shares_maps: ClassVar[bool] = True

    @abstractmethod
    def propose_team(
        self, config: Config, keys: Keys, views: LocalView, exploring: Bool[Array, "N"], memory: Memory
    ) -> tuple[Proposal, Memory]:
        """The proposals of a whole team; every argument has an axis of robots."""

    def propose(self, config: Config, key: Key, view: LocalView, memory: Memory) -> tuple[Proposal, Memory]:
        """Alone, a robot is a team of one."""
        team = jax.tree.map(lambda leaf: leaf[None], (key, view, memory))
        proposals = self.propose_team(config, team[0], team[1], jnp.ones(1, bool), team[2])
        return jax.tree.map(lambda leaf: leaf[0], proposals)


def propose_all(
    config: Config, planner: Planner, keys: Keys, views: LocalView, exploring: Bool[Array, "N"], memory: Memory
) -> tuple[Proposal, Memory]:
    """What everybody proposes: each for itself, unless the planner has a radio."""
    if isinstance(planner, RadioPlanner):
        return planner.propose_team(config, keys, views, exploring, memory)
    return jax.vmap(lambda key, view, memory: planner.propose(config, key, view, memory))(keys, views, memory)


def by_slot(config: Config, score: Float32[Array, "K"], heading: Int32[Array, "K"], choice: Scalar) -> Proposal:
    """The proposal of a planner that has one heading for each node."""
    count = config.headings_per_node
    return Proposal(
        score=jnp.repeat(score[:, None], count, axis=1),
        heading=jnp.repeat(heading[:, None], count, axis=1),
        choice=choice,
    )
