"""Discrete soft actor-critic: from a batch of transitions to better networks."""

import math
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.types import Key
from decmarvel.robot.policy.actor import AnyActor, OptionActor, new_actor
from decmarvel.robot.policy.blocks import Compute, NetworkConfig, is_open
from decmarvel.robot.policy.nodes import Nodes, Situation
from decmarvel.robot.policy.staleness import Hunch
from decmarvel.training.codec import Inputs
from decmarvel.training.critic import POLYAK_RATE, Critic, begin_post_head, polyak
from decmarvel.training.devices import mean, total
from decmarvel.training.size_batching import in_groups

Metrics: TypeAlias = dict[str, Float32[Array, ""]]
LARGEST_RATIO = 3.0
TINY = 1e-6


@dataclass(frozen=True)
class SacSettings:
    """The paper's method; rates and sizes are for a fast simulator."""

    batch: int = 1024
    discount: float = 0.99
    steps: int = 1
    """Decisions whose rewards are summed before the critics are asked for the rest."""
    post_share: float = 0.5
    """Of a batch, once there are enough transitions from after the team's success."""
    actor_rate: float = 3e-4
    critic_rate: float = 3e-4
    alpha_rate: float = 3e-4
    first_log_alpha: float = -2.0
    log_alpha_range: tuple[float, float] = (-4.0, 2.0)
    entropy_share: float = 0.5
    """The target entropy is this share of the largest possible one, log of the number of valid actions."""
    polyak_rate: float = POLYAK_RATE
    largest_gradient: float = 10.0
    """Gradients are scaled down to this norm."""
    dual_head: bool = True
    """False (`no-dual-head`): one head for both phases."""
    judging: int = 0
    """In the first so many updates the critics learn what the actor is worth, and the actor does not listen yet. This
    and all that follow are not in the paper."""
    hunch_rate: float = 2e-3
    clip: float = 0.0
    """Not 0 (`advised`): the actor follows the advantage of what was done, until its probability has changed by this
    share (Schulman et al. 2017), instead of the critics' values of all that could be done. The second critic rests."""
    averaging: float = 1.0
    """How far the average of recent actors, which is judged and published, follows the actor at each update."""


class Batch(eqx.Module):
    """Transitions as the networks read them. `n` of them."""

    state: Inputs
    action: Int32[Array, "n"]
    reward: Float32[Array, "n"]
    """Scaled; of all steps, discounted."""
    discount: Float32[Array, "n"]
    """Of what follows them; zero where nothing does."""
    post: Bool[Array, "n"]
    following: Inputs
    following_post: Bool[Array, "n"]


class Learner(eqx.Module):
    """All that learning changes. The twins are one critic with a leading axis of two."""

    actor: AnyActor
    steady: AnyActor
    """The average of recent actors: the steps are noisy, and it is not."""
    critics: Critic
    targets: Critic
    log_alpha: Float32[Array, ""]
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    alpha_optimiser: optax.OptState
    hunch_optimiser: optax.OptState
    post_begun: Bool[Array, ""]
    """Whether the post head has been made from the pre head."""
    updates: Int32[Array, ""]


def optimiser(settings: SacSettings, rate: float) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(settings.largest_gradient), optax.adam(rate))


def begin(settings: SacSettings, network: NetworkConfig, key: Key) -> Learner:
    """Fresh networks."""
    key_actor, key_critics = jax.random.split(key)
    critics = eqx.filter_vmap(lambda key: Critic(key, network))(jax.random.split(key_critics))
    return begin_with(settings, new_actor(key_actor, network), critics, post_begun=False)


def begin_with(settings: SacSettings, actor: AnyActor, critics: Critic, post_begun: bool) -> Learner:
    """These networks before their first update; targets equal their critics."""
    log_alpha = jnp.array(settings.first_log_alpha, jnp.float32)
    hunch = actor.adviser.hunch if isinstance(actor, OptionActor) else None
    return Learner(
        actor=actor,
        steady=jax.tree.map(jnp.array, actor),
        critics=critics,
        targets=jax.tree.map(jnp.array, critics),
        log_alpha=log_alpha,
        actor_optimiser=optimiser(settings, settings.actor_rate).init(actor),
        critic_optimiser=optimiser(settings, settings.critic_rate).init(critics),
        alpha_optimiser=optimiser(settings, settings.alpha_rate).init(log_alpha),
        hunch_optimiser=optimiser(settings, settings.hunch_rate).init(hunch),
        post_begun=jnp.array(post_begun),
        updates=jnp.array(0, jnp.int32),
    )


def log_policy(actor: AnyActor, nodes: Nodes, situation: Situation, compute: Compute) -> Float32[Array, "n A"]:
    """Log-probabilities of all actions."""
    found = actor(nodes, situation, compute)
    return found.reshape(len(found), -1)


