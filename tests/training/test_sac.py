"""Soft actor-critic against loops, and that it learns."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from decmarvel.core.jax_setup import AXIS, mesh
from decmarvel.robot.policy.compute import PLAIN, Compute
from decmarvel.training.algorithms import sac
from decmarvel.training.algorithms.losses import critic_loss
from decmarvel.training.algorithms.values import soft_value
from training.small_run import ACTIONS, BATCH, SETTINGS, drawn, fresh, policies, run, single, update

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


@pytest.mark.parametrize("seed", range(5))
def test_losses_equal_loops(seed):
    log_probability, value, valid = policies(seed)
    rng = np.random.default_rng(100 + seed)
    alpha, target, action = 0.3, rng.normal(size=BATCH), [int(rng.choice(np.flatnonzero(row))) for row in valid]
    ahead, critic, temperature = [], 0.0, 0.0
    for i in range(BATCH):
        total, entropy = 0.0, 0.0
        for a in range(ACTIONS):
            if valid[i, a]:
                p = math.exp(log_probability[i, a])
                total += p * (min(value[0, i, a], value[1, i, a]) - alpha * log_probability[i, a])
                entropy -= p * log_probability[i, a]
        ahead.append(total)
        critic += sum((value[j, i, action[i]] - target[i]) ** 2 for j in range(2)) / BATCH
        temperature += alpha * (entropy - 0.5 * math.log(valid[i].sum())) / BATCH
    logs, values = single(log_probability), single(value)
    np.testing.assert_allclose(soft_value(logs, values, single(alpha)), ahead, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        sum(critic_loss(value, jnp.asarray(action, jnp.int32), single(target)) for value in values),
        critic,
        rtol=1e-4,
    )
    np.testing.assert_allclose(sac.actor_loss(logs, values, single(alpha)), -np.mean(ahead), rtol=1e-4, atol=1e-5)
    count = jnp.asarray(valid.sum(axis=1), jnp.int32)
    got = sac.temperature_loss(0.5, single(math.log(alpha)), logs, count)
    np.testing.assert_allclose(got, temperature, rtol=1e-4, atol=1e-5)


def test_groups_change_nothing_but_the_time():
    """An update in groups of like size, each in the smallest bucket that holds it, and an update at once."""
    batch, buckets = drawn(), []
    for nodes in (batch.state.nodes, batch.state.critic_nodes):
        sizes = np.sort(np.asarray(nodes.mask.sum(axis=-1)))
        assert sizes[0] < sizes[-1]
        buckets.append((int(sizes[7]), int(sizes[20])))
    grouped = Compute(actor_buckets=buckets[0], critic_buckets=buckets[1], group=8, critic_group=8)
    learner = jax.device_get(run(12)[0].learner)
    (one, figures), (two, others) = (
        update(SETTINGS.algorithm, learner, batch, compute) for compute in (PLAIN, grouped)
    )
    for name, value in figures.items():
        np.testing.assert_allclose(others[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    state = one.actor_optimiser, one.critic_optimiser, one.log_alpha  # Adam's first moment is the gradient, scaled
    other = two.actor_optimiser, two.critic_optimiser, two.log_alpha
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-2, atol=1e-5)


def test_devices_take_the_step_of_one():
    """Eq. 13 and the rest: half of a batch on each of two devices, and the whole of it on one."""
    learner, batch = jax.device_get(run(12)[0].learner), drawn()
    together = jax.jit(
        jax.shard_map(
            lambda learner, batch: SETTINGS.algorithm.update(learner, batch, Compute(axis=AXIS)),
            mesh=mesh(2),
            in_specs=(PartitionSpec(), PartitionSpec(AXIS)),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
    )
    (one, figures), (two, others) = update(SETTINGS.algorithm, learner, batch, PLAIN), together(learner, batch)
    for name in ("loss/critic", "loss/actor", "loss/temperature", "policy/entropy", "gradient/critic"):
        np.testing.assert_allclose(others[name], figures[name], rtol=1e-3, atol=1e-5, err_msg=name)
    for a, b in zip(
        *(jax.tree.leaves((each.actor_optimiser, each.critic_optimiser)) for each in (one, two)), strict=True
    ):
        np.testing.assert_allclose(b, a, rtol=1e-2, atol=1e-5)


def test_impossible_actions_have_no_part_in_the_gradient():
    log_probability, value, valid = policies(0)
    slope = jax.grad(lambda logs: sac.actor_loss(logs, single(value), single(0.3)))(single(log_probability))
    assert np.isfinite(slope).all()
    assert not np.asarray(slope)[~valid].any()


def test_critics_fit_a_fixed_batch():
    """With the target networks at rest and no future, the values become the rewards."""
    batch = drawn()
    batch = dataclasses.replace(batch, discount=jnp.zeros_like(batch.discount))
    learner = fresh(SETTINGS, jax.random.key(2))
    losses = []
    for _ in range(80):
        learner, metrics = update(SETTINGS.algorithm, learner, batch, PLAIN)
        losses.append(float(metrics["loss/critic"]))
    assert losses[-1] < 0.2 * losses[0]
    assert -4 <= float(learner.log_alpha) <= 2


def test_the_post_head_begins_as_a_copy_of_the_pre_head():
    learner = fresh(SETTINGS, jax.random.key(0))
    waiting = sac.enter_post(learner, jnp.array(False))
    begun = sac.enter_post(waiting, jnp.array(True))
    assert not waiting.post_begun
    assert begun.post_begun
    for critic in (begun.critics, begun.targets):
        for pre, post in zip(jax.tree.leaves(critic.pre), jax.tree.leaves(critic.post), strict=True):
            np.testing.assert_array_equal(pre, post)
    changed = eqx.tree_at(lambda new: new.critics.pre.value.bias, begun, begun.critics.pre.value.bias + 1)
    later = sac.enter_post(changed, jnp.array(True))
    assert not np.array_equal(later.critics.pre.value.bias, later.critics.post.value.bias), "only once"
    one_head = dataclasses.replace(SETTINGS, critic=dataclasses.replace(SETTINGS.critic, dual_head=False))
    learner = fresh(one_head, jax.random.key(0))
    begun = sac.enter_post(learner, jnp.array(True))
    assert eqx.tree_equal((begun.critics, begun.targets), (learner.critics, learner.targets)), "no head to make"
