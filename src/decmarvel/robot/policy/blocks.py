"""The blocks that actors and critics are made of. Encoders take one graph or many; the rest is written for one robot.

M: places. D: width. A: actions. C: tokens.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, UInt8

from decmarvel.core.errors import TrainingError
from decmarvel.core.types import Key
from decmarvel.robot.observation import Feature
from decmarvel.robot.policy.compute import PLAIN, Compute
from decmarvel.robot.policy.kernels import fits, near
from decmarvel.robot.policy.layers import Attention, EncoderLayer, LayerNorm, Linear, product, relu, stacked, through
from decmarvel.robot.policy.nodes import Nodes, Situation, attention_mask, candidate_sites, places, rows_at

HISTOGRAM_SCALE = 8.0
TOKEN_FEATURES = 5
PAPER_COLUMNS = tuple(range(len(Feature)))
"""All features of Eq. 5."""


@dataclass(frozen=True)
class GraphSizes:
    """The shape of a network that encodes a graph. The defaults are the paper's."""

    width: int = 128
    heads: int = 4
    layers: int = 6
    feed: int = 512
    channels: int = 8
    """Number of channels of the convolution over the angles of a frontier histogram."""
    bins: int = 36
    window: int = 13
    """Width in bins of that convolution, and of a camera's view in the action embedding."""
    heading_width: int = 32

    def __post_init__(self) -> None:
        if self.width % self.heads or self.window % 2 == 0:
            raise TrainingError("network: heads must divide the width, and the window must be odd")
        if self.width < self.heads**2:
            raise TrainingError("network: a head must be as wide as there are heads, to have room for their gates")


@dataclass(frozen=True)
class TokenSizes(GraphSizes):
    """The shape of a network that also encodes sightings."""

    token_width: int = 64
    token_layers: int = 2
    token_feed: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token_width % self.heads or self.token_width % 2:
            raise TrainingError("network: heads must divide token_width, which must be even")


class FrontierEncoder(eqx.Module):
    """One circular convolution over the angles of a histogram, then a linear map."""

    kernel: Float32[Array, "channels window"]
    bias: Float32[Array, "channels"]
    output: Linear

    def __init__(self, key: Key, sizes: GraphSizes):
        key_kernel, key_output = jax.random.split(key)
        first = Linear(key_kernel, sizes.window, sizes.channels)
        assert first.bias is not None
        self.kernel, self.bias = first.weight, first.bias
        self.output = Linear(key_output, sizes.channels * sizes.bins, sizes.width)

    def __call__(self, histogram: UInt8[Array, "*n M B"], dtype: str) -> Float[Array, "*n M D"]:
        """The convolution is one product with a circulant matrix: far faster than thousands of tiny convolutions."""
        bins, (channels, window) = histogram.shape[-1], self.kernel.shape
        angle = np.arange(bins)
        index = (angle[None, :] - angle[:, None] + window // 2) % bins  # [angle out, angle in] -> tap
        padded = jnp.pad(self.kernel, ((0, 0), (0, bins - window)))
        matrix = padded[:, index].reshape(channels * bins, bins)
        bias = jnp.repeat(self.bias, bins).astype(dtype)
        y = product(histogram.astype(dtype) / HISTOGRAM_SCALE, matrix)
        return self.output.of_many(relu(y + jnp.broadcast_to(bias, y.shape)))


class GraphEncoder(eqx.Module):
    """An embedding for each node."""

    embed: Linear
    layers: EncoderLayer
    """All layers, stacked along a leading axis."""
    norm: LayerNorm
    frontier: FrontierEncoder
    join: Linear
    columns: tuple[int, ...] = eqx.field(static=True)
    """Columns of the nodes' features that are read."""

    def __init__(self, key: Key, sizes: GraphSizes, columns: tuple[int, ...] = PAPER_COLUMNS, gated: bool = True):
        key_embed, key_layers, key_frontier, key_join = jax.random.split(key, 4)
        self.columns = columns
        self.embed = Linear(key_embed, len(columns), sizes.width)
        self.layers = stacked(
            key_layers, sizes.layers, lambda key: EncoderLayer(key, sizes.width, sizes.heads, sizes.feed, gated)
        )
        self.norm = LayerNorm(sizes.width)
        self.frontier = FrontierEncoder(key_frontier, sizes)
        self.join = Linear(key_join, 2 * sizes.width, sizes.width)

    def __call__(self, nodes: Nodes, compute: Compute = PLAIN) -> Float[Array, "*n M D"]:
        """Gated graph attention (Eq. 10) joined with the frontiers' directions; zero at places without a node.

        It takes one graph or many. A whole batch is faster than `vmap`, which computes weight gradients by graph.
        """
        lead, (size, _) = nodes.mask.shape[:-1], nodes.site.shape[-2:]
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[len(lead) :]), nodes)
        held = flat.mask[..., None]
        features = jnp.take(flat.features, jnp.asarray(self.columns), axis=-1)
        x = self.embed.of_many(jnp.where(held, features, 0.0).astype(compute.dtype))
        mask, one = jax.vmap(attention_mask)(flat), self.layers.attention
        if compute.kernel == "pallas" and fits(size, x.shape[-1], one.heads):
            whom = jax.vmap(near)(mask)
            x = through(self.layers, lambda x, layer: layer.of_graphs(x, whom), x, compute.in_a_row)
        else:
            x = through(self.layers, lambda x, layer: layer(x, mask), x, compute.in_a_row)
        z = self.join.of_many(jnp.concatenate([self.norm(x), self.frontier(flat.histogram, compute.dtype)], axis=-1))
        return jnp.where(held, z, jnp.zeros((), z.dtype)).reshape(*lead, size, -1)


