"""Advice for the policy: what a frontier planner would do that prefers a sector of its own and, by a hunch, news.

Not in the paper: for networks with the extension `advice`. A robot computes it from its own map, number and team size.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from decmarvel.budget import affordable
from decmarvel.config import Config
from decmarvel.learning.hunch import Hunch
from decmarvel.learning.nodes import NO_OPTION, OPTIONS, Advice, Nodes, Situation, on_lattice
from decmarvel.planners.frontier import cheapest_frontier, frontier_costs_mm, sector_cost_mm
from decmarvel.planners.goal import distances_from_here, first_slots, gazes
from decmarvel.sight import nearest_frontiers
from decmarvel.types import FAR_MM, Key, LocalView, Scalar

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

    def next_best(cost_mm: Int32[Array, "S S B"], _: None) -> tuple[Int32[Array, "S S B"], Advice]:
        goal = cheapest_frontier(config, view, here_mm, within_budget, cell, cost_mm, far_sighted=True)
        slot = first[goal.site[0], goal.site[1]]
        action = nearest_candidate(config, view, slot, gazes(config, view, goal, far_sighted=True)[slot])
        cells = cell - goal.cell[None, None, None]
        away = (cells**2).sum(axis=-1) >= round((APART_M / config.cell_m) ** 2)
        found, cost_m = goal.cell[0] >= 0, cost_mm.min().astype(jnp.float32) / 1000
        option = Advice(
            jnp.where(found, action, NO_OPTION), jnp.where(found, goal.site, -1), jnp.where(found, cost_m, 0.0)
        )
        return jnp.where(away, cost_mm, FAR_MM), option

    return jax.lax.scan(next_best, cost_mm, None, length=OPTIONS)[1]


def nearest_candidate(config: Config, view: LocalView, slot: Scalar, degrees: Scalar) -> Scalar:
    """The candidate most like a wish: its waypoint, and of the headings there the nearest.

    Headings at like distances are alike, so the first of them is taken, which shows most frontiers.
    """
    away = view.candidates.heading_bin[slot] * config.degrees_per_bin - degrees
    heading = jnp.argmin(jnp.abs((away + 180) % 360 - 180) // ALIKE_DEGREES)
    return (slot * config.headings_per_node + heading).astype(jnp.int32)
