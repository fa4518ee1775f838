"""Layers and their kernels: forwards, backwards, and where there is nothing to attend to."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.kernels import near
from decmarvel.robot.policy.layers import ROWS_AT_ONCE, EncoderLayer, attend, product
from robot.policy.small_networks import actor, close, one_each, pack, stirred

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_attention_to_nothing_is_zero():
    x = jax.random.normal(jax.random.key(0), (3, 2, 4))
    mask = jnp.array([[True, False, True], [False, False, False], [False, True, False]])
    found = jax.jit(attend)(x, x, x, mask)
    assert (found[1] == 0).all()
    np.testing.assert_array_equal(found[2], x[1])
    slopes = jax.jit(jax.grad(lambda x: attend(x, x, x, jnp.zeros_like(mask)).sum()))(x)
    assert (slopes == 0).all()


def random_neighbours(rng, places: int, count: int) -> np.ndarray:
    """Symmetric edges between sites that are near, as of a graph with so many nodes."""
    sites = np.sort(rng.choice(400, count, replace=False))
    site = np.stack([sites // 20, sites % 20], axis=-1)
    close_by = (np.abs(site[:, None] - site[None]) <= 2).all(axis=-1)
    linked = np.triu(rng.random((count, count)) < 0.6)
    mask = np.zeros((places, places), bool)
    mask[:count, :count] = close_by & (linked | linked.T) | np.eye(count, dtype=bool)
    return mask


@pytest.mark.slow
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


@pytest.mark.slow
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
