"""What could be seen from each lattice site: frontiers, utilities, angular histograms, nearest frontiers.

Line of sight is one bit per site, so the sites of one lattice row share the bits of a 32-bit word, and one pass of
bitwise operations computes all of them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from decmarvel.core.angles import direction_bins
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, FREE, UNKNOWN, Sight, Site
from decmarvel.core.visibility import Disc, disc, line_of_sight

WORD_BITS = 32


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
    """How the window of sites is packed into words, and the disc's cells sorted by direction and distance."""

    view: Disc
    reach_tiles: int
    """Tiles that the disc reaches beyond a site's own."""
    chunk: int
    """Sites per word."""
    chunks: int
    """Words per lattice row."""
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
    """The tables for what lies within one radius of the sites."""
    view, half, stride = disc(radius_cells), config.stride // 2, config.stride
    reach_tiles = max((half + view.reach) // stride, -((half - view.reach) // stride))
    chunks = math.ceil(config.window_sites / (WORD_BITS - 2 * reach_tiles))
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
    return Layout(
        view=view,
        reach_tiles=reach_tiles,
        chunk=math.ceil(config.window_sites / chunks),
        chunks=chunks,
        by_bin=by_bin,
        rank=rank,
        offset=np.stack([dy, dx], axis=1).astype(np.int32),
        length_mm=length_mm,
    )


def pack(config: Config, plan: Layout, layer: Bool[Array, "side side"]) -> UInt32[Array, "cells words"]:
    """For each offset in the square around the disc, one bit per site: whether the cell at that offset is set.

    Words run over the window's rows and, where one word is too short for a row, over its chunks.
    """
    stride, half = config.stride, config.stride // 2
    reach, count = plan.view.reach, config.window_sites
    bits = plan.chunk + 2 * plan.reach_tiles
    # Bit t of packed[row, chunk, phase]: the cell at that phase of tile t, from the first tile that a chunk reaches.
    first_tile = config.margin_tiles - plan.reach_tiles
    missing = first_tile + (plan.chunks - 1) * plan.chunk + bits - layer.shape[1] // stride
    tiles = jnp.pad(layer, ((0, 0), (0, stride * max(0, missing)))).reshape(layer.shape[0], -1, stride)
    packed = jnp.zeros((layer.shape[0], plan.chunks, stride), jnp.uint32)
    for bit in range(bits):
        begin = first_tile + bit
        column = tiles[:, begin : begin + plan.chunk * (plan.chunks - 1) + 1 : plan.chunk]
        packed |= column.astype(jnp.uint32) << np.uint32(bit)

    shifted = half + np.arange(-reach, reach + 1)
    shifts = jnp.asarray((shifted // stride + plan.reach_tiles).astype(np.uint32))
    columns = (packed[:, :, shifted % stride] >> shifts[None, None]) & jnp.uint32((1 << plan.chunk) - 1)
    rows = config.margin_cells + shifted[:, None] + stride * np.arange(count)
    square = columns[rows].transpose(0, 3, 1, 2)  # offset y, offset x, lattice row, chunk
    return square.reshape((2 * reach + 1) ** 2, -1)


def count_bits(plan: Layout, words: UInt32[Array, "B M words"]) -> Int32[Array, "B words chunk"]:
    """How often each bit is set along M (< 256). Every eighth bit is counted in its own byte: eight sums are enough."""
    lanes = [((words >> np.uint32(k)) & np.uint32(0x01010101)).sum(axis=1, dtype=jnp.uint32) for k in range(8)]
    sums = jnp.stack(lanes, axis=-1)
    split = [(sums >> np.uint32(8 * lane)) & np.uint32(0xFF) for lane in range(4)]
    return jnp.concatenate(split, axis=-1)[..., : plan.chunk].astype(jnp.int32)


def first_set(plan: Layout, words: UInt32[Array, "B M words"]) -> Int32[Array, "B words chunk"]:
    """Rank of the first word along M that has each bit set; the number of ranks if no word has it."""
    shifts = jnp.arange(plan.chunk, dtype=jnp.uint32)[None, None, None]
    bits = ((words[..., None] >> shifts) & 1) == 1
    return jnp.where(bits, jnp.asarray(plan.rank)[..., None, None], len(plan.length_mm)).min(axis=1)


def per_site(config: Config, plan: Layout, values: Array) -> Array:
    """Reshape values from (..., words, chunk) to (..., window, window)."""
    count = config.window_sites
    return values.reshape(*values.shape[:-2], count, plan.chunks * plan.chunk)[..., :count]


def cut_window(
    config: Config, belief: UInt8[Array, "Y X"], sites: int, middle: Site
) -> tuple[UInt8[Array, "side side"], Site]:
    """The part of a belief that can be seen from the sites around `middle`, and the first of those sites."""
    first = jnp.clip(middle - config.window_sites // 2, 0, sites - config.window_sites)
    side = config.lattice.grid_cells(config.window_sites)
    return jax.lax.dynamic_slice(belief, (config.stride * first[0], config.stride * first[1]), (side, side)), first


def paste_window(whole: Array, part: Array, first: Site) -> Array:
    """Write the values of a window of sites into those of all sites."""
    return jax.lax.dynamic_update_slice(whole, part, (first[0], first[1], *[0] * (whole.ndim - 2)))


def in_sight(config: Config, plan: Layout, see_through: Bool[Array, "side side"]) -> UInt32[Array, "B M words"]:
    """Which cells, sorted by direction and distance, each site of a window can see."""
    visible = line_of_sight(plan.view, pack(config, plan, see_through)[plan.square_index(plan.view.offsets)])
    by_bin = visible.reshape(-1, visible.shape[-1])[plan.by_bin]
    return jnp.where(jnp.asarray(plan.by_bin >= 0)[..., None], by_bin, jnp.uint32(0))


def seen_there(
    config: Config, plan: Layout, sight: UInt32[Array, "B M words"], layer: Bool[Array, "side side"]
) -> UInt32[Array, "B M words"]:
    """Of the cells in sight, those that are set in a layer."""
    return sight & pack(config, plan, layer)[plan.square_index(plan.view.offsets.reshape(-1, 2)[plan.by_bin])]


def sight_window(config: Config, belief: UInt8[Array, "Y X"], sites: int, middle: Site) -> tuple[Sight, Site]:
    """What can be seen from the sites around `middle`, and the first of those sites."""
    plan = utility_layout(config)
    known, first = cut_window(config, belief, sites, middle)
    frontier, sight = frontiers(known), in_sight(config, plan, known == FREE)
    thinned = seen_there(config, plan, sight, thin(frontier, config.stride * first))
    histogram = per_site(config, plan, count_bits(plan, thinned))
    nearest = per_site(config, plan, first_set(plan, seen_there(config, plan, sight, grouped(frontier))))
    utility = histogram.sum(axis=0)
    useful = utility > 1
    return Sight(
        utility=jnp.where(useful, utility, 0),
        histogram=jnp.where(useful[None], histogram, 0).transpose(1, 2, 0).astype(jnp.uint8),
        nearest_rank=nearest.transpose(1, 2, 0).astype(jnp.int16),
    ), first


def nearest_frontier_mm(config: Config, sight: Sight) -> Int32[Array, "I J B"]:
    """Distance of the nearest grouped frontier in each direction from each site; FAR_MM if there is none."""
    lengths = np.append(utility_layout(config).length_mm, np.int32(FAR_MM))
    return jnp.asarray(lengths)[sight.nearest_rank.astype(jnp.int32)]


def nearest_frontiers(config: Config, sight: Sight) -> tuple[Int32[Array, "I J B"], Int32[Array, "I J B 2"]]:
    """Distance of the nearest grouped frontier in each direction from each site, and its cell."""
    plan, sites = utility_layout(config), sight.utility.shape[0]
    rank = jnp.minimum(sight.nearest_rank.astype(jnp.int32), len(plan.length_mm) - 1)
    index = config.lattice.cell(jnp.arange(sites, dtype=jnp.int32))
    cell_y = index[:, None, None] + jnp.asarray(plan.offset[:, 0])[rank]
    cell_x = index[None, :, None] + jnp.asarray(plan.offset[:, 1])[rank]
    return nearest_frontier_mm(config, sight), jnp.stack([cell_y, cell_x], axis=-1)