def values(
    settings: SacSettings, critic: Critic, nodes: Nodes, situation: Situation, post: Bool[Array, "n"], compute: Compute
) -> Float32[Array, "n A"]:
    """A critic's values of all actions, by the head of the state's phase (Eq. 14)."""
    found = critic(nodes, situation, compute)
    both = found.reshape(len(found), 2, -1)
    second = (post if settings.dual_head else jnp.zeros_like(post))[:, None]
    return jnp.where(second, both[:, 1], both[:, 0])


def expectation(log_probability: Float32[Array, "n A"], value: Float32[Array, "n A"]) -> Float32[Array, "n"]:
    """Mean of the actions' values under a policy. Actions that are not valid have no weight, whatever their value."""
    weight = jnp.exp(log_probability)
    return jnp.where(weight > 0, weight * value, 0.0).sum(axis=-1)


def soft_value(
    log_probability: Float32[Array, "n A"], value: Float32[Array, "C n A"], alpha: Float32[Array, ""]
) -> Float32[Array, "n"]:
    """V(s') of the Bellman target: the twins' lesser value and the entropy, over all actions."""
    return expectation(log_probability, value.min(axis=0) - alpha * log_probability)


def critic_loss(
    value: Float32[Array, "n A"], action: Int32[Array, "n"], target: Float32[Array, "n"]
) -> Float32[Array, ""]:
    """Eq. 13, of one of the twins."""
    taken = jnp.take_along_axis(value, action[:, None], axis=-1)[:, 0]
    return ((taken - target) ** 2).mean()


def actor_loss(
    log_probability: Float32[Array, "n A"], value: Float32[Array, "2 n A"], alpha: Float32[Array, ""]
) -> Float32[Array, ""]:
    """What the policy lacks: alpha log pi - min Q, expected."""
    return -soft_value(log_probability, value, alpha).mean()


def proximal_loss(
    settings: SacSettings,
    log_probability: Float32[Array, "n A"],
    before: Float32[Array, "n"],
    action: Int32[Array, "n"],
    advantage: Float32[Array, "n"],
    usual: Float32[Array, "n A"],
    alpha: Float32[Array, ""],
) -> Float32[Array, ""]:
    """What was better than expected becomes more probable, within limits.

    Where SAC has entropy, the divergence from a `usual` policy counts: whoever deviates must have a reason.
    What was hardly possible and became likely does not count for more than LARGEST_RATIO (Ye et al. 2020).
    """
    now = jnp.take_along_axis(log_probability, action[:, None], axis=-1)[:, 0]
    ratio = jnp.exp(jnp.minimum(now - before, math.log(LARGEST_RATIO)))
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip) * advantage)
    return -(gain + alpha * expectation(log_probability, usual - log_probability)).mean()


def hunch_loss(hunch: Hunch, state: Inputs, post: Bool[Array, "n"]) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    """How wrong the robots were about what others have seen: cross-entropy over all goals, and the share of errors.

    After the team's success nothing is news, and nothing is at stake: that does not count.
    """
    logit = jax.vmap(hunch)(state.nodes, state.situation)
    counts = (is_open(state.nodes) & ~post[:, None]).astype(jnp.float32)
    total = jnp.maximum(counts.sum(), 1.0)
    wrong = optax.sigmoid_binary_cross_entropy(logit, state.stale.astype(jnp.float32))
    errors = ((logit > 0) != state.stale).astype(jnp.float32)
    return (counts * wrong).sum() / total, (counts * errors).sum() / total


def temperature_loss(
    settings: SacSettings,
    log_alpha: Float32[Array, ""],
    log_probability: Float32[Array, "n A"],
    valid: Int32[Array, "n"],
) -> Float32[Array, ""]:
    """Alpha falls where the entropy is above its target of 0.5 log |A|, and rises below."""
    entropy = expectation(log_probability, -log_probability)
    wanted = settings.entropy_share * jnp.log(jnp.maximum(valid, 1).astype(jnp.float32))
    return (jnp.exp(log_alpha) * (entropy - wanted)).mean()


def foresee(actor: AnyActor, batch: Batch, compute: Compute) -> Float32[Array, "n A"]:
    """What the policy would do in the next states."""

    def one(nodes: tuple[Nodes], situation: Situation) -> tuple[None, Float32[Array, "n A"]]:
        return None, log_policy(actor, nodes[0], situation, compute.without_gradient)

    return in_groups(compute.group, compute.actor_buckets, one, (batch.following.nodes,), batch.following.situation)[1]


class CriticRows(eqx.Module):
    """What the critics' part of an update found, sample by sample."""

    value: Float32[Array, "n C A"]
    target: Float32[Array, "n"]


