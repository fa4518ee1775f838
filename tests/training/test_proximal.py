"""Refining a policy in proximal steps, and what the predictor of stale nodes learns."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from decmarvel.training.sac import SacSettings

from cases import SMALL
from decmarvel.robot.policy.actor import IMPOSSIBLE
from decmarvel.robot.policy.blocks import PLAIN
from decmarvel.robot.policy.staleness import Hunch
from decmarvel.training import sac
from decmarvel.training.loop import make_batch, with_own
from training.small_run import (
    ADVISED,
    BATCH,
    SETTINGS,
    TINY,
    drawn,
    drawn_with_advice,
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
    usual = np.where(valid, np.log(rng.random(valid.shape)), IMPOSSIBLE)
    action = [int(rng.choice(np.flatnonzero(row))) for row in valid]
    advantage, moved = rng.normal(size=BATCH), rng.normal(scale=rng.choice([0.3, 2.0], BATCH))
    before = [log_probability[i, action[i]] - moved[i] for i in range(BATCH)]
    total = 0.0
    for i in range(BATCH):
        ratio = min(math.exp(log_probability[i, action[i]] - before[i]), 3.0)
        gain = advantage[i] * (min(ratio, 1.2) if advantage[i] > 0 else max(ratio, 0.8))
        apart = sum(
            math.exp(log_probability[i, a]) * (log_probability[i, a] - usual[i, a]) for a in np.flatnonzero(valid[i])
        )
        total -= (gain - 0.3 * apart) / BATCH
    got = sac.proximal_loss(
        SacSettings(clip=0.2),
        single(log_probability),
        single(before),
        jnp.asarray(action, jnp.int32),
        single(advantage),
        single(usual),
        single(0.3),
    )
    np.testing.assert_allclose(got, total, rtol=1e-4, atol=1e-5)


def test_the_memory_knows_how_likely_actions_were():
    """In the first round the policy is the one that the run began with."""
    training = jax.device_get(with_own(run(1)[0], lambda leaf: leaf[0]))
    batch = jax.jit(lambda t: make_batch(SMALL, SETTINGS, maps(), t.replay, t.spread, jax.random.key(1), 32))(training)
    actor = jax.device_get(run(0)[0].learner.actor)
    log = jax.jit(lambda actor, batch: sac.log_policy(actor, batch.state.nodes, batch.state.situation, PLAIN))(
        actor, batch
    )
    likely = np.take_along_axis(np.asarray(log), np.asarray(batch.action)[:, None], axis=-1)[:, 0]
    np.testing.assert_allclose(batch.state.log_probability, likely, atol=1e-4)
    assert likely.std() > 0.01


def critics_of(learner):
    """Without their post heads, which are copies at first."""
    return [jax.tree.map(lambda leaf: leaf[n], (learner.critics.graph, learner.critics.pre)) for n in (0, 1)]  # noqa: B023


def test_advantages_count_in_units_of_the_usual_surprise():
    """So it does not matter in which units rewards come."""
    rows = sac.CriticRows(single(np.arange(24.0).reshape(4, 1, 6)), single([1.0, 2.0, 3.0, 4.0]))
    action = jnp.array([1, 0, 5, 2], jnp.int32)
    expected = np.mean([(1 - 1) ** 2, (2 - 6) ** 2, (3 - 17) ** 2, (4 - 20) ** 2])
    assert float(sac.surprise(rows, action)) == pytest.approx(expected, rel=1e-5)


def test_refining_follows_the_advantage():
    """Where an action earned more than the critics expect, it becomes more probable; the critics may speak first."""
    batch = dataclasses.replace(drawn(), discount=jnp.zeros(32), reward=jnp.where(jnp.arange(32) % 2 == 0, 3.0, -3.0))
    settings = dataclasses.replace(SETTINGS.sac, clip=0.2, judging=2, actor_rate=1e-3, averaging=0.25)
    learner = fresh(settings, SETTINGS.network, jax.random.key(2))
    average = np.asarray(learner.actor.pointer.query.weight)
    read = jax.jit(lambda learner: sac.log_policy(learner.actor, batch.state.nodes, batch.state.situation, PLAIN))

    def likely(learner):
        return np.take_along_axis(np.asarray(read(learner)), np.asarray(batch.action)[:, None], axis=-1)[:, 0]

    first, (_, second) = likely(learner), critics_of(learner)
    batch = eqx.tree_at(lambda b: b.state.log_probability, batch, jnp.asarray(first))
    for updates in range(12):
        learner, _ = update(settings, learner, batch, PLAIN)
        average = 0.75 * average + 0.25 * np.asarray(learner.actor.pointer.query.weight)
        if updates == 1:
            np.testing.assert_array_equal(likely(learner), first)
    np.testing.assert_allclose(learner.steady.pointer.query.weight, average, rtol=1e-4, atol=1e-6)
    change = likely(learner) - first
    assert change[::2].mean() > 0.01
    assert change[1::2].mean() < -0.01
    assert eqx.tree_equal(critics_of(learner)[1], second), "one critic is enough"
    assert not eqx.tree_equal(*critics_of(learner))


def test_an_actor_does_not_listen_while_the_critics_judge():
    batch, learner = drawn(), fresh(SETTINGS.sac, SETTINGS.network, jax.random.key(2))
    judged = sac.CriticRows(jax.random.normal(jax.random.key(3), (32, 2, 75)), jnp.zeros(32))
    deaf = dataclasses.replace(SETTINGS.sac, judging=5)
    slope = jax.jit(lambda learner: sac.slope_of_actor(deaf, learner, batch, judged, PLAIN)[1])
    late = dataclasses.replace(learner, updates=jnp.array(5, jnp.int32))
    silent, heard = (jax.tree.leaves(slope(each)) for each in (learner, late))
    assert not any(np.asarray(leaf).any() for leaf in silent)
    assert any(np.asarray(leaf).any() for leaf in heard)


def test_who_weighs_options_needs_a_reason_to_deviate():
    """Without any advantage a new actor stays as it is, and one that deviates comes back."""
    batch, settings = drawn_with_advice(), dataclasses.replace(SETTINGS.sac, clip=0.2, first_log_alpha=0.0)
    learner = fresh(settings, ADVISED, jax.random.key(2))
    judged = sac.CriticRows(jnp.zeros((32, 1, 75)), jnp.zeros(32))
    slope = jax.jit(lambda learner: sac.slope_of_actor(settings, learner, batch, judged, PLAIN)[:2])
    moved = eqx.tree_at(lambda each: each.actor.trust.per_m, learner, jnp.full(1, 0.6))
    (none, still), (apart, back) = slope(learner), slope(moved)
    assert float(none) == pytest.approx(0, abs=1e-6)
    assert float(optax.tree.norm(still)) < 1e-5
    assert float(apart) > 1e-4
    assert float(back.trust.per_m[0]) > 1e-4


def test_hunch_loss_equals_loops():
    """Only goals count, all of them alike, before the team's success."""
    state, hunch, post = drawn_with_advice().state, Hunch(jax.random.key(0)), np.arange(32) % 3 == 0
    hunch = jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), hunch)
    logits = np.asarray(jax.jit(jax.vmap(hunch))(state.nodes, state.situation), float)
    total = errors = count = 0
    for i, place in np.argwhere(np.asarray(state.nodes.mask & (state.nodes.ways.open_cm < 65535) & ~post[:, None])):
        probability, stale = 1 / (1 + math.exp(-logits[i, place])), bool(state.stale[i, place])
        total -= math.log(probability if stale else 1 - probability)
        errors += (probability > 0.5) != stale
        count += 1
    loss, share = jax.jit(sac.hunch_loss)(hunch, state, post)
    assert count > 30
    np.testing.assert_allclose([loss, share], [total / count, errors / count], rtol=1e-4)


def test_a_hunch_learns_from_what_the_team_has_seen():
    """Nothing else of the actor is moved by it."""
    settings = dataclasses.replace(SETTINGS.sac, clip=0.2, judging=100)
    first = fresh(settings, ADVISED, jax.random.key(2))
    batch = drawn_with_advice()
    study = jax.jit(lambda learner: sac.ponder(settings, learner, batch, PLAIN))
    learner, begin = study(first)
    for _ in range(200):
        learner, metrics = study(learner)
    assert float(begin["hunch/loss"]) == pytest.approx(math.log(2), rel=1e-5)
    assert float(metrics["hunch/loss"]) < 0.8 * math.log(2)
    rest = [eqx.tree_at(lambda each: each.actor.adviser.hunch, each, None).actor for each in (first, learner)]
    assert eqx.tree_equal(*rest)
    assert sac.ponder(settings, fresh(settings, TINY, jax.random.key(2)), batch, PLAIN)[1] == {}
