"""Discrete soft actor-critic with twin critics and a learned temperature, as in the paper."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.robot.policy.actor import Actor
from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.nodes import Nodes
from decmarvel.training.algorithms.base import Algorithm, Batch, Learner, Metrics
from decmarvel.training.algorithms.losses import expectation, follow, log_policy, next_policy, optimiser_step
from decmarvel.training.algorithms.values import CriticRows, critic_gradient, soft_value, without_nodes
from decmarvel.training.critic import Critic
from decmarvel.training.devices import mean, total
from decmarvel.training.size_batching import in_groups


class SacLearner(Learner):
    """All that soft actor-critic changes."""

    actor: Actor
    critics: Critic
    """Both critics, stacked along a leading axis; so are their targets."""
    targets: Critic
    log_alpha: Float32[Array, ""]
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    alpha_optimiser: optax.OptState
    post_begun: Bool[Array, ""]
    """Whether samples from after the team's success have arrived."""
    updates: Int32[Array, ""]

    @property
    def alpha(self) -> Float32[Array, ""]:
        """The temperature."""
        return jnp.exp(self.log_alpha)

    @property
    def published(self) -> Actor:
        return self.actor


@dataclass(frozen=True)
class Sac(Algorithm):
    """The paper's method; rates and sizes are for a fast simulator."""

    alpha_rate: float = 3e-4
    first_log_alpha: float = -2.0
    log_alpha_range: tuple[float, float] = (-4.0, 2.0)
    entropy_share: float = 0.5
    """The target entropy is this share of the largest possible one, log of the number of valid actions."""

    @property
    def critics(self) -> int:
        return 2

    def begin(self, actor: Actor, critics: Critic, post_begun: bool = False) -> SacLearner:
        log_alpha = jnp.array(self.first_log_alpha, jnp.float32)
        return SacLearner(
            actor=actor,
            critics=critics,
            targets=jax.tree.map(jnp.array, critics),
            log_alpha=log_alpha,
            actor_optimiser=self.optimiser(self.actor_rate).init(actor),
            critic_optimiser=self.optimiser(self.critic_rate).init(critics),
            alpha_optimiser=self.optimiser(self.alpha_rate).init(log_alpha),
            post_begun=jnp.array(post_begun),
            updates=jnp.array(0, jnp.int32),
        )

    def update(self, learner: SacLearner, batch: Batch, compute: Compute) -> tuple[SacLearner, Metrics]:
        """One step of critics, actor, temperature and targets."""
        learner = enter_post(learner, total(batch.post.sum(), compute.axis) > 0)
        next_log = next_policy(learner.actor, batch, compute)
        loss_q, gradient_q, rows = critic_gradient(
            learner.critics, learner.targets, batch, next_log, learner.alpha, compute
        )
        loss_pi, gradient_pi, log_probability = actor_gradient(learner.actor, batch, rows, learner.alpha, compute)
        valid = batch.state.situation.action_mask.sum(axis=(-2, -1)).astype(jnp.int32)
        loss_alpha, gradient_alpha = jax.value_and_grad(
            lambda log_alpha: temperature_loss(self.entropy_share, log_alpha, log_probability, valid)
        )(learner.log_alpha)
        gradients = mean((gradient_q, gradient_pi, gradient_alpha), compute.axis)
        metrics = {
            "policy/entropy": expectation(log_probability, -log_probability).mean(),
            "loss/critic": loss_q,
            "loss/actor": loss_pi,
            "loss/temperature": loss_alpha,
            "policy/alpha": learner.alpha,
            **value_metrics(batch, rows, compute),
            "gradient/critic": optax.tree.norm(gradients[0]),
            "gradient/actor": optax.tree.norm(gradients[1]),
        }
        return self.stepped(learner, *gradients), mean(metrics, compute.axis)

    def stepped(
        self, learner: SacLearner, gradient_q: Critic, gradient_pi: Actor, gradient_alpha: Float32[Array, ""]
    ) -> SacLearner:
        """The learner after one step of each optimiser."""
        critics, critic_optimiser = optimiser_step(
            self.optimiser(self.critic_rate), gradient_q, learner.critic_optimiser, learner.critics
        )
        actor, actor_optimiser = optimiser_step(
            self.optimiser(self.actor_rate), gradient_pi, learner.actor_optimiser, learner.actor
        )
        log_alpha, alpha_optimiser = optimiser_step(
            self.optimiser(self.alpha_rate), gradient_alpha, learner.alpha_optimiser, learner.log_alpha
        )
        return SacLearner(
            actor=actor,
            critics=critics,
            targets=follow(learner.targets, critics, self.polyak_rate),
            log_alpha=jnp.clip(log_alpha, *self.log_alpha_range),
            actor_optimiser=actor_optimiser,
            critic_optimiser=critic_optimiser,
            alpha_optimiser=alpha_optimiser,
            post_begun=learner.post_begun,
            updates=learner.updates + 1,
        )


