"""The blocks that actor and critics are made of. Encoders take one graph or many; the rest is written for one robot.

M: places. D: width. A: actions. C: tokens.
"""

from dataclasses import dataclass, replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, UInt8

from decmarvel.core.errors import TrainingError
from decmarvel.core.types import Key
from decmarvel.robot.observation import NOTHING_CM
from decmarvel.robot.policy.kernels import fits, near
from decmarvel.robot.policy.layers import Attention, EncoderLayer, LayerNorm, Linear, product, relu, stacked, through
from decmarvel.robot.policy.nodes import (
    NODE_FEATURES,
    Nodes,
    Situation,
    attention_mask,
    candidate_sites,
    places,
    rows_at,
)

HISTOGRAM_SCALE = 8.0
TOKEN_FEATURES = 5
BUDGET_FEATURES = 4
IDENTITY_FEATURES = 2
"""Of a node, with the extension `identity`."""


@dataclass(frozen=True)
class NetworkConfig:
    """The shape of actor and critics. The defaults are the paper's."""

    width: int = 128
    heads: int = 4
    layers: int = 6
    feed: int = 512
    channels: int = 8
    """Of the convolution over the angles of a frontier histogram."""
    bins: int = 36
    window: int = 13
    """Width in bins of that convolution, and of a camera's view in the action embedding."""
    token_width: int = 64
    token_layers: int = 2
    token_feed: int = 256
    heading_width: int = 32
    identity: bool = False
    """An extension: the robot also reads its own number, the size of its team, and which nodes lie its way."""
    advice: bool = False
    """An extension: the actor is told what a frontier planner would consider, weighs it, and reads no graph."""
    features: int = NODE_FEATURES
    """So many of a node's features are read, the first ones of Eq. 5. This and the next five: for the predecessor."""
    gated: bool = True
    budget: bool = True
    """Whether the robot knows its budget."""
    trajectories: bool = True
    """Whether it knows where it saw its teammates before."""
    clip: float = 0.0
    """Logits are this times a hyperbolic tangent; 0: they are what they are."""
    decoder: bool = False
    """Whether the robot's own node looks at all others before it points."""

    def __post_init__(self) -> None:
        if self.width % self.heads or self.token_width % self.heads or self.token_width % 2 or self.window % 2 == 0:
            raise TrainingError("network: heads must divide the widths, token_width must be even and window odd")
        if self.gated and self.width < self.heads**2:
            raise TrainingError("network: a head must be as wide as there are heads, to have room for their gates")


