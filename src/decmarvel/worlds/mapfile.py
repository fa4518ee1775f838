"""Load a building from a user's own map file, and save one.

| file | free is | metres a pixel | start | carries the origin |
|---|---|---|---|---|
| ROS `.yaml` with `.pgm` or `.png` | by its thresholds; unknown is wall | `resolution` | key `start: [x, y]` | yes |
| `.png`, `.pgm` | bright | 0.2, or as `save` noted in a PNG | a rectangle of grey 208 | if written by `save` |
| `.npy`, row 0 at the bottom | True or nonzero | 0.4 | no | no |
"""

import math
from pathlib import Path

import numpy as np
import yaml
from jaxtyping import Bool, Int
from PIL import Image, PngImagePlugin
from scipy import ndimage

from decmarvel.worlds.building import Building, MapError
from decmarvel.worlds.readers import (
    FREE_GREY,
    ORIGIN_KEY,
    RESOLUTION_KEY,
    START_GREY,
    WALL_GREY,
    RawMap,
    one_line,
    read_array,
    read_picture,
    read_ros,
)
from decmarvel.worlds.resample import resample

_READERS = {
    ".yaml": read_ros,
    ".yml": read_ros,
    ".png": read_picture,
    ".pgm": read_picture,
    ".npy": read_array,
}
_CELL_LIMITS_M = (0.05, 2.0)
_SMALLEST_SHARE = 0.5
"""A start that reaches a smaller share of the free area than this is refused."""


def load(
    path: str | Path,
    *,
    cell_m: float = 0.4,
    resolution_m: float | None = None,
    start_m: tuple[float, float] | None = None,
) -> Building:
    """Read a map, resample it to cells of `cell_m` with all walls kept, and turn unreachable cells into wall.

    `resolution_m` (metres a pixel) takes the place of the file's own; a plain picture without one has 0.2 m, an array
    0.4 m. `start_m`, (x, y) in the map frame, takes the place of the file's start; without either, robots start where
    the largest connected part has the most room, on what is surely floor. The stem of the file name becomes the map's
    name.

    Raises `MapError` if the file cannot be used; its one line names the file and the fix.
    """
    path = Path(path)
    low, high = _CELL_LIMITS_M
    if not low <= cell_m <= high:
        raise MapError(f"{path}: cells of {cell_m:g} m cannot be used; choose between {low} and {high:g} m")
    raw = read_map(path, resolution_m)
    free = resample(raw.free, raw.pixel_m, cell_m)
    if not free.any():
        raise MapError(f"{path}: no free cell, all is wall; check which pixels mean free, and the resolution")
    components, _ = ndimage.label(free)
    sizes = np.bincount(components.ravel())[1:]
    largest = components == 1 + int(sizes.argmax())
    wanted_m = raw.start_m if start_m is None else start_m
    open_place = _most_open_cell(_clear_part(raw, cell_m, largest))
    start = open_place if wanted_m is None else _start_cell(path, free, cell_m, raw.origin_m, wanted_m)
    share = sizes[components[start] - 1] / sizes.sum()
    if share < _SMALLEST_SHARE:
        if largest[start]:
            raise MapError(
                f"{path}: the free area falls into pieces, the largest with {share:.0%} of it; "
                "open the doors in the map or use finer cells"
            )
        better = _centre_m(open_place, cell_m, raw.origin_m)
        raise MapError(
            f"{path}: the start is cut off, it reaches {share:.0%} of the free area; "
            f"start in the largest part, for example at ({better[0]:.1f}, {better[1]:.1f})"
        )
    return Building(components == components[start], start, cell_m, path.stem, raw.origin_m, raw.blocks)


def save(building: Building, path: str | Path) -> None:
    """Write a `.yaml` (with a `.pgm` beside it), a `.png` or a `.npy`. The first two keep start and origin."""
    path = Path(path)
    writer = {".yaml": _save_ros, ".png": _save_picture, ".npy": _save_array}.get(path.suffix.lower())
    if writer is None:
        raise MapError(f"{path}: cannot write maps of the type '{path.suffix}'; use .yaml, .png or .npy")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer(building, path)
    except OSError as error:
        reason = one_line(error.strerror or error)
        raise MapError(f"{path}: cannot be written ({reason}); choose another place") from None


