"""The figures that the paper prints: Table I (planners) and Table III (breakdowns), copied from its LaTeX source."""

from dataclasses import dataclass
from typing import NamedTuple


class Spread(NamedTuple):
    """A mean and a standard deviation over trials."""

    mean: float
    std: float


@dataclass(frozen=True)
class Published:
    """One setting of one planner over 100 trials. Metres are over the trials that reached 99%."""

    coverage: float
    success_percent: float
    metres: Spread
    """Largest travel of a robot when the merged map reached 99%."""
    overlap: Spread | None = None
    """Table I only."""
    individual: Spread | None = None
    """Travel of a robot when its own map reached 99%. Table III only."""

    def printed(self, metric: str) -> tuple[float, float | None] | None:
        """Mean and deviation of a metric, in the units of our tables, which are the paper's."""
        shares = {"coverage": (self.coverage, None), "success": (self.success_percent, None)}
        spreads = {"metres": self.metres, "overlap": self.overlap, "individual": self.individual}
        return shares.get(metric) or spreads.get(metric)


TRIALS = 100
"""Of every setting in the paper."""

PLANNERS = {"nearest": "Nearest", "smmr": "SMMR", "nbvp": "NBVP", "marvel": "MARVEL", "dec-marvel": "Dec-MARVEL"}
"""Our names and the paper's, in the order of the paper's columns."""

BREAKDOWN_PLANNER, BREAKDOWN_ROBOTS = "dec-marvel", 4
"""Whom Table III is about. It does not print the team size; its rows without breakdowns are those of N = 4."""

