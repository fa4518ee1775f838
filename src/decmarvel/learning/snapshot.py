"""What the memory keeps of one robot's state, in few bytes, and the networks' inputs made of it again.

About 20 kB a state with 384 places, nearly all of it the 36 directions of each node's frontiers.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int16, Int32, UInt8, UInt16, UInt32

from decmarvel.config import Config
from decmarvel.geometry import SLOTS
from decmarvel.learning.nodes import Nodes, Situation, candidate_sites, compact, nearest, situation
from decmarvel.learning.privileged_nodes import TrueGraph, offsets, privileged_nodes
from decmarvel.observation import MANY_VISITS, TRAJECTORY_SCALE_M, UTILITY_SCALE, Observation
from decmarvel.privileged import PrivilegedView
from decmarvel.types import Site

NOWHERE = 255
"""A coordinate that no site has."""
FARTHEST = 2.0
"""The distance home of Eq. 5 ends here; it is kept in 65,535 steps."""


class Snapshot(eqx.Module):
    """One robot's state. The distance home is kept to 2e-5 (2 mm), everything else exactly.

    Left out is what no network reads: headings sensed at nodes that are no candidates, and nodes without a place.
    """

    site: UInt8[Array, "*batch M 2"]
    """NOWHERE where a place holds no node."""
    edges: UInt32[Array, "*batch M"]
    columns: UInt8[Array, "*batch M 6"]
    """Utility, guidepost, occupancy, best heading, trail and visits, as the small integers that they come from."""
    home: UInt16[Array, "*batch M"]
    histogram: UInt8[Array, "*batch M B"]
    sensed: UInt8[Array, "*batch K bytes"]
    """Bits: the headings that were sensed at the candidates."""
    here: UInt8[Array, "*batch 2"]
    budget: Float32[Array, "*batch 4"]
    heading_bin: UInt8[Array, "*batch K H"]
    action_mask: UInt32[Array, "*batch"]
    """Bits: the slots that the guard admits."""
    seen: Bool[Array, "*batch N L"]
    seen_cell: Int16[Array, "*batch N L 2"]
    """From the robot, in cells."""
    seen_heading: Int16[Array, "*batch N L"]
    seen_site: UInt8[Array, "*batch N L 2"]
    number: UInt8[Array, "*batch"]
    team_size: UInt8[Array, "*batch"]
    shares: UInt8[Array, "*batch M 3"]
    """Of Eq. 15, at the privileged nodes."""
    robots: UInt8[Array, "*batch N 2"]
    active: Bool[Array, "*batch N"]
    post: Bool[Array, "*batch"]
    map: Int32[Array, "*batch"]
    """Whose true graph the critic reads."""


class Inputs(eqx.Module):
    """What actor and critics read."""

    nodes: Nodes
    situation: Situation
    critic_nodes: Nodes


def inputs(
    config: Config, truth: TrueGraph, observation: Observation, privileged: PrivilegedView, bucket: int
) -> Inputs:
    return Inputs(
        nodes=compact(observation, bucket),
        situation=situation(observation),
        critic_nodes=privileged_nodes(config, truth, observation, privileged, bucket),
    )


def column_units(config: Config) -> tuple[Float32[np.ndarray, "6"], Float32[np.ndarray, "6"]]:
    """Steps to the unit, and the least value, of the columns that are kept as small integers."""
    steps = [UTILITY_SCALE, 1, 1, config.heading_bins, config.history, MANY_VISITS]
    return np.array(steps, np.float32), np.array([0, 0, -1, -1, 0, 0], np.float32)


def share_steps(config: Config) -> float:
    """A share is a number of cells of a tile."""
    return float(min(config.stride**2, 255))


def small(values: Array, most: int = 255) -> Array:
    """To the nearest integer of few bits."""
    return jnp.clip(jnp.round(values), 0, most)


def privileged_index(truth: TrueGraph, here: Site, bucket: int) -> Int32[Array, "M"]:
    """The flat site of each of the critic's places; beyond the last site for padding."""
    held = nearest(truth.linked, here, bucket).reshape(-1)
    return jnp.nonzero(held, size=bucket, fill_value=len(held))[0].astype(jnp.int32)


def encode(
    config: Config,
    truth: TrueGraph,
    map_index: Int32[Array, ""],
    observation: Observation,
    privileged: PrivilegedView,
    bucket: int,
) -> Snapshot:
    """What a state is kept as."""
    sites = truth.linked.shape[0]
    if sites >= NOWHERE:
        raise ValueError(f"{sites} sites a side are too many to remember; train on maps of less than {NOWHERE}")
    nodes = compact(observation, bucket)
    steps, least = column_units(config)
    columns = (jnp.take(nodes.features, jnp.array([2, 3, 4, 5, 6, 8]), axis=1) - least[None]) * steps[None]
    there = candidate_sites(observation.site)
    sensed = observation.sensed.at[there[:, 0], there[:, 1]].get(mode="fill", fill_value=False)
    angle = jnp.arctan2(observation.tokens[..., 2], observation.tokens[..., 3]) * (180 / np.pi)
    flat_shares = privileged.fractions.reshape(sites * sites, 3)
    shares = flat_shares.at[privileged_index(truth, observation.site, bucket)].get(mode="fill", fill_value=0)
    slots = jnp.arange(SLOTS, dtype=jnp.uint32)
    return Snapshot(
        site=jnp.where(nodes.mask[:, None], nodes.site, NOWHERE).astype(jnp.uint8),
        edges=nodes.edges,
        columns=small(columns).astype(jnp.uint8),
        home=small(nodes.features[:, 7] * (65535 / FARTHEST), 65535).astype(jnp.uint16),
        histogram=nodes.histogram,
        sensed=jnp.packbits(sensed & on_lattice(there, sites)[:, None], axis=-1),
        here=observation.site.astype(jnp.uint8),
        budget=observation.budget,
        heading_bin=observation.heading_bin.astype(jnp.uint8),
        action_mask=(observation.action_mask[:, 0].astype(jnp.uint32) << slots).sum(dtype=jnp.uint32),
        seen=observation.token_mask,
        seen_cell=jnp.round(observation.tokens[..., 1::-1] * (TRAJECTORY_SCALE_M / config.cell_m)).astype(jnp.int16),
        seen_heading=jnp.round(angle).astype(jnp.int16),
        seen_site=jnp.where(observation.token_site < 0, NOWHERE, observation.token_site).astype(jnp.uint8),
        number=observation.number.astype(jnp.uint8),
        team_size=observation.team_size.astype(jnp.uint8),
        shares=small(shares * share_steps(config)).astype(jnp.uint8),
        robots=privileged.sites.astype(jnp.uint8),
        active=privileged.active,
        post=privileged.post_success,
        map=map_index,
    )


