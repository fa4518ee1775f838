"""Line of sight: the discs of cells around an observer, and which of them are visible.

Tables are made once, on the host.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Shaped


@dataclass(frozen=True, eq=False)
class Disc:
    """The cells within a radius, ordered by ring, with the tables that one line-of-sight pass needs.

    Ring r has at most `width` cells; row r - 1 of each table describes it, padded with the centre.
    """

    offsets: Int32[np.ndarray, "rings width 2"]
    inside: Bool[np.ndarray, "rings width"]
    parent: Int32[np.ndarray, "rings width"]
    """Index of the parent in the ring before."""
    beside: Int32[np.ndarray, "rings width 2"]
    """The two cells beside a diagonal step, in [ring before; this ring]; the parent twice for a straight step."""
    patch_index: Int32[np.ndarray, "side side"]
    """Index of each cell of the square patch in the flattened tables; -1 outside the disc, -2 for the centre."""

    @property
    def reach(self) -> int:
        return int(self.offsets.shape[0])


def nearest_towards_zero(numerator: int, denominator: int) -> int:
    """The quotient rounded to the nearest integer, halves towards zero."""
    magnitude = -((denominator - 2 * abs(numerator)) // (2 * denominator))
    return magnitude if numerator >= 0 else -magnitude


def sight_tree(rings: list[list[tuple[int, int]]]) -> dict[tuple[int, int], tuple[int, int]]:
    """The parent of each cell: among the cells of the ring before that are nearest to the ray, the one whose line of
    parents is closest to the cell's digital line. (Rounding alone drifts: it differs from Bresenham 50% more.)
    """
    parents: dict[tuple[int, int], tuple[int, int]] = {}
    lines: dict[tuple[int, int], frozenset[tuple[int, int]]] = {(0, 0): frozenset()}
    for r, ring in enumerate(rings[1:], start=1):
        for dy, dx in ring:
            ideal = {(nearest_towards_zero(dy * k, r), nearest_towards_zero(dx * k, r)) for k in range(1, r)}
            options = sorted(
                (py, px) for py, px in rings[r - 1] if abs(r * py - dy * (r - 1)) < r and abs(r * px - dx * (r - 1)) < r
            )

            def misfit(cell: tuple[int, int], dy: int = dy, dx: int = dx, ideal: set = ideal) -> tuple[int, int]:
                line = lines[cell] | ({cell} - {(0, 0)})
                return sum(max(abs(y), abs(x)) for y, x in line ^ ideal), abs(cell[0] * dx - cell[1] * dy)

            parent = min(options, key=misfit)
            parents[dy, dx] = parent
            lines[dy, dx] = lines[parent] | ({parent} - {(0, 0)})
    return parents


@lru_cache
def disc(radius_cells: float) -> Disc:
    """The tables for one radius."""
    limit = radius_cells**2 + 1e-6
    reach = math.floor(radius_cells + 1e-9)
    rings: list[list[tuple[int, int]]] = [[] for _ in range(reach + 1)]
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            if dy * dy + dx * dx <= limit:
                rings[max(abs(dy), abs(dx))].append((dy, dx))
    width = max(len(ring) for ring in rings)
    offsets = np.zeros((reach, width, 2), np.int32)
    inside = np.zeros((reach, width), bool)
    parent = np.zeros((reach, width), np.int32)
    beside = np.zeros((reach, width, 2), np.int32)
    patch_index = np.full((2 * reach + 1, 2 * reach + 1), -1, np.int32)
    patch_index[reach, reach] = -2
    place = [{cell: index for index, cell in enumerate(ring)} for ring in rings]
    parents = sight_tree(rings)
    for r in range(1, reach + 1):
        for index, (dy, dx) in enumerate(rings[r]):
            py, px = parents[dy, dx]
            sides = [(py, dx), (dy, px)] if py != dy and px != dx else [(py, px)] * 2
            offsets[r - 1, index] = dy, dx
            inside[r - 1, index] = True
            parent[r - 1, index] = place[r - 1][py, px]
            beside[r - 1, index] = [place[r - 1][s] if s in place[r - 1] else width + place[r][s] for s in sides]
            patch_index[reach + dy, reach + dx] = (r - 1) * width + index
    return Disc(offsets, inside, parent, beside, patch_index)


def line_of_sight(disc: Disc, see_through: Shaped[Array, "rings width views"]) -> Shaped[Array, "rings width views"]:
    """Which cells of the disc are visible, for many observers side by side, in one pass over the rings.

    Observers are booleans, or the bits of unsigned words. A cell is visible if its parent is, the parent is
    see-through, and a diagonal step has a see-through cell beside it.
    """

    def ring(before: tuple[Array, Array], tables: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], Array]:
        open_before, clear_before = before
        parent, beside, clear = tables
        both = jnp.concatenate([clear_before, clear])
        visible = open_before[parent] & (both[beside[:, 0]] | both[beside[:, 1]])
        return (visible & clear, clear), visible

    centre = ~jnp.zeros_like(see_through[0])
    inputs = (jnp.asarray(disc.parent), jnp.asarray(disc.beside), see_through)
    _, visible = jax.lax.scan(ring, (centre, centre), inputs)
    return jnp.where(jnp.asarray(disc.inside)[..., None], visible, jnp.zeros_like(visible))


def to_patch(disc: Disc, values: Bool[Array, "rings width"], centre: bool) -> Bool[Array, "side side"]:
    """Lay ring-ordered values out as a square patch."""
    flat = jnp.concatenate([values.reshape(-1), jnp.array([centre, False])])
    return flat[disc.patch_index]
