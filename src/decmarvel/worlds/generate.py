"""Buildings generated from a seed: the same on every machine. Training and held-out buildings are never the same."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool
from scipy import ndimage

from decmarvel.worlds.building import Building, MapError
from decmarvel.worlds.canvas import PIXEL_M
from decmarvel.worlds.floorplan import floorplan
from decmarvel.worlds.indoor import BLOCK_M, HELDOUT_STYLE, TRAIN_STYLE, indoor_blocks
from decmarvel.worlds.interiors import CELL_M, hall, office
from decmarvel.worlds.resample import resample
from decmarvel.worlds.warehouse import warehouse

_NUMBERS = {"indoor": 1, "office": 2, "hall": 3, "floorplan": 5, "warehouse": 6, "mixed": 4}
"""Part of the seed of each family. A number must never change: it would change all buildings of the family."""
FAMILIES = tuple(_NUMBERS)
SPLITS = ("train", "heldout")

_PIXELS_PER_BLOCK = 25
_PIXEL_M = BLOCK_M / _PIXELS_PER_BLOCK
_COARSEST_CELL_M = 0.5
"""Coarser cells would close doors of 1.2 m. Those of floor plans are narrower: they need cells of 0.2 m."""

_Drawing = tuple[Bool[np.ndarray, "rows columns"], float, tuple[float, float]]
"""Free pixels, the size of a pixel in metres, and the start (y, x) in metres."""


def generate(family: str = "indoor", split: str = "heldout", index: int = 0, cell_m: float = 0.4) -> Building:
    """Building number `index` of a family, of the split train or heldout. "mixed" draws from all other families.

    Its name, such as "indoor-heldout-000123", says how to make it again.

    Family and split are part of the seed, so no two splits ever read the same random stream. All buildings are one
    piece: every free cell can be reached from the start through cell sides. The families indoor, office and hall are
    100 m x 100 m, the others as large as the building. A floorplan has doors from 0.8 m: choose cells of 0.1 or 0.2 m
    for it, since coarser cells close doors, and what is behind them is then left out.
    """
    if family not in FAMILIES:
        raise MapError(f"no map family {family!r}: choose one of {', '.join(FAMILIES)}")
    if split not in SPLITS:
        raise MapError(f"no split {split!r}: choose one of {', '.join(SPLITS)}")
    if index < 0:
        raise MapError(f"map index {index} is negative: count from 0")
    if not 0.05 <= cell_m <= _COARSEST_CELL_M:
        raise MapError(f"cell_m is {cell_m}: choose between 0.05 and {_COARSEST_CELL_M} m for generated maps")
    rng = np.random.default_rng([_NUMBERS[family], 1 + SPLITS.index(split), index])
    kind = _KINDS[rng.integers(len(_KINDS))] if family == "mixed" else family
    pixels, pixel_m, (start_y_m, start_x_m) = _DRAW[kind](rng, split)
    start = (int(start_y_m / cell_m), int(start_x_m / cell_m))
    free = resample(pixels, pixel_m, cell_m)
    if kind != "indoor":  # indoor buildings are always in one piece, and the search is slow
        free = reachable(free, start)
    name = building_name(family, split, index)
    return Building(free=free, start=start, cell_m=cell_m, name=name, blocks=kind == "indoor")


def building_name(family: str, split: str, index: int) -> str:
    return f"{family}-{split}-{index:06d}"


def reachable(free: Bool[np.ndarray, "rows columns"], start: tuple[int, int]) -> Bool[np.ndarray, "rows columns"]:
    """The free cells that are 4-connected to the start."""
    components, _ = ndimage.label(free)
    return free & (components == components[start])


def _draw_indoor(rng: np.random.Generator, split: str) -> _Drawing:
    blocks, (row, column) = indoor_blocks(rng, TRAIN_STYLE if split == "train" else HELDOUT_STYLE)
    blocks, row = blocks[::-1], len(blocks) - 1 - row  # drawn like a picture, from the top; y points up
    pixels = blocks.repeat(_PIXELS_PER_BLOCK, axis=0).repeat(_PIXELS_PER_BLOCK, axis=1)
    return pixels, _PIXEL_M, ((row + 0.5) * BLOCK_M, (column + 0.5) * BLOCK_M)


def _draw_office(rng: np.random.Generator, split: str) -> _Drawing:
    return _in_metres(*office(rng), CELL_M)


def _draw_hall(rng: np.random.Generator, split: str) -> _Drawing:
    return _in_metres(*hall(rng), CELL_M)


def _draw_floorplan(rng: np.random.Generator, split: str) -> _Drawing:
    return _in_metres(*floorplan(rng), PIXEL_M)


def _draw_warehouse(rng: np.random.Generator, split: str) -> _Drawing:
    return _in_metres(*warehouse(rng), PIXEL_M)


def _in_metres(free: Bool[np.ndarray, "rows columns"], start: tuple[int, int], pixel_m: float) -> _Drawing:
    return free, pixel_m, ((start[0] + 0.5) * pixel_m, (start[1] + 0.5) * pixel_m)


_DRAW: dict[str, Callable[[np.random.Generator, str], _Drawing]] = {
    "indoor": _draw_indoor,
    "office": _draw_office,
    "hall": _draw_hall,
    "floorplan": _draw_floorplan,
    "warehouse": _draw_warehouse,
}
_KINDS = tuple(_DRAW)
"""What `mixed` draws from."""
