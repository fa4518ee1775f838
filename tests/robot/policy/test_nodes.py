"""The nodes of the networks, against loops over plain arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.networks
from decmarvel.robot.policy.nodes import bucket_for, candidate_sites, rows_at
from robot.policy.small_networks import ALL, SIZE, mask_of, one_each_with_ways, pack_with_ways, places_of, plain, seeds

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.slow
@seeds
@pytest.mark.parametrize("bucket", [ALL + 7, ALL, 10, 1])
def test_nodes_equal_oracle(seed, bucket):
    """Which sites get a place, what stands there, who may attend to whom, and where a site is."""
    for observation, ways in one_each_with_ways(seed):
        nodes, raw, raw_ways = pack_with_ways(observation, ways, bucket)[0], plain(observation), plain(ways)
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
        for got, field in zip(jax.tree.leaves(nodes.known_ways), jax.tree.leaves(raw_ways), strict=True):
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


def test_places_that_are_none_have_zero_rows():
    values = jax.random.normal(jax.random.key(0), (7, 5))
    found = rows_at(values, jnp.array([[3, -1], [0, 6]], jnp.int32))
    np.testing.assert_array_equal(found, np.stack([[values[3], np.zeros(5)], [values[0], values[6]]]))
    assert candidate_sites(jnp.array([4, 7], jnp.int32))[12].tolist() == [4, 7]