def _clear_part(raw: RawMap, cell_m: float, part: Bool[np.ndarray, "rows columns"]) -> Bool[np.ndarray, "rows columns"]:
    """The cells of a part that are surely floor; all of them if the file does not tell, or none is."""
    clear = part if raw.clear is None else part & resample(raw.clear, raw.pixel_m, cell_m)
    return clear if clear.any() else part


def _most_open_cell(free: Bool[np.ndarray, "rows columns"]) -> tuple[int, int]:
    """The free cell farthest from any wall; of several, the first from the bottom. Outside the map is wall."""
    clearance = ndimage.distance_transform_edt(np.pad(free, 1))[1:-1, 1:-1]
    row, column = np.unravel_index(int(clearance.argmax()), free.shape)
    return int(row), int(column)


def read_map(path: Path, resolution_m: float | None = None) -> RawMap:
    """The pixels of a map file, as they are."""
    if path.is_dir():
        raise MapError(f"{path}: this is a folder; name a map file in it")
    if not path.is_file():
        raise MapError(f"{path}: there is no such file; check the path")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise MapError(f"{path}: unknown type of map '{path.suffix}'; use one of {', '.join(_READERS)}")
    return reader(path, resolution_m)


def _start_cell(
    path: Path,
    free: Bool[np.ndarray, "rows columns"],
    cell_m: float,
    origin_m: tuple[float, float],
    start_m: tuple[float, float],
) -> tuple[int, int]:
    x_m, y_m = start_m
    where = f"the start ({x_m:g}, {y_m:g})"
    height_m, width_m = (side * cell_m for side in free.shape)
    inside = 0 <= x_m - origin_m[0] < width_m and 0 <= y_m - origin_m[1] < height_m
    if not inside:
        raise MapError(
            f"{path}: {where} is outside the map; choose x from {origin_m[0]:g} to {origin_m[0] + width_m:g} "
            f"and y from {origin_m[1]:g} to {origin_m[1] + height_m:g}"
        )
    row, column = (
        min(math.floor(offset_m / cell_m + 1e-9), side - 1)
        for offset_m, side in zip((y_m - origin_m[1], x_m - origin_m[0]), free.shape, strict=True)
    )
    if not free[row, column]:
        x_m, y_m = _centre_m(_nearest_free(free, (row, column)), cell_m, origin_m)
        raise MapError(f"{path}: {where} is inside a wall; the nearest free place is ({x_m:.2f}, {y_m:.2f})")
    return row, column


def _nearest_free(free: Bool[np.ndarray, "rows columns"], cell: tuple[int, int]) -> tuple[int, int]:
    cells: Int[np.ndarray, "free_cells 2"] = np.argwhere(free)
    row, column = cells[((cells - cell) ** 2).sum(axis=1).argmin()].tolist()
    return row, column


def _centre_m(cell: tuple[int, int], cell_m: float, origin_m: tuple[float, float]) -> tuple[float, float]:
    return origin_m[0] + (cell[1] + 0.5) * cell_m, origin_m[1] + (cell[0] + 0.5) * cell_m


def _save_ros(building: Building, path: Path) -> None:
    picture = path.with_suffix(".pgm")
    Image.fromarray(np.where(building.free[::-1], 254, 0).astype(np.uint8)).save(picture)
    fields = {
        "image": picture.name,
        "mode": "trinary",
        "resolution": float(building.cell_m),
        "origin": [float(building.origin_m[0]), float(building.origin_m[1]), 0.0],
        "negate": 0,
        "occupied_thresh": 0.65,
        "free_thresh": 0.196,
        "start": [float(x) for x in _centre_m(building.start, building.cell_m, building.origin_m)],
    }
    path.write_text(yaml.safe_dump(fields, sort_keys=False, default_flow_style=None), encoding="utf-8")


def _save_picture(building: Building, path: Path) -> None:
    """Write two pixels a side of a cell: cells of 0.4 m make pixels of 0.2 m, the default of pictures."""
    grey = np.where(building.free, FREE_GREY, WALL_GREY).astype(np.uint8)
    grey[building.start] = START_GREY
    notes = PngImagePlugin.PngInfo()
    notes.add_text(RESOLUTION_KEY, repr(float(building.cell_m) / 2))
    notes.add_text(ORIGIN_KEY, " ".join(repr(float(x)) for x in building.origin_m))
    Image.fromarray(grey[::-1].repeat(2, axis=0).repeat(2, axis=1)).save(path, pnginfo=notes)


def _save_array(building: Building, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, building.free, allow_pickle=False)
