"""The networks against loops over plain arrays, and what must not change their answers."""

import dataclasses
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.graph
import oracles.networks
from cases import SITES, SMALL, draw_case
from decmarvel.core.config import Config
from decmarvel.core.types import RETURN_HOME
from decmarvel.robot.observation import observe
from decmarvel.robot.planners.random import RandomPlanner
from decmarvel.robot.policy.actor import IMPOSSIBLE, Actor, OptionActor, new_actor
from decmarvel.robot.policy.blocks import PLAIN, Compute, NetworkConfig
from decmarvel.robot.policy.kernels import near
from decmarvel.robot.policy.layers import ROWS_AT_ONCE, EncoderLayer, attend, product
from decmarvel.robot.policy.nodes import (
    Advice,
    attention_mask,
    bucket_for,
    candidate_sites,
    compact,
    places,
    rows_at,
    situation,
)
from decmarvel.robot.policy.options import advise
from decmarvel.robot.policy.planner import LearnedPlanner
from decmarvel.robot.policy.weights import named_arrays
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import decide, run_mission, take_off
from decmarvel.simulation.privileged import privileged_view
from decmarvel.training.critic import Critic, begin_post_head, by_phase, polyak
from decmarvel.training.loop import PRESETS
from decmarvel.training.privileged_nodes import privileged_nodes, shares_at, true_nodes, unprivileged_nodes

ROBOTS, SIZE = 4, SITES[SMALL]
ALL = SIZE * SIZE
SEEDS = (3, 9)
seeds = pytest.mark.parametrize("seed", SEEDS)
pytestmark = pytest.mark.usefixtures("quick_compilation")


TINY = NetworkConfig(width=16, heads=2, layers=1, feed=16, channels=2, token_width=8, token_layers=1, token_feed=8)


@partial(jax.jit, static_argnums=0)
def observe_all(config, state):
    privileged = jax.vmap(lambda number: privileged_view(config, state, number))(jnp.arange(ROBOTS, dtype=jnp.int32))
    return jax.vmap(lambda view: observe(config, view))(views(config, state)), privileged


@cache
def missions(seed):
    """(state, observations, privileged views) at take-off and after some decisions of the random planner."""
    planner, case = RandomPlanner(), draw_case(SMALL, seed)
    fleet = Fleet.of(ROBOTS, 80.0)
    flight = jax.jit(take_off, static_argnums=(0, 1))(SMALL, planner, jax.random.key(seed), case.world, fleet)
    step, found = jax.jit(decide, static_argnums=(0, 1)), []
    for decision in range(13):
        if decision in (0, 4, 12):
            found.append((flight.state, *observe_all(SMALL, flight.state)))
        flight = step(SMALL, planner, flight)[0]
    return found


def of(tree, number):
    return jax.tree.map(lambda leaf: leaf[number], tree)


def plain(tree):
    return jax.tree.map(np.asarray, tree)


def one_each(seed):
    """(state, observation, privileged view) of another robot at each moment."""
    for turn, (state, observations, privileged) in enumerate(missions(seed)):
        number = (turn + seed) % ROBOTS
        yield state, of(observations, number), of(privileged, number)


def stirred(network, seed):
    """Random weights everywhere, also where a new network has ones and zeros."""
    leaves, structure = jax.tree.flatten(network)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    moved = [leaf + 0.1 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, moved)


@cache
def actor(identity=False):
    return stirred(Actor(jax.random.key(0), NetworkConfig(identity=identity)), 1)


@cache
def option_actor():
    return stirred(fresh(), 1)


def fresh():
    return OptionActor(jax.random.key(0), dataclasses.replace(TINY, advice=True))


@cache
def critic(identity=False):
    return stirred(Critic(jax.random.key(2), NetworkConfig(identity=identity)), 3)


