"""What every learning algorithm offers to the training loop."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

import equinox as eqx
import optax
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import LocalView
from decmarvel.robot.policy.actor import Actor
from decmarvel.robot.policy.compute import Compute
from decmarvel.training.codec import Inputs
from decmarvel.training.critic import Critic

Metrics: TypeAlias = dict[str, Float32[Array, ""]]


class Batch(eqx.Module):
    """`n` transitions as the networks read them."""

    state: Inputs
    action: Int32[Array, "n"]
    reward: Float32[Array, "n"]
    """Scaled rewards, summed over all steps with discount."""
    discount: Float32[Array, "n"]
    """Discount of the values of the following states; zero where none follows."""
    post: Bool[Array, "n"]
    following: Inputs
    following_post: Bool[Array, "n"]


class Learner(eqx.Module):
    """All that learning changes. Critics are stacked along a leading axis."""

    actor: eqx.AbstractVar[Actor]
    critics: eqx.AbstractVar[Critic]
    targets: eqx.AbstractVar[Critic]
    updates: eqx.AbstractVar[Int32[Array, ""]]

    @property
    @abstractmethod
    def published(self) -> Any:
        """The actor that is judged and published."""


@dataclass(frozen=True)
class Algorithm(ABC):
    """Settings of an algorithm, and what it does with them."""

    batch: int = 1024
    discount: float = 0.99
    steps: int = 1
    """Number of decisions whose rewards are summed; the critics estimate the rest."""
    post_share: float = 0.5
    """Share of a batch from after the team's success, once there are enough such transitions."""
    actor_rate: float = 3e-4
    critic_rate: float = 3e-4
    polyak_rate: float = 0.003
    """How far the targets follow the critics at each update."""
    largest_gradient: float = 10.0
    """Gradients are scaled down to this norm."""

    @property
    @abstractmethod
    def critics(self) -> int:
        """Number of critics that it trains."""

    @abstractmethod
    def begin(self, actor: Any, critics: Critic, post_begun: bool = False) -> Any:
        """These networks before their first update; targets equal their critics."""

    @abstractmethod
    def update(self, learner: Any, batch: Batch, compute: Compute) -> tuple[Any, Metrics]:
        """One step of all networks, computed from the networks as they were."""

    def stale_labels(self, config: Config, views: LocalView) -> Bool[Array, "N I J"] | None:
        """Labels of the actor's staleness predictor, robot by robot; None if the actor has no predictor."""
        return None

    def optimiser(self, rate: float) -> optax.GradientTransformation:
        """Adam with bounded gradients."""
        return optax.chain(optax.clip_by_global_norm(self.largest_gradient), optax.adam(rate))
