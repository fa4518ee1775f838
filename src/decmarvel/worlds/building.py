"""A building: a grid of free and occupied cells, a start, and its place in the map frame."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool


class MapError(ValueError):
    """A map that cannot be used. The message is one line that names the file and the fix."""


@dataclass(frozen=True)
class Building:
    """Ground truth on the host, y up: `free[iy, ix]` covers x in `origin_m[0] + cell_m * [ix, ix + 1)`, y likewise."""

    free: Bool[np.ndarray, "rows columns"]
    start: tuple[int, int]
    """(iy, ix) of the start cell."""
    cell_m: float
    name: str
    """The map id in all results."""
    origin_m: tuple[float, float] = (0.0, 0.0)
    """(x, y) of the lower left corner in the map frame."""
    blocks: bool = False
    """Whether it is made of blocks for robots without a body, as in the paper: straight lines between sites suit it."""
