"""The interface of all planners: the learned ones, the classical ones, and your own."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import Key, LocalView, Proposal, Scalar

Memory = Any
"""A planner's own pytree between decisions, one per robot; None for a planner without memory."""


class Planner(eqx.Module):
    """Reads one robot's own view and scores its candidates. Pure, so that it can be jitted and mapped over robots."""

    communicates: ClassVar[bool] = False
    """Whether the planner needs a radio: its robots share one map. Marked wherever its results are shown."""
    shown_candidates: ClassVar[int] = 0
    """Number of candidates whose probabilities are recorded; 0 unless the scores are log-probabilities."""

    @abstractmethod
    def start(self, config: Config, sites: int) -> Memory:
        """The memory at take-off."""

    @abstractmethod
    def propose(self, config: Config, key: Key, view: LocalView, memory: Memory) -> tuple[Proposal, Memory]:
        """Score the candidates and choose one, or RETURN_HOME."""


def by_slot(config: Config, score: Float32[Array, "K"], heading: Int32[Array, "K"], choice: Scalar) -> Proposal:
    """The proposal of a planner that has one heading for each node."""
    count = config.headings_per_node
    return Proposal(
        score=jnp.repeat(score[:, None], count, axis=1),
        heading=jnp.repeat(heading[:, None], count, axis=1),
        choice=choice,
    )
