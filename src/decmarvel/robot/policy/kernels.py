"""Graph attention in kernels, for GPUs: scores never leave the chip.

One instance of a kernel computes one head and a block of nodes of one graph. Nodes stand in row-major order, so the
neighbours of a block lie in few blocks around it, and it looks at no others. `layers.Attention.among` is the plain
version, and the oracle.
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
"""Number of nodes that one instance of a kernel computes, and that it reads at a time."""
MASKED = -1e30


class Near(eqx.Module):
    """Which node may attend to which, as the kernels read it. Symmetric."""

    mask: Int8[Array, "*n M M"]
    reach: Int32[Array, "*n blocks 2"]
    """The first block that a block of nodes attends to, and the one after the last."""


def near(mask: Bool[Array, "M M"]) -> Near:
    """The `Near` of one graph. M must be a multiple of BLOCK."""
    blocks = mask.shape[0] // BLOCK
    some = mask.reshape(blocks, BLOCK, blocks, BLOCK).any(axis=(1, 3))
    number = jnp.arange(blocks, dtype=jnp.int32)
    first = jnp.where(some, number[None], blocks).min(axis=1)
    last = jnp.where(some, number[None], -1).max(axis=1)
    return Near(mask.astype(jnp.int8), jnp.stack([first, last + 1], axis=1))


def fits(places: int, width: int, heads: int) -> bool:
    """Whether attention has the sizes that the kernels are made for."""
    return places % BLOCK == 0 and width // heads in (16, 32, 64) and heads in (1, 2, 4, 8)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def attend_near(packed: Float[Array, "n M C"], near: Near, width: int, heads: int) -> Float[Array, "n M D"]:
    """Gated results of all heads, side by side. `packed`: queries, keys and values of the heads, and gates if any.

    There are `width` columns of each of the three. The gate of head h is column h * (width / heads / heads) after them.
    """
    return _look_around(packed, near, width, heads)[0]


def _look_around(packed: Array, near: Near, width: int, heads: int) -> tuple[Array, Array]:
    """The results, and the logarithms of the sums that softmax divided by."""
    count, size, columns = packed.shape
    one = _Specs(size, columns, width, heads)
    found, log = pl.pallas_call(
        partial(_look, scale=one.each**-0.5, gated=one.gated),
        grid=one.grid(count),
        in_specs=[*one.whom(), one.part(0), one.part(1, whole=True), one.part(2, whole=True), one.gate()],
        out_specs=[one.part(0), one.number()],
        out_shape=[
            jax.ShapeDtypeStruct((count, size, width), packed.dtype),
            jax.ShapeDtypeStruct((count, size, heads), jnp.float32),
        ],
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=jax.default_backend() != "gpu",
    )(near.reach, near.mask, packed, packed, packed, packed)
    return found, log


def _keep(packed: Array, near: Near, width: int, heads: int) -> tuple[Array, tuple[Any, ...]]:
    found, log = _look_around(packed, near, width, heads)
    found = checkpoint_name(found, "found")
    return found, (packed, near, found, checkpoint_name(log, "log"))


def _back(width: int, heads: int, kept: tuple[Any, ...], slope: Array) -> tuple[Array, None]:
    """The gradient of `packed`, in one array."""
    packed, near, found, log = kept
    count, size, columns = packed.shape
    share = (slope.astype(jnp.float32) * found.astype(jnp.float32)).reshape(count, size, heads, -1).sum(axis=-1)
    one = _Specs(size, columns, width, heads)
    everything = [one.part(number, whole=True) for number in (0, 1, 2, 0)]
    gradient = pl.pallas_call(
        partial(_slopes, width=width, each=one.each, gated=one.gated),
        grid=one.grid(count),
        in_specs=[
            *one.whom(),
            pl.BlockSpec((None, size, BLOCK), lambda i, h, b: (b, 0, i)),
            *everything,
            one.gate(whole=True),
            one.number(whole=True),
            one.number(whole=True),
        ],
        out_specs=pl.BlockSpec((None, BLOCK, columns), lambda i, h, b: (b, i, 0)),
        out_shape=jax.ShapeDtypeStruct(packed.shape, packed.dtype),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=jax.default_backend() != "gpu",
    )(near.reach, near.mask, near.mask, packed, packed, packed, slope, packed, log, share)
    return gradient, None


attend_near.defvjp(_keep, _back)


class _Specs:
    """What an instance of a kernel sees of an array: graph b, head h, and its block i of nodes, or all."""

    def __init__(self, size: int, columns: int, width: int, heads: int) -> None:
        self.size, self.width, self.heads, self.each = size, width, heads, width // heads
        self.gated = columns > 3 * width

    def grid(self, graphs: int) -> tuple[int, int, int]:
        """The grid of instances. Those of one graph run side by side, as they read the same rows."""
        return self.size // BLOCK, self.heads, graphs

    def whom(self) -> list[pl.BlockSpec]:
        """The reach of all blocks, and the rows of the mask."""
        return [
            pl.BlockSpec((None, self.size // BLOCK, 2), lambda i, h, b: (b, 0, 0)),
            pl.BlockSpec((None, BLOCK, self.size), lambda i, h, b: (b, i, 0)),
        ]

    def part(self, number: int, whole: bool = False) -> pl.BlockSpec:
        """The columns of head h, in the first, second or third part of an array."""
        rows = self.size if whole else BLOCK
        return pl.BlockSpec((None, rows, self.each), lambda i, h, b: (b, 0 if whole else i, number * self.heads + h))

    def number(self, whole: bool = False) -> pl.BlockSpec:
        """One number a node, of head h."""
        rows = self.size if whole else BLOCK
        return pl.BlockSpec((None, rows, None), lambda i, h, b: (b, 0 if whole else i, h))

    def gate(self, whole: bool = False) -> pl.BlockSpec:
        """The gates of head h; if there are none, another column, which is not used."""
        rows, first, apart = self.size if whole else BLOCK, 3 * self.width * self.gated, self.each // self.heads
        return pl.BlockSpec((None, rows, None), lambda i, h, b: (b, 0 if whole else i, first + h * apart))


def _rows(block: Any) -> Any:
    return pl.ds(block * BLOCK, BLOCK)


def _dot(a: Array, b: Array, axes: tuple[int, int] = (1, 0)) -> Array:
    """A product over these axes, summed in float32."""
    return jax.lax.dot_general(a, b, (((axes[0],), (axes[1],)), ((), ())), preferred_element_type=jnp.float32)


def _open(gate: Array) -> Array:
    """How far a gate is open, 0 to 1."""
    return 1 / (1 + jnp.exp(-gate.astype(jnp.float32)))


def _scores(query: Array, key: Array, mask: Array, scale: float) -> Array:
    return jnp.where(mask != 0, _dot(query, key, (1, 1)) * scale, MASKED)


def _weights(score: Array, log: Array) -> Array:
    return jnp.where(score > MASKED, jnp.exp(score - log[:, None]), 0.0)


def _look(reach: Any, mask: Any, query: Any, key: Any, value: Any, gate: Any, found_out: Any, log_out: Any,
          *, scale: float, gated: bool) -> None:  # fmt: skip
    """The result of one head for a block of queries: softmax in one pass, with the largest score so far."""
    here, own = pl.program_id(0), query[...]

    def look(block: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        found, most, total = carry
        score = _scores(own, key[_rows(block), :], mask[:, _rows(block)], scale)
        now = jnp.maximum(most, score.max(axis=1))
        weight, fade = _weights(score, now), jnp.exp(most - now)
        told = value[_rows(block), :]
        found = found * fade[:, None] + _dot(weight.astype(told.dtype), told)
        return found, now, total * fade + weight.sum(axis=1)

    start = (
        jnp.zeros(own.shape, jnp.float32),
        jnp.full(own.shape[:1], MASKED, jnp.float32),
        jnp.zeros(own.shape[:1], jnp.float32),
    )
    found, most, total = jax.lax.fori_loop(reach[here, 0], reach[here, 1], look, start)
    total = jnp.where(total > 0, total, 1.0)
    weigh = (_open(gate[...]) if gated else 1.0) / total
    found_out[...] = (found * weigh[:, None]).astype(found_out.dtype)
    log_out[...] = most + jnp.log(total)


def _slopes(reach: Any, mask: Any, mask_columns: Any, query: Any, key: Any, value: Any, slope: Any, gate: Any, log: Any,
            share: Any, out: Any, *, width: int, each: int, gated: bool) -> None:  # fmt: skip
    """The gradients of one block of queries, keys, values and gates of one head.

    With the result o and its gate g, the output is g o. `share` is the output times its gradient: softmax subtracts it
    from the gradients of its scores, and (1 - g) * share is the gradient of the gate.
    """
    here, head, scale = pl.program_id(0), pl.program_id(1), each**-0.5

    def ahead(block: Any) -> Array:
        """The gradient of a block's results before the gates."""
        found = slope[_rows(block), :]
        return (found.astype(jnp.float32) * _open(gate[_rows(block)])[:, None]).astype(found.dtype) if gated else found

    own, own_key, own_value, own_ahead = query[_rows(here), :], key[_rows(here), :], value[_rows(here), :], ahead(here)
    own_log, own_share = log[_rows(here)], share[_rows(here)]

    def of_query(block: Array, found: Array) -> Array:
        theirs = key[_rows(block), :]
        weight = _weights(_scores(own, theirs, mask[:, _rows(block)], scale), own_log)
        apart = _dot(own_ahead, value[_rows(block), :], (1, 1)) - own_share[:, None]
        return found + _dot((weight * apart).astype(theirs.dtype), theirs)

    def of_key(block: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        """The mask is symmetric: the nodes that attend to this block are those that it attends to."""
        key_slope, value_slope = carry
        asking, theirs = query[_rows(block), :], ahead(block)
        weight = _weights(_scores(asking, own_key, mask_columns[_rows(block), :], scale), log[_rows(block)])
        apart = _dot(theirs, own_value, (1, 1)) - share[_rows(block)][:, None]
        key_slope = key_slope + _dot((weight * apart).astype(asking.dtype), asking, (0, 0))
        return key_slope, value_slope + _dot(weight.astype(theirs.dtype), theirs, (0, 0))

    zero = jnp.zeros(own.shape, jnp.float32)
    query_slope = jax.lax.fori_loop(reach[here, 0], reach[here, 1], of_query, zero)
    out[:, pl.ds(head * each, each)] = (query_slope * scale).astype(out.dtype)
    key_slope, value_slope = jax.lax.fori_loop(reach[here, 0], reach[here, 1], of_key, (zero, zero))
    out[:, pl.ds(width + head * each, each)] = (key_slope * scale).astype(out.dtype)
    out[:, pl.ds(2 * width + head * each, each)] = value_slope.astype(out.dtype)
    if gated:
        apart = each * each // width
        of_gate = own_share * (1 - _open(gate[_rows(here)]))
        first = jax.lax.broadcasted_iota(jnp.int32, (BLOCK, apart), 1) == 0
        padded = jnp.where(first, of_gate[:, None], 0.0)
        out[:, pl.ds(3 * width + head * apart, apart)] = padded.astype(out.dtype)
