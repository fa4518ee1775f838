"""What a planner reads: the candidates, and the input numbers of a network."""

from enum import IntEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from decmarvel.core.angles import bins_towards
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, SLOTS, site_mask
from decmarvel.core.types import FAR_MM, Candidates, Graph, LocalView, Own, Robot, Scalar, Sightings, Site
from decmarvel.robot.budget import affordable, budget_features, return_feasible
from decmarvel.robot.graph import from_sites, hop_costs, shortest_paths, way_offsets
from decmarvel.robot.pursuit import open_views
from decmarvel.robot.sight import nearest_frontier_mm

POSITION_SCALE_M = 100.0
TRAJECTORY_SCALE_M = 20.0
UTILITY_SCALE = 78.0
"""About the largest utility that occurs."""
MANY_VISITS = 5
NOTHING_CM = 2**16 - 1
"""Marks a distance to something that does not exist or is out of reach."""


class Feature(IntEnum):
    """The columns of the node features (Eq. 5), in the paper's order."""

    DX = 0
    DY = 1
    UTILITY = 2
    GUIDEPOST = 3
    OCCUPANCY = 4
    HEADING = 5
    TRAIL = 6
    HOME = 7
    VISITS = 8


class Ways(eqx.Module):
    """Distances over the robot's own graph. Not in the paper; the planner `options` reads them."""

    way_cm: Int32[Array, "..."]
    """Shortest way to each node."""
    open_cm: Int32[Array, "..."]
    """From each node to its nearest frontier not looked at from there; NOTHING_CM if none, or beyond the budget."""


class Observation(Own):
    """The network's input for one robot. Everything is the robot's own knowledge."""

    node_features: Float32[Array, "*batch I J 9"]
    """One column for each `Feature`."""
    node_mask: Bool[Array, "*batch I J"]
    edge: Bool[Array, "*batch K I J"]
    histogram: Float32[Array, "*batch I J B"]
    sensed: Bool[Array, "*batch I J B"]
    budget: Float32[Array, "*batch 4"]
    """Budget features of Eq. 6."""
    tokens: Float32[Array, "*batch N L 5"]
    """Trajectory tokens of Eq. 9."""
    token_mask: Bool[Array, "*batch N L"]
    token_site: Int32[Array, "*batch N L 2"]
    """The node that a sighting is fused with; -1 where none of the robot's own nodes is near."""
    heading_bin: Int32[Array, "*batch K H"]
    action_mask: Bool[Array, "*batch K H"]


