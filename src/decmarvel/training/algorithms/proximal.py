"""Proximal policy steps with one critic: actions that did better than expected become more probable, within limits.

Our method for the actor `options`. In place of the entropy of soft actor-critic it uses the divergence from the actor's
prior. The actor's staleness predictor learns at the same time, from labels.
"""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import LocalView
from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.nodes import Nodes
from decmarvel.robot.policy.option_actor import OptionActor
from decmarvel.robot.policy.staleness import StalenessPredictor, is_open
from decmarvel.training.algorithms.base import Algorithm, Batch, Learner, Metrics
from decmarvel.training.algorithms.losses import expectation, follow, log_policy, next_policy, optimiser_step, taken
from decmarvel.training.algorithms.sac import value_metrics
from decmarvel.training.algorithms.values import CriticRows, critic_gradient, without_nodes
from decmarvel.training.codec import Inputs
from decmarvel.training.critic import Critic
from decmarvel.training.devices import mean
from decmarvel.training.size_batching import in_groups
from decmarvel.training.stale_labels import stale_labels

LARGEST_RATIO = 3.0
"""Upper limit of the ratio of an action's new to its old probability (Ye et al. 2020)."""
TINY = 1e-6


class ProximalLearner(Learner):
    """All that proximal steps change."""

    actor: OptionActor
    average: OptionActor
    """The average of recent actors: single steps are noisy."""
    critics: Critic
    """One critic, with a leading axis of length one; its target has the same."""
    targets: Critic
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    staleness_optimiser: optax.OptState
    updates: Int32[Array, ""]

    @property
    def published(self) -> OptionActor:
        return self.average


