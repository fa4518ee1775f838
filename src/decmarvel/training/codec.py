"""The compact form in which the memory keeps one robot's state, and the networks' inputs decoded from it.

A state takes about 23 kB with 384 places, nearly all of it for the 36 directions of each node's frontiers.
"""

from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int8, Int16, Int32, UInt8, UInt16, UInt32

from decmarvel.core.config import Config
from decmarvel.core.lattice import SLOTS
from decmarvel.core.types import Own
from decmarvel.robot.observation import MANY_VISITS, TRAJECTORY_SCALE_M, UTILITY_SCALE, Feature, Ways
from decmarvel.robot.policy.nodes import Nodes, Options, Situation
from decmarvel.simulation.privileged import PrivilegedView
from decmarvel.training.privileged_nodes import TrueNodes, offsets, privileged_nodes, shares_at, unprivileged_nodes

NOWHERE = 255
"""A coordinate that no site has."""
FARTHEST = 2.0
"""Upper limit of the distance home of Eq. 5; it is kept in 65,535 steps."""


KEPT_AS_INTEGERS = (
    Feature.UTILITY,
    Feature.GUIDEPOST,
    Feature.OCCUPANCY,
    Feature.HEADING,
    Feature.TRAIL,
    Feature.VISITS,
)
"""The columns of a node's features that are small integers in some unit."""


class StoredOptions(eqx.Module):
    """What is kept of a robot that weighs options, and the labels of its staleness predictor."""

    action: Int8[Array, "*batch V"]
    site: UInt8[Array, "*batch V 2"]
    cost_m: Float32[Array, "*batch V"]
    shown_cells: UInt16[Array, "*batch V"]
    way_cm: UInt16[Array, "*batch M"]
    open_cm: UInt16[Array, "*batch M"]
    stale: Bool[Array, "*batch M"]
    """Whether teammates have explored behind each node's nearest frontier still to see."""


class Snapshot(Own):
    """One robot's state. The distance home is kept to 2e-5 (2 mm), everything else exactly.

    It leaves out what no network reads: headings sensed at nodes that are no candidates, and nodes without a place.
    """

    node_site: UInt8[Array, "*batch M 2"]
    """NOWHERE where a place holds no node."""
    node_cell: UInt8[Array, "*batch M 2"] | None
    """With roads, where the viewpoint of each node lies in its tile; else it is the middle."""
    cell: Int16[Array, "*batch 2"]
    """Where the robot stands."""
    edges: UInt32[Array, "*batch M"]
    columns: UInt8[Array, "*batch M 6"]
    """The columns of KEPT_AS_INTEGERS, as small integers."""
    home: UInt16[Array, "*batch M"]
    histogram: UInt8[Array, "*batch M B"]
    sensed: UInt8[Array, "*batch K bytes"]
    """Bits: the headings that were sensed at the candidates."""
    budget: Float32[Array, "*batch 4"]
    heading_bin: UInt8[Array, "*batch K H"]
    action_mask: UInt32[Array, "*batch"]
    """Bits: the slots that the guard admits."""
    seen: Bool[Array, "*batch N L"]
    seen_cell: Int16[Array, "*batch N L 2"]
    """Offset of each sighting from the robot, in cells."""
    seen_heading: Int16[Array, "*batch N L"]
    seen_site: UInt8[Array, "*batch N L 2"]
    options: StoredOptions | None
    shares: UInt8[Array, "*batch M 3"]
    """The shares of Eq. 15 at the privileged nodes."""
    robots: UInt8[Array, "*batch N 2"]
    active: Bool[Array, "*batch N"]
    post: Bool[Array, "*batch"]
    map: Int32[Array, "*batch"]
    """Index of the map; the critic reads its true graph."""
    log_probability: Float32[Array, "*batch"]
    """Log-probability of the action that was taken, by the policy of that time."""


Privilege: TypeAlias = Literal["own and team", "team", "none"]
"""What the critics read of the whole building: all of Eq. 15, only what the team has seen, or nothing."""


class Inputs(eqx.Module):
    """What actor and critics read."""

    nodes: Nodes
    situation: Situation
    critic_nodes: Nodes
    stale: Bool[Array, "*batch M"] | None
    log_probability: Float32[Array, "*batch"]


def column_units(config: Config) -> tuple[Float32[np.ndarray, "6"], Float32[np.ndarray, "6"]]:
    """Steps per unit, and the smallest value, of the columns that are kept as small integers."""
    steps = [UTILITY_SCALE, 1, 1, config.heading_bins, config.history, MANY_VISITS]
    return np.array(steps, np.float32), np.array([0, 0, -1, -1, 0, 0], np.float32)


