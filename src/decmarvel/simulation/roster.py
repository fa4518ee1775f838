"""Planners by name."""

from decmarvel.robot.planners.base import Memory, Planner
from decmarvel.robot.planners.frontier import FrontierPlanner
from decmarvel.robot.planners.nbvp import NextBestViewPlanner
from decmarvel.robot.planners.random import RandomPlanner
from decmarvel.robot.planners.smmr import PotentialPlanner
from decmarvel.simulation.shared_greedy import SharedGreedyPlanner

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
