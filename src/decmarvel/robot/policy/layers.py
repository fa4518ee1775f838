"""Layers: what the blocks of actor and critics are built from.

Parameters are float32. A layer computes in the type of its input; sums inside normalisation and softmax are float32.
M: places. D: width. Q, C: queries and what they attend to.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Float32

from decmarvel.core.types import Key
from decmarvel.robot.policy.kernels import Near, attend_near

EPSILON = 1e-5
"""Added to the variance in a normalisation, against a division by zero."""
ROWS_AT_ONCE = 2048
"""Number of rows that one part of a weight's gradient sums over."""


@jax.custom_vjp
def product(x: Float[Array, "*n into"], weight: Float32[Array, "out into"]) -> Float[Array, "*n out"]:
    """Many rows times W^T. The gradient of W has few but long sums: they are computed in parts, to keep a GPU busy."""
    return x @ weight.T.astype(x.dtype)


def _keep_product(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return product(x, weight), (x, weight)


def _product_slopes(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, weight = kept
    rows = x.size // x.shape[-1]
    parts = rows // ROWS_AT_ONCE if rows % ROWS_AT_ONCE == 0 else 1
    tall, wide = (each.reshape(parts, rows // parts, -1) for each in (slope, x))
    by_part = jnp.einsum("pra,prb->pab", tall, wide, preferred_element_type=jnp.float32)
    return slope @ weight.astype(slope.dtype), by_part.sum(axis=0)


product.defvjp(_keep_product, _product_slopes)


class Linear(eqx.Module):
    """W x + b over the last axis."""

    weight: Float32[Array, "out into"]
    bias: Float32[Array, "out"] | None

    def __init__(self, key: Key, into: int, out: int, bias: bool = True):
        key_weight, key_bias = jax.random.split(key)
        limit = into**-0.5
        self.weight = jax.random.uniform(key_weight, (out, into), jnp.float32, -limit, limit)
        self.bias = jax.random.uniform(key_bias, (out,), jnp.float32, -limit, limit) if bias else None

    @staticmethod
    def of(weight: Float32[Array, "out into"], bias: Float32[Array, "out"]) -> "Linear":
        """A layer with these values."""
        like = eqx.filter_eval_shape(Linear, jax.random.key(0), weight.shape[1], weight.shape[0])
        return eqx.tree_at(lambda linear: (linear.weight, linear.bias), like, (weight, bias))

    def __call__(self, x: Float[Array, "*n into"]) -> Float[Array, "*n out"]:
        return self.shifted(x @ self.weight.T.astype(x.dtype))

    def of_many(self, x: Float[Array, "*n into"]) -> Float[Array, "*n out"]:
        """Apply the layer to the rows of a whole batch, with a faster gradient of the weight."""
        return self.shifted(product(x, self.weight))

    def shifted(self, y: Float[Array, "*n out"]) -> Float[Array, "*n out"]:
        return y if self.bias is None else y + jnp.broadcast_to(self.bias.astype(y.dtype), y.shape)


def normalise(x: Float[Array, "*n D"], scale: Float32[Array, "D"], offset: Float32[Array, "D"]) -> Float[Array, "*n D"]:
    """Mean 0 and variance 1 over the last axis, then scale and offset; in float32 inside."""
    full = x.astype(jnp.float32)
    away = full - full.mean(axis=-1, keepdims=True)
    y = away * jax.lax.rsqrt((away**2).mean(axis=-1, keepdims=True) + EPSILON)
    y = y * jnp.broadcast_to(scale, y.shape) + jnp.broadcast_to(offset, y.shape)
    return y.astype(x.dtype)


class LayerNorm(eqx.Module):
    """Layer normalisation over the last axis."""

    scale: Float32[Array, "D"]
    offset: Float32[Array, "D"]

    def __init__(self, width: int):
        self.scale, self.offset = jnp.ones(width), jnp.zeros(width)

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return normalise(x, self.scale, self.offset)


def attend(
    query: Float[Array, "*n Q heads W"],
    key: Float[Array, "*n C heads W"],
    value: Float[Array, "*n C heads W"],
    mask: Bool[Array, "*n Q C"],
) -> Float[Array, "*n Q heads W"]:
    """Softmax attention. A query that may attend to nothing gives zero."""
    flat = (each.reshape(-1, *each.shape[-3:]) for each in (query, key, value, mask[..., None, :, :]))
    q, k, v, m = flat
    with jax.numpy_dtype_promotion("standard"):  # JAX computes bfloat16 in float32 inside
        found = jax.nn.dot_product_attention(q, k, v, mask=m, implementation="xla").reshape(query.shape)
    return jnp.where(mask.any(axis=-1)[..., None, None], found, jnp.zeros((), found.dtype))


class Attention(eqx.Module):
    """Multi-head attention, each head gated by the query if wanted."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    gate: Float32[Array, "heads D"] | None
    heads: int = eqx.field(static=True)

    def __init__(self, key: Key, width: int, heads: int, gated: bool):
        key_query, key_key, key_value, key_output, key_gate = jax.random.split(key, 5)
        self.query = Linear(key_query, width, width, bias=False)
        self.key = Linear(key_key, width, width, bias=False)
        self.value = Linear(key_value, width, width, bias=False)
        self.output = Linear(key_output, width, width, bias=False)
        self.gate = Linear(key_gate, width, heads, bias=False).weight if gated else None
        self.heads = heads

    def __call__(
        self, x: Float[Array, "Q D"], source: Float[Array, "C D"], mask: Bool[Array, "Q C"]
    ) -> Float[Array, "Q D"]:
        """Attention of x to the source: the heads' results times W_O."""
        query, key, value = (self.by_head(part) for part in (self.query(x), self.key(source), self.value(source)))
        return self.output(attend(query, key, value, mask).reshape(x.shape))

    def pack(self) -> Float32[Array, "C D"]:
        """The weights of queries, keys and values of all heads, and behind them those of the gates, if there are any.

        The gates take the place of one more head, each with an equal share of its rows, of which it uses the first:
        q_v . w_m of Eq. 10 is x_v . (w_m W_Q).
        """
        weights = [self.query.weight, self.key.weight, self.value.weight]
        if self.gate is not None:
            gates, room = self.gate @ self.query.weight, self.gate.shape[-1] // self.heads**2
            weights.append(jnp.pad(gates[:, None], ((0, 0), (0, room - 1), (0, 0))).reshape(-1, gates.shape[-1]))
        return jnp.concatenate(weights)

    def among(self, x: Float[Array, "*n M D"], mask: Bool[Array, "*n M M"]) -> Float[Array, "*n M D"]:
        """Attention of the rows to each other; sigma(q_v . w_m) of Eq. 10 multiplies head m if there are gates."""
        width = x.shape[-1]
        packed = checkpoint_name(x @ self.pack().T.astype(x.dtype), "packed")
        query, key, value = (self.by_head(packed[..., i * width : (i + 1) * width]) for i in range(3))
        found = attend(query, key, value, mask)
        if self.gate is not None:
            found = found * jax.nn.sigmoid(packed[..., 3 * width :: width // self.heads**2])[..., None]
        return self.output(found.reshape(x.shape))

    def among_near(self, x: Float[Array, "n M D"], near: Near) -> Float[Array, "n M D"]:
        """Compute `among` with the kernels."""
        packed = checkpoint_name(product(x, self.pack()), "packed")
        return product(attend_near(packed, near, x.shape[-1], self.heads), self.output.weight)

    def by_head(self, y: Float[Array, "*n M D"]) -> Float[Array, "*n M heads W"]:
        return y.reshape(*y.shape[:-1], self.heads, -1)


@jax.custom_vjp
def relu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """max(x, 0). Its gradient reads the result, so that x need not be kept."""
    return jnp.maximum(x, 0)


def _keep_relu(x: Array) -> tuple[Array, Array]:
    y = checkpoint_name(jnp.maximum(x, 0), "hidden")
    return y, y


relu.defvjp(_keep_relu, lambda y, slope: (jnp.where(y > 0, slope, jnp.zeros_like(slope)),))


class EncoderLayer(eqx.Module):
    """Attention and feed-forward, each behind a normalisation and added to its input. Products have no bias here."""

    attention_norm: LayerNorm
    attention: Attention
    feed_norm: LayerNorm
    feed_in: Linear
    feed_out: Linear

    def __init__(self, key: Key, width: int, heads: int, feed: int, gated: bool):
        key_attention, key_in, key_out = jax.random.split(key, 3)
        self.attention_norm, self.feed_norm = LayerNorm(width), LayerNorm(width)
        self.attention = Attention(key_attention, width, heads, gated)
        self.feed_in = Linear(key_in, width, feed, bias=False)
        self.feed_out = Linear(key_out, feed, width, bias=False)

    def __call__(self, x: Float[Array, "*n M D"], mask: Bool[Array, "*n M M"]) -> Float[Array, "*n M D"]:
        """Eq. 10: one layer of gated graph attention."""
        x = checkpoint_name(x + self.attention.among(self.attention_norm(x), mask), "middle")
        return x + self.feed_out(relu(self.feed_in(self.feed_norm(x))))

    def of_graphs(self, x: Float[Array, "n M D"], near: Near) -> Float[Array, "n M D"]:
        """Apply the layer with the kernels, to graphs of sizes that fit them."""
        x = checkpoint_name(x + self.attention.among_near(self.attention_norm(x), near), "middle")
        hidden = relu(product(self.feed_norm(x), self.feed_in.weight))
        return x + product(hidden, self.feed_out.weight)


def stacked(key: Key, layers: int, make: Callable[[Key], EncoderLayer]) -> EncoderLayer:
    """Layers of one shape, stacked along a leading axis: a program that loops over them compiles quickly."""
    return eqx.filter_vmap(make)(jax.random.split(key, layers))


def through(
    layers: EncoderLayer, apply: Callable[[Array, EncoderLayer], Array], x: Array, in_a_row: bool = False
) -> Array:
    """Apply all layers. Their products are kept for the gradient; it is faster to compute everything else again.

    A loop over the layers compiles quickly, but copies all that is kept; unrolled layers do not.
    """
    kept = jax.checkpoint_policies.save_only_these_names("packed", "found", "log", "middle", "hidden")
    layer = jax.checkpoint(lambda x, layer: (apply(x, layer), None), policy=kept, prevent_cse=False)
    if not in_a_row:
        return jax.lax.scan(layer, x, layers)[0]
    for number in range(len(layers.feed_in.weight)):
        x, _ = layer(x, jax.tree.map(lambda leaf: leaf[number], layers))  # noqa: B023
    return x