def parameters(network):
    """Arrays by name, those of stacked layers one by one."""
    found = {}
    for name, leaf in named_arrays(network).items():
        before, layers, rest = name.partition(".layers.")
        each = enumerate(leaf) if layers else ()
        found |= {f"{before}.layers.{number}.{rest}": np.asarray(one, float) for number, one in each}
        if not layers:
            found[name] = np.asarray(leaf, float)
    return found


apply = eqx.filter_jit(lambda network, nodes, where, compute=PLAIN: network(nodes, where, compute))
embed = eqx.filter_jit(lambda network, nodes: network.graph(nodes))
pack = jax.jit(lambda observation, bucket: (compact(observation, bucket), situation(observation)), static_argnums=1)
apply_all = eqx.filter_jit(lambda network, nodes, where: jax.vmap(network)(nodes, where))
pack_all = jax.jit(jax.vmap(lambda observation: (compact(observation, ALL), situation(observation))))
mask_of, places_of = jax.jit(attention_mask), jax.jit(places)
true_of = jax.jit(true_nodes, static_argnums=(0, 2))


@partial(jax.jit, static_argnums=0)
def privileged_of(config, truth, observation, seen):
    other = seen.active & (jnp.arange(ROBOTS) != observation.number)
    own = compact(observation, ALL)
    return privileged_nodes(config, truth, own, observation.site, shares_at(truth, seen), seen.sites, other)


def close(found, expected, tolerance=1e-4):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@seeds
@pytest.mark.parametrize("bucket", [ALL + 7, ALL, 10, 1])
def test_nodes_equal_oracle(seed, bucket):
    """Which sites get a place, what stands there, who may attend to whom, and where a site is."""
    for _, observation, _ in one_each(seed):
        nodes, raw = pack(observation, bucket)[0], plain(observation)
        here = tuple(raw.site)
        sites = oracles.networks.kept_sites(raw.node_mask, here, bucket)
        assert here in sites
        count = len(sites)
        np.testing.assert_array_equal(nodes.mask, np.arange(bucket) < count)
        np.testing.assert_array_equal(nodes.site[:count], sites)
        assert (nodes.site[count:] == -1).all()
        for place, site in enumerate(sites):
            np.testing.assert_array_equal(nodes.features[place], raw.node_features[site])
            np.testing.assert_array_equal(nodes.histogram[place], raw.histogram[site])
            assert nodes.edges[place] == sum(1 << slot for slot in range(25) if raw.edge[slot][site])
        for got, field in zip(jax.tree.leaves(nodes.ways), jax.tree.leaves(raw.ways), strict=True):
            np.testing.assert_array_equal(got[:count], [field[site] for site in sites])
        for padding in (nodes.features, nodes.histogram, nodes.edges):
            assert not np.asarray(padding[count:]).any()
        expected = np.zeros((bucket, bucket), bool)
        for place, others in enumerate(oracles.networks.neighbourhoods(sites, raw.edge)):
            expected[place, others] = True
        np.testing.assert_array_equal(mask_of(nodes), expected)
        asked = [(i, j) for i in range(-2, SIZE + 2) for j in range(-2, SIZE + 2)]
        found = places_of(nodes, jnp.asarray(asked, jnp.int32))
        np.testing.assert_array_equal(found, [sites.index(site) if site in sites else -1 for site in asked])


def test_buckets():
    assert [bucket_for(sites) for sites in (8, 12, 16, 24, 32, 104)] == [64, 144, 256, 384, 512, 512]


@eqx.filter_jit
def steps(network, nodes, where):
    """What the oracle calls graph, tokens, fusion, context, action, cross, policy."""
    z = network.graph(nodes)
    tau = network.tokens(where.tokens, where.token_mask)
    fused = network.fused_tokens(nodes, z, where)
    zeta, rho = network.context(nodes, z, where), network.action(nodes, z, where)
    tokens, mask = fused.reshape(-1, 128), where.token_mask.reshape(-1)
    crossed = network.cross(rho.reshape(75, 128), tokens, mask).reshape(25, 3, 128)
    return z, tau, fused, zeta, rho, crossed, network(nodes, where)