def half_window(config: Config, fov_deg: Scalar) -> Scalar:
    """Bins on either side of a heading that count as in view of it."""
    return jnp.minimum(fov_deg // (2 * config.degrees_per_bin), config.window_bins // 2)


def window_sums(config: Config, histogram: Int32[Array, "*n B"], fov_deg: Scalar) -> Int32[Array, "*n B"]:
    """Score of looking along each bin: the number of frontiers in the window, then how central they are in it."""
    half, widest = half_window(config, fov_deg), config.window_bins // 2
    total = jnp.zeros_like(histogram)
    for k in range(-widest, widest + 1):
        weight = jnp.where(abs(k) <= half, 2048 + half + 1 - abs(k), 0)
        total += weight * jnp.roll(histogram, -k, axis=-1)
    return total


def window_headings(config: Config, histogram: Int32[Array, "*n B"], fov_deg: Scalar) -> Int32[Array, "*n H"]:
    """Headings whose windows together cover the most frontiers, chosen greedily; best first."""
    half, bins = half_window(config, fov_deg), config.heading_bins
    index = jnp.arange(bins, dtype=jnp.int32)
    chosen: list[Array] = []
    left = histogram
    for turn in range(config.headings_per_node):
        best = jnp.argmax(window_sums(config, left, fov_deg), axis=-1).astype(jnp.int32)
        if turn:
            swing = 3 * ((turn + 1) // 2) * (1 if turn % 2 else -1)
            best = jnp.where(left.any(axis=-1), best, (chosen[0] + swing) % bins)
        away = (jnp.broadcast_to(index, left.shape) - best[..., None] + bins // 2) % bins - bins // 2
        left = jnp.where(jnp.abs(away) <= half, 0, left)
        chosen.append(best)
    return jnp.stack(chosen, axis=-1)


def candidate_headings(config: Config, graph: Graph, site: Site, fov_deg: Scalar) -> Int32[Array, "K H"]:
    """Headings at each neighbour: to its frontiers; if it has none, towards the guidepost; else along the motion."""
    along = bins_towards(config, way_offsets(graph, site), 3 * config.stride)
    sites = graph.home_mm.shape[0]
    there = jnp.clip(site[None] + jnp.asarray(SLOT_OFFSETS), 0, sites - 1)

    def transit(neighbour: Site, motion_bin: Scalar) -> Scalar:
        costs = hop_costs(graph.length_mm, graph.useful_mm, neighbour)
        onward = way_offsets(graph, neighbour)[jnp.argmin(costs)]
        return jnp.where(costs.min() < FAR_MM, bins_towards(config, onward, 3 * config.stride), motion_bin)

    towards = jax.vmap(transit)(there, along)
    swing = jnp.asarray([0, *(step for k in range(1, 1 + config.headings_per_node // 2) for step in (k, -k))])
    passing = (towards[:, None] + swing[None, : config.headings_per_node]) % config.heading_bins
    histogram = graph.sight.histogram[there[:, 0], there[:, 1]].astype(jnp.int32)
    useful = graph.utility[there[:, 0], there[:, 1]] > 0
    return jnp.where(useful[:, None], window_headings(config, histogram, fov_deg), passing)


def candidates(config: Config, robot: Robot) -> Candidates:
    graph, site = robot.graph, robot.site
    headings = candidate_headings(config, graph, site, robot.fov_deg)
    mask = return_feasible(config, graph, site, robot.budget_mm)
    if config.roads:
        # Moves may be too short to turn in, so a robot may also stay, and turn towards what it has not looked at.
        open_ = open_views(config, graph, robot.sensed)[site[0], site[1]]
        turns = window_headings(config, open_.astype(jnp.int32), robot.fov_deg)
        headings = headings.at[SELF_SLOT].set(turns)
        mask = mask.at[SELF_SLOT].set(open_.any())
    return Candidates(headings, mask)


def local_view(config: Config, robot: Robot) -> LocalView:
    """The view that one robot gives to its planner."""
    return LocalView(
        **robot.own,
        belief=robot.belief,
        graph=robot.graph,
        candidates=candidates(config, robot),
        visits=robot.visits,
        sensed=robot.sensed,
        sightings=robot.sightings,
    )


def guidepost(config: Config, graph: Graph, site: Site) -> Bool[Array, "I J"]:
    """The nodes on the way from a site to the nearest useful node, both ends included."""

    def on_the_way(carry: tuple[Site, Array]) -> Array:
        remaining = graph.useful_mm[carry[0][0], carry[0][1]]
        return (remaining > 0) & (remaining < FAR_MM)

    def walk(carry: tuple[Site, Array]) -> tuple[Site, Array]:
        slot = jnp.argmin(hop_costs(graph.length_mm, graph.useful_mm, carry[0]))
        onward = carry[0] + jnp.asarray(SLOT_OFFSETS)[slot]
        return onward, carry[1] | site_mask(carry[1].shape[0], onward)

    none_useful = graph.useful_mm[site[0], site[1]] >= FAR_MM
    path = jax.lax.while_loop(on_the_way, walk, (site, site_mask(graph.home_mm.shape[0], site)))[1]
    return path & ~none_useful


def nearest_node(config: Config, node: Bool[Array, "I J"], cell: Int32[Array, "*n 2"]) -> Int32[Array, "*n 2"]:
    """The node nearest to each cell, within one spacing; (-1, -1) where there is none."""
    around = jnp.asarray(SLOT_OFFSETS[(np.abs(SLOT_OFFSETS) <= 1).all(axis=1)])
    around = around.reshape((1,) * (cell.ndim - 1) + (9, 2))
    site = config.lattice.site(cell)[..., None, :] + around
    inside = ((site >= 0) & (site < node.shape[0])).all(axis=-1)
    clipped = jnp.clip(site, 0, node.shape[0] - 1)
    squared = ((config.lattice.cell(site) - cell[..., None, :]) ** 2).sum(axis=-1)
    near = inside & node[clipped[..., 0], clipped[..., 1]] & (squared <= config.stride**2)
    best = jnp.argmin(jnp.where(near, squared, FAR_MM), axis=-1)[..., None, None]
    return jnp.where(near.any(axis=-1)[..., None], jnp.take_along_axis(clipped, best, axis=-2)[..., 0, :], -1)


def trail_evidence(config: Config, sightings: Sightings, node: Bool[Array, "I J"]) -> Float32[Array, "I J"]:
    """m_v of Eq. 5: freshness of the latest sighting of a teammate at each node, 1 - age/L."""
    sites = node.shape[0]
    site = config.lattice.site(sightings.cell)
    inside = sightings.seen & (site >= 0).all(axis=-1) & (site < sites).all(axis=-1)
    age = jnp.arange(config.history, dtype=jnp.float32)[None]
    fresh = jnp.where(inside, 1 - age / config.history, 0.0)
    flat = jnp.where(inside, site[..., 0] * sites + site[..., 1], sites * sites)
    evidence = jnp.zeros(sites * sites + 1).at[flat.reshape(-1)].max(fresh.reshape(-1))
    return jnp.where(node, evidence[:-1].reshape(sites, sites), 0.0)


def node_features(config: Config, view: LocalView) -> Float32[Array, "I J 9"]:
    """Eq. 5: offset (2), utility, guidepost, occupancy, best heading, teammates' trail, distance home, own visits."""
    graph, sites = view.graph, view.graph.home_mm.shape[0]
    node, utility = graph.node, graph.utility
    away = (graph.cell - graph.cell[view.site[0], view.site[1]][None, None]).astype(jnp.float32)
    dy, dx = (away[..., axis] / config.stride * (config.spacing_m / POSITION_SCALE_M) for axis in (0, 1))
    best_bin = jnp.argmax(window_sums(config, graph.sight.histogram.astype(jnp.int32), view.fov_deg), axis=-1)
    heading = jnp.where(utility > 0, best_bin.astype(jnp.float32) / config.heading_bins, -1.0)
    now = view.sightings.seen[:, 0, None, None]
    others = jax.vmap(lambda cell: site_mask(sites, config.lattice.site(cell)))(view.sightings.cell[:, 0])
    occupancy = (others & now).any(axis=0).astype(jnp.float32)
    occupancy = jnp.where(site_mask(sites, view.site), -1.0, occupancy)
    home = jnp.minimum(graph.home_mm.astype(jnp.float32) / 1000 / POSITION_SCALE_M, 2.0)
    columns = {
        Feature.DX: dx,
        Feature.DY: dy,
        Feature.UTILITY: utility.astype(jnp.float32) / UTILITY_SCALE,
        Feature.GUIDEPOST: guidepost(config, graph, view.site),
        Feature.OCCUPANCY: occupancy,
        Feature.HEADING: heading,
        Feature.TRAIL: trail_evidence(config, view.sightings, node),
        Feature.HOME: home,
        Feature.VISITS: jnp.minimum(view.visits, MANY_VISITS) / MANY_VISITS,
    }
    # Masked one by one: a compiler drops the columns that an actor does not read, but not from a masked stack.
    return jnp.stack([jnp.where(node, columns[feature].astype(jnp.float32), 0.0) for feature in Feature], axis=-1)


def ways(config: Config, view: LocalView) -> Ways:
    """The shortest ways to the nodes, and the distances to frontiers that are left to look at there."""
    graph = view.graph
    here = site_mask(view.visits.shape[0], view.site)
    way_mm = shortest_paths(graph.length_mm, from_sites(here))
    open_mm = jnp.where(view.sensed, FAR_MM, nearest_frontier_mm(config, graph.sight)).min(axis=-1)
    open_mm = jnp.where(affordable(config, view, way_mm) & graph.node, open_mm, FAR_MM)
    way_cm, open_cm = (jnp.minimum(mm // 10, NOTHING_CM) for mm in (way_mm, open_mm))
    return Ways(jnp.where(graph.node, way_cm, 0), open_cm)


def trajectory_tokens(config: Config, view: LocalView) -> Float32[Array, "N L 5"]:
    """Eq. 9: offset (2), heading (2) and age of each remembered sighting; zero where a teammate was not seen."""
    seen = view.sightings.seen
    offset = (view.sightings.cell - view.graph.cell[view.site[0], view.site[1]][None, None]).astype(jnp.float32)
    offset = offset * (config.cell_m / TRAJECTORY_SCALE_M)
    angle = view.sightings.heading.astype(jnp.float32) * (np.pi / 180)
    age = jnp.broadcast_to(jnp.arange(config.history, dtype=jnp.float32) / config.history, seen.shape)
    token = jnp.stack([offset[..., 1], offset[..., 0], jnp.sin(angle), jnp.cos(angle), age], axis=-1)
    return jnp.where(seen[..., None], token, 0.0)


def observe(config: Config, view: LocalView) -> Observation:
    """The features of one robot's view."""
    graph = view.graph
    token_site = nearest_node(config, graph.node, view.sightings.cell)
    histogram: UInt8[Array, "I J B"] = graph.sight.histogram
    shape = (SLOTS, config.headings_per_node)
    return Observation(
        **view.own,
        node_features=node_features(config, view),
        node_mask=graph.node,
        edge=graph.edge,
        histogram=jnp.where(graph.node[..., None], histogram, 0).astype(jnp.float32),
        sensed=view.sensed,
        budget=budget_features(config, graph, view.site, view.budget_mm, view.initial_budget_mm),
        tokens=trajectory_tokens(config, view),
        token_mask=view.sightings.seen,
        token_site=jnp.where(view.sightings.seen[..., None], token_site, -1),
        heading_bin=view.candidates.heading_bin,
        action_mask=jnp.broadcast_to(view.candidates.mask[:, None], shape),
    )
