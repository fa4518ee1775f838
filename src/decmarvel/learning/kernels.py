"""A layer of graph attention in one kernel, for GPUs: what is made on the way never leaves the chip.

One instance of a kernel answers for a block of nodes of one graph. Nodes stand in row-major order, so the neighbours of
a block lie in few blocks around it, and it looks at no others. `layers.EncoderLayer` is the plain version, and the
oracle. Backwards, only attention has kernels: the rest are large matrix products, which XLA does well.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Float32, Int8, Int32

BLOCK = 64
"""Nodes that one instance of a kernel answers for, and that it looks at in one go."""
CHUNK = 128
"""Hidden units of the feed-forward part that are computed in one go."""
NEVER = -1e30
EPSILON = 1e-5


class Near(eqx.Module):
    """Who may attend to whom, as the kernels read it. Symmetric."""

    mask: Int8[Array, "*n M M"]
    reach: Int32[Array, "*n blocks 2"]
    """The first block that a block of nodes attends to, and the one after the last."""


class LayerWeights(eqx.Module):
    """What comes after attention: join the heads, normalise, feed forward."""

    join: Float32[Array, "D D"]
    scale: Float32[Array, "D"]
    offset: Float32[Array, "D"]
    feed_in: Float32[Array, "F D"]
    feed_out: Float32[Array, "D F"]


def near(mask: Bool[Array, "M M"]) -> Near:
    """Of one graph. M must be a multiple of BLOCK."""
    blocks = mask.shape[0] // BLOCK
    some = mask.reshape(blocks, BLOCK, blocks, BLOCK).any(axis=(1, 3))
    number = jnp.arange(blocks, dtype=jnp.int32)
    first = jnp.where(some, number[None], blocks).min(axis=1)
    last = jnp.where(some, number[None], -1).max(axis=1)
    return Near(mask.astype(jnp.int8), jnp.stack([first, last + 1], axis=1))


def fits(places: int, width: int, heads: int, feed: int) -> bool:
    """Whether a layer has the sizes that the kernels are made for."""
    return places % BLOCK == 0 and width == CHUNK and feed % CHUNK == 0 and width // heads >= 16


def normalise(x: Float[Array, "*n D"], scale: Float32[Array, "D"], offset: Float32[Array, "D"]) -> Float[Array, "*n D"]:
    """Mean 0 and variance 1 over the last axis, then scale and offset; in float32 inside."""
    full = x.astype(jnp.float32)
    away = full - full.mean(axis=-1, keepdims=True)
    y = away * jax.lax.rsqrt((away**2).mean(axis=-1, keepdims=True) + EPSILON)
    y = y * jnp.broadcast_to(scale, y.shape) + jnp.broadcast_to(offset, y.shape)
    return y.astype(x.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def finish_layer(
    packed: Float[Array, "n M C"], x: Float[Array, "n M D"], near: Near, weights: LayerWeights, heads: int
) -> Float[Array, "n M D"]:
    """A layer's output from its input x and `packed`: queries, keys, values, head by head, and the gates if any."""
    return _run(packed, x, near, weights, heads, keep=False)[0]


