"""What a robot knows, and what every planner of docs/planners.md works out from it first."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

import oracles.camera
import oracles.graph
import oracles.guard
import oracles.lattice
from decmarvel.core.config import Config
from oracles.lattice import Cell, Site


@dataclass
class Mind:
    """What one robot knows, and what every planner works out from it first."""

    config: Config
    belief: np.ndarray
    sensed: np.ndarray
    site: Site
    base: Site
    budget_mm: int
    number: int = 0
    team_size: int = 1
    in_sight: list[Cell] = field(default_factory=list)
    """Cells of the teammates that it saw at the last decision."""
    fov_deg: int | None = None
    range_mm: int | None = None
    """Its camera; None: as the configuration says."""

    @property
    def camera(self) -> tuple[int, int]:
        """Field of view in degrees, range in millimetres."""
        fov_deg = self.config.fov_deg if self.fov_deg is None else self.fov_deg
        return fov_deg, round(1000 * self.config.sensor_range_m) if self.range_mm is None else self.range_mm

    @cached_property
    def size(self) -> int:
        return oracles.lattice.sites_a_side(self.config, self.belief.shape[0])

    @cached_property
    def edge(self) -> np.ndarray:
        return oracles.graph.edges(self.config, self.belief)

    @cached_property
    def home(self) -> np.ndarray:
        return oracles.graph.distances(self.config, self.edge, [self.base])

    @cached_property
    def here(self) -> np.ndarray:
        return oracles.graph.distances(self.config, self.edge, [self.site])

    @cached_property
    def affordable(self) -> np.ndarray:
        """Nodes that can be visited on the way home: section "Goals and how they are pursued"."""
        return self.here + self.home + self.config.safety_margin_mm <= self.budget_mm

    @cached_property
    def feasible(self) -> np.ndarray:
        """Slots that the guard admits: "Guard, modes, conflicts" of the model."""
        return oracles.guard.feasible_slots(self.config, self.edge, self.home, self.site, self.budget_mm)

    @cached_property
    def frontier(self) -> np.ndarray:
        """Grouped frontiers: "Graph" of the model."""
        return oracles.graph.grouped(oracles.graph.frontiers(self.belief))

    def sites(self) -> list[Site]:
        """All sites in row-major order."""
        return [(i, j) for i in range(self.size) for j in range(self.size)]

    def cell(self, site: Site) -> Cell:
        return oracles.lattice.site_cell(self.config, *site)


@lru_cache(maxsize=200_000)
def offsets_in_sight(window: bytes, side: int, radius_cells: float) -> frozenset[tuple[int, int]]:
    """Visible offsets around the middle of a square window, remembered: most windows stay as they were."""
    see_through = np.frombuffer(window, bool).reshape(side, side)
    half = side // 2
    seen = oracles.camera.visible_cells(see_through, half, half, radius_cells)
    return frozenset((y - half, x - half) for y, x in seen)


def cells_in_sight(see_through: np.ndarray, cell: Cell, radius_cells: float) -> set[Cell]:
    """`oracles.visible_cells` with a memory; what lies outside the grid is no cell and not see-through."""
    reach = math.ceil(radius_cells)
    side = 2 * reach + 1
    window = np.zeros((side, side), bool)
    top, left = cell[0] - reach, cell[1] - reach
    y0, x0 = max(0, top), max(0, left)
    part = see_through[y0 : top + side, x0 : left + side]
    window[y0 - top : y0 - top + part.shape[0], x0 - left : x0 - left + part.shape[1]] = part
    seen = set()
    for dy, dx in offsets_in_sight(window.tobytes(), side, radius_cells):
        if oracles.lattice.inside(see_through.shape, cell[0] + dy, cell[1] + dx):
            seen.add((cell[0] + dy, cell[1] + dx))
    return seen
