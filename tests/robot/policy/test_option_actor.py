"""The actor that weighs options, and its predictor of stale nodes, against loops over plain arrays."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.networks
from cases import SMALL
from decmarvel.robot.observation import observe
from decmarvel.robot.policy.actor import IMPOSSIBLE
from decmarvel.robot.policy.nodes import Options
from decmarvel.robot.policy.option_actor import OptionActorConfig
from decmarvel.robot.policy.staleness import node_facts
from decmarvel.robot.policy.weights import named_arrays
from decmarvel.simulation.environment import views
from robot.policy.small_networks import (
    ALL,
    OPTIONS,
    SEEDS,
    actor,
    apply,
    close,
    draw_options,
    fresh,
    known,
    no_options,
    of,
    one_each,
    one_each_with_ways,
    option_actor,
    pack,
    pack_with_ways,
    parameters,
    plain,
    seeds,
    single,
    weighing,
    whole,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


def packed(seed):
    """(nodes with ways, situation, observation, ways) of a robot at each moment."""
    for observation, ways in one_each_with_ways(seed):
        yield *pack_with_ways(observation, ways, ALL), observation, ways


def test_only_who_weighs_options_has_options_and_ways():
    _, observation, _ = next(iter(one_each(9)))
    nodes, where = pack(observation, ALL)
    assert where.options is None
    assert nodes.ways is None
    state, _, _ = known(9)[1]
    view = of(views(SMALL, state), 1)
    nodes, where = jax.jit(lambda view: fresh().read(SMALL, view, ALL))(view)
    assert where.known_options.action.shape == (OPTIONS,)
    assert nodes.known_ways.way_cm.shape == (ALL,)
    few = OptionActorConfig(options=2).build(jax.random.key(0))
    assert jax.eval_shape(lambda view: few.read(SMALL, view, ALL), view)[1].known_options.cost_m.shape == (2,)


def test_actor_that_weighs_options_equals_oracle():
    """Options that begin alike add up; it matters where a goal is, what it costs and what the way there shows."""
    network = option_actor()
    p, effects = parameters(network), []
    for seed in SEEDS:
        for turn, (nodes, where, observation, ways) in enumerate(packed(seed)):
            options = draw_options(nodes, where, [seed, turn])
            found = apply(network, nodes, weighing(where, options))
            wanted = oracles.networks.option_policy(p, plain(observation), plain(ways), jax.device_get(options))
            close(found, wanted)
            if where.action_mask.sum() > 9 and nodes.mask.sum() > 3:
                moved = dataclasses.replace(options, site=jnp.roll(options.site, 1, axis=0))
                dearer = dataclasses.replace(options, cost_m=options.cost_m.at[0].add(9.0))
                showing = dataclasses.replace(options, shown_cells=options.shown_cells.at[0].add(300))
                for other in (no_options(), moved, dearer, showing):
                    effects.append(float(jnp.abs(apply(network, nodes, weighing(where, other)) - found).max()))
    assert len(effects) >= 8
    assert min(effects) > 1e-4


@seeds
def test_without_options_all_actions_are_alike(seed):
    """To an actor that has nothing else to go by; and one that weighs no options does not read them."""
    for nodes, where, *_ in packed(seed):
        found, valid = apply(option_actor(), nodes, weighing(where, no_options())), np.asarray(where.action_mask)
        np.testing.assert_allclose(np.exp(found[valid]), 1 / max(valid.sum(), 1), rtol=1e-5)
        assert (found[~valid] == IMPOSSIBLE).all()
        assert not option_actor().has_goal(weighing(where, no_options()))
        told = weighing(where, draw_options(nodes, where, seed))
        assert option_actor().has_goal(told)
        np.testing.assert_array_equal(apply(actor(), nodes, told), apply(actor(), nodes, where))
        assert actor().has_goal(where)


@seeds
def test_a_new_actor_does_what_is_cheapest(seed):
    """In nine of ten cases at least if it draws, unless another option costs about the same. It is its own prior."""
    followed = 0
    for nodes, where, *_ in packed(seed):
        valid = np.flatnonzero(where.action_mask)
        if len(valid) < 6:
            continue
        for best, cost_m in ((0, (10, 30, 40, 50, 60, 70)), (3, (30, 40, 50, 10, 60, 70))):
            options = Options(
                whole(valid[[0, 1, 2, 3, -2, -1]]),
                jnp.tile(where.site, (OPTIONS, 1)),
                single(cost_m),
                jnp.zeros(OPTIONS, jnp.int32),
            )
            told = weighing(where, options)
            found = np.exp(apply(fresh(), nodes, told)).reshape(-1)
            assert found[valid[best]] > 0.9
            close(np.exp(option_actor().prior(told)).reshape(-1), found)
        alike = dataclasses.replace(options, cost_m=jnp.array((10, 10, 50, 60, 60, 70), jnp.float32))
        found = np.exp(apply(fresh(), nodes, weighing(where, alike))).reshape(-1)
        assert min(found[valid[:2]]) > 0.2
        followed += 1
    assert followed > 0


@seeds
def test_options_that_cannot_be_followed_change_nothing(seed):
    for nodes, where, *_ in packed(seed):
        impossible = np.flatnonzero(~np.asarray(where.action_mask))
        action = whole(impossible[[0, 1, 1, -1, -1, 0]])
        options = dataclasses.replace(draw_options(nodes, where, seed), action=action)
        found = apply(option_actor(), nodes, weighing(where, options))
        expected = apply(option_actor(), nodes, weighing(where, no_options()))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert (found[~where.action_mask] == IMPOSSIBLE).all()


@seeds
def test_staleness_predictor_equals_oracle(seed):
    """For all nodes in the bucket."""
    network = option_actor()
    p, spread = parameters(network), []
    for nodes, where, observation, ways in packed(seed):
        found = np.asarray(eqx.filter_jit(network.staleness)(nodes, where))
        sites = [tuple(site) for site in nodes.site[nodes.mask].tolist()]
        wanted = oracles.networks.staleness(p, plain(observation), plain(ways), sites)
        close(found[: len(sites)], [wanted[site] for site in sites])
        spread.append(np.ptp(list(wanted.values())))
    assert max(spread) > 0.1


def test_facts_are_in_metres_whatever_the_unit_of_the_budget():
    """Eq. 6 counts budgets in the largest one; an actor that was made for it reads metres again."""
    state, (_, ways), _ = known(9)[2]
    facts = []
    for largest_m in (1024.0, 200.0):
        config = dataclasses.replace(SMALL, max_budget_m=largest_m)
        observation = of(jax.jit(jax.vmap(lambda view, config=config: observe(config, view)))(views(config, state)), 1)
        facts.append(node_facts(*pack_with_ways(observation, of(ways, 1), ALL), largest_m))
    flown_m = 300 * np.asarray(facts[0][:, 3])
    assert flown_m.min() > 1
    close(facts[1], facts[0])


@seeds
def test_what_has_no_node_changes_nothing(seed):
    """Padding may hold anything, also for who weighs options."""
    for nodes, where, *_ in packed(seed):
        told = weighing(where, draw_options(nodes, where, seed))
        junk = dataclasses.replace(
            nodes,
            features=jnp.where(nodes.mask[:, None], nodes.features, 3.0),
            ways=jax.tree.map(lambda leaf, held=nodes.mask: jnp.where(held, leaf, 7), nodes.known_ways),
        )
        assert not nodes.mask.all()
        close(apply(option_actor(), junk, told), apply(option_actor(), nodes, told), 1e-6)


def test_a_new_actor_knows_nothing_yet():
    arrays = named_arrays(fresh())
    assert not arrays["staleness.last.weight"].any(), "it holds everything for as likely as not"
    assert not arrays["scorer.value.weight"].any(), "only costs count"
    assert arrays["scorer.per_m"].tolist() == pytest.approx([0.4])
    assert all(name.startswith(("staleness", "scorer")) for name in arrays), "it reads no graph"
    narrow = OptionActorConfig(staleness_width=8, scorer_width=24).build(jax.random.key(0))
    assert narrow.staleness.second.weight.shape == (8, 8)
    assert narrow.scorer.second.weight.shape == (24, 48)


def test_a_scorer_learns_where_there_are_options():
    """If they can be followed, and there is a choice. The staleness predictor has labels of its own."""
    nodes, where, *_ = next(each for each in packed(9) if each[1].action_mask.sum() > 9)
    impossible = int(jnp.argmin(where.action_mask))
    usual = draw_options(nodes, where, 0)
    useless = jnp.full(OPTIONS, impossible, jnp.int32)
    slope = eqx.filter_jit(eqx.filter_grad(lambda network, told: network(nodes, told)[where.action_mask].max()))
    for action, learned in ((usual.action, True), (useless, False), (no_options().action, False)):
        found = slope(option_actor(), weighing(where, dataclasses.replace(usual, action=action)))
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(found.scorer))
        assert bool((found.scorer.value.weight != 0).any()) == learned
        assert not any(leaf.any() for leaf in jax.tree.leaves(found.staleness))
