"""Attention among the nodes of a graph in one kernel, for GPUs: no matrix of weights is ever written down.

Nodes stand in row-major order, so the neighbours of a block of nodes lie in few blocks around it; the kernels look at
no others. `networks.attend` is the plain version, and the oracle. Written for one graph: `vmap` adds others.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int8, Int32

BLOCK = 64
"""Nodes that one instance of a kernel answers for, and that it looks at in one go."""
NEVER = -1e30


class Near(eqx.Module):
    """Who may attend to whom, as the kernels read it. Symmetric."""

    mask: Int8[Array, "M M"]
    reach: Int32[Array, "blocks 2"]
    """The first block that a block of nodes attends to, and the one after the last."""


def near(mask: Bool[Array, "M M"]) -> Near:
    """M must be a multiple of BLOCK."""
    blocks = mask.shape[0] // BLOCK
    some = mask.reshape(blocks, BLOCK, blocks, BLOCK).any(axis=(1, 3))
    number = jnp.arange(blocks, dtype=jnp.int32)
    first = jnp.where(some, number[None], blocks).min(axis=1)
    last = jnp.where(some, number[None], -1).max(axis=1)
    return Near(mask.astype(jnp.int8), jnp.stack([first, last + 1], axis=1))


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def neighbour_attention(packed: Float[Array, "M C"], near: Near, heads: int, width: int) -> Float[Array, "M D"]:
    """Softmax attention; `packed` are queries, keys and values, head by head, and maybe more that is left alone.

    Zero for a node that may attend to nobody.
    """
    return _look(packed, near, heads, width)[0]


def _look(packed: Array, near: Near, heads: int, width: int) -> tuple[Array, Array]:
    """What is found, and the logarithm of the sum of all weights."""
    size = len(packed)
    is_ = _Specs(size, heads, width)
    found, log = is_.call(
        _forward,
        [is_.reach, is_.mask_rows, is_.part(0), is_.part(1, whole=True), is_.part(2, whole=True)],
        [is_.part(0), is_.numbers()],
        [jax.ShapeDtypeStruct((size, heads * width), packed.dtype), jax.ShapeDtypeStruct((size, heads), jnp.float32)],
    )(near.reach, near.mask, packed, packed, packed)
    return found, log


def _keep(packed: Array, near: Near, heads: int, width: int) -> tuple[Array, tuple[Array, Near, Array, Array]]:
    found, log = _look(packed, near, heads, width)
    found, log = checkpoint_name(found, "looked"), checkpoint_name(log, "log")
    return found, (packed, near, found, log)


def _slopes(heads: int, width: int, kept: tuple[Array, Near, Array, Array], slope: Array) -> tuple[Array, None]:
    packed, near, found, log = kept
    by_head = (slope.astype(jnp.float32) * found.astype(jnp.float32)).reshape(len(packed), heads, -1)
    inputs = (near.reach, near.mask, packed, packed, packed, slope, log, by_head.sum(axis=-1))
    is_ = _Specs(len(packed), heads, width)
    shape = jax.ShapeDtypeStruct(slope.shape, packed.dtype)
    rows = [is_.part(0), is_.part(1, whole=True), is_.part(2, whole=True), is_.part(0), is_.numbers(), is_.numbers()]
    (of_query,) = is_.call(_query_slope, [is_.reach, is_.mask_rows, *rows], [is_.part(0)], [shape])(*inputs)
    columns = [is_.part(0, whole=True), is_.part(1), is_.part(2), is_.part(0, whole=True)]
    columns = [is_.reach, is_.mask_columns, *columns, is_.numbers(whole=True), is_.numbers(whole=True)]
    of_key, of_value = is_.call(_key_slopes, columns, [is_.part(0)] * 2, [shape] * 2)(*inputs)
    rest = jnp.zeros((len(packed), packed.shape[1] - 3 * slope.shape[1]), packed.dtype)
    return jnp.concatenate([of_query, of_key, of_value, rest], axis=1), None


neighbour_attention.defvjp(_keep, _slopes)


class _Specs:
    """What part of each array the kernel for head h and block i sees: its own block of nodes, or the whole."""

    def __init__(self, size: int, heads: int, width: int) -> None:
        self.size, self.heads, self.width = size, heads, width
        self.reach = pl.BlockSpec((size // BLOCK, 2), lambda h, i: (0, 0))
        self.mask_rows = pl.BlockSpec((BLOCK, size), lambda h, i: (i, 0))
        self.mask_columns = pl.BlockSpec((size, BLOCK), lambda h, i: (0, i))

    def part(self, number: int, whole: bool = False) -> pl.BlockSpec:
        """The columns of a head, in the first, second or third part of an array."""
        rows = self.size if whole else BLOCK
        return pl.BlockSpec((rows, self.width), lambda h, i: (0 if whole else i, number * self.heads + h))

    def numbers(self, whole: bool = False) -> pl.BlockSpec:
        """One number a node and head."""
        return pl.BlockSpec((self.size if whole else BLOCK, None), lambda h, i: (0 if whole else i, h))

    def call(self, kernel: Any, inputs: list[Any], outputs: list[Any], shapes: list[Any]) -> Any:
        return pl.pallas_call(
            partial(kernel, scale=self.width**-0.5),
            grid=(self.heads, self.size // BLOCK),
            in_specs=inputs,
            out_specs=outputs,
            out_shape=shapes,
            compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
            interpret=jax.default_backend() != "gpu",
        )


def _rows(block: Any) -> Any:
    return pl.ds(block * BLOCK, BLOCK)


def _dot(a: Array, b: Array, axes: tuple[int, int] = (1, 0)) -> Array:
    """A product over these axes, summed in float32."""
    return jax.lax.dot_general(a, b, (((axes[0],), (axes[1],)), ((), ())), preferred_element_type=jnp.float32)


def _scores(query: Array, key: Array, mask: Array, scale: float) -> Array:
    return jnp.where(mask != 0, _dot(query, key, (1, 1)) * scale, NEVER)


def _weights(score: Array, log: Array) -> Array:
    return jnp.where(score > NEVER, jnp.exp(score - log[:, None]), 0.0)


def _forward(reach: Any, mask: Any, query: Any, key: Any, value: Any, out: Any, log: Any, *, scale: float) -> None:
    """One block of queries: softmax in one pass, with the largest score so far."""
    here, own = pl.program_id(1), query[...]

    def look(block: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        found, most, total = carry
        score = _scores(own, key[_rows(block), :], mask[:, _rows(block)], scale)
        now = jnp.maximum(most, score.max(axis=1))
        weight, fade = _weights(score, now), jnp.exp(most - now)
        theirs = value[_rows(block), :]
        found = found * fade[:, None] + _dot(weight.astype(theirs.dtype), theirs)
        return found, now, total * fade + weight.sum(axis=1)

    zero = jnp.zeros(own.shape, jnp.float32)
    start = zero, jnp.full(own.shape[:1], NEVER, jnp.float32), jnp.zeros(own.shape[:1], jnp.float32)
    found, most, total = jax.lax.fori_loop(reach[here, 0], reach[here, 1], look, start)
    total = jnp.where(total > 0, total, 1.0)
    out[...] = (found / total[:, None]).astype(out.dtype)
    log[...] = most + jnp.log(total)


def _query_slope(
    reach: Any, mask: Any, query: Any, key: Any, value: Any, slope: Any, log: Any, share: Any, out: Any, *, scale: float
) -> None:
    """The gradient of one block of queries."""
    here, own, ahead, sums, shares = pl.program_id(1), query[...], slope[...], log[...], share[...]

    def look(block: Array, found: Array) -> Array:
        theirs = key[_rows(block), :]
        weight = _weights(_scores(own, theirs, mask[:, _rows(block)], scale), sums)
        apart = _dot(ahead, value[_rows(block), :], (1, 1)) - shares[:, None]
        return found + _dot((weight * apart).astype(theirs.dtype), theirs)

    found = jax.lax.fori_loop(reach[here, 0], reach[here, 1], look, jnp.zeros(own.shape, jnp.float32))
    out[...] = (found * scale).astype(out.dtype)


def _key_slopes(
    reach: Any, mask: Any, query: Any, key: Any, value: Any, slope: Any, log: Any, share: Any, key_out: Any,
    value_out: Any, *, scale: float,
) -> None:  # fmt: skip
    """The gradients of one block of keys and values: who attends to it is whom it attends to."""
    here, own, told = pl.program_id(1), key[...], value[...]

    def look(block: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        of_key, of_value = carry
        asking, ahead = query[_rows(block), :], slope[_rows(block), :]
        weight = _weights(_scores(asking, own, mask[_rows(block), :], scale), log[_rows(block)])
        apart = _dot(ahead, told, (1, 1)) - share[_rows(block)][:, None]
        of_key = of_key + _dot((weight * apart).astype(asking.dtype), asking, (0, 0))
        return of_key, of_value + _dot(weight.astype(ahead.dtype), ahead, (0, 0))

    zero = jnp.zeros(own.shape, jnp.float32)
    of_key, of_value = jax.lax.fori_loop(reach[here, 0], reach[here, 1], look, (zero, zero))
    key_out[...] = (of_key * scale).astype(key_out.dtype)
    value_out[...] = of_value.astype(value_out.dtype)