def _run(packed: Array, x: Array, near: Near, weights: LayerWeights, heads: int, keep: bool) -> tuple[Array, ...]:
    """The output; with `keep` also what the gradient needs of the way there."""
    count, size, width = x.shape
    w = jax.tree.map(lambda weight: weight.astype(x.dtype), weights)
    one = _Specs(size)
    vector = one.shared(width)
    outputs = [(width, x.dtype)]
    if keep:
        outputs += [(width, x.dtype), (heads, jnp.float32), (width, x.dtype), (len(weights.feed_in), x.dtype)]
    found = pl.pallas_call(
        partial(_layer, heads=heads, gated=packed.shape[-1] > 3 * width),
        grid=(count, size // BLOCK),
        in_specs=[
            one.all_rows(near.reach.shape[1], 2),
            one.rows(size),
            one.all_rows(size, packed.shape[-1]),
            one.rows(width),
            one.shared(width, width),
            vector,
            vector,
            one.shared(*w.feed_in.shape),
            one.shared(*w.feed_out.shape),
        ],
        out_specs=[one.rows(columns) for columns, _ in outputs],
        out_shape=[jax.ShapeDtypeStruct((count, size, columns), kind) for columns, kind in outputs],
        compiler_params=triton.CompilerParams(num_warps=8, num_stages=1),
        interpret=jax.default_backend() != "gpu",
    )(near.reach, near.mask, packed, x, w.join, weights.scale, weights.offset, w.feed_in, w.feed_out)
    return tuple(found)


def _keep(packed: Array, x: Array, near: Near, weights: LayerWeights, heads: int) -> tuple[Array, tuple[Any, ...]]:
    out, *way = _run(packed, x, near, weights, heads, keep=True)
    names = ("looked", "log", "middle", "hidden")
    return out, (packed, near, weights, *(checkpoint_name(each, name) for each, name in zip(way, names, strict=True)))


def _back(heads: int, kept: tuple[Any, ...], slope: Array) -> tuple[Array, Array, None, LayerWeights]:
    """The gradient, from the last step of a layer to the first."""
    packed, near, weights, looked, log, middle, hidden = kept
    w = jax.tree.map(lambda weight: weight.astype(slope.dtype), weights)

    def outer(one: Array, other: Array) -> Float32[Array, "a b"]:
        """The gradient of a matrix, over all nodes of all graphs."""
        return jnp.einsum("nma,nmb->ab", one, other, preferred_element_type=jnp.float32)

    of_hidden = jnp.where(hidden > 0, slope @ w.feed_out, jnp.zeros_like(hidden))
    y, denormalise = jax.vjp(normalise, middle, weights.scale, weights.offset)
    of_middle, of_scale, of_offset = denormalise(of_hidden @ w.feed_in)
    of_middle = of_middle + slope
    of_joined = of_middle @ w.join
    joined, of_looked, of_gates = looked, of_joined, packed[..., 3 * middle.shape[-1] :]
    if of_gates.shape[-1]:
        by_head = (*looked.shape[:-1], heads, -1)
        gate = jax.nn.sigmoid(of_gates[..., :heads])
        joined = (looked.reshape(by_head) * gate[..., None]).reshape(looked.shape)
        of_looked = (of_joined.reshape(by_head) * gate[..., None]).reshape(looked.shape)
        of_gate = (of_joined.reshape(by_head) * looked.reshape(by_head)).sum(axis=-1) * gate * (1 - gate)
        of_gates = jnp.pad(of_gate, ((0, 0), (0, 0), (0, of_gates.shape[-1] - heads)))
    of_three = attention_slopes(packed, near, looked, log, of_looked, heads)
    of_weights = LayerWeights(outer(of_middle, joined), of_scale, of_offset, outer(of_hidden, y), outer(slope, hidden))
    return jnp.concatenate([*of_three, of_gates], axis=-1), of_middle, None, of_weights


finish_layer.defvjp(_keep, _back)


def attention_slopes(
    packed: Float[Array, "n M C"],
    near: Near,
    looked: Float[Array, "n M D"],
    log: Float32[Array, "n M heads"],
    slope: Float[Array, "n M D"],
    heads: int,
) -> tuple[Float[Array, "n M D"], ...]:
    """The gradients of queries, keys and values."""
    count, size, width = looked.shape
    share = (slope.astype(jnp.float32) * looked.astype(jnp.float32)).reshape(count, size, heads, -1).sum(axis=-1)
    inputs = (near.reach, near.mask, packed, packed, packed, slope, log, share)
    one = _Specs(size, heads, width // heads)
    shape = jax.ShapeDtypeStruct(looked.shape, packed.dtype)

    def call(kernel: Callable[..., None], specs: list[Any], outputs: int) -> Any:
        return pl.pallas_call(
            partial(kernel, scale=one.width**-0.5),
            grid=(count, heads, size // BLOCK),
            in_specs=[one.all_rows(near.reach.shape[1], 2), *specs],
            out_specs=[one.part(0)] * outputs,
            out_shape=[shape] * outputs,
            compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
            interpret=jax.default_backend() != "gpu",
        )(*inputs)

    mask_rows = pl.BlockSpec((None, BLOCK, size), lambda b, h, i: (b, i, 0))
    theirs = [one.part(1, whole=True), one.part(2, whole=True)]
    (of_query,) = call(
        _query_slope, [mask_rows, one.part(0), *theirs, one.part(0), one.number(), one.number()], outputs=1
    )
    mask_columns = pl.BlockSpec((None, size, BLOCK), lambda b, h, i: (b, 0, i))
    asking = [one.part(0, whole=True), one.number(whole=True), one.number(whole=True)]
    of_key, of_value = call(
        _key_slopes, [mask_columns, one.part(0, whole=True), one.part(1), one.part(2), *asking], outputs=2
    )
    return of_query, of_key, of_value


class _Specs:
    """What an instance of a kernel sees of an array: graph b, and there its block i of nodes, or all of them."""

    def __init__(self, size: int, heads: int = 1, width: int = 0) -> None:
        self.size, self.heads, self.width = size, heads, width

    def rows(self, columns: int) -> pl.BlockSpec:
        return pl.BlockSpec((None, BLOCK, columns), lambda b, i: (b, i, 0))

    def all_rows(self, rows: int, columns: int) -> pl.BlockSpec:
        return pl.BlockSpec((None, rows, columns), lambda b, *_: (b, 0, 0))

    def shared(self, *shape: int) -> pl.BlockSpec:
        """An array that all graphs have in common."""
        return pl.BlockSpec(shape, lambda b, i: (0,) * len(shape))

    def part(self, number: int, whole: bool = False) -> pl.BlockSpec:
        """The columns of head h, in the first, second or third part of an array."""
        rows = self.size if whole else BLOCK
        return pl.BlockSpec((None, rows, self.width), lambda b, h, i: (b, 0 if whole else i, number * self.heads + h))

    def number(self, whole: bool = False) -> pl.BlockSpec:
        """One number a node, of head h."""
        rows = self.size if whole else BLOCK
        return pl.BlockSpec((None, rows, None), lambda b, h, i: (b, 0 if whole else i, h))


def _rows(block: Any) -> Any:
    return pl.ds(block * BLOCK, BLOCK)


def _dot(a: Array, b: Array, axes: tuple[int, int] = (1, 0)) -> Array:
    """A product over these axes, summed in float32."""
    return jax.lax.dot_general(a, b, (((axes[0],), (axes[1],)), ((), ())), preferred_element_type=jnp.float32)


def _scores(query: Array, key: Array, mask: Array, scale: float) -> Array:
    return jnp.where(mask != 0, _dot(query, key, (1, 1)) * scale, NEVER)


def _weights(score: Array, log: Array) -> Array:
    return jnp.where(score > NEVER, jnp.exp(score - log[:, None]), 0.0)


def _layer(reach: Any, mask: Any, packed: Any, x: Any, join: Any, scale: Any, offset: Any, feed_in: Any, feed_out: Any,
           out: Any, *way: Any, heads: int, gated: bool) -> None:  # fmt: skip
    """One block of nodes from its input to its output."""
    here = pl.program_id(1)
    wide, width = x.shape[1], x.shape[1] // heads

    def add_head(head: Array, total: Array) -> Array:
        columns = pl.ds(head * width, width)
        found, log = _look(reach, mask, packed, here, head * width, wide, width)
        found = found.astype(out.dtype)
        if way:
            way[0][:, columns] = found
            way[1][:, head] = log
        if gated:
            gate = packed[_rows(here), 3 * wide + head].astype(jnp.float32)
            found = (found.astype(jnp.float32) * (1 / (1 + jnp.exp(-gate)))[:, None]).astype(out.dtype)
        return total + _dot(found, join[:, columns], (1, 1))

    middle = jax.lax.fori_loop(0, heads, add_head, x[...].astype(jnp.float32)).astype(out.dtype)
    y = normalise(middle, scale[...], offset[...])

    def add_chunk(chunk: Array, total: Array) -> Array:
        units = pl.ds(chunk * CHUNK, CHUNK)
        hidden = jnp.maximum(_dot(y, feed_in[units, :], (1, 1)), 0.0).astype(out.dtype)
        if way:
            way[3][:, units] = hidden
        return total + _dot(hidden, feed_out[:, units], (1, 1))

    if way:
        way[2][...] = middle
    total = jax.lax.fori_loop(0, feed_in.shape[0] // CHUNK, add_chunk, middle.astype(jnp.float32))
    out[...] = total.astype(out.dtype)


def _look(reach: Any, mask: Any, packed: Any, here: Array, column: Any, wide: int, width: int) -> tuple[Array, Array]:
    """What one head finds for a block of queries: softmax in one pass, with the largest score so far."""
    query = packed[_rows(here), pl.ds(column, width)]

    def look(block: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        found, most, total = carry
        key = packed[_rows(block), pl.ds(wide + column, width)]
        score = _scores(query, key, mask[:, _rows(block)], width**-0.5)
        now = jnp.maximum(most, score.max(axis=1))
        weight, fade = _weights(score, now), jnp.exp(most - now)
        value = packed[_rows(block), pl.ds(2 * wide + column, width)]
        found = found * fade[:, None] + _dot(weight.astype(value.dtype), value)
        return found, now, total * fade + weight.sum(axis=1)

    zero = jnp.zeros(query.shape, jnp.float32)
    start = zero, jnp.full(query.shape[:1], NEVER, jnp.float32), jnp.zeros(query.shape[:1], jnp.float32)
    found, most, total = jax.lax.fori_loop(reach[here, 0], reach[here, 1], look, start)
    total = jnp.where(total > 0, total, 1.0)
    return found / total[:, None], most + jnp.log(total)


def _query_slope(reach: Any, mask: Any, query: Any, key: Any, value: Any, slope: Any, log: Any, share: Any, out: Any,
                 *, scale: float) -> None:  # fmt: skip
    """The gradient of one block of queries."""
    here, own, ahead, sums, shares = pl.program_id(2), query[...], slope[...], log[...], share[...]

    def look(block: Array, found: Array) -> Array:
        theirs = key[_rows(block), :]
        weight = _weights(_scores(own, theirs, mask[:, _rows(block)], scale), sums)
        apart = _dot(ahead, value[_rows(block), :], (1, 1)) - shares[:, None]
        return found + _dot((weight * apart).astype(theirs.dtype), theirs)

    found = jax.lax.fori_loop(reach[here, 0], reach[here, 1], look, jnp.zeros(own.shape, jnp.float32))
    out[...] = (found * scale).astype(out.dtype)


def _key_slopes(reach: Any, mask: Any, query: Any, key: Any, value: Any, slope: Any, log: Any, share: Any, key_out: Any,
                value_out: Any, *, scale: float) -> None:  # fmt: skip
    """The gradients of one block of keys and values: who attends to it is whom it attends to."""
    here, own, told = pl.program_id(2), key[...], value[...]

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
