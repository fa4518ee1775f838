"""The lattice: where sites lie in the grid of cells, and the 25 slots of a site's neighbourhood.

A site is (row, column), y up. Everything here works on NumPy and on JAX arrays alike.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

SLOTS = 25
SELF_SLOT = 12
SLOT_OFFSETS = np.array([(k // 5 - 2, k % 5 - 2) for k in range(SLOTS)], np.int32)
"""Site offsets (dy, dx) of the 5 x 5 neighbourhood; slot 12 is the site itself."""

T = TypeVar("T", np.ndarray, jax.Array)


@dataclass(frozen=True)
class Lattice:
    """Sites every `stride` cells, inside a margin of wall."""

    spacing_mm: int
    stride: int
    """Cells between two neighbouring sites."""
    margin_cells: int
    """Cells between the border of the grid and the first tile."""

    def cell(self, site: T) -> T:
        """The cell of each site (..., 2), or of each coordinate."""
        return self.margin_cells + self.stride * site + self.stride // 2

    def site(self, cell: T) -> T:
        """The site whose tile each cell (..., 2) lies in."""
        return (cell - self.margin_cells) // self.stride

    def grid_cells(self, sites: int) -> int:
        """Side of the cell grid of a lattice with this many sites a side."""
        return self.stride * sites + 2 * self.margin_cells

    def sites(self, grid_cells: int) -> int:
        """Sites a side of a grid with this many cells a side."""
        return (grid_cells - 2 * self.margin_cells) // self.stride

    @cached_property
    def slot_lengths_mm(self) -> Int32[np.ndarray, "K"]:
        """Lengths of the slots, rounded up, so that their sum along a path is never below the true length."""
        return np.array([math.ceil(self.spacing_mm * math.hypot(dy, dx) - 1e-6) for dy, dx in SLOT_OFFSETS], np.int32)

    @property
    def nearer_stop_first_mm(self) -> Int32[np.ndarray, "K"]:
        """Millimetres added to a way's length by its first slot: so few that they decide only between equal ways."""
        return self.slot_lengths_mm // 1000

    def cells_mm(self, cells: float) -> int:
        """Length of this many cells in millimetres, rounded up."""
        return math.ceil(self.spacing_mm * cells / self.stride - 1e-6)

    @cached_property
    def lengths_mm(self) -> Int32[np.ndarray, "n n"]:
        """Lengths of offsets of (rows, columns) cells, up to those between cells of tiles two apart, rounded up."""
        reach = np.arange(3 * self.stride)
        exact = self.spacing_mm / self.stride * np.hypot(reach[:, None], reach[None, :])
        return np.ceil(exact - 1e-6).astype(np.int32)


def slot_of(offset: T) -> T:
    """The slot of each site offset (..., 2) within the neighbourhood."""
    return 5 * offset[..., 0] + offset[..., 1] + SELF_SLOT


def site_mask(sites: int, site: Int32[Array, "2"]) -> Bool[Array, "I J"]:
    """Mask of one site on a lattice with `sites` sites a side."""
    index = jnp.arange(sites)
    return (index[:, None] == site[0]) & (index[None, :] == site[1])


def shift_sites(values: Array, slot: int, fill: Array) -> Array:
    """Value of each site's neighbour in a slot; `fill` outside the lattice."""
    dy, dx = (int(v) for v in SLOT_OFFSETS[slot])
    side = values.shape[0]
    padded = jnp.pad(values, 2, constant_values=fill)
    return padded[2 + dy : 2 + dy + side, 2 + dx : 2 + dx + side]
