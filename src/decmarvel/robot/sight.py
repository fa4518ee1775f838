"""What could be seen from each viewpoint: frontiers, utilities, angular histograms, nearest frontiers.

Line of sight is one bit per viewpoint, so 32 viewpoints share the bits of a word, and one pass of bitwise operations
computes all of them. Only viewpoints near cells that have changed are looked from again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from decmarvel.core.angles import direction_bins
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, FREE, UNKNOWN, Graph, Scalar, Sight, Site
from decmarvel.core.visibility import Disc, disc, line_of_sight

WORD_BITS = 32
GROUP_REACH = 3
"""Whether a cell is a grouped frontier depends on the cells up to this far away."""
T = TypeVar("T")


def count_around(mask: Bool[Array, "h w"]) -> UInt8[Array, "h w"]:
    """Number of the eight neighbours that are set."""
    padded = jnp.pad(mask.astype(jnp.uint8), 1)
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - mask.astype(jnp.uint8)


def frontiers(belief: UInt8[Array, "h w"]) -> Bool[Array, "h w"]:
    """Known-free cells with 2 to 7 unknown cells among their eight neighbours."""
    unknown = count_around(belief == UNKNOWN)
    return (belief == FREE) & (unknown >= 2) & (unknown <= 7)


def thin(frontier: Bool[Array, "h w"], corner: Int32[Array, "2"]) -> Bool[Array, "h w"]:
    """Keep the first frontier, row by row, of each 2 x 2 voxel of the grid; `corner` is our first cell in the grid."""
    height, width = frontier.shape
    second_row = ((corner[0] + jnp.arange(height)) % 2 == 1)[:, None]
    second_column = ((corner[1] + jnp.arange(width)) % 2 == 1)[None, :]
    padded = jnp.pad(frontier, 1)
    left, below = padded[1:-1, :-2], padded[:-2, 1:-1]
    row_below = below | jnp.where(second_column, padded[:-2, :-2], padded[:-2, 2:])
    return frontier & ~(second_column & left) & ~(second_row & row_below)


def grouped(frontier: Bool[Array, "h w"]) -> Bool[Array, "h w"]:
    """Frontiers in 8-connected groups of three or more: those with two neighbours, or beside one that has two."""
    centre = frontier & (count_around(frontier) >= 2)
    return centre | (frontier & (count_around(centre) >= 1))


def empty_sight(config: Config, sites: int) -> Sight:
    return Sight(
        utility=jnp.zeros((sites, sites), jnp.int32),
        histogram=jnp.zeros((sites, sites, config.heading_bins), jnp.uint8),
        nearest_rank=jnp.full((sites, sites, config.heading_bins), len(utility_layout(config).length_mm), jnp.int16),
    )


@dataclass(frozen=True, eq=False)
class Layout:
    """The cells of a disc around a viewpoint, sorted by direction and distance."""

    view: Disc
    by_bin: Int32[np.ndarray, "B M"]
    """Cells of the disc (indices of its flattened tables) in each bin, nearest first; -1 pads."""
    rank: Int32[np.ndarray, "B M"]
    """Place of each of those cells in the order by distance, ring and row."""
    offset: Int32[np.ndarray, "n 2"]
    """Offset of the cell at each rank."""
    length_mm: Int32[np.ndarray, "n"]

    def square_index(self, offsets: Int32[np.ndarray, "*n 2"]) -> Int32[np.ndarray, "*n"]:
        """Index of an offset in the flattened square around the disc."""
        place = offsets + self.view.reach
        return (place[..., 0] * (2 * self.view.reach + 1) + place[..., 1]).astype(np.int32)


def utility_layout(config: Config) -> Layout:
    return layout(config, config.utility_radius_cells)


@lru_cache
def layout(config: Config, radius_cells: float) -> Layout:
    """The tables for what lies within one radius of the viewpoints."""
    view = disc(radius_cells)
    cells = np.flatnonzero(view.inside.reshape(-1))
    dy, dx = view.offsets.reshape(-1, 2)[cells].T
    squared = dy * dy + dx * dx
    order = np.lexsort((np.arange(len(cells)), squared))  # the cells come by ring and row
    cells, dy, dx, squared = cells[order], dy[order], dx[order], squared[order]
    bins = direction_bins(config, dy, dx)
    most = int(np.bincount(bins).max())
    by_bin = np.full((config.heading_bins, most), -1, np.int32)
    rank = np.full((config.heading_bins, most), len(cells), np.int32)
    for direction in range(config.heading_bins):
        found = np.flatnonzero(bins == direction)
        by_bin[direction, : len(found)] = cells[found]
        rank[direction, : len(found)] = found
    length_mm = np.floor(1000 * config.cell_m * np.sqrt(squared.astype(np.float64)) + 1e-6).astype(np.int32)
    return Layout(view, by_bin, rank, np.stack([dy, dx], axis=1).astype(np.int32), length_mm)


def in_words(patches: UInt8[Array, "32 side side"], layer: int) -> UInt32[Array, "cells"]:
    """For each cell of the patches around 32 viewpoints, one bit per viewpoint: whether the layer is set there."""
    shifts = jnp.arange(WORD_BITS, dtype=jnp.uint32)[:, None]
    bits = ((patches >> jnp.uint8(layer)) & jnp.uint8(1)).astype(jnp.uint32).reshape(WORD_BITS, -1)
    return (bits << shifts).sum(axis=0, dtype=jnp.uint32)


def looks(
    plan: Layout, layers: UInt8[Array, "h w"], cells: Int32[Array, "32 2"], range_mm: Scalar
) -> tuple[Callable[[int], UInt32[Array, "B M"]], UInt32[Array, "B M"]]:
    """What 32 viewpoints see within a range: a function that gives the visible cells with a layer's bit, and all cells
    in sight. Cells are sorted by direction and distance. Bit 0 of `layers` says which cells can be seen through.
    """
    reach, side = plan.view.reach, 2 * plan.view.reach + 1
    patches = jax.vmap(lambda cell: jax.lax.dynamic_slice(layers, (cell[0] - reach, cell[1] - reach), (side, side)))(
        cells
    )
    see_through = in_words(patches, 0)[plan.square_index(plan.view.offsets)]
    visible = line_of_sight(plan.view, see_through[..., None])[..., 0].reshape(-1)
    near = jnp.asarray(np.append(plan.length_mm, np.int32(FAR_MM)))[plan.rank] <= range_mm
    sight = jnp.where(near, visible[plan.by_bin], jnp.uint32(0))
    where = plan.square_index(plan.view.offsets.reshape(-1, 2)[plan.by_bin])
    return lambda layer: sight & in_words(patches, layer)[where], sight


def count_bits(words: UInt32[Array, "B M"]) -> Int32[Array, "32 B"]:
    """How often each bit is set along M (< 256). Every eighth bit is counted in its own byte: eight sums are enough."""
    lanes = [((words >> np.uint32(k)) & np.uint32(0x01010101)).sum(axis=1, dtype=jnp.uint32) for k in range(8)]
    sums = jnp.stack(lanes, axis=0)
    split = [(sums >> np.uint32(8 * lane)) & np.uint32(0xFF) for lane in range(4)]
    return jnp.concatenate(split, axis=0).astype(jnp.int32)


def first_set(plan: Layout, words: UInt32[Array, "B M"]) -> Int32[Array, "32 B"]:
    """Rank of the first word along M that has each bit set; the number of ranks if no word has it."""
    shifts = jnp.arange(WORD_BITS, dtype=jnp.uint32)[:, None, None]
    bits = ((words[None] >> shifts) & 1) == 1
    return jnp.where(bits, jnp.asarray(plan.rank)[None], len(plan.length_mm)).min(axis=-1)


def for_sites(needed: Bool[Array, "I J"], values: T, compute: Callable[[Int32[Array, "32 2"]], T]) -> T:
    """Values over the lattice, computed again for the sites that need it, 32 at a time."""
    sites = needed.shape[0]
    most = -(-needed.size // WORD_BITS) * WORD_BITS
    row, column = jnp.nonzero(needed, size=most, fill_value=sites)
    place = jnp.stack([row, column], axis=-1).astype(jnp.int32)
    total = needed.sum(dtype=jnp.int32)

    def again(carry: tuple[Scalar, T]) -> tuple[Scalar, T]:
        done, values = carry
        some = jax.lax.dynamic_slice(place, (done, 0), (WORD_BITS, 2))
        new = compute(jnp.minimum(some, sites - 1))
        put = jax.tree.map(lambda old, new: old.at[some[:, 0], some[:, 1]].set(new, mode="drop"), values, new)
        return done + WORD_BITS, put

    return jax.lax.while_loop(lambda carry: carry[0] < total, again, (jnp.array(0, jnp.int32), values))[1]


def cut_window(
    config: Config, belief: UInt8[Array, "Y X"], sites: int, middle: Site
) -> tuple[UInt8[Array, "side side"], Site]:
    """The part of a belief that can be seen from the sites around `middle`, and the first of those sites."""
    count = min(sites, config.window_sites)
    first = jnp.clip(middle - count // 2, 0, sites - count)
    side = config.lattice.grid_cells(count)
    return jax.lax.dynamic_slice(belief, (config.stride * first[0], config.stride * first[1]), (side, side)), first


def at_viewpoints(belief: UInt8[Array, "Y X"], cell: Int32[Array, "I J 2"]) -> Bool[Array, "I J"]:
    """Which tiles have a viewpoint on known-free floor."""
    there = jnp.maximum(cell, 0)
    return (cell[..., 0] >= 0) & (belief[there[..., 0], there[..., 1]] == FREE)


def near_changes(config: Config, changed: Bool[Array, "side side"]) -> Bool[Array, "w w"]:
    """Sites of a window from which a changed cell, or one whose frontier status it decides, may be in sight."""
    stride, margin = config.stride, config.margin_tiles
    count = changed.shape[0] // stride
    tiles = changed.reshape(count, stride, count, stride).any(axis=(1, 3))
    reach = (utility_layout(config).view.reach + GROUP_REACH - 1) // stride + 1
    side = count - 2 * margin
    padded = jnp.pad(tiles, max(0, reach - margin))
    begin = max(margin, reach) - reach
    rows = jnp.stack([padded[begin + k : begin + k + side] for k in range(2 * reach + 1)]).any(axis=0)
    return jnp.stack([rows[:, begin + k : begin + k + side] for k in range(2 * reach + 1)]).any(axis=0)


def look_again(
    config: Config,
    before: Sight,
    belief_before: UInt8[Array, "Y X"],
    belief: UInt8[Array, "Y X"],
    cell: Int32[Array, "I J 2"],
    fresh: Bool[Array, "I J"],
    middle: Site,
    range_mm: Scalar,
) -> Sight:
    """What can be seen from the viewpoints, after the belief changed around `middle` or viewpoints were added there."""
    plan, sites = utility_layout(config), cell.shape[0]
    known, first = cut_window(config, belief, sites, middle)
    was, _ = cut_window(config, belief_before, sites, middle)
    count = config.lattice.sites(known.shape[0])
    corner = config.stride * first
    dirty = jnp.zeros((sites, sites), bool)
    dirty = jax.lax.dynamic_update_slice(dirty, near_changes(config, known != was), (first[0], first[1]))
    inside = jax.lax.dynamic_update_slice(jnp.zeros_like(dirty), jnp.ones((count, count), bool), (first[0], first[1]))
    needed = (dirty | (fresh & inside)) & at_viewpoints(belief, cell)
    frontier = frontiers(known)
    layers = jnp.stack([known == FREE, thin(frontier, corner), grouped(frontier)]).astype(jnp.uint8)
    layers = layers[0] | layers[1] << 1 | layers[2] << 2
    utility_mm = range_mm * config.utility_percent // 100

    def compute(some: Int32[Array, "32 2"]) -> tuple[Array, Array, Array]:
        see, _ = looks(plan, layers, cell[some[:, 0], some[:, 1]] - corner[None], utility_mm)
        histogram = count_bits(see(1))
        utility = histogram.sum(axis=1)
        useful = utility > 1
        kept = jnp.where(useful[:, None], histogram, 0).astype(jnp.uint8)
        return jnp.where(useful, utility, 0), kept, first_set(plan, see(2)).astype(jnp.int16)

    return Sight(*for_sites(needed, (before.utility, before.histogram, before.nearest_rank), compute))


def has_frontier(config: Config, sight: Sight) -> Bool[Array, "I J B"]:
    """Whether a grouped frontier is in sight in each direction from each site."""
    return sight.nearest_rank < len(utility_layout(config).length_mm)


def nearest_frontier_mm(config: Config, sight: Sight) -> Int32[Array, "I J B"]:
    """Distance of the nearest grouped frontier in each direction from each site; FAR_MM if there is none."""
    lengths = np.append(utility_layout(config).length_mm, np.int32(FAR_MM))
    return jnp.asarray(lengths)[sight.nearest_rank.astype(jnp.int32)]


def nearest_frontiers(config: Config, graph: Graph) -> tuple[Int32[Array, "I J B"], Int32[Array, "I J B 2"]]:
    """Distance of the nearest grouped frontier in each direction from each site, and its cell."""
    plan, sight = utility_layout(config), graph.sight
    rank = jnp.minimum(sight.nearest_rank.astype(jnp.int32), len(plan.length_mm) - 1)
    cell_y = graph.cell[:, :, 0, None] + jnp.asarray(plan.offset[:, 0])[rank]
    cell_x = graph.cell[:, :, 1, None] + jnp.asarray(plan.offset[:, 1])[rank]
    return nearest_frontier_mm(config, sight), jnp.stack([cell_y, cell_x], axis=-1)