@dataclass(frozen=True)
class Proximal(Algorithm):
    """Settings of proximal steps, our method."""

    clip: float = 0.2
    """An action's probability changes by this share at most (Schulman et al. 2017)."""
    log_prior_weight: float = -3.0
    """Logarithm of the weight of the divergence from the actor's prior."""
    staleness_rate: float = 2e-3
    critic_only: int = 0
    """Number of first updates in which only the critic learns and the actor does not change."""
    averaging: float = 1.0
    """How far the average of recent actors follows the actor at each update."""

    @property
    def critics(self) -> int:
        return 1

    def begin(self, actor: OptionActor, critics: Critic, post_begun: bool = False) -> ProximalLearner:
        return ProximalLearner(
            actor=actor,
            average=jax.tree.map(jnp.array, actor),
            critics=critics,
            targets=jax.tree.map(jnp.array, critics),
            actor_optimiser=self.optimiser(self.actor_rate).init(actor),
            critic_optimiser=self.optimiser(self.critic_rate).init(critics),
            staleness_optimiser=self.optimiser(self.staleness_rate).init(actor.staleness),
            updates=jnp.array(0, jnp.int32),
        )

    def stale_labels(self, config: Config, views: LocalView) -> Bool[Array, "N I J"] | None:
        return stale_labels(config, views)

    def update(self, learner: ProximalLearner, batch: Batch, compute: Compute) -> tuple[ProximalLearner, Metrics]:
        """One step of critic, actor, target and staleness predictor."""
        next_log = next_policy(learner.actor, batch, compute)
        no_entropy = jnp.zeros(())
        loss_q, gradient_q, rows = critic_gradient(
            learner.critics, learner.targets, batch, next_log, no_entropy, compute
        )
        loss_pi, gradient_pi, log_probability = self.actor_gradient(learner, batch, rows, compute)
        gradient_q, gradient_pi = mean((gradient_q, gradient_pi), compute.axis)
        critics, critic_optimiser = optimiser_step(
            self.optimiser(self.critic_rate), gradient_q, learner.critic_optimiser, learner.critics
        )
        actor, actor_optimiser = optimiser_step(
            self.optimiser(self.actor_rate), gradient_pi, learner.actor_optimiser, learner.actor
        )
        staleness, staleness_optimiser, staleness_metrics = self.staleness_step(
            actor.staleness, learner.staleness_optimiser, batch, compute
        )
        actor = eqx.tree_at(lambda a: a.staleness, actor, staleness)
        metrics = {
            "policy/entropy": expectation(log_probability, -log_probability).mean(),
            "loss/critic": loss_q,
            "loss/actor": loss_pi,
            **value_metrics(batch, rows, compute),
            "gradient/critic": optax.tree.norm(gradient_q),
            "gradient/actor": optax.tree.norm(gradient_pi),
            **staleness_metrics,
        }
        learner = ProximalLearner(
            actor=actor,
            average=actor if self.averaging == 1 else follow(learner.average, actor, self.averaging),
            critics=critics,
            targets=follow(learner.targets, critics, self.polyak_rate),
            actor_optimiser=actor_optimiser,
            critic_optimiser=critic_optimiser,
            staleness_optimiser=staleness_optimiser,
            updates=learner.updates + 1,
        )
        return learner, mean(metrics, compute.axis)

    def actor_gradient(
        self, learner: ProximalLearner, batch: Batch, rows: CriticRows, compute: Compute
    ) -> tuple[Float32[Array, ""], OptionActor, Float32[Array, "n A"]]:
        """The actor's loss, its gradient, and the policy in the states of the batch."""
        changes = (learner.updates >= self.critic_only).astype(jnp.float32)
        unit = jnp.sqrt(mean(squared_error(rows, batch.action), compute.axis))

        def one(
            nodes: tuple[Nodes], batch: Batch, rows: CriticRows
        ) -> tuple[tuple[Float32[Array, ""], OptionActor], Float32[Array, "n A"]]:
            state = batch.state

            def loss(actor: OptionActor) -> tuple[Float32[Array, ""], Float32[Array, "n A"]]:
                log_probability = log_policy(actor, nodes[0], state.situation, compute)
                expected = expectation(jax.lax.stop_gradient(log_probability), rows.value.mean(axis=1))
                advantage = (rows.target - expected) / unit
                prior = actor.prior(state.situation).reshape(log_probability.shape)
                found = self.actor_loss(log_probability, state.log_probability, batch.action, advantage, prior)
                return changes * found, log_probability

            (found, log_probability), gradient = jax.value_and_grad(loss, has_aux=True)(learner.actor)
            return (found, gradient), log_probability

        (loss, gradient), log_probability = in_groups(
            compute.group, compute.actor_buckets, one, (batch.state.nodes,), without_nodes(batch), rows
        )
        return loss, gradient, log_probability

    def actor_loss(
        self,
        log_probability: Float32[Array, "n A"],
        before: Float32[Array, "n"],
        action: Int32[Array, "n"],
        advantage: Float32[Array, "n"],
        prior: Float32[Array, "n A"],
    ) -> Float32[Array, ""]:
        """The clipped gain of the actions that were taken, and the weighted divergence from the prior.

        `before`: the log-probability that each action had when it was taken.
        """
        ratio = jnp.exp(jnp.minimum(taken(log_probability, action) - before, math.log(LARGEST_RATIO)))
        gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - self.clip, 1 + self.clip) * advantage)
        weight = jnp.exp(jnp.array(self.log_prior_weight, jnp.float32))
        return -(gain + weight * expectation(log_probability, prior - log_probability)).mean()

    def staleness_step(
        self, predictor: StalenessPredictor, state: optax.OptState, batch: Batch, compute: Compute
    ) -> tuple[StalenessPredictor, optax.OptState, Metrics]:
        """One step of the staleness predictor."""
        (loss, errors), gradient = jax.value_and_grad(staleness_loss, has_aux=True)(predictor, batch.state, batch.post)
        gradient = mean(gradient, compute.axis)
        predictor, state = optimiser_step(self.optimiser(self.staleness_rate), gradient, state, predictor)
        return predictor, state, {"staleness/loss": loss, "staleness/errors": errors}


def squared_error(rows: CriticRows, action: Int32[Array, "n"]) -> Float32[Array, ""]:
    """Mean squared difference between the critic's values of the actions that were taken and their targets."""
    done = jnp.take_along_axis(rows.value, action[:, None, None], axis=-1)[..., 0].mean(axis=1)
    return ((rows.target - done) ** 2).mean() + TINY


def staleness_loss(
    predictor: StalenessPredictor, state: Inputs, post: Bool[Array, "n"]
) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    """Cross-entropy of the predictions over all open nodes, and the share of errors.

    States after the team's success do not count: nothing new is left, and nothing depends on them.
    """
    assert state.stale is not None
    logit = jax.vmap(predictor)(state.nodes, state.situation)
    counts = (is_open(state.nodes) & ~post[:, None]).astype(jnp.float32)
    count = jnp.maximum(counts.sum(), 1.0)
    wrong = optax.sigmoid_binary_cross_entropy(logit, state.stale.astype(jnp.float32))
    errors = ((logit > 0) != state.stale).astype(jnp.float32)
    return (counts * wrong).sum() / count, (counts * errors).sum() / count