def enter_post(learner: SacLearner, arrived: Bool[Array, ""]) -> SacLearner:
    """Make the post heads from the pre heads when the first samples after completion arrive."""
    now = arrived & ~learner.post_begun

    def entered(critic: Critic) -> Critic:
        return jax.tree.map(lambda new, old: jnp.where(now, new, old), critic.enter_post(), critic)

    return eqx.tree_at(
        lambda old: (old.critics, old.targets, old.post_begun),
        learner,
        (entered(learner.critics), entered(learner.targets), learner.post_begun | arrived),
    )


def actor_loss(
    log_probability: Float32[Array, "n A"], value: Float32[Array, "2 n A"], alpha: Float32[Array, ""]
) -> Float32[Array, ""]:
    """The expectation of alpha log pi - min Q."""
    return -soft_value(log_probability, value, alpha).mean()


def temperature_loss(
    entropy_share: float,
    log_alpha: Float32[Array, ""],
    log_probability: Float32[Array, "n A"],
    valid: Int32[Array, "n"],
) -> Float32[Array, ""]:
    """Alpha falls where the entropy is above its target of 0.5 log |A|, and rises below."""
    entropy = expectation(log_probability, -log_probability)
    wanted = entropy_share * jnp.log(jnp.maximum(valid, 1).astype(jnp.float32))
    return (jnp.exp(log_alpha) * (entropy - wanted)).mean()


def actor_gradient(
    actor: Actor, batch: Batch, rows: CriticRows, alpha: Float32[Array, ""], compute: Compute
) -> tuple[Float32[Array, ""], Actor, Float32[Array, "n A"]]:
    """The actor's loss, its gradient, and the policy in the states of the batch."""

    def one(
        nodes: tuple[Nodes], batch: Batch, rows: CriticRows
    ) -> tuple[tuple[Float32[Array, ""], Actor], Float32[Array, "n A"]]:
        def loss(actor: Actor) -> tuple[Float32[Array, ""], Float32[Array, "n A"]]:
            log_probability = log_policy(actor, nodes[0], batch.state.situation, compute)
            return actor_loss(log_probability, jnp.moveaxis(rows.value, 1, 0), alpha), log_probability

        (found, log_probability), gradient = jax.value_and_grad(loss, has_aux=True)(actor)
        return (found, gradient), log_probability

    (loss, gradient), log_probability = in_groups(
        compute.group, compute.actor_buckets, one, (batch.state.nodes,), without_nodes(batch), rows
    )
    return loss, gradient, log_probability


def value_metrics(batch: Batch, rows: CriticRows, compute: Compute) -> Metrics:
    """Mean values of the actions that were taken before and after the team's success, and of their targets."""
    done = jnp.take_along_axis(rows.value, batch.action[:, None, None], axis=-1)[..., 0].min(axis=1)
    post = batch.post.astype(jnp.float32)

    def mean_where(phase: Float32[Array, "n"]) -> Float32[Array, ""]:
        value, count = total(((done * phase).sum(), phase.sum()), compute.axis)
        return value / jnp.maximum(count, 1.0)

    return {"value/pre": mean_where(1 - post), "value/post": mean_where(post), "value/target": rows.target.mean()}
