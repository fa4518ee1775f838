"""Advice for the policy: what a frontier planner would do that prefers a sector of its own and, by a hunch, news.

Not in the paper: for networks with the extension `advice`. A robot computes it from its own map, number and team size.
Where to look on the way is no matter of taste: the heading that shows most is part of the advice.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from decmarvel.core.angles import wrap_degrees
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, Key, LocalView, Scalar
from decmarvel.robot.budget import affordable
from decmarvel.robot.planners.frontier import cheapest_frontier, frontier_costs_mm, sector_cost_mm
from decmarvel.robot.planners.goals import distances_from_here, first_slots, gazes
from decmarvel.robot.planners.preview import shown
from decmarvel.robot.policy.nodes import NO_OPTION, OPTIONS, Advice, Nodes, Situation, on_lattice
from decmarvel.robot.policy.staleness import Hunch
from decmarvel.robot.sight import nearest_frontiers

SECTOR_M, STALE_M = 20.0, 80.0
"""How much the adviser prefers its own direction, and a frontier that is surely news to one that surely is none."""
APART_M = 8.0
"""Frontiers nearer to each other than this are one option."""
ALIKE_DEGREES = 30


class Adviser(eqx.Module):
    """A planner with a hunch."""

    hunch: Hunch

    def __init__(self, key: Key):
        self.hunch = Hunch(key)

    def __call__(self, config: Config, view: LocalView, nodes: Nodes, situation: Situation) -> Advice:
        """It remembers nothing, as the policy remembers nothing."""
        return advise(config, view, on_lattice(nodes, self.chances(nodes, situation), view.visits.shape[0]))

    def chances(self, nodes: Nodes, situation: Situation) -> Float32[Array, "M"]:
        """That others have looked behind what is left to look at from each node. Nothing but the hunch's own lesson
        changes the hunch.
        """
        return jax.lax.stop_gradient(jax.nn.sigmoid(self.hunch(nodes, situation)))


def advise(config: Config, view: LocalView, known: Float32[Array, "S S"]) -> Advice:
    """The cheapest goals apart from each other, if others have looked behind a node's frontier so probably."""
    here_mm = distances_from_here(config, view)
    within_budget = affordable(config, view, here_mm)
    cell = nearest_frontiers(config, view.graph.sight)[1]
    stale_mm = jnp.round(1000 * STALE_M * known).astype(jnp.int32)
    extra_mm = sector_cost_mm(config, view, cell, SECTOR_M) + stale_mm[..., None]
    cost_mm = frontier_costs_mm(config, view, here_mm, within_budget, extra_mm)
    first = first_slots(config, view)

    def next_best(cost_mm: Int32[Array, "S S B"], _: None) -> tuple[Int32[Array, "S S B"], tuple[Array, ...]]:
        goal = cheapest_frontier(config, view, here_mm, within_budget, cell, cost_mm, far_sighted=True)
        slot = first[goal.site[0], goal.site[1]]
        gaze = gazes(config, view, goal, far_sighted=True)[slot]
        away = ((cell - goal.cell[None, None, None]) ** 2).sum(axis=-1) >= round((APART_M / config.cell_m) ** 2)
        found, cost_m = goal.cell[0] >= 0, cost_mm.min().astype(jnp.float32) / 1000
        return jnp.where(away, cost_mm, FAR_MM), (found, slot, gaze, goal.site, cost_m)

    found, slot, gaze, site, cost_m = jax.lax.scan(next_best, cost_mm, None, length=OPTIONS)[1]
    shows = shown(config, view, slot)
    heading = jax.vmap(lambda *option: telling(config, *option))(shows, view.candidates.heading_bin[slot], gaze)
    return Advice(
        action=jnp.where(found, slot * config.headings_per_node + heading, NO_OPTION),
        site=jnp.where(found[:, None], site, -1),
        cost_m=jnp.where(found, cost_m, 0.0),
        shows=jnp.where(found, shows.max(axis=1), 0),
    )


def telling(config: Config, shows: Int32[Array, "H"], heading_bin: Int32[Array, "H"], gaze: Scalar) -> Scalar:
    """Of the headings at a waypoint the one with which the robot sees most that is new on its way there.

    Among equals, the nearest to where the planner would look, in steps of ALIKE_DEGREES.
    """
    away = jnp.abs(wrap_degrees(heading_bin * config.degrees_per_bin - gaze)) // ALIKE_DEGREES
    return jnp.argmax(shows * (180 // ALIKE_DEGREES + 1) - away).astype(jnp.int32)
