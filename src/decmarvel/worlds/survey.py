"""What a map file holds beside the floor that robots start on: unknown places, pieces that are cut off, speckles."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from scipy import ndimage

from decmarvel.worlds.building import Building
from decmarvel.worlds.fit import reached_floor
from decmarvel.worlds.mapfile import load, read_map
from decmarvel.worlds.resample import resample

SMALLEST_ISLAND_M2 = 0.5
LARGEST_SPECKLE_M2 = 0.05
FINE_CELL_M, COARSEST_CELL_M = 0.1, 0.4


@dataclass(frozen=True)
class Survey:
    """A map file, part by part. All masks have the building's cells; what is not in any of them is wall."""

    building: Building
    """The floor that hangs together with the start."""
    reached: Bool[np.ndarray, "rows columns"]
    """Its part under a robot of the given radius, wherever it can go."""
    islands: Bool[np.ndarray, "rows columns"]
    """Free floor that is cut off from the start."""
    island_sizes_m2: tuple[float, ...]
    """Sizes of the larger islands, largest first."""
    unknown: Bool[np.ndarray, "rows columns"]
    """What the file calls unknown. Robots find walls there."""
    doubtful: Bool[np.ndarray, "rows columns"]
    """Floor that is only just bright enough to be free: perhaps what another program calls unknown."""
    speckles: int
    """Number of specks of wall or unknown in the middle of free floor. They are kept as obstacles."""

    @property
    def narrow(self) -> Bool[np.ndarray, "rows columns"]:
        """Floor that is too narrow for the robot, or behind such places."""
        return self.building.free & ~self.reached

    def area_m2(self, mask: Bool[np.ndarray, "rows columns"]) -> float:
        return float(mask.sum()) * self.building.cell_m**2


def survey(
    path: Path,
    radius_m: float,
    resolution_m: float | None = None,
    start_m: tuple[float, float] | None = None,
) -> Survey:
    """Look at a map file with cells of its own pixels, 0.1 m at least."""
    raw = read_map(path, resolution_m)
    cell_m = min(max(raw.pixel_m, FINE_CELL_M), COARSEST_CELL_M)
    building = load(path, cell_m=cell_m, resolution_m=resolution_m, start_m=start_m)
    islands = resample(raw.free, raw.pixel_m, cell_m) & ~building.free
    parts, count = ndimage.label(islands)
    sizes_m2 = np.bincount(parts.ravel(), minlength=count + 1)[1:] * cell_m**2
    large = sorted((float(size) for size in sizes_m2 if size >= SMALLEST_ISLAND_M2), reverse=True)
    unknown = np.zeros_like(building.free) if raw.unknown is None else ~resample(~raw.unknown, raw.pixel_m, cell_m)
    return Survey(
        building=building,
        reached=reached_floor(building, radius_m),
        islands=islands,
        island_sizes_m2=tuple(large),
        unknown=unknown & ~building.free & ~islands,
        doubtful=building.free & (False if raw.clear is None else ~resample(raw.clear, raw.pixel_m, cell_m)),
        speckles=count_speckles(raw.free, raw.pixel_m),
    )


def count_speckles(free: Bool[np.ndarray, "rows columns"], pixel_m: float) -> int:
    """Number of small groups of pixels that are not free and do not touch the picture's edge."""
    groups, count = ndimage.label(np.pad(~free, 1, constant_values=True), np.ones((3, 3)))
    sizes = np.bincount(groups.ravel(), minlength=count + 1)[1:] * pixel_m**2
    return int((sizes <= LARGEST_SPECKLE_M2).sum())
