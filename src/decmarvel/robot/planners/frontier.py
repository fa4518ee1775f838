"""Frontier planners: go to the cheapest frontier (Yamauchi 1998), with or without a sector of the robot's own."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, Key, LocalView, Proposal
from decmarvel.robot.budget import affordable
from decmarvel.robot.planners.base import Planner
from decmarvel.robot.planners.goals import Goal, distances_from_here, still_wanted, towards, viewpoint
from decmarvel.robot.sight import nearest_frontiers

SECTOR_OFFSET_RAD = 0.3


class FrontierPlanner(Planner):
    """Nearest frontier; with `sector_m` > 0, sector frontier.

    The cost of a frontier cell is the path over the graph to a node that sees it within 9 m, the straight line from
    there, and `sector_m * (1 - cos(bearing from base - (2 pi i / N + 0.3)))`. The goal is a node that sees the cell; it
    is kept until it is reached or the frontier is gone. Yamauchi's robot drives up to the frontier, looks along its
    motion, and at the frontier on arrival. A far-sighted robot adds the travel to a viewpoint and half its distance
    from the frontier, and looks at the frontier as soon as it is in range; this is stronger, so sector frontier uses
    it.

    A frontier that was looked at from a node in vain (its direction was sensed there) no longer counts for the node:
    this is the blacklist that prevents two-node cycles. Where the original says nothing, the stronger choice was taken:
    only goals that leave a way home count, so a robot takes another goal if the cheapest is beyond its budget.
    """

    sector_m: float = eqx.field(static=True, default=0.0)
    far_sighted: bool = eqx.field(static=True, default=False)

    def start(self, config: Config, sites: int) -> Goal:
        return Goal.none()

    def propose(self, config: Config, key: Key, view: LocalView, memory: Goal) -> tuple[Proposal, Goal]:
        here_mm = distances_from_here(config, view)
        within_budget = affordable(config, view, here_mm)
        cell = nearest_frontiers(config, view.graph)[1]
        extra_mm = sector_cost_mm(config, view, cell, self.sector_m)
        cost_mm = frontier_costs_mm(config, view, here_mm, within_budget, extra_mm)
        goal = cheapest_frontier(config, view, here_mm, within_budget, cell, cost_mm, self.far_sighted)
        keep = still_wanted(config, view, memory) & within_budget[memory.site[0], memory.site[1]]
        goal = memory.otherwise(keep, goal)
        return towards(config, view, goal, self.far_sighted), goal


def sector_cost_mm(
    config: Config, view: LocalView, cell: Int32[Array, "I J B 2"], sector_m: float
) -> Int32[Array, "I J B"]:
    """Extra cost of frontier cells that do not lie in the robot's own direction from its base."""
    own = 2 * math.pi * (view.number / view.team_size) + SECTOR_OFFSET_RAD
    offset = (cell - view.graph.cell[view.base[0], view.base[1]][None, None, None]).astype(jnp.float32)
    length = jnp.maximum(jnp.sqrt((offset**2).sum(axis=-1)), 1e-6)
    along = (offset[..., 1] * jnp.cos(own) + offset[..., 0] * jnp.sin(own)) / length
    return 10 * jnp.round(100 * sector_m * view.unit * (1 - along)).astype(jnp.int32)  # whole centimetres


def frontier_costs_mm(
    config: Config,
    view: LocalView,
    here_mm: Int32[Array, "I J"],
    within_budget: Bool[Array, "I J"],
    extra_mm: Int32[Array, "I J B"],
) -> Int32[Array, "I J B"]:
    """Cost of each node's nearest frontier in each direction: the way to the node, the rest, and the extra cost."""
    distance_mm = nearest_frontiers(config, view.graph)[0]
    cost_mm = here_mm[..., None] + distance_mm + extra_mm
    return jnp.where(within_budget[..., None] & (distance_mm < FAR_MM) & ~view.sensed, cost_mm, FAR_MM)


def cheapest_frontier(
    config: Config,
    view: LocalView,
    here_mm: Int32[Array, "I J"],
    within_budget: Bool[Array, "I J"],
    cell: Int32[Array, "I J B 2"],
    cost_mm: Int32[Array, "I J B"],
    far_sighted: bool,
) -> Goal:
    """The cheapest of the frontiers that are nearest to a node in a direction, and the node to look at it from."""
    best = jnp.unravel_index(jnp.argmin(cost_mm), cost_mm.shape)
    frontier = cell[best]
    from_there = jnp.stack([best[0], best[1]]).astype(jnp.int32)
    travel_mm = jnp.where(within_budget, here_mm, FAR_MM)
    site = viewpoint(config, view, travel_mm, frontier, from_there, far_sighted)
    return Goal(site, jnp.where(cost_mm.min() < FAR_MM, frontier, -1))
