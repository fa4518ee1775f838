"""Change the cell size of a map without opening a hole in any wall."""

import math

import numpy as np
from jaxtyping import Bool, Int

_ROUNDING = 1e-9
"""Slack, in cells, for sizes such as 0.1 m and 0.3 m that have no exact binary form."""


def resample(
    free: Bool[np.ndarray, "pixel_rows pixel_columns"], pixel_m: float, cell_m: float
) -> Bool[np.ndarray, "rows columns"]:
    """Cells of `cell_m` from pixels of `pixel_m`; both grids begin at the same corner, index (0, 0).

    A cell is wall if the centre of any wall pixel lies in it (this matters when cells are larger than pixels) or if
    the pixel at its own centre is wall (this matters when they are smaller). Wall pixels that touch, even at a corner
    only, become wall cells that touch, so places that a wall separates stay separated for moves through cell
    sides. With two pixels a cell it is the 2 x 2 minimum. Outside the map is wall.
    """
    for axis in (0, 1):
        free = _resample_axis(free, pixel_m / cell_m, axis)
    return np.ascontiguousarray(free)


def _resample_axis(
    free: Bool[np.ndarray, "rows columns"], cells_per_pixel: float, axis: int
) -> Bool[np.ndarray, "new_rows new_columns"]:
    """The rule above along one axis. The axes are independent: a cell's pixels are a rectangle of them.

    (In cells larger than pixels the centre pixel is one of the rectangle; in smaller cells it is all of it.)
    """
    pixels = free.shape[axis]
    cells = max(1, math.ceil(pixels * cells_per_pixel - _ROUNDING))
    centre_pixel = np.floor((np.arange(cells) + 0.5) / cells_per_pixel + _ROUNDING).astype(np.int64)
    inside = centre_pixel < pixels
    result = np.take(free, np.minimum(centre_pixel, pixels - 1), axis=axis)
    result &= np.expand_dims(inside, 1 - axis)

    cell_of_pixel: Int[np.ndarray, " pixels"]
    cell_of_pixel = np.floor((np.arange(pixels) + 0.5) * cells_per_pixel + _ROUNDING).astype(np.int64)
    touched, first_pixel = np.unique(cell_of_pixel, return_index=True)
    all_free = np.logical_and.reduceat(free, first_pixel, axis=axis)
    if axis == 0:
        result[touched] &= all_free
    else:
        result[:, touched] &= all_free
    return result
