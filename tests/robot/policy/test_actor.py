"""The graph actor against loops over plain arrays, and what must not change its answers."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.networks
from decmarvel.robot.policy.actor import IMPOSSIBLE
from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.robot.policy.predecessor import LARGEST_LOGIT
from decmarvel.robot.policy.weights import named_arrays
from decmarvel.training.methods.presets import PRESETS
from decmarvel.training.privileged_nodes import unprivileged_nodes
from robot.policy.small_networks import (
    ALL,
    ROBOTS,
    actor,
    apply,
    apply_all,
    close,
    critic,
    embed,
    judge,
    lonely,
    missions,
    of,
    one_each,
    pack,
    pack_all,
    parameters,
    plain,
    seeds,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


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


def test_the_predecessor_knows_neither_budget_nor_trajectories():
    """Nor distances home, trails and visits; everything else moves its policy, within the clip of its logits."""
    network = PRESETS["marvel"].actor.build(jax.random.key(0))
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
    assert valid.max() - valid.min() <= 2 * LARGEST_LOGIT
    far = dataclasses.replace(nodes, features=nodes.features.at[-1 - int((~nodes.mask).sum())].add(5.0))
    assert (apply(network, far, where) != usual).any(), "the decoder looks at all nodes"


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
        seen, pre = unprivileged_nodes(nodes), jnp.array(False)
        values = [judge(critic(), seen, where, pre, Compute(d)) for d in ("float32", "bfloat16")]
        np.testing.assert_allclose(values[1], values[0], atol=0.1 * float(values[0].std()) + 0.02)


def test_parameters_of_the_paper():
    """The widths are those of the paper: what a change to them changes."""
    network = GraphActorConfig().build(jax.random.key(0))
    layer = 3 * 128**2 + 4 * 128 + 128**2 + 2 * 2 * 128 + 128 * 512 + 512 * 128
    assert sum(leaf.size for leaf in jax.tree.leaves(network.graph.layers)) == 6 * layer
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(network))
