"""Roads: where a body fits, the viewpoint of each tile and the lengths of the ways between viewpoints, slowly.

The grid is cut into tiles, one around each lattice cell. A cell is passable if the robot's whole body fits there. Each
tile chooses one passable cell as its viewpoint, once and for good. Two viewpoints are joined by a straight line where
the body fits all along it, and otherwise by steps from cell to cell, bent around what is in the way.
"""

import heapq
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np

from decmarvel.core.config import Config
from oracles.lattice import FREE, OCCUPIED, OWN_SLOT, SLOTS, Cell, inside, slot_offset

FAR_MM = 2**29
PATIENCE = 2
NOWHERE = (-1, -1)

# The body


def body_offsets(radius_mm: int, cell_m: float) -> list[tuple[int, int]]:
    """Offsets of the cells that a body in the middle of a cell needs, row-major: point 1."""
    cell_mm = round(1000 * cell_m)
    reach = math.ceil(radius_mm / cell_mm) + 1
    offsets = []
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            near = 4 * (dy * dy + dx * dx) * cell_mm**2 < (2 * radius_mm + cell_mm) ** 2
            if near or (dy == 0 and dx == 0):
                offsets.append((dy, dx))
    return offsets


def cells_that_are(belief: np.ndarray, value: int) -> set[Cell]:
    """The cells of the grid with this belief. Nothing outside the grid is free or occupied."""
    return {(int(y), int(x)) for y, x in np.argwhere(belief == value)}


def passable(belief: np.ndarray, radius_mm: int, cell_m: float) -> np.ndarray:
    """Cells in which the whole body stands on free cells: point 2."""
    free = cells_that_are(belief, FREE)
    offsets = body_offsets(radius_mm, cell_m)
    fits = np.zeros(belief.shape, dtype=bool)
    for y in range(belief.shape[0]):
        for x in range(belief.shape[1]):
            fits[y, x] = all((y + dy, x + dx) in free for dy, dx in offsets)
    return fits


def blocked(belief: np.ndarray, radius_mm: int, cell_m: float) -> np.ndarray:
    """Cells in which the body would touch an occupied cell: point 3."""
    occupied = cells_that_are(belief, OCCUPIED)
    offsets = body_offsets(radius_mm, cell_m)
    touches = np.zeros(belief.shape, dtype=bool)
    for y in range(belief.shape[0]):
        for x in range(belief.shape[1]):
            touches[y, x] = any((y + dy, x + dx) in occupied for dy, dx in offsets)
    return touches


def undecided(belief: np.ndarray, radius_mm: int, cell_m: float) -> np.ndarray:
    """Cells near known-free ones that may still turn out passable: point 4."""
    free = cells_that_are(belief, FREE)
    offsets = set()
    for dy, dx in body_offsets(radius_mm, cell_m):
        for ey in (-1, 0, 1):
            for ex in (-1, 0, 1):
                offsets.add((dy + ey, dx + ex))
    fits = passable(belief, radius_mm, cell_m)
    touches = blocked(belief, radius_mm, cell_m)
    open_question = np.zeros(belief.shape, dtype=bool)
    for y in range(belief.shape[0]):
        for x in range(belief.shape[1]):
            if not fits[y, x] and not touches[y, x]:
                open_question[y, x] = any((y + dy, x + dx) in free for dy, dx in offsets)
    return open_question


# Viewpoints


def preferred_cells(i: int, j: int, stride: int) -> list[Cell]:
    """The cells of tile (i, j), nearest to its lattice cell first, then by row and column: point 5."""
    top, left = stride * i, stride * j
    centre_y, centre_x = top + stride // 2, left + stride // 2
    ranked = []
    for y in range(top, top + stride):
        for x in range(left, left + stride):
            ranked.append(((y - centre_y) ** 2 + (x - centre_x) ** 2, y, x))
    return [(y, x) for _, y, x in sorted(ranked)]


def settle(
    fits: np.ndarray, open_question: np.ndarray, cell: np.ndarray, age: np.ndarray, stride: int
) -> tuple[np.ndarray, np.ndarray]:
    """Viewpoint cells and ages of all tiles after one more update: point 6."""
    cell, age = cell.copy(), age.copy()
    for i in range(cell.shape[0]):
        for j in range(cell.shape[1]):
            if cell[i, j, 0] >= 0:
                continue
            first = None
            better_may_come = False
            for place in preferred_cells(i, j, stride):
                if fits[place]:
                    first = place
                    break
                better_may_come = better_may_come or open_question[place]
            if first is None:
                continue
            if better_may_come and age[i, j] < PATIENCE:
                age[i, j] += 1
            else:
                cell[i, j] = first
    return cell, age


