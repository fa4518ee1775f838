"""How fine a lattice and its cells must be for a building and a team: as coarse as its doors and corners allow."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from scipy import ndimage

from decmarvel.core.config import Config
from decmarvel.worlds.building import Building, MapError
from decmarvel.worlds.place import place
from decmarvel.worlds.reach import ENOUGH, visible_cells, visible_share, walked_cells
from decmarvel.worlds.world import World

SPACINGS = (0.4, 0.3, 0.2, 0.14, 0.1)
"""Distances between lattice sites that are tried, in sensing ranges. The first is that of the paper."""
CELLS_M = (0.4, 0.2, 0.1, 0.05)
"""Sides of cells that are tried, coarsest first."""
FEWEST_CELLS, MOST_CELLS = 12, 60
"""Cells in a sensing range: with fewer the camera sees nothing well, with more a decision takes long."""
USUAL_RADIUS_M = 0.25
LOOK_CELL_M = 0.2
FOUND = 0.995
"""A spacing does if a robot that walks from viewpoint to viewpoint finds this much of what it could see."""
NEARLY = 0.95
"""A cell size does if a robot reaches this much of what it reaches with finer cells."""


class Fit(NamedTuple):
    """A building as a team can explore it."""

    config: Config
    building: Building
    world: World
    reached: float
    """Share of the floor that a robot of the team's radius can reach."""
    seen: float
    """Share of the floor that can be seen from where such a robot can stand. On roads only this part counts."""
    walked: float
    """Share of the floor that a robot has seen which went to the nearest new viewpoint until there was none."""


def fit(
    build: Callable[[float], Building],
    config: Config,
    spacing_m: float | None = None,
    shortest_range_m: float | None = None,
) -> Fit:
    """The building placed for a team. `build` makes it with cells of a given size.

    Without a spacing it takes the widest with which a robot gets to see 99% of the floor and finds nearly all of that
    on a walk, or with which it finds 99% of what it finds with any; the shortest range in the team says how wide that
    may be. Robots without a body (`config.roads` is false) take straight lines between the sites, if those see 99% of
    the floor or a spacing is given, else roads.
    """
    range_m = shortest_range_m or config.sensor_range_m
    if not config.roads:
        straight = _straight(build, config, spacing_m or SPACINGS[0] * range_m)
        if straight and (spacing_m is not None or straight.seen >= ENOUGH):
            return straight
        config = replace(config, roads=True)
    cell_m = fitting_cell_m(build, config)
    if spacing_m is not None:
        return _placed(build, _with_spacing(config, spacing_m, cell_m))
    tried: list[Fit] = []
    for share in SPACINGS:
        try:
            tried.append(_placed(build, _with_spacing(config, share * range_m, cell_m)))
        except MapError:  # too many sites, or cells that close a door
            continue
        if tried[-1].seen >= ENOUGH and tried[-1].walked >= FOUND * tried[-1].seen:
            return tried[-1]
    if not tried:
        return _placed(build, _with_spacing(config, SPACINGS[0] * range_m, cell_m))  # raises the map's error
    most = max(found.walked for found in tried)
    return next(found for found in tried if found.walked >= ENOUGH * most)


def body_radius_m(build: Callable[[float], Building], radius_m: float | None) -> float:
    """The given radius of robots, else 0 in buildings of blocks, as in the paper, and USUAL_RADIUS_M elsewhere."""
    if radius_m is not None:
        return radius_m
    try:
        return 0.0 if build(LOOK_CELL_M).blocks else USUAL_RADIUS_M
    except MapError:  # such cells may close doors
        return USUAL_RADIUS_M


def fitting_cell_m(build: Callable[[float], Building], config: Config) -> float:
    """The coarsest cells with which a robot reaches nearly as much of the building as with the finest."""
    range_m = config.sensor_range_m
    tried = [c for c in CELLS_M if range_m / MOST_CELLS <= c <= range_m / FEWEST_CELLS] or [range_m / FEWEST_CELLS]
    shares: list[float] = []
    for cell_m in tried:
        try:
            shares.append(reached_share(build(cell_m), config.radius_m))
        except MapError:  # cells so coarse that they close doors
            shares.append(0.0)
    return next(cell for cell, share in zip(tried, shares, strict=True) if share >= NEARLY * max(shares))


def reached_share(building: Building, radius_m: float) -> float:
    """Share of the floor that a body of this radius can reach from the start."""
    return float(reached_floor(building, radius_m).sum() / building.free.sum())


def reached_floor(building: Building, radius_m: float) -> Bool[np.ndarray, "rows columns"]:
    """The floor under a body of this radius, wherever it can go from the start."""
    need = radius_m + building.cell_m / 2 - 1e-9
    fits = ndimage.distance_transform_edt(np.pad(building.free, 1))[1:-1, 1:-1] * building.cell_m >= need
    parts, _ = ndimage.label(fits)
    part = parts[building.start]
    if part == 0:
        return np.zeros_like(building.free)
    away_m = ndimage.distance_transform_edt(parts != part) * building.cell_m
    floor: Bool[np.ndarray, "rows columns"] = building.free & (away_m < need + building.cell_m)
    return floor


def _straight(build: Callable[[float], Building], config: Config, spacing_m: float) -> Fit | None:
    """The building on a lattice of straight lines; None if its cells are too coarse for the building."""
    config = replace(config, spacing_m=spacing_m)
    try:
        building = build(config.cell_m)
        world = place(building, config)
    except MapError:
        return None
    seen = visible_share(config, world)
    return Fit(config, building, world, 1.0, seen, seen)


def _with_spacing(config: Config, spacing_m: float, cell_m: float) -> Config:
    return replace(config, spacing_m=spacing_m, coarsest_cell_m=min(cell_m, spacing_m / 2))


def _placed(build: Callable[[float], Building], config: Config) -> Fit:
    building = build(config.cell_m)
    reached = reached_share(building, config.radius_m)
    if not reached:
        raise MapError(
            f"{building.name}: a robot of {config.radius_m:g} m radius does not fit at the start; "
            "start farther from walls, or make it smaller"
        )
    world = place(building, config)
    visible = visible_cells(config, world)
    world = eqx.tree_at(
        lambda w: (w.counted, w.free_count), world, (jnp.asarray(visible), jnp.asarray(visible.sum(), jnp.int32))
    )
    floor = building.free.sum()
    walked = np.asarray(walked_cells(config, world)) & visible
    return Fit(config, building, world, reached, float(visible.sum() / floor), float(walked.sum() / floor))
