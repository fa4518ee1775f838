"""Losses that the algorithms share, and one step of an optimiser."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.robot.policy.actor import Actor
from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.nodes import Nodes, Situation
from decmarvel.training.algorithms.base import Batch
from decmarvel.training.critic import Critic
from decmarvel.training.size_batching import in_groups

T = TypeVar("T")


def log_policy(actor: Actor, nodes: Nodes, situation: Situation, compute: Compute) -> Float32[Array, "n A"]:
    """Log-probabilities of all actions."""
    found = actor(nodes, situation, compute)
    return found.reshape(len(found), -1)


def values(
    critic: Critic, nodes: Nodes, situation: Situation, post: Bool[Array, "n"], compute: Compute
) -> Float32[Array, "n A"]:
    """A critic's values of all actions."""
    found = critic(nodes, situation, post, compute)
    return found.reshape(len(found), -1)


def expectation(log_probability: Float32[Array, "n A"], value: Float32[Array, "n A"]) -> Float32[Array, "n"]:
    """Mean of the actions' values under a policy. Actions that are not valid have no weight, whatever their value."""
    weight = jnp.exp(log_probability)
    return jnp.where(weight > 0, weight * value, 0.0).sum(axis=-1)


def taken(value: Float32[Array, "n A"], action: Int32[Array, "n"]) -> Float32[Array, "n"]:
    """The values of the actions that were taken."""
    return jnp.take_along_axis(value, action[:, None], axis=-1)[:, 0]


def critic_loss(
    value: Float32[Array, "n A"], action: Int32[Array, "n"], target: Float32[Array, "n"]
) -> Float32[Array, ""]:
    """Eq. 13 for one critic."""
    return ((taken(value, action) - target) ** 2).mean()


def next_policy(actor: Actor, batch: Batch, compute: Compute) -> Float32[Array, "n A"]:
    """Log-probabilities of all actions in the next states."""

    def one(nodes: tuple[Nodes], situation: Situation) -> tuple[None, Float32[Array, "n A"]]:
        return None, log_policy(actor, nodes[0], situation, compute.without_gradient)

    return in_groups(compute.group, compute.actor_buckets, one, (batch.following.nodes,), batch.following.situation)[1]


def follow(target: T, online: T, rate: float) -> T:
    """Move a target network a little towards the one that is trained.

    `optax.incremental_update` rounds in another way, so runs would no longer be what they were to the last bit.
    """
    return jax.tree.map(lambda old, new: old + rate * (new - old), target, online)


def optimiser_step(
    optimiser: optax.GradientTransformation, gradient: T, state: optax.OptState, parameters: T
) -> tuple[T, optax.OptState]:
    """One step of an optimiser."""
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes types
        change, state = optimiser.update(gradient, state, parameters)
    return optax.apply_updates(parameters, change), state