def positions(length: int, width: int) -> Float32[np.ndarray, "L D"]:
    """Sinusoidal encoding of a token's age."""
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2)[None, :] / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, width).astype(np.float32)


class TokenEncoder(eqx.Module):
    """Attention among the sightings of each teammate."""

    embed: Linear
    layers: EncoderLayer
    norm: LayerNorm

    def __init__(self, key: Key, sizes: TokenSizes):
        key_embed, key_layers = jax.random.split(key)
        self.embed = Linear(key_embed, TOKEN_FEATURES, sizes.token_width)
        self.layers = stacked(
            key_layers,
            sizes.token_layers,
            lambda key: EncoderLayer(key, sizes.token_width, sizes.heads, sizes.token_feed, gated=False),
        )
        self.norm = LayerNorm(sizes.token_width)

    def __call__(
        self, tokens: Float32[Array, "N L 5"], seen: Bool[Array, "N L"], compute: Compute = PLAIN
    ) -> Float[Array, "N L D"]:
        """The tokens of Eq. 9, encoded; zero where nothing was seen."""
        x = self.embed(jnp.where(seen[..., None], tokens, 0.0).astype(compute.dtype))
        x = x + jnp.broadcast_to(jnp.asarray(positions(x.shape[1], x.shape[2]), compute.dtype), x.shape)
        mask = seen[:, :, None] & seen[:, None, :]
        x = through(self.layers, lambda x, layer: layer(x, mask), x)
        return jnp.where(seen[..., None], self.norm(x), jnp.zeros((), x.dtype))


class Fusion(eqx.Module):
    """Joins a token with the node where the teammate was seen."""

    token: Linear
    node: Linear
    join: Linear

    def __init__(self, key: Key, sizes: TokenSizes):
        key_token, key_node, key_join = jax.random.split(key, 3)
        self.token = Linear(key_token, sizes.token_width, sizes.token_width)
        self.node = Linear(key_node, sizes.width, sizes.token_width)
        self.join = Linear(key_join, 2 * sizes.token_width, sizes.width)

    def __call__(self, tau: Float[Array, "*n T"], z: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """Eq. 11: a token joined with the embedding of its node."""
        return self.join(jnp.concatenate([self.token(tau), self.node(z)], axis=-1))


class CrossAttention(eqx.Module):
    """Actions attend to the tokens; it adds zero if no teammate was seen."""

    norm: LayerNorm
    attention: Attention

    def __init__(self, key: Key, sizes: GraphSizes):
        self.norm = LayerNorm(sizes.width)
        self.attention = Attention(key, sizes.width, sizes.heads, gated=False)

    def __call__(
        self, rho: Float[Array, "A D"], tokens: Float[Array, "C D"], seen: Bool[Array, "C"]
    ) -> Float[Array, "A D"]:
        mask = jnp.broadcast_to(seen[None], (rho.shape[0], seen.shape[0]))
        return rho + self.attention(self.norm(rho), tokens, mask)


class ActionEncoder(eqx.Module):
    """An embedding for each waypoint and heading."""

    sensed: Linear
    heading: Linear
    join: Linear
    window: int = eqx.field(static=True)

    def __init__(self, key: Key, sizes: GraphSizes):
        key_sensed, key_heading, key_join = jax.random.split(key, 3)
        self.sensed = Linear(key_sensed, sizes.bins, sizes.heading_width)
        self.heading = Linear(key_heading, sizes.bins, sizes.heading_width)
        self.join = Linear(key_join, sizes.width + 2 * sizes.heading_width, sizes.width)
        self.window = sizes.window

    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "K H D"]:
        """Join the node's embedding, the headings sensed there before, and the bins that the camera would see."""
        place = places(nodes, candidate_sites(situation.site))
        per_slot = [rows_at(z, place), self.sensed(situation.sensed.astype(z.dtype))]
        heading = self.heading(view_window(situation.heading_bin, situation.sensed.shape[-1], self.window, z.dtype))
        repeated = [jnp.repeat(part[:, None], heading.shape[1], axis=1) for part in per_slot]
        return self.join(jnp.concatenate([*repeated, heading], axis=-1))


def view_window(heading_bin: Int32[Array, "*n"], bins: int, window: int, dtype: jnp.dtype) -> Float[Array, "*n B"]:
    """Ones in the bins that a camera with this heading sees."""
    index = jnp.arange(bins, dtype=jnp.int32)
    away = jnp.broadcast_to(index, (*heading_bin.shape, bins)) - heading_bin[..., None]
    return (jnp.abs((away + bins // 2) % bins - bins // 2) <= window // 2).astype(dtype)
