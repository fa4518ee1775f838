"""Measures of any building in metres: floor, where robots of a given size get to, openings, corridors, rooms."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import ndimage

from decmarvel.worlds.building import Building

RADII_M = (0.15, 0.25, 0.35, 0.45, 0.6, 0.8, 1.0)
_SLACK = 1e-6
_LARGE_CORE_M, _SMALL_CORE_M = 1.05, 0.55
"""A region is a place where a robot of the first radius fits, or else one of the second: wet rooms are narrow."""
_WIDEST_OPENING_M = 2.2
_LONGEST_ROOM = 5.0
"""Regions with an area above this many squares of their width are corridors: they are about four times as long."""
_SMALLEST_REGION_M2 = 1.5
_LEVEL_M = 0.1
_LONGEST_STREAK = 40
"""Steps of growth at one level: the rest of longer streaks belongs to no region."""


@dataclass(frozen=True)
class Measures:
    """What one building measures. Openings, corridors and rooms are estimated: furniture makes false ones."""

    size_m: tuple[float, float]
    """The longer and the shorter side of the smallest upright rectangle around the floor."""
    floor_m2: float
    reached: tuple[float, ...]
    """Share of the floor that a robot passes over in the largest part it fits into, for each radius of `RADII_M`."""
    openings_m: tuple[float, ...]
    corridors_m: tuple[float, ...]
    """Widths of the corridors."""
    rooms_m2: tuple[float, ...]


def measure(building: Building) -> Measures:
    """All measures of a building."""
    free = np.pad(building.free, 1)
    clearance_m = _clearance_m(free, building.cell_m)
    rows, columns = np.nonzero(free)
    sides_m = sorted((float(np.ptp(axis) + 1) * building.cell_m for axis in (rows, columns)), reverse=True)
    openings_m, corridors_m, rooms_m2 = _regions(free, clearance_m, building.cell_m)
    return Measures(
        size_m=(sides_m[0], sides_m[1]),
        floor_m2=float(free.sum()) * building.cell_m**2,
        reached=reached_shares(building),
        openings_m=openings_m,
        corridors_m=corridors_m,
        rooms_m2=rooms_m2,
    )


def reached_shares(building: Building) -> tuple[float, ...]:
    """Share of the floor that a robot of each radius of `RADII_M` passes over, as in `reached`."""
    free = np.pad(building.free, 1)
    clearance_m = _clearance_m(free, building.cell_m)
    swept = (_swept(free, clearance_m, radius_m, building.cell_m) for radius_m in RADII_M)
    return tuple(float(floor.sum() / free.sum()) for floor in swept)


def reached(building: Building, radius_m: float) -> Bool[np.ndarray, "rows columns"]:
    """The floor that a disc of this radius passes over in the largest part of the building that it can move in."""
    free = np.pad(building.free, 1)
    return _swept(free, _clearance_m(free, building.cell_m), radius_m, building.cell_m)[1:-1, 1:-1]


def _clearance_m(free: Bool[np.ndarray, "rows columns"], cell_m: float) -> Float[np.ndarray, "rows columns"]:
    """Metres from the centre of each cell to the centre of the nearest wall cell."""
    clearance: Float[np.ndarray, "rows columns"] = ndimage.distance_transform_edt(free) * cell_m
    return clearance


def _swept(
    free: Bool[np.ndarray, "rows columns"],
    clearance_m: Float[np.ndarray, "rows columns"],
    radius_m: float,
    cell_m: float,
) -> Bool[np.ndarray, "rows columns"]:
    parts, count = ndimage.label(clearance_m >= radius_m - _SLACK)
    if count == 0:
        return np.zeros_like(free)
    largest = parts == 1 + int(np.bincount(parts.ravel())[1:].argmax())
    # Half a cell's diagonal more: cells that the disc touches count as passed.
    return free & (ndimage.distance_transform_edt(~largest) * cell_m <= radius_m + 0.71 * cell_m)


def _regions(
    free: Bool[np.ndarray, "rows columns"], clearance_m: Float[np.ndarray, "rows columns"], cell_m: float
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Widths of openings and of corridors, and areas of rooms: where regions that grow from wide places meet."""
    large, count = ndimage.label(clearance_m > _LARGE_CORE_M)
    small, small_count = ndimage.label(clearance_m > _SMALL_CORE_M)
    has_large = np.zeros(small_count + 1, bool)
    has_large[np.unique(small[large > 0])] = True
    regions = np.where(has_large[small], large, np.where(small > 0, small + count, 0)).astype(np.int32)
    _flood(regions, clearance_m)
    openings_m = _seams(regions, clearance_m, cell_m)
    corridors_m, rooms_m2 = [], []
    order = np.argsort(regions, axis=None, kind="stable")
    labels, first = np.unique(regions.ravel()[order], return_index=True)
    for label, cells in zip(labels.tolist(), np.split(order, first[1:]), strict=True):
        area_m2 = len(cells) * cell_m**2
        if label == 0 or area_m2 < _SMALLEST_REGION_M2:
            continue
        width_m = 4 * float(np.median(clearance_m.ravel()[cells]))  # clearance rises evenly from 0 to half the width
        if area_m2 > _LONGEST_ROOM * width_m**2:
            corridors_m.append(width_m)
        else:
            rooms_m2.append(area_m2)
    return openings_m, tuple(corridors_m), tuple(rooms_m2)


def _flood(regions: Int[np.ndarray, "rows columns"], clearance_m: Float[np.ndarray, "rows columns"]) -> None:
    """Grow regions over the floor, the most open floor first, so that they meet in the narrowest places."""
    for level_m in np.arange(_LARGE_CORE_M, 0.0, -_LEVEL_M).tolist():
        open_floor = clearance_m > max(level_m - _LEVEL_M, 0.0)
        for _ in range(_LONGEST_STREAK):
            near = np.maximum(
                ndimage.maximum_filter1d(regions, 3, axis=0), ndimage.maximum_filter1d(regions, 3, axis=1)
            )
            new = open_floor & (regions == 0) & (near > 0)
            if not new.any():
                break
            regions[new] = near[new]


def _seams(
    regions: Int[np.ndarray, "rows columns"], clearance_m: Float[np.ndarray, "rows columns"], cell_m: float
) -> tuple[float, ...]:
    """Widths of the places where two regions meet, up to the widest opening."""
    widest: dict[tuple[int, int], float] = {}
    for axis in (0, 1):
        one, other = np.moveaxis(regions, axis, 0)[:-1], np.moveaxis(regions, axis, 0)[1:]
        room = np.minimum(np.moveaxis(clearance_m, axis, 0)[:-1], np.moveaxis(clearance_m, axis, 0)[1:])
        meet = (one != other) & (one > 0) & (other > 0)
        for a, b, half_m in zip(one[meet].tolist(), other[meet].tolist(), room[meet].tolist(), strict=True):
            pair = (min(a, b), max(a, b))
            widest[pair] = max(widest.get(pair, 0.0), half_m)
    widths_m = (2 * half_m - cell_m for half_m in widest.values())
    return tuple(width_m for width_m in widths_m if cell_m < width_m <= _WIDEST_OPENING_M)
