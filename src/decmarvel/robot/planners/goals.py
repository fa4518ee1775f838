"""Goals, each a frontier and a node to look at it from: how planners choose and pursue them."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from decmarvel.core.angles import degrees_towards, direction_bins, heading_bin
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, SLOTS, site_mask
from decmarvel.core.types import FAR_MM, FREE, RETURN_HOME, LocalView, Proposal, Scalar, Site
from decmarvel.core.visibility import disc, line_of_sight, to_patch
from decmarvel.core.windows import cut
from decmarvel.robot.graph import from_sites, hop_costs, neighbour_cells, shortest_paths, way_offsets
from decmarvel.robot.planners.base import by_slot
from decmarvel.robot.sight import GROUP_REACH, frontiers, grouped

PER_MM = 32
"""Parts of a millimetre in `first_slots`: enough to store the number of a slot below the millimetres."""
NEARER_STOP_FIRST = 1000
"""A thousandth of the first hop is added to a way: so little that it decides only between equal ways."""


class Goal(eqx.Module):
    """A frontier cell and the node from which to look at it; cell (-1, -1) when there is none."""

    site: Int32[Array, "*batch 2"]
    cell: Int32[Array, "*batch 2"]

    @staticmethod
    def none() -> "Goal":
        return Goal(jnp.zeros(2, jnp.int32), jnp.full(2, -1, jnp.int32))

    def otherwise(self, keep: Bool[Array, ""], other: "Goal") -> "Goal":
        """This goal if `keep` is true, else the other one."""
        return Goal(jnp.where(keep, self.site, other.site), jnp.where(keep, self.cell, other.cell))


def distances_from_here(config: Config, view: LocalView) -> Int32[Array, "I J"]:
    return shortest_paths(view.graph.length_mm, from_sites(site_mask(view.visits.shape[0], view.site)))


def seen_from(
    config: Config, view: LocalView, cell: Int32[Array, "2"]
) -> tuple[Bool[Array, "I J"], Int32[Array, "I J"]]:
    """The sites from which a cell is in sight and was not looked at before, and their distances in millimetres."""
    around = disc(config.utility_radius_cells)
    reach = around.reach
    patch = cut(view.belief == FREE, jnp.maximum(cell, reach), reach)
    see_through = patch[around.offsets[..., 0] + reach, around.offsets[..., 1] + reach]
    visible = to_patch(around, line_of_sight(around, see_through[..., None])[..., 0], centre=True)

    offset = view.graph.cell - cell[None, None]
    near = (jnp.abs(offset) <= reach).all(axis=-1) & (view.graph.cell[..., 0] >= 0)
    place = jnp.clip(offset + reach, 0, 2 * reach)
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    bins = jnp.asarray(direction_bins(config, -dy, -dx))[place[..., 0], place[..., 1]]
    looked = jnp.take_along_axis(view.sensed, bins[..., None], axis=-1)[..., 0]
    length_mm = np.round(1000 * config.cell_m * np.hypot(dy, dx)).astype(np.int32)
    away_mm = jnp.asarray(length_mm)[place[..., 0], place[..., 1]]
    near &= away_mm <= view.range_mm * config.utility_percent // 100
    return visible[place[..., 0], place[..., 1]] & near & ~looked, away_mm


def viewpoint(
    config: Config,
    view: LocalView,
    travel_mm: Int32[Array, "I J"],
    frontier: Int32[Array, "2"],
    otherwise: Site,
    far_sighted: bool,
) -> Site:
    """The best node from which a frontier cell is in sight and was not looked at before; on straight lines another one.

    A plain robot takes the node closest to the frontier. A far-sighted robot adds the travel and half that distance.
    """
    sites = view.visits.shape[0]
    sees, length_mm = seen_from(config, view, frontier)
    here = site_mask(sites, view.site)
    if not config.roads:  # on roads a robot may also stay and turn, which costs no budget
        sees &= ~here
    sees &= travel_mm < FAR_MM
    cost = travel_mm + length_mm // 2 if far_sighted else travel_mm + 1000 * length_mm
    cost = jnp.where(sees, cost, 2 * FAR_MM)
    best = jnp.argmin(cost)
    return jnp.where(cost.min() < 2 * FAR_MM, jnp.stack([best // sites, best % sites]), otherwise).astype(jnp.int32)


def gaze(config: Config, view: LocalView, cell: Int32[Array, "2"]) -> Scalar:
    """Direction of a cell, seen from where the robot is."""
    here = view.graph.cell[view.site[0], view.site[1]]
    return degrees_towards(cell - here, disc(config.utility_radius_cells).reach)


def still_wanted(config: Config, view: LocalView, goal: Goal) -> Bool[Array, ""]:
    """The goal is not reached yet, or with roads not looked at from there, and its frontier is still one."""
    away = (goal.site != view.site).any()
    if config.roads:
        bin = heading_bin(config, gaze(config, view, goal.cell))
        away |= ~view.sensed[view.site[0], view.site[1], bin]
    return frontier_there(view, goal.cell) & away


def frontier_there(view: LocalView, cell: Int32[Array, "2"]) -> Bool[Array, ""]:
    patch = cut(view.belief, jnp.maximum(cell, GROUP_REACH), GROUP_REACH)
    return grouped(frontiers(patch))[GROUP_REACH, GROUP_REACH] & (cell[0] >= 0)


def towards(config: Config, view: LocalView, goal: Goal, far_sighted: bool) -> Proposal:
    """The first hop of the shortest way to a goal, looking along the motion or at the frontier.

    A plain robot looks at the frontier on the last hop, a far-sighted robot as soon as the frontier is in range. Of
    equally long ways it takes the one with the nearer next stop, to decide again sooner.
    """
    to_goal_mm = shortest_paths(view.graph.length_mm, from_sites(site_mask(view.visits.shape[0], goal.site)))
    length_mm = view.graph.length_mm[:, view.site[0], view.site[1]]
    costs = hop_costs(view.graph.length_mm, to_goal_mm, view.site) + length_mm // NEARER_STOP_FIRST
    slot: Scalar = jnp.argmin(jnp.where(view.candidates.mask, costs, 2 * FAR_MM)).astype(jnp.int32)
    if config.roads:
        slot = jnp.where((goal.site == view.site).all(), SELF_SLOT, slot)
    choice = jnp.where(goal.cell[0] >= 0, slot * config.headings_per_node, RETURN_HOME).astype(jnp.int32)
    return by_slot(config, -costs.astype(jnp.float32), gazes(config, view, goal, far_sighted), choice)


def first_slots(config: Config, view: LocalView) -> Int32[Array, "I J"]:
    """The slot of the first hop of `towards`, for goals at all sites at once: the distances carry its number."""
    length_mm = view.graph.length_mm[:, view.site[0], view.site[1]]
    admitted = view.candidates.mask & (length_mm < FAR_MM)
    own_mm = jnp.where(admitted, length_mm + length_mm // NEARER_STOP_FIRST, 0)
    first = jnp.where(admitted, PER_MM * own_mm + jnp.arange(SLOTS, dtype=jnp.int32), FAR_MM)
    there = jnp.where(admitted[:, None], view.site[None] + jnp.asarray(SLOT_OFFSETS), 0)
    start = jnp.full(view.visits.shape, FAR_MM, jnp.int32).at[there[:, 0], there[:, 1]].min(first)
    slots = shortest_paths(view.graph.length_mm, start, PER_MM) % PER_MM
    return jnp.where(site_mask(view.visits.shape[0], view.site), SELF_SLOT, slots) if config.roads else slots


def gazes(config: Config, view: LocalView, goal: Goal, far_sighted: bool) -> Int32[Array, "K"]:
    """Heading in degrees, at each slot, of a robot on its way to a goal."""
    reach = disc(config.utility_radius_cells).reach
    along = degrees_towards(way_offsets(view.graph, view.site), 3 * config.stride)
    there = view.site[None] + jnp.asarray(SLOT_OFFSETS)
    offset = goal.cell[None] - neighbour_cells(view.graph, view.site)
    at_cell = degrees_towards(offset, reach)
    looks = (there == goal.site[None]).all(axis=-1)
    if far_sighted:
        near_cells = view.range_mm * config.utility_percent // (100 * config.cell_mm)
        looks |= (jnp.abs(offset) <= near_cells).all(axis=-1)
    return jnp.where(looks, at_cell, along)
