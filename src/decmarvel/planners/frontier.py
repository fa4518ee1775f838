"""Frontier planners: go to the cheapest frontier (Yamauchi 1998), optionally drawn towards a sector of one's own."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from decmarvel.config import Config
from decmarvel.geometry import SLOT_OFFSETS, direction_bins, direction_degrees, disc, line_of_sight, to_patch
from decmarvel.graph import from_sites, hop_costs, shortest_paths, site_mask
from decmarvel.planners.base import Planner, by_slot
from decmarvel.sensing import cut, site_cell
from decmarvel.sight import frontiers, grouped, nearest_frontiers
from decmarvel.types import FAR_MM, FREE, RETURN_HOME, Key, LocalView, Proposal, Scalar, Site

SECTOR_OFFSET_RAD = 0.3
GROUP_REACH = 3
"""Whether a cell is a grouped frontier depends on the cells up to this far away."""


class Goal(eqx.Module):
    """A frontier cell and the node from which to look at it; cell (-1, -1) when there is none."""

    site: Int32[Array, "2"]
    cell: Int32[Array, "2"]


class FrontierPlanner(Planner):
    """Nearest frontier, or with `sector_m` > 0 sector frontier.

    The cost of a frontier cell is the path over the graph to a node that sees it within 9 m and the straight rest, plus
    `sector_m * (1 - cos(bearing from base - (2 pi i / N + 0.3)))`. The goal is a node that sees the cell; it is kept
    until it is reached or the frontier is gone. Yamauchi's robot drives up to the frontier, looks along its motion, and
    at the frontier on arrival. A far-sighted robot weighs the travel to a viewpoint against half its distance from the
    frontier, and looks at the frontier as soon as it is in range; this is stronger, so sector frontier does it.

    A frontier that a node has already looked at in vain (its direction was sensed there) no longer counts for the node:
    this is the blacklist that prevents two-node cycles. Where the original is silent the stronger choice was taken:
    only goals that leave a way home count, so a robot whose favourite is out of budget takes another one.
    """

    sector_m: float = eqx.field(static=True, default=0.0)
    far_sighted: bool = eqx.field(static=True, default=False)

    def start(self, config: Config, sites: int) -> Goal:
        return Goal(jnp.zeros(2, jnp.int32), jnp.full(2, -1, jnp.int32))

    def propose(self, config: Config, key: Key, view: LocalView, memory: Goal) -> tuple[Proposal, Goal]:
        sites = view.visits.shape[0]
        here_mm = shortest_paths(config, view.graph.edge, from_sites(site_mask(sites, view.site)))
        affordable = here_mm + view.graph.home_mm + config.safety_margin_mm <= view.budget_mm
        goal = self._choose(config, view, here_mm, affordable)
        keep = still_wanted(config, view, memory) & affordable[memory.site[0], memory.site[1]]
        goal = Goal(jnp.where(keep, memory.site, goal.site), jnp.where(keep, memory.cell, goal.cell))
        return towards(config, view, goal, self.far_sighted), goal

    def _choose(
        self, config: Config, view: LocalView, here_mm: Int32[Array, "S S"], affordable: Bool[Array, "S S"]
    ) -> Goal:
        distance_mm, cell = nearest_frontiers(config, view.graph.sight)
        cost = here_mm[..., None] + distance_mm + self._sector_cost_mm(config, view, cell)
        cost = jnp.where(affordable[..., None] & (distance_mm < FAR_MM) & ~view.sensed, cost, FAR_MM)
        best = jnp.unravel_index(jnp.argmin(cost), cost.shape)
        frontier = cell[best]
        seen_from = jnp.stack([best[0], best[1]]).astype(jnp.int32)
        site = viewpoint(config, view, jnp.where(affordable, here_mm, FAR_MM), frontier, seen_from, self.far_sighted)
        return Goal(site, jnp.where(cost.min() < FAR_MM, frontier, -1))

    def _sector_cost_mm(self, config: Config, view: LocalView, cell: Int32[Array, "S S B 2"]) -> Int32[Array, "S S B"]:
        own = 2 * math.pi * (view.number / view.team_size) + SECTOR_OFFSET_RAD
        offset = (cell - site_cell(config, view.base)[None, None, None]).astype(jnp.float32)
        length = jnp.maximum(jnp.sqrt((offset**2).sum(axis=-1)), 1e-6)
        along = (offset[..., 1] * jnp.cos(own) + offset[..., 0] * jnp.sin(own)) / length
        return 10 * jnp.round(100 * self.sector_m * (1 - along)).astype(jnp.int32)  # whole centimetres


def viewpoint(
    config: Config,
    view: LocalView,
    travel_mm: Int32[Array, "S S"],
    frontier: Int32[Array, "2"],
    otherwise: Site,
    far_sighted: bool,
) -> Site:
    """The best node that sees a frontier cell and has not looked at it before; not the current node."""
    around, sites = disc(config.utility_radius_cells), view.visits.shape[0]
    reach = around.reach
    patch = cut(view.belief == FREE, jnp.maximum(frontier, reach), reach)
    see_through = patch[around.offsets[..., 0] + reach, around.offsets[..., 1] + reach]
    visible = to_patch(around, line_of_sight(around, see_through[..., None])[..., 0], centre=True)

    index = jnp.arange(sites, dtype=jnp.int32)
    grid = jnp.stack(jnp.meshgrid(index, index, indexing="ij"), axis=-1)
    offset = site_cell(config, grid) - frontier[None, None]
    near = (jnp.abs(offset) <= reach).all(axis=-1)
    place = jnp.clip(offset + reach, 0, 2 * reach)
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    bins = jnp.asarray(direction_bins(config, -dy, -dx))[place[..., 0], place[..., 1]]
    looked = jnp.take_along_axis(view.sensed, bins[..., None], axis=-1)[..., 0]
    sees = visible[place[..., 0], place[..., 1]] & near & ~looked & ~site_mask(sites, view.site)
    approach = 0.5 if far_sighted else 1000.0
    weights = np.round(1000 * approach * config.cell_m * np.hypot(dy, dx)).astype(np.int32)
    cost = travel_mm + jnp.asarray(weights)[place[..., 0], place[..., 1]]
    cost = jnp.where(sees & (travel_mm < FAR_MM), cost, 2 * FAR_MM)
    best = jnp.argmin(cost)
    return jnp.where(cost.min() < 2 * FAR_MM, jnp.stack([best // sites, best % sites]), otherwise).astype(jnp.int32)


def still_wanted(config: Config, view: LocalView, goal: Goal) -> Bool[Array, ""]:
    """The goal is not reached yet, and its frontier is still one."""
    return frontier_there(view, goal.cell) & (goal.site != view.site).any()


def frontier_there(view: LocalView, cell: Int32[Array, "2"]) -> Bool[Array, ""]:
    patch = cut(view.belief, jnp.maximum(cell, GROUP_REACH), GROUP_REACH)
    return grouped(frontiers(patch))[GROUP_REACH, GROUP_REACH] & (cell[0] >= 0)


def towards(config: Config, view: LocalView, goal: Goal, far_sighted: bool) -> Proposal:
    """The first hop of the shortest way to a goal, looking along the motion or, where it is time, at the frontier."""
    sites, reach = view.visits.shape[0], disc(config.utility_radius_cells).reach
    to_goal_mm = shortest_paths(config, view.graph.edge, from_sites(site_mask(sites, goal.site)))
    costs = hop_costs(config, view.graph.edge, to_goal_mm, view.site)
    along = jnp.asarray(direction_degrees(SLOT_OFFSETS[:, 0], SLOT_OFFSETS[:, 1]))
    there = view.site[None] + jnp.asarray(SLOT_OFFSETS)
    offset = goal.cell[None] - site_cell(config, there)
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    place = jnp.clip(offset + reach, 0, 2 * reach)
    gaze = jnp.asarray(direction_degrees(dy, dx))[place[:, 0], place[:, 1]]
    looks = (there == goal.site[None]).all(axis=-1)
    if far_sighted:
        looks |= (jnp.abs(offset) <= reach).all(axis=-1)
    slot: Scalar = jnp.argmin(jnp.where(view.candidates.mask, costs, 2 * FAR_MM)).astype(jnp.int32)
    choice = jnp.where(goal.cell[0] >= 0, slot * config.headings_per_node, RETURN_HOME).astype(jnp.int32)
    return by_slot(config, -costs.astype(jnp.float32), jnp.where(looks, gaze, along), choice)