def surprise(rows: CriticRows, action: Int32[Array, "n"]) -> Float32[Array, ""]:
    """How much what came differs from what the critics thought, squared."""
    taken = jnp.take_along_axis(rows.value, action[:, None, None], axis=-1)[..., 0].mean(axis=1)
    return ((rows.target - taken) ** 2).mean() + TINY


def slope_of_critics(
    settings: SacSettings, learner: Learner, batch: Batch, next_log: Float32[Array, "n A"], compute: Compute
) -> tuple[Float32[Array, ""], Critic, CriticRows]:
    """The loss of Eq. 13, the sum of the twins', and its gradient, with the targets' soft values of the next states.

    One critic after the other: products of all samples with one matrix are quickest, and nothing is kept for both.
    Advantages are made of one critic's values, which are not soft.
    """
    alpha = jnp.zeros(()) if settings.clip else jnp.exp(learner.log_alpha)
    critics, targets = learner.critics, learner.targets
    if settings.clip:
        critics, targets = jax.tree.map(lambda leaf: leaf[:1], (critics, targets))

    def one(
        nodes: tuple[Nodes, Nodes], batch: Batch, next_log: Float32[Array, "n A"]
    ) -> tuple[tuple[Float32[Array, ""], Critic], CriticRows]:
        now, following = nodes
        read = partial(values, settings, situation=batch.following.situation, post=batch.following_post)
        next_value = jax.lax.map(lambda critic: read(critic, following, compute=compute.without_gradient), targets)
        target = batch.reward + batch.discount * soft_value(next_log, next_value, alpha)

        def slope(critic: Critic) -> tuple[Float32[Array, ""], Float32[Array, "n A"], Critic]:
            def loss(critic: Critic) -> tuple[Float32[Array, ""], Float32[Array, "n A"]]:
                value = values(settings, critic, now, batch.state.situation, batch.post, compute)
                return critic_loss(value, batch.action, target), value

            (found, value), gradient = jax.value_and_grad(loss, has_aux=True)(critic)
            return found, value, gradient

        losses, value, gradient = jax.lax.map(slope, critics)
        return (losses.sum(), gradient), CriticRows(jnp.moveaxis(value, 0, 1), target)

    pair = (batch.state.critic_nodes, batch.following.critic_nodes)
    (loss, gradient), rows = in_groups(
        compute.critic_group, compute.critic_buckets, one, pair, without_nodes(batch), next_log
    )
    if settings.clip:
        gradient = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.zeros_like(leaf)]), gradient)
    return loss, gradient, rows


def slope_of_actor(
    settings: SacSettings, learner: Learner, batch: Batch, judged: CriticRows, compute: Compute
) -> tuple[Float32[Array, ""], AnyActor, Float32[Array, "n A"]]:
    """The actor's loss, its gradient, and the policy in the states of the batch."""
    alpha = jnp.exp(learner.log_alpha)
    listens = (learner.updates >= settings.judging).astype(jnp.float32)
    unit = jnp.sqrt(mean(surprise(judged, batch.action), compute.axis))

    def one(
        nodes: tuple[Nodes], batch: Batch, judged: CriticRows
    ) -> tuple[tuple[Float32[Array, ""], AnyActor], Float32[Array, "n A"]]:
        state = batch.state

        def loss(actor: AnyActor) -> tuple[Float32[Array, ""], Float32[Array, "n A"]]:
            log_probability = log_policy(actor, nodes[0], state.situation, compute)
            if settings.clip:
                expected = expectation(jax.lax.stop_gradient(log_probability), judged.value.mean(axis=1))
                advantage, before = (judged.target - expected) / unit, state.log_probability
                usual = jnp.zeros_like(log_probability)  # as likely as all others: entropy
                if isinstance(actor, OptionActor):
                    usual = actor.first_policy(state.situation).reshape(log_probability.shape)
                found = proximal_loss(settings, log_probability, before, batch.action, advantage, usual, alpha)
            else:
                found = actor_loss(log_probability, jnp.moveaxis(judged.value, 1, 0), alpha)
            return listens * found, log_probability

        (found, log_probability), gradient = jax.value_and_grad(loss, has_aux=True)(learner.actor)
        return (found, gradient), log_probability

    (loss, gradient), rows = in_groups(
        compute.group, compute.actor_buckets, one, (batch.state.nodes,), without_nodes(batch), judged
    )
    return loss, gradient, rows


def without_nodes(batch: Batch) -> Batch:
    """The rest of a batch, for functions that get the nodes beside it."""
    return eqx.tree_at(
        lambda b: (b.state.nodes, b.state.critic_nodes, b.following.nodes, b.following.critic_nodes),
        batch,
        (None, None, None, None),
    )