def share_steps(config: Config) -> float:
    """Steps of a share: the number of cells of a tile, 255 at most."""
    return float(min(config.stride**2, 255))


def small(values: Array, most: int = 255) -> Array:
    """Round to the nearest integer from 0 to `most`."""
    return jnp.clip(jnp.round(values), 0, most)


def encode(
    config: Config,
    truth: TrueNodes,
    map_index: Int32[Array, ""],
    nodes: Nodes,
    situation: Situation,
    privileged: PrivilegedView,
    cell: Int32[Array, "I J 2"],
    stale: Bool[Array, "I J"] | None,
    log_probability: Float32[Array, ""],
) -> Snapshot:
    """The snapshot of a state. The nodes must have as many places as the true nodes. `cell`: the robot's viewpoints."""
    sites = privileged.fractions.shape[0]
    if sites >= NOWHERE:
        raise ValueError(f"{sites} sites a side are too many to remember; train on maps of less than {NOWHERE}")
    steps, least = column_units(config)
    columns = (jnp.take(nodes.features, jnp.array(KEPT_AS_INTEGERS), axis=1) - least[None]) * steps[None]
    angle = jnp.arctan2(situation.tokens[..., 2], situation.tokens[..., 3]) * (180 / np.pi)
    slots = jnp.arange(SLOTS, dtype=jnp.uint32)
    return Snapshot(
        **situation.own,
        node_site=jnp.where(nodes.mask[:, None], nodes.site, NOWHERE).astype(jnp.uint8),
        node_cell=in_tiles(config, nodes, cell) if config.roads else None,
        cell=cell[situation.site[0], situation.site[1]].astype(jnp.int16),
        edges=nodes.edges,
        columns=small(columns).astype(jnp.uint8),
        home=small(nodes.features[:, Feature.HOME] * (65535 / FARTHEST), 65535).astype(jnp.uint16),
        histogram=nodes.histogram,
        sensed=jnp.packbits(situation.sensed, axis=-1),
        budget=situation.budget,
        heading_bin=situation.heading_bin.astype(jnp.uint8),
        action_mask=(situation.action_mask[:, 0].astype(jnp.uint32) << slots).sum(dtype=jnp.uint32),
        seen=situation.token_mask,
        seen_cell=jnp.round(situation.tokens[..., 1::-1] * (TRAJECTORY_SCALE_M / config.cell_m)).astype(jnp.int16),
        seen_heading=jnp.round(angle).astype(jnp.int16),
        seen_site=jnp.where(situation.token_site < 0, NOWHERE, situation.token_site).astype(jnp.uint8),
        options=None if stale is None else encode_options(nodes, situation, stale),
        shares=small(shares_at(truth, privileged) * share_steps(config)).astype(jnp.uint8),
        robots=privileged.sites.astype(jnp.uint8),
        active=privileged.active,
        post=privileged.post_success,
        map=map_index,
        log_probability=log_probability,
    )


def in_tiles(config: Config, nodes: Nodes, cell: Int32[Array, "I J 2"]) -> UInt8[Array, "M 2"]:
    """Where the viewpoints of nodes lie in their tiles; zero for padding."""
    first = config.margin_cells + config.stride * nodes.site
    away = cell[nodes.site[:, 0], nodes.site[:, 1]] - first
    return jnp.where(nodes.mask[:, None], away, 0).astype(jnp.uint8)


def node_cells(config: Config, snapshot: Snapshot) -> Int32[Array, "M 2"]:
    """The viewpoints of a robot's nodes; meaningless for padding."""
    site = snapshot.node_site.astype(jnp.int32)
    if snapshot.node_cell is None:
        return config.lattice.cell(site)
    return config.margin_cells + config.stride * site + snapshot.node_cell.astype(jnp.int32)


def encode_options(nodes: Nodes, situation: Situation, stale: Bool[Array, "I J"]) -> StoredOptions:
    """The options of a robot, its ways, and the labels of its nodes."""
    options, ways = situation.known_options, nodes.known_ways
    return StoredOptions(
        action=options.action.astype(jnp.int8),
        site=jnp.where(options.site < 0, NOWHERE, options.site).astype(jnp.uint8),
        cost_m=options.cost_m,
        shown_cells=options.shown_cells.astype(jnp.uint16),
        way_cm=ways.way_cm.astype(jnp.uint16),
        open_cm=ways.open_cm.astype(jnp.uint16),
        stale=nodes.mask & stale[nodes.site[:, 0], nodes.site[:, 1]],
    )


