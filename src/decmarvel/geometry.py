"""Angles, neighbour slots, and the discs that cameras and frontiers are seen through: tables, made once on the host."""

import math
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Shaped

from decmarvel.config import Config

SLOTS = 25
SELF_SLOT = 12
SLOT_OFFSETS = np.array([(k // 5 - 2, k % 5 - 2) for k in range(SLOTS)], np.int32)
"""Site offsets (dy, dx) of the 5 x 5 neighbourhood; slot 12 is the site itself."""


@lru_cache
def slot_lengths_mm(config: Config) -> Int32[np.ndarray, "K"]:
    """Lengths rounded up, so that the sum of a path never falls short of it."""
    return np.array([math.ceil(config.spacing_mm * math.hypot(dy, dx) - 1e-6) for dy, dx in SLOT_OFFSETS], np.int32)


def nearer_stop_first_mm(config: Config) -> Int32[np.ndarray, "K"]:
    """Added to the lengths of ways by their first slot. So few millimetres decide between equals only."""
    return slot_lengths_mm(config) // 1000


def direction_hundredths(dy: np.ndarray, dx: np.ndarray) -> Int32[np.ndarray, "..."]:
    """Direction of an offset in hundredths of a degree, on the host in double precision: the same everywhere."""
    return np.asarray(np.round(100 * np.degrees(np.arctan2(dy, dx))) % 36000, np.int32)


def direction_degrees(dy: np.ndarray, dx: np.ndarray) -> Int32[np.ndarray, "..."]:
    """Direction of an offset in whole degrees."""
    return ((direction_hundredths(dy, dx) + 50) // 100 % 360).astype(np.int32)


def direction_bins(config: Config, dy: np.ndarray, dx: np.ndarray) -> Int32[np.ndarray, "..."]:
    width = 100 * config.degrees_per_bin
    return ((direction_hundredths(dy, dx) + width // 2) // width % config.heading_bins).astype(np.int32)


def heading_bin(config: Config, heading: Int32[Array, "..."]) -> Int32[Array, "..."]:
    return (heading + config.degrees_per_bin // 2) // config.degrees_per_bin % config.heading_bins


def wrap_degrees(angle: Int32[Array, "..."]) -> Int32[Array, "..."]:
    """To -180..179."""
    return (angle + 180) % 360 - 180


def scaled_step(distance: Int32[Array, "..."], k: Int32[Array, ""], steps: int) -> Int32[Array, "..."]:
    """`distance * k / steps` to the nearest integer, halves away from zero."""
    return jnp.sign(distance) * ((2 * jnp.abs(distance) * k + steps) // (2 * steps))


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
    """Where each cell of the square patch stands in the flattened tables; -1 outside the disc, -2 for the centre."""

    @property
    def reach(self) -> int:
        return int(self.offsets.shape[0])


def nearest_towards_zero(numerator: int, denominator: int) -> int:
    """The quotient rounded to the nearest integer, halves towards zero."""
    magnitude = -((denominator - 2 * abs(numerator)) // (2 * denominator))
    return magnitude if numerator >= 0 else -magnitude


def sight_tree(rings: list[list[tuple[int, int]]]) -> dict[tuple[int, int], tuple[int, int]]:
    """The parent of each cell: of the cells nearest to the ray on the ring before, the one whose own line of parents
    comes closest to the cell's digital line. (Rounding alone drifts: it differs from Bresenham half as much again.)
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


def tile(config: Config, grid: Shaped[Array, "G G"]) -> Shaped[Array, "stride stride T T"]:
    """Bring the cells at equal place within a tile together: then all sites see an offset as one plain slice."""
    count, stride = grid.shape[0] // config.stride, config.stride
    return grid.reshape(count, stride, count, stride).transpose(1, 3, 0, 2)


def around_sites(
    config: Config,
    tiles: Shaped[Array, "stride stride T T"],
    offsets: Int32[np.ndarray, "n 2"],
    first: Int32[Array, "2"],
    count: int,
) -> Shaped[Array, "n count count"]:
    """The cell at each offset from each site of a square of sites, whose first site lies in tile `first` of `tiles`."""
    shifted = offsets + config.stride // 2
    phase, step = jnp.asarray(shifted % config.stride), jnp.asarray(shifted // config.stride)

    def one(phase: Int32[Array, "2"], step: Int32[Array, "2"]) -> Shaped[Array, "count count"]:
        begin = (phase[0], phase[1], first[0] + step[0], first[1] + step[1])
        return jax.lax.dynamic_slice(tiles, begin, (1, 1, count, count))[0, 0]

    return jax.vmap(one)(phase, step)
