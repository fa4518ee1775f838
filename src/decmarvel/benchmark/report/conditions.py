"""What missions are flown under, and the families of maps that they are flown in."""

import re
from typing import NamedTuple

from decmarvel.benchmark.trials import camera_text, is_usual_camera
from decmarvel.core.config import NOISE_LEVELS
from decmarvel.simulation.team import PAPER

QUIET = "off"
"""The noise level of a benchmark without noise."""
BLOCKS = "blocks"
"""The family of maps from files that robots without a body fly in, as in the paper's data set."""
PAPER_FAMILIES = ("indoor", BLOCKS)
"""The buildings that the paper's figures are about."""


class Condition(NamedTuple):
    """What a mission is flown under, whoever the planner is."""

    budget_m: float
    robots: int
    broken: int = 0
    noise: str = QUIET
    fov_deg: int = PAPER.fov_deg
    range_m: float = PAPER.sensor_range_m

    @property
    def plain(self) -> bool:
        """Neither breakdowns nor noise, and the paper's camera: a condition of Table I."""
        return self.undisturbed and self.usual_camera

    @property
    def undisturbed(self) -> bool:
        """Neither breakdowns nor noise."""
        return self.broken == 0 and self.noise == QUIET

    @property
    def usual_camera(self) -> bool:
        return is_usual_camera(self.fov_deg, self.range_m)

    @property
    def camera(self) -> str:
        """For the cells of tables."""
        return f"{self.fov_deg} deg, {self.range_m:g} m"

    @property
    def extras(self) -> list[str]:
        """What is unusual about it, in words."""
        found = [f"{self.broken} broken"] * (self.broken > 0) + [f"noise {self.noise}"] * (self.noise != QUIET)
        return found + [camera_text(self.fov_deg, self.range_m)] * (not self.usual_camera)

    @property
    def text(self) -> str:
        return ", ".join([f"{self.robots} robots", f"{self.budget_m:g} m", *self.extras])


def condition_order(condition: Condition) -> tuple[float, int, bool, int, float, int, int, str]:
    """As the paper's table: budgets, then team sizes; then cameras, breakdowns, and noise from weak to strong."""
    levels = list(NOISE_LEVELS)
    level = levels.index(condition.noise) if condition.noise in levels else len(levels)
    camera = (not condition.usual_camera, condition.fov_deg, condition.range_m)
    return condition.budget_m, condition.robots, *camera, condition.broken, level, condition.noise


def family(map_id: str, radius_m: float) -> str:
    """The family of a generated map. A map from a file is a family of its own, but those of blocks are one."""
    generated = re.match(r"(.+)-(heldout|train)-\d+$", map_id)
    if generated:
        return generated[1]
    return BLOCKS if radius_m == 0 else map_id