@seeds
def test_every_step_of_the_actor_equals_oracle(seed):
    """Eq. 1 and 10 to 12, with everything in the bucket."""
    p, seen = parameters(actor()), 0
    for _, observation, _ in one_each(seed):
        (nodes, where), raw = pack(observation, ALL), plain(observation)
        z, tau, fused, zeta, rho, crossed, policy = plain(steps(actor(), nodes, where))
        wanted = oracles.networks.actor(p, raw, ALL)
        count = len(wanted["graph"])
        close(z[:count], list(wanted["graph"].values()))
        assert not z[count:].any()
        assert not tau[~raw.token_mask].any()
        for (mate, age), token in wanted["tokens"].items():
            close(tau[mate, age], token)
            close(fused[mate, age], wanted["fusion"][mate, age])
            seen += 1
        for found, name in zip((zeta, rho, crossed, policy), ("context", "action", "cross", "policy"), strict=True):
            close(found, wanted[name])
        assert (np.abs(crossed - rho).max() > 0.01) == bool(wanted["tokens"])
        if raw.action_mask.sum() > 3:
            assert wanted["policy"][raw.action_mask].std() > 0.01  # the comparison is of something
    assert seen > 0


@seeds
@pytest.mark.parametrize("identity", [False, True])
def test_actor_in_a_small_bucket_equals_oracle(seed, identity):
    """Nodes left out, and the extension `identity`."""
    network, p = actor(identity), parameters(actor(identity))
    for _, observation, _ in one_each(seed):
        wanted = oracles.networks.actor(p, plain(observation), 10, identity)
        close(apply(network, *pack(observation, 10)), wanted["policy"])


@seeds
@pytest.mark.parametrize(("top", "identity"), [(True, False), (False, False), (True, True)])
def test_critic_equals_oracle(seed, top, identity):
    """Both heads of Eq. 14 over the nodes of Eq. 15."""
    network, p = critic(identity), parameters(critic(identity))
    for state, observation, privileged in one_each(seed):
        edge = oracles.graph.edges(SMALL, np.where(state.world.free, 1, 2).astype(np.uint8))
        start = tuple(np.asarray(state.world.start).tolist())
        truth, count = true_of(SMALL, state.world, ALL)
        linked = sorted(oracles.networks.linked_sites(edge, start))
        assert [tuple(site) for site in truth.site[: int(count)].tolist()] == linked
        assert (truth.site[int(count) :] == -1).all()
        if top:
            nodes = privileged_of(SMALL, truth, observation, privileged)
        else:
            nodes = unprivileged_nodes(compact(observation, ALL))
        found = apply(network, nodes, situation(observation))
        expected = oracles.networks.critic(
            p, plain(observation), plain(privileged), edge, start, SMALL.spacing_m, ALL, top, identity
        )
        close(found, expected)


@seeds
def test_privileged_nodes_equal_oracle(seed):
    """All fourteen features of Eq. 15's nodes; true edges as of a robot that knows everything."""
    alone = 0
    for state, observations, privileged in missions(seed):
        truth, _ = true_of(SMALL, state.world, ALL)
        edge = oracles.graph.edges(SMALL, np.where(state.world.free, 1, 2).astype(np.uint8))
        for number in range(ROBOTS):
            observation, seen = of(observations, number), of(privileged, number)
            nodes = privileged_of(SMALL, truth, observation, seen)
            raw, raw_seen = plain(observation), plain(seen)
            for place in range(int(nodes.mask.sum())):
                site = tuple(int(v) for v in nodes.site[place])
                expected = oracles.networks.privileged_features(raw, raw_seen, SMALL.spacing_m, site)
                close(nodes.features[place], expected, 1e-6)
                assert nodes.edges[place] == sum(1 << slot for slot in range(25) if edge[slot][site])
                np.testing.assert_array_equal(nodes.histogram[place], raw.histogram[site] * raw.node_mask[site])
                alone += expected[12] > 0
    assert alone > 0