def own_nodes(config: Config, snapshot: Snapshot) -> Nodes:
    """The robot's nodes from what is kept of them."""
    held = snapshot.node_site[:, 0] != NOWHERE
    site = jnp.where(held[:, None], snapshot.node_site.astype(jnp.int32), -1)
    steps, least = column_units(config)
    kept = snapshot.columns.astype(jnp.float32) / steps[None] + least[None]
    apart = offsets(config, snapshot.cell.astype(jnp.int32), node_cells(config, snapshot))
    columns = {feature: kept[:, number] for number, feature in enumerate(KEPT_AS_INTEGERS)} | {
        Feature.DX: apart[:, 0],
        Feature.DY: apart[:, 1],
        Feature.HOME: snapshot.home.astype(jnp.float32) * (FARTHEST / 65535),
    }
    features = jnp.stack([columns[feature] for feature in Feature], axis=-1)
    stored = snapshot.options
    return Nodes(
        site=site,
        mask=held,
        features=jnp.where(held[:, None], features, 0.0),
        histogram=snapshot.histogram,
        edges=snapshot.edges,
        ways=None if stored is None else Ways(stored.way_cm.astype(jnp.int32), stored.open_cm.astype(jnp.int32)),
    )


def own_situation(config: Config, snapshot: Snapshot) -> Situation:
    """The robot's situation from what is kept of it."""
    allowed = (snapshot.action_mask >> jnp.arange(SLOTS, dtype=jnp.uint32)) & 1 == 1
    stored = snapshot.options
    return Situation(
        **snapshot.own,
        budget=snapshot.budget,
        heading_bin=snapshot.heading_bin.astype(jnp.int32),
        action_mask=jnp.broadcast_to(allowed[:, None], snapshot.heading_bin.shape),
        sensed=jnp.unpackbits(snapshot.sensed, axis=-1, count=snapshot.histogram.shape[-1]) == 1,
        tokens=tokens(config, snapshot),
        token_mask=snapshot.seen,
        token_site=jnp.where(snapshot.seen_site == NOWHERE, -1, snapshot.seen_site.astype(jnp.int32)),
        options=None
        if stored is None
        else Options(
            action=stored.action.astype(jnp.int32),
            site=jnp.where(stored.site == NOWHERE, -1, stored.site.astype(jnp.int32)),
            cost_m=stored.cost_m,
            shown_cells=stored.shown_cells.astype(jnp.int32),
        ),
    )


def tokens(config: Config, snapshot: Snapshot) -> Float32[Array, "N L 5"]:
    """The trajectory tokens from what is kept of them."""
    offset = snapshot.seen_cell.astype(jnp.float32) * (config.cell_m / TRAJECTORY_SCALE_M)
    angle = snapshot.seen_heading.astype(jnp.float32) * (np.pi / 180)
    age = jnp.broadcast_to(jnp.arange(config.history, dtype=jnp.float32) / config.history, angle.shape)
    token = jnp.stack([offset[..., 1], offset[..., 0], jnp.sin(angle), jnp.cos(angle), age], axis=-1)
    return jnp.where(snapshot.seen[..., None], token, 0.0)


def decode(config: Config, truths: TrueNodes, snapshot: Snapshot, privilege: Privilege = "own and team") -> Inputs:
    """What actor and critics read of a snapshot. `truths` holds the true nodes of all maps."""
    nodes = own_nodes(config, snapshot)
    if privilege != "none":
        truth = jax.tree.map(lambda leaf: leaf[snapshot.map], truths)
        shares = snapshot.shares.astype(jnp.float32) / share_steps(config)
        if privilege == "team":
            known = shares[:, 0] + shares[:, 1]
            shares = jnp.stack([known, jnp.zeros_like(known), shares[:, 2]], axis=-1)
        other = snapshot.active & (jnp.arange(len(snapshot.active)) != snapshot.number)
        robots = snapshot.robots.astype(jnp.int32)
        here = snapshot.site, snapshot.cell.astype(jnp.int32)
        critic_nodes = privileged_nodes(config, truth, nodes, *here, shares, robots, other)
    else:
        critic_nodes = unprivileged_nodes(nodes)
    stale = None if snapshot.options is None else snapshot.options.stale
    return Inputs(nodes, own_situation(config, snapshot), critic_nodes, stale, snapshot.log_probability)
