"""Planners by name."""

from decmarvel.planners.base import Memory, Planner
from decmarvel.planners.frontier import FrontierPlanner
from decmarvel.planners.nbvp import NextBestViewPlanner
from decmarvel.planners.random import RandomPlanner
from decmarvel.planners.shared import SharedGreedyPlanner
from decmarvel.planners.smmr import PotentialPlanner

PLANNERS: dict[str, Planner] = {
    "nearest": FrontierPlanner(),
    "sector": FrontierPlanner(sector_m=30.0, far_sighted=True),
    "smmr": PotentialPlanner(),
    "nbvp": NextBestViewPlanner(),
    "shared-greedy": SharedGreedyPlanner(),
    "random": RandomPlanner(),
}
LEARNED = "dec-marvel"
"""The name of the planner that has weights: the package's, or others."""
BEST_PLANNER = LEARNED


def needs_radio(name: str) -> bool:
    return name in PLANNERS and PLANNERS[name].communicates


def label(name: str) -> str:
    """A planner's name as people should read it: one that needs a radio says so."""
    return f"{name} (radio)" if needs_radio(name) else name


__all__ = ["BEST_PLANNER", "LEARNED", "PLANNERS", "Memory", "Planner", "label", "needs_radio"]