def viewpoints(cell: np.ndarray) -> dict[tuple[int, int], Cell]:
    """The viewpoint cell of each tile that has one, tiles in row-major order."""
    found = {}
    for i in range(cell.shape[0]):
        for j in range(cell.shape[1]):
            place = (int(cell[i, j, 0]), int(cell[i, j, 1]))
            if place != NOWHERE:
                found[i, j] = place
    return found


# Steps

SIDE, SLANT = 12, 17
"""Lengths of the two kinds of steps, in twelfths of a cell."""


def way_mm(parts: int, spacing_mm: int, stride: int) -> int:
    """Twelfths of a cell in whole millimetres, rounded up: point 7."""
    return -(-parts * spacing_mm // (SIDE * stride))


def steps(passable: np.ndarray, y: int, x: int) -> Iterator[tuple[int, int, int]]:
    """Row, column and length in twelfths of a cell of each step from a cell: point 7."""
    if not passable[y, x]:
        return
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            to_y, to_x = y + dy, x + dx
            if (dy == 0 and dx == 0) or not inside(passable.shape, to_y, to_x) or not passable[to_y, to_x]:
                continue
            # For a step to the side, these are its two ends.
            if passable[to_y, x] and passable[y, to_x]:
                yield to_y, to_x, SLANT if dy != 0 and dx != 0 else SIDE


def rank(tile: tuple[int, int]) -> tuple[int, int]:
    """Which of two tiles as near as each other a cell belongs to, the lower: point 8."""
    return tile[0] % 5, tile[1] % 5


def flood(passable: np.ndarray, places: dict[tuple[int, int], Cell], stride: int) -> dict[Cell, tuple[int, tuple]]:
    """Distance to the nearest viewpoint and its tile, for the cells that are near enough to one, by Dijkstra: point 8.

    Ways are compared by (distance, rank of the tile): steps have a length, so this settles equal distances.
    """
    limit = 3 * stride * SIDE // 2
    best: dict[Cell, tuple[int, tuple]] = {}
    heap = []
    for tile, place in places.items():
        best[place] = (0, tile)
        heapq.heappush(heap, (0, rank(tile), tile, place))
    while heap:
        so_far, _, tile, (y, x) = heapq.heappop(heap)
        if (so_far, tile) != best[y, x]:
            continue
        for to_y, to_x, length in steps(passable, y, x):
            longer, there = so_far + length, best.get((to_y, to_x))
            if longer > limit or (there and (there[0], rank(there[1])) <= (longer, rank(tile))):
                continue
            best[to_y, to_x] = (longer, tile)
            heapq.heappush(heap, (longer, rank(tile), tile, (to_y, to_x)))
    return best


# Edges


@cache
def line_offsets(dy: int, dx: int) -> list[tuple[int, int]]:
    """Cells beside the points of a straight line, as offsets from its start: point 10."""
    n = max(abs(dy), abs(dx))
    offsets = {(0, 0)}
    for k in range(1, n + 1):
        y, x = Fraction(dy * k, n), Fraction(dx * k, n)
        for row in (math.floor(y), math.ceil(y)):
            for column in (math.floor(x), math.ceil(x)):
                offsets.add((row, column))
        if abs(dy) == abs(dx):  # a slanting step passes between two more cells
            offsets.add((int(y), int(x) - dx // n))
            offsets.add((int(y) - dy // n, int(x)))
    return sorted(offsets)


def straight(passable: np.ndarray, u: Cell, v: Cell) -> bool:
    """Whether the body fits all along the straight line between two cells: point 10."""
    (uy, ux), (vy, vx) = u, v
    return all(bool(passable[uy + dy, ux + dx]) for dy, dx in line_offsets(int(vy - uy), int(vx - ux)))


def straight_mm(u: Cell, v: Cell, spacing_mm: int, stride: int) -> int:
    """Length of the straight line between two cells, rounded up: point 10."""
    squared = spacing_mm**2 * ((v[0] - u[0]) ** 2 + (v[1] - u[1]) ** 2)
    length = math.isqrt(squared // stride**2)
    return length if length**2 * stride**2 >= squared else length + 1


def slot_between(a: tuple[int, int], b: tuple[int, int]) -> int | None:
    """The slot of tile a that leads to another tile b, if b is within two tiles of a: point 9."""
    for k in range(SLOTS):
        di, dj = slot_offset(k)
        if k != OWN_SLOT and (a[0] + di, a[1] + dj) == b:
            return k
    return None


def bent_lengths(passable: np.ndarray, cell: np.ndarray, spacing_mm: int, stride: int) -> np.ndarray:
    """Lengths in mm of the edges by steps, through the places where the surroundings of two tiles meet: point 9."""
    reached = flood(passable, viewpoints(cell), stride)
    bent = np.full((SLOTS, *cell.shape[:2]), FAR_MM, dtype=np.int64)
    for (y, x), (so_far, a) in reached.items():
        for to_y, to_x, length in steps(passable, y, x):
            if (to_y, to_x) not in reached:
                continue
            rest, b = reached[to_y, to_x]
            k = slot_between(a, b)
            if k is not None:
                bent[k, *a] = min(bent[k, *a], way_mm(so_far + length + rest, spacing_mm, stride))
    return bent


def straight_lengths(passable: np.ndarray, cell: np.ndarray, spacing_mm: int, stride: int) -> np.ndarray:
    """Lengths in mm of the straight edges: point 10."""
    lengths = np.full((SLOTS, *cell.shape[:2]), FAR_MM, dtype=np.int64)
    places = viewpoints(cell)
    for (i, j), u in places.items():
        for k in range(SLOTS):
            di, dj = slot_offset(k)
            v = places.get((i + di, j + dj))
            if k != OWN_SLOT and v is not None and straight(passable, u, v):
                lengths[k, i, j] = straight_mm(u, v, spacing_mm, stride)
    return lengths


# One update


def grow(
    config: Config,
    belief: np.ndarray,
    cell: np.ndarray,
    age: np.ndarray,
    length_mm: np.ndarray,
    radius_mm: int,
    middle: tuple[int, int] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Viewpoints, ages and lengths after one more update around the tile `middle`, everywhere if None: point 11.

    What lies outside the square of tiles that is updated is as if it were not there.
    """
    sites, stride, margin = len(age), config.stride, config.margin_cells
    count = sites if middle is None else min(sites, config.road_window_sites)
    first = [0, 0] if middle is None else [min(max(m - count // 2, 0), sites - count) for m in middle]
    tiles = (slice(first[0], first[0] + count), slice(first[1], first[1] + count))
    rows, columns = (slice(margin + stride * low, margin + stride * (low + count)) for low in first)
    fits = passable(belief, radius_mm, config.cell_m)[rows, columns]
    open_question = undecided(belief, radius_mm, config.cell_m)[rows, columns]
    corner = np.array([rows.start, columns.start])

    known = np.where(cell[tiles] >= 0, cell[tiles] - corner, -1)
    known, ages = settle(fits, open_question, known, age[tiles], stride)
    by_steps = bent_lengths(fits, known, config.spacing_mm, stride)
    by_line = straight_lengths(fits, known, config.spacing_mm, stride)
    cell, age, length_mm = cell.copy(), age.copy(), length_mm.copy()
    cell[tiles], age[tiles] = np.where(known >= 0, known + corner, -1), ages
    here = (slice(None), *tiles)
    length_mm[here] = np.minimum(length_mm[here], np.minimum(by_steps, by_line))
    return cell, age, length_mm


# Moves


def shortest_way(passable: np.ndarray, start: Cell, end: Cell, box: int) -> int | None:
    """Length, in twelfths of a cell, of a shortest way over steps within `box` rows and columns of its start: point 12.

    None if there is no way.
    """
    best = {start: 0}
    heap = [(0, *start)]
    while heap:
        so_far, y, x = heapq.heappop(heap)
        if (y, x) == end:
            return so_far
        if so_far > best[y, x]:
            continue
        for to_y, to_x, length in steps(passable, y, x):
            if abs(to_y - start[0]) > box or abs(to_x - start[1]) > box:
                continue
            longer = so_far + length
            if longer < best.get((to_y, to_x), FAR_MM):
                best[to_y, to_x] = longer
                heapq.heappush(heap, (longer, to_y, to_x))
    return None
