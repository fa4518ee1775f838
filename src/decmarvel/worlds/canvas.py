"""What fine floor plans are drawn on: pixels of 0.1 m, in views that turn every side of a corridor upright."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

PIXEL_M = 0.1


class Box(NamedTuple):
    """A rectangle of pixels: its first row and column, and the row and column after its last."""

    bottom: int
    left: int
    top: int
    right: int

    @property
    def height(self) -> int:
        return self.top - self.bottom

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def cells(self) -> tuple[slice, slice]:
        return slice(self.bottom, self.top), slice(self.left, self.right)

    def grown(self, pixels: int) -> "Box":
        """With a margin; none of it before row or column 0."""
        bottom, left = max(0, self.bottom - pixels), max(0, self.left - pixels)
        return Box(bottom, left, self.top + pixels, self.right + pixels)


@dataclass(frozen=True)
class Canvas:
    """Floor, and the places of it that must stay free. The arrays of a turned canvas are views of the same pixels."""

    free: Bool[np.ndarray, "rows columns"]
    keep: Bool[np.ndarray, "rows columns"]
    """Doors and the ways through them: neither furniture nor speckles stand there."""

    @classmethod
    def empty(cls, rows: int, columns: int) -> "Canvas":
        return cls(np.zeros((rows, columns), bool), np.zeros((rows, columns), bool))

    def transposed(self) -> "Canvas":
        return Canvas(self.free.T, self.keep.T)

    def upside_down(self) -> "Canvas":
        return Canvas(self.free[::-1], self.keep[::-1])

    def carve(self, box: Box) -> None:
        self.free[box.cells] = True

    def open_door(self, box: Box, approach: int) -> None:
        """Make an opening, and keep the floor in front of it free, some pixels deep on each side."""
        self.free[box.cells] = True
        self.keep[Box(max(0, box.bottom - approach), box.left, box.top + approach, box.right).cells] = True


def pixels(length_m: float) -> int:
    return round(length_m / PIXEL_M)


def between(rng: np.random.Generator, low_m: float, high_m: float) -> int:
    """A random length, in pixels."""
    return int(rng.integers(pixels(low_m), pixels(high_m) + 1))