def on_lattice(site: Int32[Array, "n 2"], sites: int) -> Bool[Array, "n"]:
    return ((site >= 0) & (site < sites)).all(axis=-1)


def decode(config: Config, truth: TrueGraph, snapshot: Snapshot) -> tuple[Observation, PrivilegedView]:
    """The state that a snapshot was made of. `truth` is the graph of its map."""
    sites, bucket = truth.linked.shape[0], snapshot.edges.shape[0]
    held = snapshot.site[:, 0] != NOWHERE
    site = snapshot.site.astype(jnp.int32)
    flat = jnp.where(held, site[:, 0] * sites + site[:, 1], sites * sites)

    def spread(values: Array, flat: Array = flat) -> Array:
        """Values of places, over the lattice."""
        whole = jnp.zeros((sites * sites, *values.shape[1:]), values.dtype).at[flat].set(values, mode="drop")
        return whole.reshape(sites, sites, *values.shape[1:])

    steps, least = column_units(config)
    utility, guidepost, occupancy, heading, trail, visits = jnp.moveaxis(
        snapshot.columns.astype(jnp.float32) / steps[None] + least[None], -1, 0
    )
    home = snapshot.home.astype(jnp.float32) * (FARTHEST / 65535)
    ours = spread(jnp.stack([utility, guidepost, occupancy, heading, trail, home, visits], axis=-1))
    here, mask = snapshot.here.astype(jnp.int32), spread(held)
    apart = jnp.where(mask[..., None], offsets(config, here, jnp.arange(sites, dtype=jnp.int32)), 0.0)
    slots = jnp.arange(SLOTS, dtype=jnp.uint32)
    there = candidate_sites(here)
    candidate = jnp.where(on_lattice(there, sites), there[:, 0] * sites + there[:, 1], sites * sites)
    bins = snapshot.histogram.shape[-1]
    sensed = spread(jnp.unpackbits(snapshot.sensed, axis=-1, count=bins), candidate) == 1
    allowed = (snapshot.action_mask >> slots) & 1 == 1
    observation = Observation(
        node_features=jnp.concatenate([apart, ours], axis=-1),
        node_mask=mask,
        edge=jnp.moveaxis((spread(snapshot.edges)[..., None] >> slots[None, None]) & 1 == 1, -1, 0),
        histogram=spread(snapshot.histogram).astype(jnp.float32),
        sensed=sensed,
        budget=snapshot.budget,
        tokens=tokens(config, snapshot),
        token_mask=snapshot.seen,
        token_site=jnp.where(snapshot.seen_site == NOWHERE, -1, snapshot.seen_site.astype(jnp.int32)),
        site=here,
        heading_bin=snapshot.heading_bin.astype(jnp.int32),
        action_mask=jnp.broadcast_to(allowed[:, None], snapshot.heading_bin.shape),
        number=snapshot.number.astype(jnp.int32),
        team_size=snapshot.team_size.astype(jnp.int32),
    )
    shares = snapshot.shares.astype(jnp.float32) / share_steps(config)
    privileged = PrivilegedView(
        fractions=spread(shares, privileged_index(truth, here, bucket)),
        sites=snapshot.robots.astype(jnp.int32),
        active=snapshot.active,
        post_success=snapshot.post,
    )
    return observation, privileged


def tokens(config: Config, snapshot: Snapshot) -> Float32[Array, "N L 5"]:
    """The trajectory tokens from what is kept of them."""
    offset = snapshot.seen_cell.astype(jnp.float32) * (config.cell_m / TRAJECTORY_SCALE_M)
    angle = snapshot.seen_heading.astype(jnp.float32) * (np.pi / 180)
    age = jnp.broadcast_to(jnp.arange(config.history, dtype=jnp.float32) / config.history, angle.shape)
    token = jnp.stack([offset[..., 1], offset[..., 0], jnp.sin(angle), jnp.cos(angle), age], axis=-1)
    return jnp.where(snapshot.seen[..., None], token, 0.0)


def decode_inputs(config: Config, truths: TrueGraph, snapshots: Snapshot) -> Inputs:
    """What actor and critics read of some snapshots. `truths` holds the graphs of all maps."""

    def one(snapshot: Snapshot) -> Inputs:
        truth = jax.tree.map(lambda leaf: leaf[snapshot.map], truths)
        return inputs(config, truth, *decode(config, truth, snapshot), snapshot.edges.shape[0])

    return jax.vmap(one)(snapshots)