def test_phases_and_targets():
    network = critic()
    values = jnp.arange(150, dtype=jnp.float32).reshape(2, 25, 3)
    np.testing.assert_array_equal(by_phase(values, jnp.array(False)), values[0])
    np.testing.assert_array_equal(by_phase(values, jnp.array(True)), values[1])
    copied = begin_post_head(network)
    for one, two in zip(jax.tree.leaves(copied.pre), jax.tree.leaves(copied.post), strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.unsafe_buffer_pointer() != two.unsafe_buffer_pointer()
    assert (copied.post.value.weight != network.post.value.weight).any()
    other = stirred(network, 9)
    followed = polyak(network, other)
    for old, new, found in zip(*map(jax.tree.leaves, (network, other, followed)), strict=True):
        close(found, 0.997 * old + 0.003 * new, 1e-6)
    assert named_arrays(followed).keys() == named_arrays(network).keys()


@seeds
def test_what_is_masked_changes_nothing(seed):
    """Padding, unseen tokens and the headings of invalid actions may hold anything."""
    network = actor()
    for _, observation, _ in one_each(seed):
        nodes, where = pack(observation, ALL)
        expected = apply(network, nodes, where)
        junk = dataclasses.replace(
            nodes,
            site=jnp.where(nodes.mask[:, None], nodes.site, where.site[None]),
            features=jnp.where(nodes.mask[:, None], nodes.features, jnp.nan),
            histogram=jnp.where(nodes.mask[:, None], nodes.histogram, 255).astype(jnp.uint8),
            edges=jnp.where(nodes.mask, nodes.edges, 2**25 - 1).astype(jnp.uint32),
            ways=jax.tree.map(lambda leaf, held=nodes.mask: jnp.where(held, leaf, 7), nodes.ways),
        )
        bins = jnp.where(where.action_mask, where.heading_bin, (where.heading_bin + 11) % 36)
        unseen = dataclasses.replace(
            where,
            tokens=jnp.where(where.token_mask[..., None], where.tokens, jnp.nan),
            token_site=jnp.where(where.token_mask[..., None], where.token_site, where.site[None, None]),
            heading_bin=bins,
        )
        close(apply(network, junk, unseen), expected, 1e-6)
        assert not where.token_mask.all()
        assert not nodes.mask.all()


@seeds
def test_order_and_bucket_change_nothing(seed):
    """The places of nodes, the order of teammates, and the size of the bucket."""
    network, rng = actor(), np.random.default_rng(seed)
    for _, observation, _ in one_each(seed):
        nodes, where = pack(observation, ALL)
        expected = apply(network, nodes, where)
        order, mates = rng.permutation(ALL), rng.permutation(ROBOTS)
        mixed = jax.tree.map(lambda leaf, order=order: leaf[order], nodes)
        close(apply(network, mixed, where), expected, 1e-5)
        close(embed(actor(), mixed), embed(actor(), nodes)[order], 1e-5)
        others = dataclasses.replace(
            where, tokens=where.tokens[mates], token_mask=where.token_mask[mates], token_site=where.token_site[mates]
        )
        close(apply(network, nodes, others), expected, 1e-5)
        close(apply(network, *pack(observation, ALL + 48)), expected, 1e-5)


@seeds
def test_probabilities(seed):
    """They sum to one over the valid actions; the others have none. Batches give what single robots do."""
    for _, observations, _ in missions(seed):
        nodes, where = pack_all(observations)
        found = np.asarray(apply_all(actor(), nodes, where))
        close(found[1], apply(actor(), of(nodes, 1), of(where, 1)), 1e-5)
        for number in range(ROBOTS):
            valid = np.asarray(where.action_mask[number])
            assert (found[number][~valid] == IMPOSSIBLE).all()
            if valid.any():
                np.testing.assert_allclose(np.exp(found[number][valid]).sum(), 1, atol=1e-5)


def lonely(where):
    return dataclasses.replace(where, token_mask=jnp.zeros_like(where.token_mask))


def test_nobody_seen_adds_zero():
    _, observation, _ = next(iter(one_each(9)))
    nodes, where = pack(observation, ALL)
    where = lonely(where)

    @eqx.filter_jit
    def without(network):
        z = network.graph(nodes)
        rho = network.action(nodes, z, where)
        return network.pointer(network.context(nodes, z, where), rho, where.action_mask)

    close(apply(actor(), nodes, where), without(actor()), 1e-5)


@eqx.filter_jit
def gradients(network, nodes, where, compute):
    def loss(network):
        return jnp.where(where.action_mask, network(nodes, where, compute), 0.0).sum()

    return eqx.filter_value_and_grad(loss)(network)


@pytest.mark.parametrize("case", ["usual", "nobody seen", "one node", "no action", "no node"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_finite(case, dtype):
    """Also where attention has nothing to attend to."""
    *_, (_, observation, _) = one_each(9)
    nodes, where = pack(observation, ALL)
    here = (nodes.site == where.site[None]).all(axis=-1)
    if case == "nobody seen":
        where = lonely(where)
    if case == "no action":
        where = dataclasses.replace(where, action_mask=jnp.zeros_like(where.action_mask))
    if case in ("one node", "no node"):
        nodes = dataclasses.replace(nodes, mask=here & (case == "one node"))
    with jax.numpy_dtype_promotion("standard"):  # JAX itself promotes in the gradient of bfloat16 attention
        value, found = gradients(actor(), nodes, where, Compute(dtype))
    assert jnp.isfinite(value)
    for name, leaf in named_arrays(found).items():
        assert leaf.dtype == jnp.float32
        assert jnp.isfinite(leaf).all(), name
    touched = {name.split(".")[0] for name, leaf in named_arrays(found).items() if (leaf != 0).any()}
    everything = {"graph", "tokens", "fusion", "context", "action", "cross", "pointer"}
    untouched = {"nobody seen": {"tokens", "fusion", "cross"}, "no action": everything, "no node": {"graph"}}
    assert where.token_mask.any() == (case != "nobody seen")
    assert touched == everything - untouched.get(case, set())


OPTIONS = 6


def draw_advice(nodes, where, seed):
    """Two options begin alike, one could be anything, one has no place; then there are no more."""
    rng, valid = np.random.default_rng(seed), np.flatnonzero(where.action_mask)
    known = nodes.site[nodes.mask]
    agreed, other = (int(rng.choice(valid)) if len(valid) else 0 for _ in range(2))
    action = [agreed, int(rng.integers(75)), agreed, other, -1, -1]
    site = [*rng.choice(known, 3).tolist(), [99, 99], [-1, -1], [-1, -1]]
    cost_m = [*np.sort(rng.uniform(10, 30, 4)), 0, 0]
    shows = [*rng.integers(0, 900, 4), 0, 0]
    return Advice(*(jnp.array(part, jnp.int32) for part in (action, site)), single(cost_m), jnp.array(shows, jnp.int32))


def single(values):
    return jnp.array(values, jnp.float32)


def advised(where, advice):
    return dataclasses.replace(where, advice=advice)


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


def test_attention_to_nothing_is_zero():
    x = jax.random.normal(jax.random.key(0), (3, 2, 4))
    mask = jnp.array([[True, False, True], [False, False, False], [False, True, False]])
    found = jax.jit(attend)(x, x, x, mask)
    assert (found[1] == 0).all()
    np.testing.assert_array_equal(found[2], x[1])
    slopes = jax.jit(jax.grad(lambda x: attend(x, x, x, jnp.zeros_like(mask)).sum()))(x)
    assert (slopes == 0).all()


def test_places_that_are_none_have_zero_rows():
    values = jax.random.normal(jax.random.key(0), (7, 5))
    found = rows_at(values, jnp.array([[3, -1], [0, 6]], jnp.int32))
    np.testing.assert_array_equal(found, np.stack([[values[3], np.zeros(5)], [values[0], values[6]]]))
    assert candidate_sites(jnp.array([4, 7], jnp.int32))[12].tolist() == [4, 7]


def test_the_predecessor_knows_neither_budget_nor_trajectories():
    """Nor distances home, trails and visits; everything else moves its policy, within the clip of its logits."""
    config = PRESETS["marvel"].network
    network = Actor(jax.random.key(0), config)
    observation = next(each for _, each, _ in one_each(9) if each.action_mask.sum() > 9)
    nodes, where = pack(observation, ALL)
    usual = apply(network, nodes, where)
    unknown = dataclasses.replace(
        where,
        budget=where.budget + 1,
        tokens=where.tokens + 1,
        token_mask=jnp.zeros_like(where.token_mask),
        number=where.number + 1,
    )
    blind = dataclasses.replace(nodes, features=nodes.features.at[:, 6:].add(1.0))
    np.testing.assert_array_equal(apply(network, blind, unknown), usual)
    for column in range(6):
        changed = dataclasses.replace(nodes, features=nodes.features.at[:, column].add(0.5))
        assert (apply(network, changed, where) != usual).any(), column
    valid = np.asarray(usual)[np.asarray(where.action_mask)]
    assert valid.max() - valid.min() <= 2 * config.clip
    far = dataclasses.replace(nodes, features=nodes.features.at[-1 - int((~nodes.mask).sum())].add(5.0))
    assert (apply(network, far, where) != usual).any(), "the decoder looks at all nodes"


def random_neighbours(rng, places: int, count: int) -> np.ndarray:
    """Symmetric edges between sites that are near, as of a graph with so many nodes."""
    sites = np.sort(rng.choice(400, count, replace=False))
    site = np.stack([sites // 20, sites % 20], axis=-1)
    close_by = (np.abs(site[:, None] - site[None]) <= 2).all(axis=-1)
    linked = np.triu(rng.random((count, count)) < 0.6)
    mask = np.zeros((places, places), bool)
    mask[:count, :count] = close_by & (linked | linked.T) | np.eye(count, dtype=bool)
    return mask


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("counts", [(1, 64), (30, 120), (128, 0)])
def test_the_kernels_equal_the_plain_layer(counts, gated):
    """Eq. 10 in kernels, forwards and backwards, weights included."""
    rng, size = np.random.default_rng(sum(counts)), 128
    mask = jnp.asarray(np.stack([random_neighbours(rng, size, count) for count in counts]))
    layer = stirred(EncoderLayer(jax.random.key(0), 128, 4, 256, gated), 1)
    x, slope = (jnp.asarray(rng.normal(size=(2, size, 128)), jnp.float32) for _ in range(2))

    @partial(jax.jit, static_argnums=0)
    def run(kernel, layer, x):
        apply = (
            (lambda layer, x: layer.of_graphs(x, jax.vmap(near)(mask))) if kernel else lambda layer, x: layer(x, mask)
        )
        found, back = jax.vjp(apply, layer, x)
        return found, back(slope)

    expected, found = run(False, layer, x), run(True, layer, x)
    for one, two in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(two, one, atol=1e-5 * float(np.abs(one).max()) + 1e-6)


@pytest.mark.parametrize("shape", [(4, ROWS_AT_ONCE // 2), (3, 100)])
def test_a_gradient_that_is_summed_in_parts_is_the_gradient(shape):
    """Of rows that make whole parts, and of others, which are summed at once."""
    rng = np.random.default_rng(0)
    x, weight, slope = (rng.normal(size=size).astype(np.float32) for size in ((*shape, 5), (7, 5), (*shape, 7)))
    found, back = jax.vjp(product, jnp.asarray(x), jnp.asarray(weight))
    np.testing.assert_allclose(found, x @ weight.T, atol=1e-4)
    of_x, of_weight = back(jnp.asarray(slope))
    np.testing.assert_allclose(of_x, slope @ weight, atol=1e-4)
    np.testing.assert_allclose(of_weight, np.einsum("nra,nrb->ab", slope, x), rtol=1e-3, atol=1e-2)


def test_the_kernels_change_nothing_of_the_policy():
    """Nor of its gradient, through all layers and what they keep for it."""
    observation = next(each for _, each, _ in one_each(9) if each.action_mask.sum() > 9)
    nodes, where = pack(observation, 192)
    weigh = jnp.where(where.action_mask, jax.random.normal(jax.random.key(0), (25, 3)), 0.0)

    @partial(jax.jit, static_argnums=1)
    def score(network, compute):
        return jax.value_and_grad(lambda network: (network(nodes, where, compute) * weigh).sum())(network)

    plainly, with_kernel = (
        score(actor(), Compute(kernel=kernel, in_a_row=kernel == "pallas")) for kernel in ("xla", "pallas")
    )
    close(with_kernel[0], plainly[0], 1e-4)
    for one, two in zip(jax.tree.leaves(plainly[1]), jax.tree.leaves(with_kernel[1]), strict=True):
        np.testing.assert_allclose(two, one, atol=1e-4 * float(np.abs(one).max()) + 1e-5)


@seeds
def test_half_precision_is_close(seed):
    """bfloat16 has two to three digits."""
    for _, observation, _ in one_each(seed):
        nodes, where = pack(observation, ALL)
        full, half = (apply(actor(), nodes, where, Compute(dtype)) for dtype in ("float32", "bfloat16"))
        assert half.dtype == jnp.float32
        valid = np.asarray(where.action_mask)
        np.testing.assert_allclose(half[valid], full[valid], atol=0.2)
        np.testing.assert_allclose(np.exp(half), np.exp(full), atol=0.02)
        values = [apply(critic(), unprivileged_nodes(nodes), where, Compute(d)) for d in ("float32", "bfloat16")]
        np.testing.assert_allclose(values[1], values[0], atol=0.1 * float(values[0].std()) + 0.02)


def test_a_learned_planner_flies_and_everybody_gets_home():
    planner = LearnedPlanner(Actor(jax.random.key(0), dataclasses.replace(TINY, identity=True)))
    fly = eqx.filter_jit(run_mission)
    for seed in (3, 8):
        world = draw_case(SMALL, seed).world
        outcome = fly(SMALL, planner, jax.random.key(seed), world, Fleet.of(ROBOTS, 40.0), SMALL.max_decisions(40.0))
        assert outcome.home.all()
        assert outcome.stranded == 0
        assert outcome.decisions > 2


@eqx.filter_jit
def propose(planner, config, key, state):
    return jax.vmap(lambda view: planner.propose(config, key, view, None)[0])(views(config, state))


advise_all = jax.jit(
    lambda state, known: jax.vmap(lambda view, known: advise(SMALL, view, known))(views(SMALL, state), known)
)


@seeds
def test_choices_and_headings(seed):
    """Greedy takes the most probable, the lower index if equal; draws are valid and differ."""
    greedy, drawn = (LearnedPlanner(actor(), wanted) for wanted in (True, False))
    for state, observations, _ in missions(seed):
        proposals = propose(greedy, SMALL, jax.random.key(0), state)
        draws = [propose(drawn, SMALL, jax.random.key(number), state) for number in range(12)]
        np.testing.assert_array_equal(proposals.heading, 10 * observations.heading_bin)
        for number in range(ROBOTS):
            score = np.asarray(proposals.score[number]).reshape(-1)
            assert proposals.choice[number] == np.flatnonzero(score == score.max())[0]
            np.testing.assert_array_equal(draws[0].score[number].reshape(-1), score)
            valid = np.asarray(observations.action_mask[number]).reshape(-1)
            choices = {int(draw.choice[number]) for draw in draws}
            if valid.any():
                assert all(valid[choice] for choice in choices)
                assert len(choices) > 1


@seeds
def test_a_planner_asks_its_adviser(seed):
    """A new one whose hunch has learned something does what is cheapest in the same view, and else goes home."""
    network, followed = fresh(), 0
    network = eqx.tree_at(lambda n: n.adviser, network, stirred(network.adviser, 1))
    network = eqx.tree_at(lambda n: n.trust.per_m, network, jnp.full(1, 100.0))
    p, planner = parameters(network), LearnedPlanner(network)
    decide = jax.jit(
        lambda state: jax.vmap(lambda view: planner.propose(SMALL, jax.random.key(0), view, None)[0])(
            views(SMALL, state)
        )
    )
    for state, observations, _ in missions(seed):
        known = np.zeros((ROBOTS, SIZE, SIZE), np.float32)
        for number in range(ROBOTS):
            observation = plain(of(observations, number))
            sites = [tuple(site) for site in np.argwhere(observation.node_mask).tolist()]
            for site, logit in oracles.networks.hunch(p, observation, sites).items():
                known[number][site] = 1 / (1 + np.exp(-logit))
        proposals, advice = decide(state), advise_all(state, known)
        for number in range(ROBOTS):
            said = int(advice.action[number, 0])
            if said >= 0 and observations.action_mask[number].reshape(-1)[said]:
                assert int(proposals.choice[number]) == said
                followed += 1
            if said < 0:
                assert int(proposals.choice[number]) == RETURN_HOME
    assert followed > 2


@seeds
def test_the_truth_changes_nothing_for_the_actor(seed):
    """Nor do teammates' maps; the critic, on the other hand, is told."""
    planner, (state, *_) = LearnedPlanner(actor()), missions(seed)[1]
    me, size = 1, ROBOTS
    own = jnp.arange(size) == me
    elsewhere = jnp.where(own[:, None, None], state.robots.belief, 0).astype(jnp.uint8)
    changed = eqx.tree_at(lambda s: (s.world.free, s.robots.belief), state, (~state.world.free, elsewhere))
    before, after = (propose(planner, SMALL, jax.random.key(0), s) for s in (state, changed))
    for one, two in zip(jax.tree.leaves(of(before, me)), jax.tree.leaves(of(after, me)), strict=True):
        np.testing.assert_array_equal(one, two)
    told = []
    for each in (state, changed):
        observations, privileged = observe_all(SMALL, each)
        truth, _ = true_of(SMALL, state.world, ALL)
        told.append(privileged_of(SMALL, truth, of(observations, me), of(privileged, me)).features)
    np.testing.assert_array_equal(told[0][:, :9], told[1][:, :9])
    assert (told[0] != told[1]).any()


def test_an_actor_for_other_headings_is_refused():
    planner = LearnedPlanner(Actor(jax.random.key(0), TINY))
    assert planner.start(SMALL, SIZE) is None
    with pytest.raises(ValueError, match=r"made for .*\(36, 13\), not \(24, 13\)"):
        planner.start(Config(heading_bins=24), SIZE)


def test_parameters_of_the_paper():
    """The widths are those of the paper: what a change to them changes."""
    network = Actor(jax.random.key(0), NetworkConfig())
    layer = 3 * 128**2 + 4 * 128 + 128**2 + 2 * 2 * 128 + 128 * 512 + 512 * 128
    assert sum(leaf.size for leaf in jax.tree.leaves(network.graph.layers)) == 6 * layer
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(network))
