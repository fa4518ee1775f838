"""The critics' part of an update, which both algorithms share."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.nodes import Nodes
from decmarvel.training.algorithms.base import Batch
from decmarvel.training.algorithms.losses import critic_loss, expectation, values
from decmarvel.training.critic import Critic
from decmarvel.training.size_batching import in_groups


class CriticRows(eqx.Module):
    """Values and target of each sample."""

    value: Float32[Array, "n C A"]
    target: Float32[Array, "n"]


def soft_value(
    log_probability: Float32[Array, "n A"], value: Float32[Array, "C n A"], alpha: Float32[Array, ""]
) -> Float32[Array, "n"]:
    """V(s') of the Bellman target: the critics' least value and the entropy, over all actions."""
    return expectation(log_probability, value.min(axis=0) - alpha * log_probability)


def critic_gradient(
    critics: Critic,
    targets: Critic,
    batch: Batch,
    next_log: Float32[Array, "n A"],
    alpha: Float32[Array, ""],
    compute: Compute,
) -> tuple[Float32[Array, ""], Critic, CriticRows]:
    """The loss of Eq. 13, summed over the critics, and its gradient, with the targets' soft values of the next states.

    Critics come one after the other: products of all samples with one matrix are fastest, and memory is kept for one.
    """

    def one(
        nodes: tuple[Nodes, Nodes], batch: Batch, next_log: Float32[Array, "n A"]
    ) -> tuple[tuple[Float32[Array, ""], Critic], CriticRows]:
        now, following = nodes
        read = partial(values, situation=batch.following.situation, post=batch.following_post)
        next_value = jax.lax.map(
            lambda critic: read(critic, nodes=following, compute=compute.without_gradient), targets
        )
        target = batch.reward + batch.discount * soft_value(next_log, next_value, alpha)

        def gradient(critic: Critic) -> tuple[Float32[Array, ""], Float32[Array, "n A"], Critic]:
            def loss(critic: Critic) -> tuple[Float32[Array, ""], Float32[Array, "n A"]]:
                value = values(critic, now, batch.state.situation, batch.post, compute)
                return critic_loss(value, batch.action, target), value

            (found, value), slope = jax.value_and_grad(loss, has_aux=True)(critic)
            return found, value, slope

        losses, value, slopes = jax.lax.map(gradient, critics)
        return (losses.sum(), slopes), CriticRows(jnp.moveaxis(value, 0, 1), target)

    pair = (batch.state.critic_nodes, batch.following.critic_nodes)
    (loss, slopes), rows = in_groups(
        compute.critic_group, compute.critic_buckets, one, pair, without_nodes(batch), next_log
    )
    return loss, slopes, rows


def without_nodes(batch: Batch) -> Batch:
    """The rest of a batch, for functions that get the nodes beside it."""
    return eqx.tree_at(
        lambda b: (b.state.nodes, b.state.critic_nodes, b.following.nodes, b.following.critic_nodes),
        batch,
        (None, None, None, None),
    )
