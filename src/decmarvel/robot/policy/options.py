"""The options of a robot: the cheapest goals of a frontier planner, with the headings that show most on the way.

The planner prefers the robot's own sector, and frontiers that teammates have probably not explored yet. It computes
everything from the robot's own map, number and team size. Not in the paper.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.angles import heading_bin, wrap_degrees
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, LocalView, Scalar
from decmarvel.robot.budget import affordable
from decmarvel.robot.planners.frontier import cheapest_frontier, frontier_costs_mm, sector_cost_mm
from decmarvel.robot.planners.goals import distances_from_here, first_slots, gazes
from decmarvel.robot.planners.preview import shown
from decmarvel.robot.policy.nodes import Options
from decmarvel.robot.sight import nearest_frontiers

NO_OPTION = -1
SECTOR_M = 20.0
"""Weight in metres of the extra cost of a frontier away from the robot's own sector."""
STALE_M = 80.0
"""Extra cost in metres of a frontier that teammates have surely explored."""
STALE_PER_MATE_M = 25.0
"""The same for each teammate, STALE_M at most, where moves are short: there it is guessed less surely."""
APART_M = 8.0
"""Frontiers nearer to each other than this are one option."""
ALIKE_DEGREES = 30


def find_options(
    config: Config, view: LocalView, stale: Float32[Array, "I J"], count: int
) -> tuple[Int32[Array, "K H"], Options]:
    """The headings to choose from, and the cheapest goals that lie apart.

    `stale`: probability that teammates have explored behind a node's frontier. A robot that is alone has no sector.
    Where moves are short it looks where the planner would, and may turn where it stands.
    """
    here_mm = distances_from_here(config, view)
    within_budget = affordable(config, view, here_mm)
    cell = nearest_frontiers(config, view.graph)[1]
    mates = (view.team_size - 1).astype(jnp.float32)
    surely_stale_m = jnp.minimum(STALE_PER_MATE_M * mates, STALE_M) if config.short_moves else STALE_M
    stale_mm = jnp.round(1000 * surely_stale_m * view.unit * stale).astype(jnp.int32)
    extra_mm = sector_cost_mm(config, view, cell, SECTOR_M) + stale_mm[..., None]
    extra_mm = jnp.where(view.team_size > 1, extra_mm, 0)
    cost_mm = frontier_costs_mm(config, view, here_mm, within_budget, extra_mm)
    first = first_slots(config, view)
    apart = jnp.round((APART_M / config.cell_m * view.unit) ** 2).astype(jnp.int32)

    def next_best(cost_mm: Int32[Array, "I J B"], _: None) -> tuple[Int32[Array, "I J B"], tuple[Array, ...]]:
        goal = cheapest_frontier(config, view, here_mm, within_budget, cell, cost_mm, far_sighted=True)
        slot = first[goal.site[0], goal.site[1]]
        gaze = gazes(config, view, goal, far_sighted=True)[slot]
        away = ((cell - goal.cell[None, None, None]) ** 2).sum(axis=-1) >= apart
        found, cost_m = goal.cell[0] >= 0, cost_mm.min().astype(jnp.float32) / 1000 / view.unit
        return jnp.where(away, cost_mm, FAR_MM), (found, slot, gaze, goal.site, cost_m)

    found, slot, gaze, site, cost_m = jax.lax.scan(next_best, cost_mm, None, length=count)[1]
    if config.short_moves:
        headings = looking_at_goals(config, view, found, slot, gaze)
        heading = jnp.full(count, config.headings_per_node - 1, jnp.int32)
        shown_cells = jnp.zeros(count, jnp.int32)
    else:
        headings, shows = view.candidates.heading_bin, shown(config, view, slot)
        heading = jax.vmap(lambda *option: most_shown_heading(config, *option))(shows, headings[slot], gaze)
        shown_cells = shows.max(axis=1)
    return headings, Options(
        action=jnp.where(found, slot * config.headings_per_node + heading, NO_OPTION),
        site=jnp.where(found[:, None], site, -1),
        cost_m=jnp.where(found, cost_m, 0.0),
        shown_cells=jnp.where(found, shown_cells, 0),
    )


def looking_at_goals(
    config: Config, view: LocalView, found: Bool[Array, "V"], slot: Int32[Array, "V"], gaze: Int32[Array, "V"]
) -> Int32[Array, "K H"]:
    """The candidates' headings, the last of each slot with which an option begins being the planner's own.

    Of several options that begin with one slot it is that of the cheapest.
    """
    headings = view.candidates.heading_bin
    for option in reversed(range(len(slot))):
        wanted = jnp.where(found[option], heading_bin(config, gaze[option]), headings[slot[option], -1])
        headings = headings.at[slot[option], -1].set(wanted)
    return headings


def most_shown_heading(config: Config, shows: Int32[Array, "H"], bins: Int32[Array, "H"], gaze: Scalar) -> Scalar:
    """Index of the heading at a waypoint with which the robot sees most new cells on its way there.

    Among equals, it is the one nearest to the planner's heading, in steps of ALIKE_DEGREES.
    """
    away = jnp.abs(wrap_degrees(bins * config.degrees_per_bin - gaze)) // ALIKE_DEGREES
    return jnp.argmax(shows * (180 // ALIKE_DEGREES + 1) - away).astype(jnp.int32)
