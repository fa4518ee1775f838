"""The planner Shared-greedy and its shared map: docs/planners.md a second time."""

import math

import numpy as np

import oracles.camera
from decmarvel.core.config import Config
from oracles.goals import Goal, Offer, cheapest, goal_of, offers, still_wanted
from oracles.lattice import Cell
from oracles.mind import Mind


def crowding_cost(config: Config, cell: Cell, goals: list[Cell]) -> int:
    """What is added to the cost of a cell for the goals of others: section "Shared greedy"."""
    total, unit = 0, config.sensor_range_m / 10
    for goal in goals:
        metres = config.cell_m * math.hypot(cell[0] - goal[0], cell[1] - goal[1])
        total += 10 * round(100 * 60 * unit * max(0.0, 1 - metres / (30 * unit)))
    return total


def kept_goals(minds: list[Mind], exploring: list[bool], old: list[Goal | None]) -> list[Goal | None]:
    """The goals that stay: those still wanted of the robots that explore. Section "Shared greedy"."""
    kept = []
    for mind, explores, goal in zip(minds, exploring, old, strict=True):
        kept.append(goal if explores and still_wanted(mind, goal) else None)
    return kept


def shared_goal(mind: Mind, known: list[Goal | None]) -> tuple[Goal | None, list[Offer]]:
    """The goal of one robot that has none, and what it was chosen from: section "Shared greedy"."""
    cells = [goal.cell for goal in known if goal is not None]
    found = offers(mind, lambda cell: crowding_cost(mind.config, cell, cells))
    return goal_of(mind, cheapest(found), far_sighted=True), found


def shared_map(beliefs: np.ndarray, sensed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The belief and the sensed headings that everybody has after a decision: section "Shared greedy"."""
    known = np.zeros(sensed.shape[1:], bool)
    for robot in range(len(sensed)):
        known |= sensed[robot]
    return oracles.camera.merged_belief(beliefs), known
