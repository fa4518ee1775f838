"""The critics and their privileged nodes against loops over plain arrays."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.graph
import oracles.networks
from cases import SMALL
from decmarvel.robot.policy.nodes import compact, situation_of
from decmarvel.robot.policy.weights import named_arrays
from decmarvel.training.algorithms.losses import follow
from decmarvel.training.critic import PhaseCritic, PlainCritic
from decmarvel.training.privileged_nodes import unprivileged_nodes
from robot.policy.small_networks import (
    ALL,
    ROBOTS,
    close,
    critic,
    judge,
    missions,
    of,
    one_each,
    parameters,
    plain,
    privileged_of,
    seeds,
    stirred,
    true_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


@seeds
@pytest.mark.parametrize(
    ("top", "identity", "dual_head"),
    [(True, False, True), (False, False, True), (True, True, True), (True, False, False)],
)
def test_critic_equals_oracle(seed, top, identity, dual_head):
    """Both heads of Eq. 14 over the nodes of Eq. 15, each in its phase; or one head for both phases."""
    network, p = critic(identity, dual_head), parameters(critic(identity, dual_head))
    assert isinstance(network, PhaseCritic if dual_head else PlainCritic)
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
        found = [judge(network, nodes, situation_of(observation), jnp.array(post)) for post in (False, True)]
        expected = oracles.networks.critic(
            p, plain(observation), plain(privileged), edge, start, SMALL.spacing_m, ALL, top, identity
        )
        assert len(expected) == (2 if dual_head else 1)
        close(found[0], expected[0])
        close(found[1], expected[-1])


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
    network, seen = critic(), [unprivileged_nodes(compact(each, ALL)) for _, each, _ in one_each(9)]
    where = [situation_of(each) for _, each, _ in one_each(9)]
    nodes, where = (jax.tree.map(lambda *leaves: jnp.stack(leaves), *each) for each in (seen, where))
    post = jnp.array([False, True, False])
    pre, after = (judge(network, nodes, where, jnp.full(3, phase)) for phase in (False, True))
    mixed = judge(network, nodes, where, post)
    close(mixed, jnp.where(post[:, None, None], after, pre), 1e-6)
    assert np.abs(pre - after).min(axis=0).max() > 0.01, "the heads differ"
    copied = network.enter_post()
    for one, two in zip(jax.tree.leaves(copied.pre), jax.tree.leaves(copied.post), strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.unsafe_buffer_pointer() != two.unsafe_buffer_pointer()
    assert (copied.post.value.weight != network.post.value.weight).any()
    assert eqx.tree_equal((copied.trunk, copied.pre), (network.trunk, network.pre))
    plain = critic(dual_head=False)
    assert plain.enter_post() is plain
    other = stirred(network, 9)
    followed = follow(network, other, 0.003)
    for old, new, found in zip(*map(jax.tree.leaves, (network, other, followed)), strict=True):
        close(found, 0.997 * old + 0.003 * new, 1e-6)
    assert named_arrays(followed).keys() == named_arrays(network).keys()
