"""From arrays over the lattice to what a network reads: the robot's nodes in a bucket of M places, and the rest.

M: places. F: features of a node. A network reads only these two types, so the memory of training keeps only them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int32, Shaped, UInt8, UInt32

from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, SLOTS, slot_of
from decmarvel.core.types import Own, Site
from decmarvel.robot.observation import POSITION_SCALE_M, Feature, Observation, Ways


class Nodes(eqx.Module):
    """The nodes of one graph by row-major site, then padding: no site, no features, no edges."""

    site: Int32[Array, "*batch M 2"]
    mask: Bool[Array, "*batch M"]
    features: Float32[Array, "*batch M F"]
    """The columns of `Feature`, then any more features that a network reads."""
    histogram: UInt8[Array, "*batch M B"]
    edges: UInt32[Array, "*batch M"]
    """Bit k: there is an edge to the site in slot k."""
    ways: Ways | None = None
    """Ways of a robot that weighs options; None for other robots and for privileged nodes."""

    @property
    def known_ways(self) -> Ways:
        """The ways of a robot that weighs options."""
        assert self.ways is not None
        return self.ways

    @property
    def at_m(self) -> Float32[Array, "*batch M 2"]:
        """Positions of the nodes relative to the robot, (x, y) in metres."""
        return POSITION_SCALE_M * self.features[..., Feature.DX : Feature.DY + 1]


class Options(eqx.Module):
    """The goals that a frontier planner offers to a robot, from the cheapest to the most expensive."""

    action: Int32[Array, "*options"]
    """The first action on the way to each goal; NO_OPTION where there are fewer goals."""
    site: Int32[Array, "*options 2"]
    """The goal: a node from which to look at a frontier."""
    cost_m: Float32[Array, "*options"]
    shown_cells: Int32[Array, "*options"]
    """Number of unknown cells that the camera would see with the action, as the robot estimates."""


class Situation(Own):
    """An observation without its lattice: the robot's own place, budget and actions, and what it saw of others."""

    budget: Float32[Array, "*batch 4"]
    heading_bin: Int32[Array, "*batch K H"]
    action_mask: Bool[Array, "*batch K H"]
    sensed: Bool[Array, "*batch K B"]
    """The headings in which the robot has looked from each candidate."""
    tokens: Float32[Array, "*batch N L 5"]
    token_mask: Bool[Array, "*batch N L"]
    token_site: Int32[Array, "*batch N L 2"]
    options: Options | None = None
    """Options of a robot that weighs them; None for other robots."""

    @property
    def known_options(self) -> Options:
        """The options of a robot that weighs them."""
        assert self.options is not None
        return self.options


def situation_of(observation: Observation) -> Situation:
    """The part of an observation beside the nodes."""
    there = candidate_sites(observation.site)
    inside = ((there >= 0) & (there < observation.sensed.shape[0])).all(axis=-1)
    sensed = observation.sensed.at[there[:, 0], there[:, 1]].get(mode="fill", fill_value=False)
    return Situation(
        **observation.own,
        budget=observation.budget,
        heading_bin=observation.heading_bin,
        action_mask=observation.action_mask,
        sensed=sensed & inside[:, None],
        tokens=observation.tokens,
        token_mask=observation.token_mask,
        token_site=observation.token_site,
    )


def bucket_for(sites: int) -> int:
    """Number of places for the nodes of a lattice with `sites` sites a side; most of its sites are walls."""
    return min(sites * sites, 384 if sites <= 24 else 512)


def compact(observation: Observation, bucket: int, ways: Ways | None = None) -> Nodes:
    """The robot's own nodes in a bucket; only those nearest to it if there are too many."""
    mask = nearest(observation.node_mask, observation.site, bucket)
    flat, site = row_major(mask, bucket)
    columns = [at_sites(observation.node_features[..., column], flat) for column in range(len(Feature))]
    return Nodes(
        site=site,
        mask=site[:, 0] >= 0,
        features=jnp.stack(columns, axis=-1),
        histogram=at_sites(observation.histogram.astype(jnp.uint8), flat),
        edges=at_sites(edge_bits(observation.edge), flat),
        ways=jax.tree.map(lambda values: at_sites(values, flat), ways),
    )


