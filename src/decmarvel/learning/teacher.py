"""A teacher for the policy: it knows what every robot has seen, and says what each of them should do.

It exists in training only. Unlike the skyline (planners/shared.py) it leaves everybody their own map, and gives a robot
a goal that the robot could have thought of itself: a frontier of its own map. So there is something to imitate, and
where the reason lies with others, the policy can learn what is usually right.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from decmarvel.belief import merge
from decmarvel.budget import affordable
from decmarvel.config import Config
from decmarvel.learning.advice import nearest_candidate
from decmarvel.planners.base import RadioPlanner
from decmarvel.planners.frontier import cheapest_frontier, sector_cost_mm
from decmarvel.planners.goal import Goal, distances_from_here, towards
from decmarvel.planners.shared import repulsion_mm
from decmarvel.sight import frontiers, nearest_frontiers
from decmarvel.types import RETURN_HOME, Keys, LocalView, Proposal

SECTOR_M = 15.0
"""How much everybody prefers their own direction, as sector frontier does: so their numbers tell robots apart."""
STALE_MM = 500_000
"""What a frontier costs more that somebody else has looked behind: it comes after all others."""
NO_LESSON = -1


class Teacher(RadioPlanner):
    """Robots choose in order: the cheapest frontier of one's own map that is still one in the merged map, keeps clear
    of the goals already chosen, as shared-greedy's do, and rather lies in one's own sector. Nothing is remembered, as
    the policy remembers nothing.
    """

    shares_maps: ClassVar[bool] = False

    def start(self, config: Config, sites: int) -> None:
        return None

    def propose_team(
        self, config: Config, keys: Keys | None, views: LocalView, exploring: Bool[Array, "N"], memory: None = None
    ) -> tuple[Proposal, None]:
        news = frontiers(merge(views.belief))
        here_mm = jax.vmap(lambda view: distances_from_here(config, view))(views)
        within_budget = jax.vmap(lambda view, here: affordable(config, view, here))(views, here_mm)

        def choose(taken: Int32[Array, "N 2"], number: Int32[Array, ""]) -> tuple[Int32[Array, "N 2"], Goal]:
            view, here, within = jax.tree.map(lambda leaf: leaf[number], (views, here_mm, within_budget))
            cell = nearest_frontiers(config, view.graph.sight)[1]
            stale = ~news[cell[..., 0], cell[..., 1]]
            extra_mm = repulsion_mm(config, cell, taken) + sector_cost_mm(config, view, cell, SECTOR_M)
            extra_mm += jnp.where(stale, STALE_MM, 0)
            goal = cheapest_frontier(config, view, here, within, extra_mm, far_sighted=True)
            goal = goal.otherwise(exploring[number], Goal.none())
            return taken.at[number].set(goal.cell), goal

        nobody = jnp.full((len(exploring), 2), -1, jnp.int32)
        goals = jax.lax.scan(choose, nobody, jnp.arange(len(exploring), dtype=jnp.int32))[1]
        return jax.vmap(lambda view, goal: towards(config, view, goal, far_sighted=True))(views, goals), None


def lessons(config: Config, views: LocalView, exploring: Bool[Array, "N"]) -> Int32[Array, "N"]:
    """The candidate most like what the teacher would do."""
    proposals, _ = Teacher().propose_team(config, None, views, exploring)
    nearest = jax.vmap(lambda view, proposal: nearest_candidate(config, view, proposal))(views, proposals)
    taught = exploring & (proposals.choice != RETURN_HOME)
    return jnp.where(taught, nearest, NO_LESSON).astype(jnp.int32)
