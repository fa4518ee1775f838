"""Shared-map greedy, a reference: one shared map and goals kept apart. It needs a radio, so it does not compete."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import Keys, LocalView, Proposal
from decmarvel.robot.budget import affordable
from decmarvel.robot.planners.frontier import cheapest_frontier, frontier_costs_mm
from decmarvel.robot.planners.goals import Goal, distances_from_here, still_wanted, towards
from decmarvel.robot.sight import nearest_frontiers
from decmarvel.simulation.radio import RadioPlanner

REPULSION_M = 60.0
REPULSION_RANGE_M = 30.0


class SharedGreedyPlanner(RadioPlanner):
    """Shared-map greedy: robots choose in order; the cost of a frontier is the way to it plus
    60 m * sum over the goals already chosen of max(0, 1 - distance / 30 m).

    Robots pursue their goals in the far-sighted way (goals.py), the stronger choice. A robot keeps a goal until it is
    reached or its frontier is gone; robots that choose know the goals that others keep.
    """

    def start(self, config: Config, sites: int) -> Goal:
        return Goal.none()

    def propose_team(
        self, config: Config, keys: Keys, views: LocalView, exploring: Bool[Array, "N"], memory: Goal
    ) -> tuple[Proposal, Goal]:
        here_mm = jax.vmap(lambda view: distances_from_here(config, view))(views)
        within_budget = jax.vmap(lambda view, here: affordable(config, view, here))(views, here_mm)
        frontier = nearest_frontiers(config, jax.tree.map(lambda leaf: leaf[0], views.graph))[1]
        number = jnp.arange(len(exploring), dtype=jnp.int32)

        def kept(view: LocalView, within: Bool[Array, "I J"], goal: Goal, flies: Bool[Array, ""]) -> Goal:
            keep = flies & still_wanted(config, view, goal) & within[goal.site[0], goal.site[1]]
            return goal.otherwise(keep, Goal.none())

        def choose(goals: Goal, number: Int32[Array, ""]) -> tuple[Goal, None]:
            view, here, within = jax.tree.map(lambda leaf: leaf[number], (views, here_mm, within_budget))
            own = jax.tree.map(lambda leaf: leaf[number], goals)
            extra_mm = repulsion_mm(config, frontier, goals.cell)
            cost_mm = frontier_costs_mm(config, view, here, within, extra_mm)
            goal = cheapest_frontier(config, view, here, within, frontier, cost_mm, far_sighted=True)
            goal = own.otherwise(own.cell[0] >= 0, goal).otherwise(exploring[number], Goal.none())
            return jax.tree.map(lambda leaf, value: leaf.at[number].set(value), goals, goal), None

        goals = jax.vmap(kept)(views, within_budget, memory, exploring)
        goals, _ = jax.lax.scan(choose, goals, number)
        return jax.vmap(lambda view, goal: towards(config, view, goal, far_sighted=True))(views, goals), goals


def repulsion_mm(config: Config, cell: Int32[Array, "I J B 2"], goals: Int32[Array, "N 2"]) -> Int32[Array, "I J B"]:
    """Millimetres that the goals of others add to the cost of frontier cells."""

    def add(total: Array, goal: Int32[Array, "2"]) -> tuple[Array, None]:
        offset = (cell - goal[None, None, None]).astype(jnp.float32) * config.cell_m
        nearness = 1 - jnp.sqrt((offset**2).sum(axis=-1)) / (REPULSION_RANGE_M * config.scale)
        there = goal[0] >= 0
        return total + jnp.where(
            there, jnp.round(100 * REPULSION_M * config.scale * jnp.maximum(nearness, 0.0)), 0.0
        ), None

    total, _ = jax.lax.scan(add, jnp.zeros(cell.shape[:-1]), goals)
    return 10 * total.astype(jnp.int32)  # whole centimetres
