"""The interface of all learned actors: they read a robot's view and give log-probabilities of its actions."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from decmarvel.core.config import Config
from decmarvel.core.types import Key, LocalView
from decmarvel.robot.observation import observe
from decmarvel.robot.policy.compute import PLAIN, Compute
from decmarvel.robot.policy.nodes import Nodes, Situation, bucket_for, compact, situation_of

Decide: TypeAlias = Callable[..., Float32[Array, "*n K H"]]

IMPOSSIBLE = -1e9
"""Log-probability of an action that is not valid."""


@runtime_checkable
class ActorConfig(Protocol):
    """The sizes of one kind of actor: a frozen dataclass, which is on the card of the actor's weights."""

    @property
    def bins(self) -> int: ...

    @property
    def window(self) -> int: ...

    @property
    def max_budget_m(self) -> float:
        """The unit of the budget features (Eq. 6) that it was trained with."""
        ...

    def build(self, key: Key) -> "Actor":
        """An actor of these sizes with fresh weights."""
        ...


class Actor(eqx.Module):
    """A policy of one robot. It reads this robot's own nodes and situation, nothing else."""

    name: ClassVar[str]
    """Name of the planner that uses this actor."""
    config: eqx.AbstractVar[ActorConfig]

    @abstractmethod
    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n K H"]:
        """Eq. 1: the log-probability of each action, of one robot or many."""

    def places(self, config: Config, sites: int) -> int:
        """Number of places for nodes on a lattice with `sites` sites a side."""
        return bucket_for(sites)

    def read(self, config: Config, view: LocalView, places: int) -> tuple[Nodes, Situation]:
        """The actor's inputs from one robot's view, with the nodes in `places` places."""
        observation = observe(config, view)
        return compact(observation, places), situation_of(observation)

    def has_goal(self, situation: Situation) -> Bool[Array, ""]:
        """Whether one robot has a goal left; without a goal it returns home."""
        return jnp.array(True)

    def check(self, config: Config) -> None:
        """Raise a ValueError if it was made for another camera or budget than this configuration's."""
        names = ("heading_bins", "window_bins", "max_budget_m")
        wanted = (config.heading_bins, config.window_bins, config.max_budget_m)
        made_for = (self.config.bins, self.config.window, self.config.max_budget_m)
        if wanted != made_for:
            raise ValueError(f"this actor was made for ({', '.join(names)}) = {made_for}, not {wanted}")


def masked_log_softmax(logits: Float32[Array, "K H"], mask: Bool[Array, "K H"]) -> Float32[Array, "K H"]:
    """Log-probabilities of the valid actions, which sum to one."""
    logits = jnp.where(mask, logits, IMPOSSIBLE)
    return jnp.where(mask, jax.nn.log_softmax(logits, axis=(0, 1)), IMPOSSIBLE)


def of_all(decide: Decide, situation: Situation) -> Decide:
    """Map the policy of one robot over all robots in a situation, for any number of axes."""
    for _ in range(situation.team_size.ndim):
        decide = jax.vmap(decide)
    return decide
