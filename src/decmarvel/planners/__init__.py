"""Planners by name."""

from decmarvel.planners.base import Memory, Planner
from decmarvel.planners.frontier import FrontierPlanner
from decmarvel.planners.random import RandomPlanner

PLANNERS: dict[str, Planner] = {
    "nearest": FrontierPlanner(),
    "sector": FrontierPlanner(sector_m=30.0, far_sighted=True),
    "random": RandomPlanner(),
}
BEST_PLANNER = "sector"

__all__ = ["BEST_PLANNER", "PLANNERS", "Memory", "Planner"]