def ponder(settings: SacSettings, learner: Learner, batch: Batch, compute: Compute) -> tuple[Learner, Metrics]:
    """One step of the hunch of an actor that has one."""
    if not isinstance(learner.actor, OptionActor):
        return learner, {}
    hunch = learner.actor.adviser.hunch
    (loss, errors), gradient = jax.value_and_grad(hunch_loss, has_aux=True)(hunch, batch.state, batch.post)
    gradient = mean(gradient, compute.axis)
    hunch, optimiser = step(settings, settings.hunch_rate, gradient, learner.hunch_optimiser, hunch)
    learner = eqx.tree_at(lambda old: (old.actor.adviser.hunch, old.hunch_optimiser), learner, (hunch, optimiser))
    return learner, {"hunch/loss": loss, "hunch/errors": errors}


def update(settings: SacSettings, learner: Learner, batch: Batch, compute: Compute) -> tuple[Learner, Metrics]:
    """One step of critics, actor, temperature and targets, all from the networks as they were, and of the hunch."""
    arrived = total(batch.post.sum(), compute.axis) > 0
    learner = begin_phase(settings, learner, arrived)
    alpha = jnp.exp(learner.log_alpha)
    next_log = foresee(learner.actor, batch, compute)
    loss_q, gradient_q, rows = slope_of_critics(settings, learner, batch, next_log, compute)
    loss_pi, gradient_pi, log_probability = slope_of_actor(settings, learner, batch, rows, compute)
    valid = batch.state.situation.action_mask.sum(axis=(-2, -1)).astype(jnp.int32)
    loss_alpha, gradient_alpha = jax.value_and_grad(
        lambda log_alpha: temperature_loss(settings, log_alpha, log_probability, valid)
    )(learner.log_alpha)
    gradient_q, gradient_pi, gradient_alpha = mean((gradient_q, gradient_pi, gradient_alpha), compute.axis)
    critics, critic_optimiser = step(
        settings, settings.critic_rate, gradient_q, learner.critic_optimiser, learner.critics
    )
    actor, actor_optimiser = step(settings, settings.actor_rate, gradient_pi, learner.actor_optimiser, learner.actor)
    log_alpha, alpha_optimiser = step(
        settings, settings.alpha_rate, gradient_alpha, learner.alpha_optimiser, learner.log_alpha
    )
    taken = jnp.take_along_axis(rows.value, batch.action[:, None, None], axis=-1)[..., 0].min(axis=1)
    post = batch.post.astype(jnp.float32)

    def mean_where(phase: Float32[Array, "n"]) -> Float32[Array, ""]:
        value, count = total(((taken * phase).sum(), phase.sum()), compute.axis)
        return value / jnp.maximum(count, 1.0)

    metrics = {
        "policy/entropy": expectation(log_probability, -log_probability).mean(),
        "loss/critic": loss_q,
        "loss/actor": loss_pi,
        "loss/temperature": loss_alpha,
        "policy/alpha": alpha,
        "value/pre": mean_where(1 - post),
        "value/post": mean_where(post),
        "value/target": rows.target.mean(),
        "gradient/critic": optax.tree.norm(gradient_q),
        "gradient/actor": optax.tree.norm(gradient_pi),
    }
    learner = Learner(
        actor=actor,
        steady=learner.steady,
        critics=critics,
        targets=polyak(learner.targets, critics, settings.polyak_rate),
        log_alpha=jnp.clip(log_alpha, *settings.log_alpha_range),
        actor_optimiser=actor_optimiser,
        critic_optimiser=critic_optimiser,
        alpha_optimiser=alpha_optimiser,
        hunch_optimiser=learner.hunch_optimiser,
        post_begun=learner.post_begun,
        updates=learner.updates + 1,
    )
    learner, more = ponder(settings, learner, batch, compute)
    steady = learner.actor if settings.averaging == 1 else polyak(learner.steady, learner.actor, settings.averaging)
    learner = eqx.tree_at(lambda old: old.steady, learner, steady)
    return learner, mean(metrics | more, compute.axis)


def begin_phase(settings: SacSettings, learner: Learner, arrived: Bool[Array, ""]) -> Learner:
    """Make the post heads from the pre heads when the first samples after completion arrive."""
    if not settings.dual_head:
        return learner
    now = arrived & ~learner.post_begun

    def begun(critic: Critic) -> Critic:
        return jax.tree.map(lambda new, old: jnp.where(now, new, old), begin_post_head(critic), critic)

    return eqx.tree_at(
        lambda old: (old.critics, old.targets, old.post_begun),
        learner,
        (begun(learner.critics), begun(learner.targets), learner.post_begun | arrived),
    )


def step(  # type: ignore[no-untyped-def]
    settings: SacSettings,
    rate: float,
    gradient,
    state: optax.OptState,
    parameters,
):
    """One step of an optimiser."""
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes types
        change, state = optimiser(settings, rate).update(gradient, state, parameters)
    return optax.apply_updates(parameters, change), state
