"""Make the arrays of a mission from a building: aligned to the lattice, padded with walls to a bucket size."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from decmarvel.core.config import Config
from decmarvel.worlds.building import Building, MapError
from decmarvel.worlds.world import World

_BUCKETS = (8, 12, 16, 24, 32, 48, 64, 80, 104, 128, 160, 208, 256, 320, 416)
"""Sites a side. Maps of similar size share a bucket, and so one compiled program."""


@dataclass(frozen=True)
class Placement:
    """The place of a building in the grid: grid cell = building cell + shift."""

    shift: tuple[int, int]
    sites: int


def placement(building: Building, config: Config, sites: int | None = None) -> Placement:
    """Align the start with a site, leave out the solid surroundings, and choose the bucket (or take the one given)."""
    if abs(building.cell_m - config.cell_m) > 1e-6:
        raise MapError(
            f"{building.name}: cells of {building.cell_m:g} m, but a spacing of {config.spacing_m:g} m needs "
            f"{config.cell_m:g} m; generate or load it with cell_m=config.cell_m"
        )
    rows, columns = np.nonzero(building.free)
    half, stride = config.stride // 2, config.stride
    first, needed = [], 0
    for start, low, high in zip(building.start, (rows.min(), columns.min()), (rows.max(), columns.max()), strict=True):
        before = max(0, -(-(start - int(low) - half) // stride))
        after = max(0, -(-(int(high) - start - (stride - 1 - half)) // stride))
        first.append(before)
        needed = max(needed, before + 1 + after)
    smallest = max(needed, config.window_sites)
    if sites is None:
        sites = next((bucket for bucket in _BUCKETS if bucket >= smallest), 0)
    if sites < smallest:
        raise MapError(f"{building.name}: {needed} sites a side are too many; use a wider spacing")
    shift = [config.margin_cells + stride * a + half - s for a, s in zip(first, building.start, strict=True)]
    return Placement((shift[0], shift[1]), sites)


def place(building: Building, config: Config, sites: int | None = None) -> World:
    """One building on the device."""
    where = placement(building, config, sites)
    size = config.lattice.grid_cells(where.sites)
    free = np.zeros((size, size), bool)
    rows, columns = np.nonzero(building.free)
    free[rows + where.shift[0], columns + where.shift[1]] = True
    start = (np.array(building.start) + where.shift - config.margin_cells - config.stride // 2) // config.stride
    floor = jnp.asarray(free)
    return World(floor, jnp.asarray(start, jnp.int32), floor, jnp.asarray(free.sum(), jnp.int32))


def place_all(buildings: Sequence[Building], config: Config) -> World:
    """Several buildings in one bucket, stacked along a leading axis."""
    sites = max(placement(building, config).sites for building in buildings)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(place(building, config, sites) for building in buildings))
