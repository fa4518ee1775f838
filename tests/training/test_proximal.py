"""Refining a policy in proximal steps, and what the predictor of stale nodes learns."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cases import SMALL
from decmarvel.robot.policy.actor import IMPOSSIBLE
from decmarvel.robot.policy.compute import PLAIN
from decmarvel.robot.policy.staleness import StalenessPredictor
from decmarvel.training.algorithms.losses import log_policy
from decmarvel.training.algorithms.proximal import Proximal, squared_error, staleness_loss
from decmarvel.training.algorithms.values import CriticRows
from decmarvel.training.batches import make_batch
from decmarvel.training.state import with_own
from training.small_run import (
    BATCH,
    OPTIONS,
    SETTINGS,
    drawn_with_options,
    fresh,
    maps,
    policies,
    run,
    single,
    update,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


@pytest.mark.parametrize("seed", range(3))
def test_proximal_loss_equals_loops(seed):
    log_probability, _, valid = policies(seed)
    rng = np.random.default_rng(200 + seed)
    prior = np.where(valid, np.log(rng.random(valid.shape)), IMPOSSIBLE)
    action = [int(rng.choice(np.flatnonzero(row))) for row in valid]
    advantage, moved = rng.normal(size=BATCH), rng.normal(scale=rng.choice([0.3, 2.0], BATCH))
    before = [log_probability[i, action[i]] - moved[i] for i in range(BATCH)]
    total = 0.0
    for i in range(BATCH):
        ratio = min(math.exp(log_probability[i, action[i]] - before[i]), 3.0)
        gain = advantage[i] * (min(ratio, 1.2) if advantage[i] > 0 else max(ratio, 0.8))
        apart = sum(
            math.exp(log_probability[i, a]) * (log_probability[i, a] - prior[i, a]) for a in np.flatnonzero(valid[i])
        )
        total -= (gain - 0.3 * apart) / BATCH
    got = Proximal(clip=0.2, log_prior_weight=math.log(0.3)).actor_loss(
        single(log_probability), single(before), jnp.asarray(action, jnp.int32), single(advantage), single(prior)
    )
    np.testing.assert_allclose(got, total, rtol=1e-4, atol=1e-5)


def test_the_memory_knows_how_likely_actions_were():
    """In the first round the policy is the one that the run began with."""
    training = jax.device_get(with_own(run(1)[0], lambda leaf: leaf[0]))
    batch = jax.jit(lambda t: make_batch(SMALL, SETTINGS, maps(), t.memory, t.spread, jax.random.key(1), 32))(training)
    actor = jax.device_get(run(0)[0].learner.actor)
    log = jax.jit(lambda actor, batch: log_policy(actor, batch.state.nodes, batch.state.situation, PLAIN))(actor, batch)
    likely = np.take_along_axis(np.asarray(log), np.asarray(batch.action)[:, None], axis=-1)[:, 0]
    np.testing.assert_allclose(batch.state.log_probability, likely, atol=1e-4)
    assert likely.std() > 0.01


def test_advantages_count_in_units_of_the_usual_error():
    """So it does not matter in which units rewards come."""
    rows = CriticRows(single(np.arange(24.0).reshape(4, 1, 6)), single([1.0, 2.0, 3.0, 4.0]))
    action = jnp.array([1, 0, 5, 2], jnp.int32)
    expected = np.mean([(1 - 1) ** 2, (2 - 6) ** 2, (3 - 17) ** 2, (4 - 20) ** 2])
    assert float(squared_error(rows, action)) == pytest.approx(expected, rel=1e-5)


def test_refining_follows_the_advantage():
    """Where an action earned more than the critic expects, it becomes more probable; the critic may learn first."""
    drawn = drawn_with_options()
    batch = dataclasses.replace(drawn, discount=jnp.zeros(32), reward=jnp.where(jnp.arange(32) % 2 == 0, 3.0, -3.0))
    algorithm = dataclasses.replace(OPTIONS.algorithm, clip=0.2, critic_only=2, actor_rate=1e-2, averaging=0.25)
    learner = fresh(OPTIONS, jax.random.key(2))
    assert all(leaf.shape[0] == 1 for leaf in jax.tree.leaves(learner.critics)), "one critic is enough"
    average, critics = np.asarray(learner.actor.scorer.value.weight), learner.critics
    read = jax.jit(lambda learner: log_policy(learner.actor, batch.state.nodes, batch.state.situation, PLAIN))

    def likely(learner):
        return np.take_along_axis(np.asarray(read(learner)), np.asarray(batch.action)[:, None], axis=-1)[:, 0]

    first, before = likely(learner), learner.actor
    batch = eqx.tree_at(lambda b: b.state.log_probability, batch, jnp.asarray(first))
    for updates in range(12):
        learner, metrics = update(algorithm, learner, batch, PLAIN)
        average = 0.75 * average + 0.25 * np.asarray(learner.actor.scorer.value.weight)
        if updates == 1:
            np.testing.assert_array_equal(likely(learner), first)
            assert eqx.tree_equal(learner.actor.scorer, before.scorer), "labels move the staleness predictor alone"
            assert (learner.actor.staleness.last.weight != before.staleness.last.weight).any()
    np.testing.assert_allclose(learner.published.scorer.value.weight, average, rtol=1e-4, atol=1e-6)
    change = likely(learner) - first
    assert change[::2].mean() > 0.01
    assert change[1::2].mean() < -0.01
    assert learner.updates == 12
    for one, other in zip(jax.tree.leaves(critics), jax.tree.leaves(learner.critics), strict=True):
        assert (one != other).any(), "all of the critic learns"
    assert {"loss/critic", "loss/actor", "policy/entropy", "staleness/loss", "staleness/errors"} <= metrics.keys()
    assert all(np.isfinite(value) for value in metrics.values())


def test_an_actor_does_not_change_while_only_the_critic_learns():
    batch, learner = drawn_with_options(), fresh(OPTIONS, jax.random.key(2))
    rows = CriticRows(jax.random.normal(jax.random.key(3), (32, 1, 75)), jnp.zeros(32))
    patient = dataclasses.replace(OPTIONS.algorithm, critic_only=5)
    gradient = jax.jit(lambda learner: patient.actor_gradient(learner, batch, rows, PLAIN)[1])
    late = dataclasses.replace(learner, updates=jnp.array(5, jnp.int32))
    none, some = (jax.tree.leaves(gradient(each)) for each in (learner, late))
    assert not any(np.asarray(leaf).any() for leaf in none)
    assert any(np.asarray(leaf).any() for leaf in some)


def test_the_prior_draws_an_actor_back():
    """Without any advantage a new actor stays as it is, and one that deviates comes back."""
    batch, algorithm = drawn_with_options(), dataclasses.replace(OPTIONS.algorithm, clip=0.2, log_prior_weight=0.0)
    learner = fresh(OPTIONS, jax.random.key(2))
    rows = CriticRows(jnp.zeros((32, 1, 75)), jnp.zeros(32))
    gradient = jax.jit(lambda learner: algorithm.actor_gradient(learner, batch, rows, PLAIN)[:2])
    moved = eqx.tree_at(lambda each: each.actor.scorer.per_m, learner, jnp.full(1, 0.6))
    (none, still), (apart, back) = gradient(learner), gradient(moved)
    assert float(none) == pytest.approx(0, abs=1e-6)
    assert float(optax.tree.norm(still)) < 1e-5
    assert float(apart) > 1e-4
    assert float(back.scorer.per_m[0]) > 1e-4


def predictor():
    fresh = StalenessPredictor(jax.random.key(0), 64, 1024.0)
    return jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), fresh)


def test_staleness_loss_equals_loops():
    """Only open nodes count, all of them alike, before the team's success."""
    state, post = drawn_with_options().state, np.arange(32) % 3 == 0
    logits = np.asarray(jax.jit(jax.vmap(predictor()))(state.nodes, state.situation), float)
    total = errors = count = 0
    is_open = state.nodes.mask & (state.nodes.known_ways.open_cm < 65535)
    for i, place in np.argwhere(np.asarray(is_open & ~post[:, None])):
        probability, stale = 1 / (1 + math.exp(-logits[i, place])), bool(state.stale[i, place])
        total -= math.log(probability if stale else 1 - probability)
        errors += (probability > 0.5) != stale
        count += 1
    loss, share = jax.jit(staleness_loss)(predictor(), state, post)
    assert count > 30
    np.testing.assert_allclose([loss, share], [total / count, errors / count], rtol=1e-4)


def test_a_staleness_predictor_learns_from_what_the_team_has_seen():
    first, batch, algorithm = fresh(OPTIONS, jax.random.key(2)), drawn_with_options(), OPTIONS.algorithm
    study = jax.jit(lambda network, state: algorithm.staleness_step(network, state, batch, PLAIN))
    network, state, begin = study(first.actor.staleness, first.staleness_optimiser)
    for _ in range(200):
        network, state, metrics = study(network, state)
    assert float(begin["staleness/loss"]) == pytest.approx(math.log(2), rel=1e-5)
    assert float(metrics["staleness/loss"]) < 0.8 * math.log(2)
