"""Goals, each a frontier and a node to look at it from: how planners choose and pursue them."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from decmarvel.core.angles import direction_bins, direction_degrees
from decmarvel.core.config import Config
from decmarvel.core.lattice import SLOT_OFFSETS, SLOTS, site_mask
from decmarvel.core.types import FAR_MM, FREE, RETURN_HOME, LocalView, Proposal, Scalar, Site
from decmarvel.core.visibility import disc, line_of_sight, to_patch
from decmarvel.core.windows import cut
from decmarvel.robot.graph import from_sites, hop_costs, shortest_paths
from decmarvel.robot.planners.base import by_slot
from decmarvel.robot.sight import frontiers, grouped

PER_MM = 32
"""Parts of a millimetre in `first_slots`: enough to store the number of a slot below the millimetres."""
GROUP_REACH = 3
"""Whether a cell is a grouped frontier depends on the cells up to this far away."""


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
    return shortest_paths(config, view.graph.edge, from_sites(site_mask(view.visits.shape[0], view.site)))


def seen_from(
    config: Config, view: LocalView, cell: Int32[Array, "2"]
) -> tuple[Bool[Array, "I J"], Int32[Array, "I J"]]:
    """The sites from which a cell is in sight and was not looked at before, and their distances in millimetres."""
    around, sites = disc(config.utility_radius_cells), view.visits.shape[0]
    reach = around.reach
    patch = cut(view.belief == FREE, jnp.maximum(cell, reach), reach)
    see_through = patch[around.offsets[..., 0] + reach, around.offsets[..., 1] + reach]
    visible = to_patch(around, line_of_sight(around, see_through[..., None])[..., 0], centre=True)

    index = jnp.arange(sites, dtype=jnp.int32)
    grid = jnp.stack(jnp.meshgrid(index, index, indexing="ij"), axis=-1)
    offset = config.lattice.cell(grid) - cell[None, None]
    near = (jnp.abs(offset) <= reach).all(axis=-1)
    place = jnp.clip(offset + reach, 0, 2 * reach)
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    bins = jnp.asarray(direction_bins(config, -dy, -dx))[place[..., 0], place[..., 1]]
    looked = jnp.take_along_axis(view.sensed, bins[..., None], axis=-1)[..., 0]
    length_mm = np.round(1000 * config.cell_m * np.hypot(dy, dx)).astype(np.int32)
    sees = visible[place[..., 0], place[..., 1]] & near & ~looked
    return sees, jnp.asarray(length_mm)[place[..., 0], place[..., 1]]


def viewpoint(
    config: Config,
    view: LocalView,
    travel_mm: Int32[Array, "I J"],
    frontier: Int32[Array, "2"],
    otherwise: Site,
    far_sighted: bool,
) -> Site:
    """The best node from which a frontier cell is in sight and was not looked at before; not the current node.

    A plain robot takes the node closest to the frontier. A far-sighted robot adds the travel and half that distance.
    """
    sites = view.visits.shape[0]
    sees, length_mm = seen_from(config, view, frontier)
    sees &= (travel_mm < FAR_MM) & ~site_mask(sites, view.site)
    cost = travel_mm + length_mm // 2 if far_sighted else travel_mm + 1000 * length_mm
    cost = jnp.where(sees, cost, 2 * FAR_MM)
    best = jnp.argmin(cost)
    return jnp.where(cost.min() < 2 * FAR_MM, jnp.stack([best // sites, best % sites]), otherwise).astype(jnp.int32)


def still_wanted(config: Config, view: LocalView, goal: Goal) -> Bool[Array, ""]:
    """The goal is not reached yet, and its frontier is still one."""
    return frontier_there(view, goal.cell) & (goal.site != view.site).any()


def frontier_there(view: LocalView, cell: Int32[Array, "2"]) -> Bool[Array, ""]:
    patch = cut(view.belief, jnp.maximum(cell, GROUP_REACH), GROUP_REACH)
    return grouped(frontiers(patch))[GROUP_REACH, GROUP_REACH] & (cell[0] >= 0)


def towards(config: Config, view: LocalView, goal: Goal, far_sighted: bool) -> Proposal:
    """The first hop of the shortest way to a goal, looking along the motion or at the frontier.

    A plain robot looks at the frontier on the last hop, a far-sighted robot as soon as the frontier is in range. Of
    equally long ways it takes the one with the nearer next stop, to decide again sooner.
    """
    to_goal_mm = shortest_paths(config, view.graph.edge, from_sites(site_mask(view.visits.shape[0], goal.site)))
    costs = hop_costs(config, view.graph.edge, to_goal_mm, view.site) + jnp.asarray(config.lattice.nearer_stop_first_mm)
    slot: Scalar = jnp.argmin(jnp.where(view.candidates.mask, costs, 2 * FAR_MM)).astype(jnp.int32)
    choice = jnp.where(goal.cell[0] >= 0, slot * config.headings_per_node, RETURN_HOME).astype(jnp.int32)
    return by_slot(config, -costs.astype(jnp.float32), gazes(config, view, goal, far_sighted), choice)


def first_slots(config: Config, view: LocalView) -> Int32[Array, "I J"]:
    """The slot of the first hop of `towards`, for goals at all sites at once: the distances carry its number."""
    lengths_mm = config.lattice.slot_lengths_mm + config.lattice.nearer_stop_first_mm
    admitted = view.candidates.mask & view.graph.edge[:, view.site[0], view.site[1]]
    first = jnp.where(admitted, jnp.asarray(PER_MM * lengths_mm + np.arange(SLOTS)).astype(jnp.int32), FAR_MM)
    there = jnp.where(admitted[:, None], view.site[None] + jnp.asarray(SLOT_OFFSETS), 0)
    start = jnp.full(view.visits.shape, FAR_MM, jnp.int32).at[there[:, 0], there[:, 1]].min(first)
    return shortest_paths(config, view.graph.edge, start, PER_MM) % PER_MM


def gazes(config: Config, view: LocalView, goal: Goal, far_sighted: bool) -> Int32[Array, "K"]:
    """Heading in degrees, at each slot, of a robot on its way to a goal."""
    reach = disc(config.utility_radius_cells).reach
    along = jnp.asarray(direction_degrees(SLOT_OFFSETS[:, 0], SLOT_OFFSETS[:, 1]))
    there = view.site[None] + jnp.asarray(SLOT_OFFSETS)
    offset = goal.cell[None] - config.lattice.cell(there)
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    place = jnp.clip(offset + reach, 0, 2 * reach)
    gaze = jnp.asarray(direction_degrees(dy, dx))[place[:, 0], place[:, 1]]
    looks = (there == goal.site[None]).all(axis=-1)
    if far_sighted:
        looks |= (jnp.abs(offset) <= reach).all(axis=-1)
    return jnp.where(looks, gaze, along)