# fmt: off
_TABLE_1 = (
    # planner, budget, N, coverage, success %, metres (std), overlap (std)
    ("nearest", 720, 2, 0.762, 4, 508.67, 42.378, 0.415, 0.093),
    ("nearest", 720, 4, 0.862, 16, 532.922, 69.072, 0.683, 0.036),
    ("nearest", 720, 8, 0.949, 42, 476.565, 93.136, 0.924, 0.087),
    ("nearest", 800, 2, 0.826, 10, 590.823, 86.898, 0.42, 0.086),
    ("nearest", 800, 4, 0.896, 26, 574.254, 73.99, 0.693, 0.038),
    ("nearest", 800, 8, 0.962, 58, 544.304, 109.916, 0.918, 0.093),
    ("nearest", 1024, 2, 0.902, 41, 826.397, 97.464, 0.417, 0.087),
    ("nearest", 1024, 4, 0.972, 70, 737.969, 143.737, 0.693, 0.039),
    ("nearest", 1024, 8, 0.991, 84, 641.267, 158.237, 0.911, 0.089),
    ("smmr", 720, 2, 0.85, 37, 549.289, 46.374, 0.051, 0.144),
    ("smmr", 720, 4, 0.951, 83, 493.304, 75.757, 0.124, 0.166),
    ("smmr", 720, 8, 0.991, 99, 418.689, 92.879, 0.208, 0.186),
    ("smmr", 800, 2, 0.897, 49, 625.416, 79.123, 0.044, 0.13),
    ("smmr", 800, 4, 0.971, 87, 518.866, 99.703, 0.105, 0.154),
    ("smmr", 800, 8, 0.993, 97, 428.817, 109.553, 0.193, 0.179),
    ("smmr", 1024, 2, 0.964, 83, 750.443, 125.413, 0.037, 0.121),
    ("smmr", 1024, 4, 0.994, 98, 623.211, 159.591, 0.088, 0.142),
    ("smmr", 1024, 8, 0.999, 100, 460.256, 133.121, 0.168, 0.168),
    ("nbvp", 720, 2, 0.841, 10, 499.46, 57.17, 0.651, 0.197),
    ("nbvp", 720, 4, 0.936, 51, 465.29, 87.308, 0.861, 0.098),
    ("nbvp", 720, 8, 0.982, 83, 383.448, 91.514, 0.968, 0.054),
    ("nbvp", 800, 2, 0.896, 25, 588.118, 72.168, 0.691, 0.168),
    ("nbvp", 800, 4, 0.97, 70, 481.504, 122.903, 0.898, 0.081),
    ("nbvp", 800, 8, 0.992, 92, 417.18, 107.447, 0.978, 0.048),
    ("nbvp", 1024, 2, 0.961, 55, 722.261, 151.919, 0.79, 0.131),
    ("nbvp", 1024, 4, 0.993, 88, 602.593, 165.627, 0.965, 0.05),
    ("nbvp", 1024, 8, 0.999, 98, 423.844, 134.527, 0.997, 0.02),
    ("marvel", 720, 2, 0.888, 19, 552.831, 81.876, 0.251, 0.383),
    ("marvel", 720, 4, 0.925, 38, 514.456, 91.353, 0.333, 0.245),
    ("marvel", 720, 8, 0.95, 50, 475.971, 95.825, 0.479, 0.215),
    ("marvel", 800, 2, 0.924, 35, 556.22, 108.057, 0.153, 0.302),
    ("marvel", 800, 4, 0.947, 51, 541.74, 123.179, 0.3, 0.236),
    ("marvel", 800, 8, 0.964, 62, 533.027, 120.5, 0.436, 0.199),
    ("marvel", 1024, 2, 0.958, 84, 739.903, 107.768, 0.196, 0.33),
    ("marvel", 1024, 4, 0.968, 88, 690.428, 137.934, 0.349, 0.253),
    ("marvel", 1024, 8, 0.977, 91, 666.125, 169.893, 0.496, 0.215),
    ("dec-marvel", 720, 2, 0.962, 53, 495.79, 76.612, 0.031, 0.107),
    ("dec-marvel", 720, 4, 0.995, 94, 398.24, 97.829, 0.083, 0.128),
    ("dec-marvel", 720, 8, 0.999, 100, 318.467, 85.796, 0.159, 0.148),
    ("dec-marvel", 800, 2, 0.97, 61, 537.438, 128.5, 0.03, 0.107),
    ("dec-marvel", 800, 4, 0.997, 97, 382.952, 104.294, 0.07, 0.125),
    ("dec-marvel", 800, 8, 0.999, 100, 308.344, 74.892, 0.148, 0.143),
    ("dec-marvel", 1024, 2, 0.989, 86, 602.558, 164.689, 0.029, 0.106),
    ("dec-marvel", 1024, 4, 0.999, 100, 400.154, 119.26, 0.072, 0.119),
    ("dec-marvel", 1024, 8, 0.999, 100, 308.248, 82.272, 0.145, 0.14),
)
_TABLE_3 = (
    # budget, broken, coverage, success %, merged 99% (std), individual 99% (std)
    (720, 2, 0.954, 69, 403.63, 106.60, 625.55, 46.33),
    (720, 1, 0.986, 86, 424.08, 117.56, 624.73, 32.73),
    (720, 0, 0.995, 94, 398.24, 97.82, 607.62, 38.53),
    (800, 2, 0.966, 77, 417.18, 127.03, 697.09, 58.73),
    (800, 1, 0.988, 91, 434.82, 126.26, 686.28, 63.02),
    (800, 0, 0.997, 97, 382.95, 104.29, 650.22, 47.88),
    (1024, 2, 0.969, 82, 488.13, 197.52, 743.36, 80.83),
    (1024, 1, 0.996, 97, 430.04, 155.55, 763.03, 85.50),
    (1024, 0, 0.999, 100, 400.15, 119.26, 676.11, 66.38),
)
# fmt: on

TABLE_1: dict[tuple[str, float, int], Published] = {
    (planner, float(budget_m), robots): Published(
        coverage, float(success), Spread(metres, metres_std), overlap=Spread(overlap, overlap_std)
    )
    for planner, budget_m, robots, coverage, success, metres, metres_std, overlap, overlap_std in _TABLE_1
}
"""By planner, budget in metres and team size."""

TABLE_3: dict[tuple[float, int], Published] = {
    (float(budget_m), broken): Published(
        coverage, float(success), Spread(metres, metres_std), individual=Spread(individual, individual_std)
    )
    for budget_m, broken, coverage, success, metres, metres_std, individual, individual_std in _TABLE_3
}
"""By budget in metres and number of broken robots."""


def published(planner: str, robots: int, budget_m: float, broken: int = 0) -> Published | None:
    """What the paper prints for a setting, if anything. Without breakdowns: Table I, and Table III's individual 99%."""
    breakdown = TABLE_3.get((budget_m, broken)) if (planner, robots) == (BREAKDOWN_PLANNER, BREAKDOWN_ROBOTS) else None
    if broken:
        return breakdown
    row = TABLE_1.get((planner, budget_m, robots))
    if row is None or breakdown is None:
        return row
    return Published(row.coverage, row.success_percent, row.metres, row.overlap, breakdown.individual)


def as_published(planner: str) -> str:
    """The heading of the paper's own figures, which are from its maps and its simulator."""
    return f"{PLANNERS[planner]}, as published"
