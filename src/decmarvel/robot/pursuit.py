"""Never caught: what a robot does when its planner leads it in circles.

A view is a direction from a node in which frontiers are in sight. A robot makes progress when its map grows, or when it
takes a view that it had not taken before. There are finitely many of both, so it can only be caught between two such
moments. There its planner may lead it to every node a few times (`Config.most_visits`). When it wants to go to one of
them once more, the robot is *lost*: until it makes progress, it follows the shortest way to the nearest view that it
has not taken yet, and takes it. If none is left within its budget, it has seen all that it can, and turns home.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from decmarvel.core.angles import degrees_towards, wrap_degrees
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, site_mask
from decmarvel.core.types import FAR_MM, Circling, Graph, LocalView, Scalar, Site
from decmarvel.robot.budget import affordable
from decmarvel.robot.graph import from_sites, hop_costs, shortest_paths, way_offsets
from decmarvel.robot.sight import has_frontier


class Pursuit(NamedTuple):
    """The next move towards the nearest view that was not taken."""

    found: Bool[Array, ""]
    slot: Scalar
    heading: Scalar
    way_mm: Scalar
    """Length of the way to the node of that view."""


def begin(sites: int, site: Site) -> Circling:
    """At take-off."""
    return Circling(site_mask(sites, site).astype(jnp.int32), jnp.array(False))


def go_on(circling: Circling, progress: Bool[Array, ""], lost: Bool[Array, ""], site: Site) -> Circling:
    """After a decision that led to a node."""
    here = site_mask(circling.stood.shape[0], site).astype(jnp.int32)
    return Circling(jnp.where(progress, 0, circling.stood) + here, lost & ~progress)


def open_views(config: Config, graph: Graph, sensed: Bool[Array, "I J B"]) -> Bool[Array, "I J B"]:
    """The views that a robot has not taken."""
    return has_frontier(config, graph.sight) & ~sensed & graph.node[..., None]


def circles(config: Config, view: LocalView, circling: Circling, slot: Scalar) -> Bool[Array, ""]:
    """Whether a robot is lost if it goes to this slot."""
    there = view.site + jnp.asarray(SLOT_OFFSETS)[slot]
    return circling.lost | (circling.stood[there[0], there[1]] >= config.most_visits)


def pursue(config: Config, view: LocalView) -> Pursuit:
    """The move of a robot that is lost: along the shortest way to the nearest open view, or a turn towards it."""
    sites = view.visits.shape[0]
    here_mm = shortest_paths(view.graph.length_mm, from_sites(site_mask(sites, view.site)))
    views = open_views(config, view.graph, view.sensed) & affordable(config, view, here_mm)[..., None]
    way_mm = shortest_paths(view.graph.length_mm, from_sites(views.any(axis=-1)))
    left_mm = way_mm[view.site[0], view.site[1]]
    hop = jnp.argmin(hop_costs(view.graph.length_mm, way_mm, view.site)).astype(jnp.int32)
    slot = jnp.where(left_mm == 0, SELF_SLOT, hop)
    there = jnp.clip(view.site + jnp.asarray(SLOT_OFFSETS)[slot], 0, sites - 1)
    along = degrees_towards(way_offsets(view.graph, view.site)[slot], 3 * config.stride)
    facing = jnp.where(slot == SELF_SLOT, view.heading, along)
    at_end = views[there[0], there[1]]
    heading = jnp.where(at_end.any(), nearest_view(config, at_end, facing), along)
    return Pursuit(left_mm < FAR_MM, slot, heading.astype(jnp.int32), left_mm)


def nearest_view(config: Config, views: Bool[Array, "B"], heading: Scalar) -> Scalar:
    """Direction in degrees of the view that needs the smallest turn."""
    degrees = jnp.arange(config.heading_bins, dtype=jnp.int32) * config.degrees_per_bin
    turn = jnp.where(views, jnp.abs(wrap_degrees(degrees - heading)), 360)
    return degrees[jnp.argmin(turn)]