def row_major(mask: Bool[Array, "I J"], bucket: int) -> tuple[Int32[Array, "M"], Int32[Array, "M 2"]]:
    """The masked sites in row-major order: flat index and site. Padding: an index beyond the last site, and -1."""
    sites = mask.shape[0]
    index = jnp.arange(sites * sites, dtype=jnp.int32)
    place = jnp.where(mask.reshape(-1), jnp.cumsum(mask, dtype=jnp.int32) - 1, bucket)
    flat = jnp.full(bucket, sites * sites, jnp.int32).at[place].set(index, mode="drop")
    site = jnp.stack([flat // sites, flat % sites], axis=-1)
    return flat, jnp.where((flat < sites * sites)[:, None], site, -1)


def at_sites(values: Shaped[Array, "I J *n"], flat: Int32[Array, "M"]) -> Shaped[Array, "M *n"]:
    """Values over the lattice at some sites, zero for padding."""
    rows = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
    return rows.at[flat].get(mode="fill", fill_value=0)


def on_lattice(nodes: Nodes, values: Float[Array, "M"], sites: int) -> Float[Array, "I J"]:
    """Values of places at their sites, zero elsewhere."""
    beyond = jnp.where(nodes.mask[:, None], nodes.site, sites)
    return jnp.zeros((sites, sites), values.dtype).at[beyond[:, 0], beyond[:, 1]].set(values, mode="drop")


def edge_bits(edge: Bool[Array, "K I J"]) -> UInt32[Array, "I J"]:
    slots = jnp.arange(SLOTS, dtype=jnp.uint32)
    return (edge.astype(jnp.uint32) << slots[:, None, None]).sum(axis=0, dtype=jnp.uint32)


def shrink(nodes: Nodes, bucket: int) -> Nodes:
    """The same nodes in fewer places, which must be enough for them."""
    return jax.tree.map(
        lambda leaf: leaf[..., :bucket, :] if leaf.ndim > nodes.mask.ndim else leaf[..., :bucket], nodes
    )


def nearest(mask: Bool[Array, "I J"], here: Site, most: int) -> Bool[Array, "I J"]:
    """At most `most` masked sites: whole rings around `here` while they fit, then part of the next, row by row."""
    sites = mask.shape[0]
    if sites * sites <= most:
        return mask
    index = jnp.arange(sites, dtype=jnp.int32)
    ring = jnp.maximum(jnp.abs(index - here[0])[:, None], jnp.abs(index - here[1])[None, :])
    within = jnp.cumsum(jnp.zeros(sites, jnp.int32).at[ring].add(mask.astype(jnp.int32)))
    last = (within <= most).sum(dtype=jnp.int32)
    whole, part = mask & (ring < last), mask & (ring == last)
    rank = jnp.cumsum(part.reshape(-1), dtype=jnp.int32).reshape(mask.shape)
    return whole | (part & (rank <= most - whole.sum(dtype=jnp.int32)))


def attention_mask(nodes: Nodes) -> Bool[Array, "M M"]:
    """Which node may attend to which: itself, and the nodes at the other ends of its edges."""
    offset = nodes.site[None, :] - nodes.site[:, None]
    near = (jnp.abs(offset) <= 2).all(axis=-1)
    slot = jnp.where(near, slot_of(offset), SELF_SLOT)
    linked = (nodes.edges[:, None] >> slot.astype(jnp.uint32)) & 1 == 1
    itself = jnp.eye(len(nodes.mask), dtype=bool)
    return ((near & linked) | itself) & nodes.mask[:, None] & nodes.mask[None, :]


def places(nodes: Nodes, site: Int32[Array, "*n 2"]) -> Int32[Array, "*n"]:
    """The place of each site; -1 where it has none."""
    wanted = site.reshape(-1, 1, 2)
    same = (wanted == nodes.site[None]).all(axis=-1) & nodes.mask[None]
    place = jnp.where(same.any(axis=-1), jnp.argmax(same, axis=-1), -1)
    return place.astype(jnp.int32).reshape(site.shape[:-1])


def candidate_sites(here: Site) -> Int32[Array, "K 2"]:
    """The sites of the 25 slots, on the lattice or not."""
    return here[None] + jnp.asarray(SLOT_OFFSETS)


def rows_at(values: Float[Array, "M D"], place: Int32[Array, "*n"]) -> Float[Array, "*n D"]:
    """The rows of some places, zero for -1. A product, because the gradient of a gather is slow on a GPU."""
    chosen = jax.nn.one_hot(place, values.shape[0], dtype=values.dtype)
    return jnp.matmul(chosen, values, precision=jax.lax.Precision.HIGHEST)