@dataclass(frozen=True)
class Compute:
    """How to compute: no part of a network, and no part of its weights."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    kernel: Literal["xla", "pallas"] = "xla"
    """Of graph attention. Ours in Pallas is for NVIDIA GPUs and buckets that are multiples of 64."""
    in_a_row: bool = False
    """Gradients through layers written out one after the other: quicker, but longer to compile than a loop."""
    actor_buckets: tuple[int, ...] = ()
    """Places that a group of graphs may be cut to, if they are enough for the largest of the group."""
    critic_buckets: tuple[int, ...] = ()
    group: int = 256
    """Graphs of a batch that are computed together, in the order of their size."""
    critic_group: int = 256
    """The same for critics, whose graphs differ less: whole buildings."""
    axis: str | None = None
    """Of the devices that learn together, inside a program for all of them."""

    @property
    def without_gradient(self) -> "Compute":
        """For what needs none: nothing is kept on the way, so a loop is as quick."""
        return replace(self, in_a_row=False)


PLAIN = Compute()


class FrontierEncoder(eqx.Module):
    """One circular convolution over the angles of a histogram, then a linear map."""

    kernel: Float32[Array, "channels window"]
    bias: Float32[Array, "channels"]
    output: Linear

    def __init__(self, key: Key, config: NetworkConfig):
        key_kernel, key_output = jax.random.split(key)
        first = Linear(key_kernel, config.window, config.channels)
        assert first.bias is not None
        self.kernel, self.bias = first.weight, first.bias
        self.output = Linear(key_output, config.channels * config.bins, config.width)

    def __call__(self, histogram: UInt8[Array, "*n M B"], dtype: str) -> Float[Array, "*n M D"]:
        """The convolution is one product with a circulant matrix: far quicker than thousands of tiny convolutions."""
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
    """All of them, stacked."""
    norm: LayerNorm
    frontier: FrontierEncoder
    join: Linear
    columns: tuple[int, ...] = eqx.field(static=True)
    """Of the nodes' features, those that are read."""

    def __init__(self, key: Key, config: NetworkConfig, more_features: int = 0):
        key_embed, key_layers, key_frontier, key_join = jax.random.split(key, 4)
        self.columns = (*range(config.features), *range(NODE_FEATURES, NODE_FEATURES + more_features))
        self.embed = Linear(key_embed, len(self.columns), config.width)
        self.layers = stacked(
            key_layers,
            config.layers,
            lambda key: EncoderLayer(key, config.width, config.heads, config.feed, config.gated),
        )
        self.norm = LayerNorm(config.width)
        self.frontier = FrontierEncoder(key_frontier, config)
        self.join = Linear(key_join, 2 * config.width, config.width)

    def __call__(self, nodes: Nodes, compute: Compute = PLAIN) -> Float[Array, "*n M D"]:
        """Gated graph attention (Eq. 10) joined with the frontiers' directions; zero at places without a node.

        Of one graph or many: whole batches are quicker than `vmap`, whose gradients of weights are one a graph.
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

    def __init__(self, key: Key, config: NetworkConfig):
        key_embed, key_layers = jax.random.split(key)
        self.embed = Linear(key_embed, TOKEN_FEATURES, config.token_width)
        self.layers = stacked(
            key_layers,
            config.token_layers,
            lambda key: EncoderLayer(key, config.token_width, config.heads, config.token_feed, gated=False),
        )
        self.norm = LayerNorm(config.token_width)

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
    """A token and the node where the teammate was seen."""

    token: Linear
    node: Linear
    join: Linear

    def __init__(self, key: Key, config: NetworkConfig):
        key_token, key_node, key_join = jax.random.split(key, 3)
        self.token = Linear(key_token, config.token_width, config.token_width)
        self.node = Linear(key_node, config.width, config.token_width)
        self.join = Linear(key_join, 2 * config.token_width, config.width)

    def __call__(self, tau: Float[Array, "*n T"], z: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """Eq. 11."""
        return self.join(jnp.concatenate([self.token(tau), self.node(z)], axis=-1))


class CrossAttention(eqx.Module):
    """Actions look at the tokens; nobody seen adds zero."""

    norm: LayerNorm
    attention: Attention

    def __init__(self, key: Key, config: NetworkConfig):
        self.norm = LayerNorm(config.width)
        self.attention = Attention(key, config.width, config.heads, gated=False)

    def __call__(
        self, rho: Float[Array, "A D"], tokens: Float[Array, "C D"], seen: Bool[Array, "C"]
    ) -> Float[Array, "A D"]:
        mask = jnp.broadcast_to(seen[None], (rho.shape[0], seen.shape[0]))
        return rho + self.attention(self.norm(rho), tokens, mask)


class Context(eqx.Module):
    """Where the robot is and what it can still afford."""

    budget: Linear | None
    join: Linear
    decoder: CrossAttention | None
    identity: bool = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        key_budget, key_join, key_decoder = jax.random.split(key, 3)
        into = BUDGET_FEATURES * config.budget + 3 * config.identity
        self.budget = Linear(key_budget, into, config.width) if into else None
        self.join = Linear(key_join, (2 if into else 1) * config.width, config.width)
        self.decoder = CrossAttention(key_decoder, config) if config.decoder else None
        self.identity = config.identity

    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "D"]:
        here = rows_at(z, places(nodes, situation.site))
        if self.decoder is not None:
            here = self.decoder(here[None], z, nodes.mask)[0]
        if self.budget is None:
            return self.join(here)
        known = jnp.concatenate([situation.budget, identity(situation)]) if self.identity else situation.budget
        known = known[len(known) - self.budget.weight.shape[1] :]  # without the budget, the identity alone
        return self.join(jnp.concatenate([here, self.budget(known.astype(z.dtype))]))


def identity(situation: Situation) -> Float32[Array, "*n 3"]:
    """What a robot knows of itself before take-off: its number, as an angle, and the size of its team."""
    share = 1 / jnp.maximum(situation.team_size, 1).astype(jnp.float32)
    angle = 2 * np.pi * situation.number.astype(jnp.float32) * share
    return jnp.stack([jnp.cos(angle), jnp.sin(angle), share], axis=-1)


def with_bearings(nodes: Nodes, situation: Situation) -> Nodes:
    """Two more features: the bearing of a node from the base, relative to the robot's own angle, as a unit vector."""
    away = (nodes.site - situation.base[..., None, :]).astype(jnp.float32)
    length = jnp.maximum(jnp.sqrt((away**2).sum(axis=-1)), 1.0)
    own = identity(situation)[..., None, :]
    along = (away[..., 1] * own[..., 0] + away[..., 0] * own[..., 1]) / length
    across = (away[..., 0] * own[..., 0] - away[..., 1] * own[..., 1]) / length
    more = jnp.stack([along, across], axis=-1)
    return eqx.tree_at(lambda n: n.features, nodes, jnp.concatenate([nodes.features, more], axis=-1))


def is_open(nodes: Nodes) -> Bool[Array, "*n M"]:
    """Whether a node is a goal."""
    return nodes.mask & (nodes.ways.open_cm < NOTHING_CM)


class ActionEncoder(eqx.Module):
    """An embedding for each waypoint and heading."""

    sensed: Linear
    heading: Linear
    join: Linear
    window: int = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        key_sensed, key_heading, key_join = jax.random.split(key, 3)
        self.sensed = Linear(key_sensed, config.bins, config.heading_width)
        self.heading = Linear(key_heading, config.bins, config.heading_width)
        self.join = Linear(key_join, config.width + 2 * config.heading_width, config.width)
        self.window = config.window

    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "K H D"]:
        """The node, from where it was sensed already, and which headings the camera would see."""
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
