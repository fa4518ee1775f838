"""Graph, frontiers, utilities and candidate headings: docs/model.md a second time."""

import heapq
from functools import cache

import numpy as np

from decmarvel.core.config import Config
from oracles.camera import visible_cells
from oracles.guard import best_edge_slot
from oracles.lattice import (
    FREE,
    OWN_SLOT,
    SLOTS,
    UNKNOWN,
    UNREACHABLE,
    Cell,
    Site,
    direction_bin,
    inside,
    length_mm,
    neighbour,
    site_cell,
    sites_a_side,
    slot_length_mm,
    slot_offset,
)


@cache
def segment_offsets(config: Config, k: int) -> list[tuple[int, int]]:
    """Cell offsets that the segment of slot k touches: section "Graph"."""
    dy, dx = slot_offset(k)
    end_y, end_x = config.stride * dy, config.stride * dx
    offsets = []
    for cy in range(min(0, end_y), max(0, end_y) + 1):
        for cx in range(min(0, end_x), max(0, end_x) + 1):
            if 2 * abs(end_y * cx - end_x * cy) <= abs(end_x) + abs(end_y):
                offsets.append((cy, cx))
    return offsets


def edges(config: Config, belief: np.ndarray) -> np.ndarray:
    """Edges edge[k, i, j] from site (i, j) in slot k: section "Graph"."""
    size = sites_a_side(config, belief.shape[0])
    edge = np.zeros((SLOTS, size, size), dtype=bool)
    for k in range(SLOTS):
        if k == OWN_SLOT:
            continue
        offsets = segment_offsets(config, k)
        for i in range(size):
            for j in range(size):
                if not inside((size, size), *neighbour((i, j), k)):
                    continue
                iy, ix = site_cell(config, i, j)
                edge[k, i, j] = all(belief[iy + dy, ix + dx] == FREE for dy, dx in offsets)
    return edge


def distances(config: Config, edge: np.ndarray, sources: list[Site]) -> np.ndarray:
    """Shortest distance in mm from the nearest source to each site, by Dijkstra: section "Graph"."""
    size = edge.shape[1]
    mm = np.full((size, size), UNREACHABLE, dtype=np.int64)
    heap = []
    for i, j in sources:
        mm[i, j] = 0
        heapq.heappush(heap, (0, int(i), int(j)))
    while heap:
        so_far, i, j = heapq.heappop(heap)
        if so_far > mm[i, j]:
            continue
        for k in range(SLOTS):
            if not edge[k, i, j]:
                continue
            vi, vj = neighbour((i, j), k)
            longer = so_far + slot_length_mm(config, k)
            if longer < mm[vi, vj]:
                mm[vi, vj] = longer
                heapq.heappush(heap, (longer, vi, vj))
    return mm


def around(shape: tuple[int, ...], iy: int, ix: int) -> list[Cell]:
    """The up to 8 neighbours of a cell that are inside the grid: section "Graph"."""
    cells = []
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if (dy, dx) != (0, 0) and inside(shape, iy + dy, ix + dx):
                cells.append((iy + dy, ix + dx))
    return cells


def frontiers(belief: np.ndarray) -> np.ndarray:
    """Known-free cells with 2 to 7 unknown neighbours: section "Graph"."""
    frontier = np.zeros(belief.shape, dtype=bool)
    for iy in range(belief.shape[0]):
        for ix in range(belief.shape[1]):
            if belief[iy, ix] == FREE:
                unknown = 0
                for y, x in around(belief.shape, iy, ix):
                    if belief[y, x] == UNKNOWN:
                        unknown += 1
                frontier[iy, ix] = 2 <= unknown <= 7
    return frontier


