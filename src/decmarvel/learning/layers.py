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

from decmarvel.learning.kernels import LayerWeights, Near, finish_layer, normalise
from decmarvel.types import Key


class Linear(eqx.Module):
    """W x + b over the last axis."""

    weight: Float32[Array, "out into"]
    bias: Float32[Array, "out"] | None

    def __init__(self, key: Key, into: int, out: int, bias: bool = True):
        key_weight, key_bias = jax.random.split(key)
        limit = into**-0.5
        self.weight = jax.random.uniform(key_weight, (out, into), jnp.float32, -limit, limit)
        self.bias = jax.random.uniform(key_bias, (out,), jnp.float32, -limit, limit) if bias else None

    def __call__(self, x: Float[Array, "*n into"]) -> Float[Array, "*n out"]:
        y = x @ self.weight.T.astype(x.dtype)
        return y if self.bias is None else y + jnp.broadcast_to(self.bias.astype(x.dtype), y.shape)


class LayerNorm(eqx.Module):
    """Over the last axis."""

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
        """W_O of the heads."""
        query, key, value = (self.by_head(part) for part in (self.query(x), self.key(source), self.value(source)))
        return self.output(attend(query, key, value, mask).reshape(x.shape))

    def pack(self, x: Float[Array, "*n M D"]) -> Float[Array, "*n M C"]:
        """Queries, keys and values of all heads in one product, and behind them the gates, if there are any.

        They take the place of one more head; q_v . w_m of Eq. 10 is x_v . (w_m W_Q).
        """
        weights = [self.query.weight, self.key.weight, self.value.weight]
        if self.gate is not None:
            room = x.shape[-1] // self.heads - self.heads
            weights.append(jnp.pad(self.gate @ self.query.weight, ((0, room), (0, 0))))
        return checkpoint_name(x @ jnp.concatenate(weights).T.astype(x.dtype), "packed")

    def among(self, x: Float[Array, "*n M D"], mask: Bool[Array, "*n M M"]) -> Float[Array, "*n M D"]:
        """Attention of the rows to each other; sigma(q_v . w_m) of Eq. 10 multiplies head m if there are gates."""
        width, packed = x.shape[-1], self.pack(x)
        query, key, value = (self.by_head(packed[..., i * width : (i + 1) * width]) for i in range(3))
        found = attend(query, key, value, mask)
        if self.gate is not None:
            found = found * jax.nn.sigmoid(packed[..., 3 * width : 3 * width + self.heads])[..., None]
        return self.output(found.reshape(x.shape))

    def by_head(self, y: Float[Array, "*n M D"]) -> Float[Array, "*n M heads W"]:
        return y.reshape(*y.shape[:-1], self.heads, -1)


@jax.custom_vjp
def relu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """max(x, 0), whose gradient asks the result, so that x need not be kept."""
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
        """Eq. 10."""
        x = checkpoint_name(x + self.attention.among(self.attention_norm(x), mask), "middle")
        return x + self.feed_out(relu(self.feed_in(self.feed_norm(x))))

    def in_kernel(self, x: Float[Array, "n M D"], near: Near) -> Float[Array, "n M D"]:
        """The same of graphs whose sizes fit the kernel."""
        norm = self.feed_norm
        weights = LayerWeights(
            self.attention.output.weight, norm.scale, norm.offset, self.feed_in.weight, self.feed_out.weight
        )
        packed = self.attention.pack(self.attention_norm(x))
        return finish_layer(packed, x, near, weights, self.attention.heads)


def stacked(key: Key, layers: int, make: Callable[[Key], EncoderLayer]) -> EncoderLayer:
    """Layers of one shape as one, with an axis for their number: a program that loops over them compiles in no time."""
    return eqx.filter_vmap(make)(jax.random.split(key, layers))


def through(layers: EncoderLayer, apply: Callable[[Array, EncoderLayer], Array], x: Array) -> Array:
    """What comes out of all layers. Their products are kept for the gradient; all else is quicker computed again."""
    kept = jax.checkpoint_policies.save_only_these_names("packed", "looked", "log", "middle", "hidden")
    layer = jax.checkpoint(lambda x, layer: (apply(x, layer), None), policy=kept, prevent_cse=False)
    return jax.lax.scan(layer, x, layers)[0]
