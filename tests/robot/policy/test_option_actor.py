"""The actor that weighs options, and its predictor of stale nodes, against loops over plain arrays."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.networks
from decmarvel.robot.policy.actor import IMPOSSIBLE, new_actor
from decmarvel.robot.policy.nodes import Advice, situation
from decmarvel.robot.policy.weights import named_arrays
from decmarvel.training.critic import Critic
from robot.policy.small_networks import (
    ALL,
    OPTIONS,
    SEEDS,
    TINY,
    actor,
    advised,
    apply,
    close,
    draw_advice,
    fresh,
    one_each,
    option_actor,
    pack,
    parameters,
    plain,
    seeds,
    single,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


def test_a_situation_is_without_advice_at_first():
    _, observation, _ = next(iter(one_each(9)))
    assert situation(observation).advice.action.tolist() == [-1] * OPTIONS


def test_actor_with_advice_equals_oracle():
    """Options that begin alike add up; it matters where a goal is, what it costs and what the way there shows."""
    network = option_actor()
    p, effects = parameters(network), []
    for seed in SEEDS:
        for turn, (_, observation, _) in enumerate(one_each(seed)):
            nodes, where = pack(observation, ALL)
            advice = draw_advice(nodes, where, [seed, turn])
            found = apply(network, nodes, advised(where, advice))
            close(found, oracles.networks.option_policy(p, plain(observation), jax.device_get(advice)))
            if where.action_mask.sum() > 9 and nodes.mask.sum() > 3:
                moved = dataclasses.replace(advice, site=jnp.roll(advice.site, 1, axis=0))
                dearer = dataclasses.replace(advice, cost_m=advice.cost_m.at[0].add(9.0))
                telling = dataclasses.replace(advice, shows=advice.shows.at[0].add(300))
                for other in (where, *(advised(where, change) for change in (moved, dearer, telling))):
                    effects.append(float(jnp.abs(apply(network, nodes, other) - found).max()))
    assert len(effects) >= 8
    assert min(effects) > 1e-4


@seeds
def test_without_options_all_actions_are_alike(seed):
    """To an actor that has nothing else to go by; and one without advice does not hear of any."""
    for _, observation, _ in one_each(seed):
        nodes, where = pack(observation, ALL)
        found, valid = apply(option_actor(), nodes, where), np.asarray(where.action_mask)
        np.testing.assert_allclose(np.exp(found[valid]), 1 / max(valid.sum(), 1), rtol=1e-5)
        assert (found[~valid] == IMPOSSIBLE).all()
        told = apply(actor(), nodes, advised(where, draw_advice(nodes, where, seed)))
        np.testing.assert_array_equal(told, apply(actor(), nodes, where))


@seeds
def test_a_new_actor_does_what_is_cheapest(seed):
    """In nine of ten cases at least if it draws, unless another option costs about the same. It is its own standard."""
    followed = 0
    for _, observation, _ in one_each(seed):
        nodes, where = pack(observation, ALL)
        valid = np.flatnonzero(where.action_mask)
        if len(valid) < 6:
            continue
        for best, cost_m in ((0, (10, 30, 40, 50, 60, 70)), (3, (30, 40, 50, 10, 60, 70))):
            advice = Advice(
                jnp.array(valid[[0, 1, 2, 3, -2, -1]], jnp.int32),
                jnp.tile(where.site, (OPTIONS, 1)),
                single(cost_m),
                jnp.zeros(OPTIONS, jnp.int32),
            )
            found = np.exp(apply(fresh(), nodes, advised(where, advice))).reshape(-1)
            assert found[valid[best]] > 0.9
            close(np.exp(option_actor().first_policy(advised(where, advice))).reshape(-1), found)
        alike = dataclasses.replace(advice, cost_m=jnp.array((10, 10, 50, 60, 60, 70), jnp.float32))
        found = np.exp(apply(fresh(), nodes, advised(where, alike))).reshape(-1)
        assert min(found[valid[:2]]) > 0.2
        followed += 1
    assert followed > 0


@seeds
def test_advice_that_cannot_be_followed_changes_nothing(seed):
    for _, observation, _ in one_each(seed):
        nodes, where = pack(observation, ALL)
        impossible = np.flatnonzero(~np.asarray(where.action_mask))
        action = jnp.array(impossible[[0, 1, 1, -1, -1, 0]], jnp.int32)
        advice = dataclasses.replace(draw_advice(nodes, where, seed), action=action)
        found = apply(option_actor(), nodes, advised(where, advice))
        np.testing.assert_allclose(found, apply(option_actor(), nodes, where), atol=1e-5)
        assert (found[~where.action_mask] == IMPOSSIBLE).all()


@seeds
def test_hunch_equals_oracle(seed):
    """For all nodes in the bucket; zero where there is none."""
    network = option_actor()
    p, spread = parameters(network), []
    for _, observation, _ in one_each(seed):
        nodes, where = pack(observation, ALL)
        found = np.asarray(eqx.filter_jit(network.adviser.hunch)(nodes, where))
        sites = [tuple(site) for site in nodes.site[nodes.mask].tolist()]
        wanted = oracles.networks.hunch(p, plain(observation), sites)
        close(found[: len(sites)], [wanted[site] for site in sites])
        spread.append(np.ptp(list(wanted.values())))
    assert max(spread) > 0.1


def test_advice_is_for_the_actor():
    """Critics are the same with and without; a new actor trusts its adviser, who knows nothing yet."""
    config = dataclasses.replace(TINY, advice=True)
    with_advice, without = (Critic(jax.random.key(0), each) for each in (config, TINY))
    for one, other in zip(*map(jax.tree.leaves, (with_advice, without)), strict=True):
        np.testing.assert_array_equal(one, other)
    arrays = named_arrays(new_actor(jax.random.key(0), config))
    assert not arrays["adviser.hunch.last.weight"].any(), "it holds everything for as likely as not"
    assert not arrays["trust.value.weight"].any(), "only costs count"
    assert arrays["trust.per_m"].tolist() == pytest.approx([0.4])
    assert all(name.startswith(("adviser", "trust")) for name in arrays), "it reads no graph"


def test_trust_is_learned_where_there_is_advice():
    """If it can be followed, and there is a choice. The hunch has a lesson of its own."""
    observation = next(each for _, each, _ in one_each(9) if each.action_mask.sum() > 9)
    nodes, where = pack(observation, ALL)
    impossible = int(jnp.argmin(where.action_mask))
    usual = draw_advice(nodes, where, 0)
    useless = jnp.full(OPTIONS, impossible, jnp.int32)
    slope = eqx.filter_jit(eqx.filter_grad(lambda network, told: network(nodes, told)[where.action_mask].max()))
    for action, learned in ((usual.action, True), (useless, False), (Advice.none().action, False)):
        found = slope(option_actor(), advised(where, dataclasses.replace(usual, action=action)))
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(found.trust))
        assert bool((found.trust.value.weight != 0).any()) == learned
        assert not any(leaf.any() for leaf in jax.tree.leaves(found.adviser))