def thinned(frontier: np.ndarray) -> np.ndarray:
    """The first frontier of each 2 x 2 voxel: section "Graph"."""
    kept = np.zeros(frontier.shape, dtype=bool)
    taken = set()
    for iy in range(frontier.shape[0]):
        for ix in range(frontier.shape[1]):
            voxel = (iy // 2, ix // 2)
            if frontier[iy, ix] and voxel not in taken:
                taken.add(voxel)
                kept[iy, ix] = True
    return kept


def grouped(frontier: np.ndarray) -> np.ndarray:
    """Frontiers in 8-connected groups of 3 cells or more, by flood fill: section "Graph"."""
    kept = np.zeros(frontier.shape, dtype=bool)
    done = set()
    for iy in range(frontier.shape[0]):
        for ix in range(frontier.shape[1]):
            if not frontier[iy, ix] or (iy, ix) in done:
                continue
            group = {(iy, ix)}
            to_visit = [(iy, ix)]
            while to_visit:
                y, x = to_visit.pop()
                for other in around(frontier.shape, y, x):
                    if frontier[other] and other not in group:
                        group.add(other)
                        to_visit.append(other)
            done |= group
            if len(group) >= 3:
                for cell in group:
                    kept[cell] = True
    return kept


def utility_range_mm(config: Config, range_mm: int | None) -> int:
    """How far a node looks for frontiers: sections "Graph" and "Bodies and cameras"."""
    if range_mm is None:
        return round(1000 * config.utility_range_m)
    return range_mm * round(100 * config.utility_range_m / config.sensor_range_m) // 100


def utilities(
    config: Config, belief: np.ndarray, node: np.ndarray, range_mm: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Utility of each node and its frontiers by direction bin: section "Graph"."""
    size, limit = node.shape[0], utility_range_mm(config, range_mm)
    utility = np.zeros((size, size), dtype=np.int64)
    histogram = np.zeros((size, size, config.heading_bins), dtype=np.int64)
    frontier = thinned(frontiers(belief))
    for i in range(size):
        for j in range(size):
            if not node[i, j]:
                continue
            cy, cx = site_cell(config, i, j)
            seen = visible_cells(belief == FREE, cy, cx, config.utility_radius_cells) - {(cy, cx)}
            counted = [c for c in seen if frontier[c] and length_mm(config, c[0] - cy, c[1] - cx) <= limit]
            if len(counted) <= 1:
                continue
            utility[i, j] = len(counted)
            for iy, ix in counted:
                histogram[i, j, direction_bin(config, iy - cy, ix - cx)] += 1
    return utility, histogram


def nearest_frontiers(
    config: Config, belief: np.ndarray, node: np.ndarray, sensed: np.ndarray, range_mm: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Distance in mm and flat cell index of each node's nearest frontier: section "Graph"."""
    size, limit = node.shape[0], utility_range_mm(config, range_mm)
    width = belief.shape[1]
    nearest_mm = np.full((size, size), UNREACHABLE, dtype=np.int64)
    nearest_cell = np.full((size, size), -1, dtype=np.int64)
    frontier = grouped(frontiers(belief))
    for i in range(size):
        for j in range(size):
            if not node[i, j]:
                continue
            cy, cx = site_cell(config, i, j)
            ranked = []
            for iy, ix in visible_cells(belief == FREE, cy, cx, config.utility_radius_cells) - {(cy, cx)}:
                dy, dx = iy - cy, ix - cx
                near = length_mm(config, dy, dx) <= limit
                if frontier[iy, ix] and near and not sensed[i, j, direction_bin(config, dy, dx)]:
                    ranked.append((dy * dy + dx * dx, max(abs(dy), abs(dx)), iy, ix))
            if ranked:
                _, _, iy, ix = min(ranked)
                nearest_mm[i, j] = length_mm(config, iy - cy, ix - cx)
                nearest_cell[i, j] = iy * width + ix
    return nearest_mm, nearest_cell


# Candidates


def half_window(config: Config, fov_deg: int | None) -> int:
    """Bins on either side of a heading that count as in view: sections "Candidates" and "Bodies and cameras"."""
    whole_bins = (config.fov_deg if fov_deg is None else fov_deg) // (2 * config.degrees_per_bin)
    return min(whole_bins, config.window_bins // 2)


def window_headings(config: Config, hist: np.ndarray, fov_deg: int | None = None) -> list[int]:
    """Three heading bins whose windows cover the most frontiers, greedily: section "Candidates"."""
    bins = config.heading_bins
    half = half_window(config, fov_deg)
    left = [int(count) for count in hist]
    headings = []
    while len(headings) < config.headings_per_node and (sum(left) > 0 or not headings):
        best_bin, best_score = -1, -1
        for b in range(bins):
            covered = 0
            centred = 0
            for k in range(-half, half + 1):
                covered += left[(b + k) % bins]
                centred += (half + 1 - abs(k)) * left[(b + k) % bins]
            score = 2048 * covered + centred
            if score > best_score:
                best_bin, best_score = b, score
        headings.append(best_bin)
        for k in range(-half, half + 1):
            left[(best_bin + k) % bins] = 0
    for position, shift in ((1, 3), (2, -3)):
        if len(headings) == position:
            headings.append((headings[0] + shift) % bins)
    return headings


def candidate_headings(
    config: Config,
    edge: np.ndarray,
    utility: np.ndarray,
    histogram: np.ndarray,
    useful_mm: np.ndarray,
    here: Site,
    fov_deg: int | None = None,
) -> np.ndarray:
    """Three heading bins for each neighbour slot with an edge, -1 elsewhere: section "Candidates"."""
    headings = np.full((SLOTS, config.headings_per_node), -1, dtype=np.int64)
    for k in range(SLOTS):
        if not edge[k, here[0], here[1]]:
            continue
        v = neighbour(here, k)
        if utility[v] > 0:
            headings[k] = window_headings(config, histogram[v], fov_deg)
            continue
        way = k  # the direction of motion
        if useful_mm[v] < UNREACHABLE:
            way = best_edge_slot(config, edge, useful_mm, v)
        g = direction_bin(config, *slot_offset(way))
        headings[k] = [g, (g + 1) % config.heading_bins, (g - 1) % config.heading_bins]
    return headings
