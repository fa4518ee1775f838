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


def preferred_cells(i: int, j: int, stride: int, margin: int) -> list[Cell]:
    """The cells of tile (i, j), nearest to its lattice cell first, then by row and column: point 5."""
    top, left = margin + stride * i, margin + stride * j
    centre_y, centre_x = top + stride // 2, left + stride // 2
    ranked = []
    for y in range(top, top + stride):
        for x in range(left, left + stride):
            ranked.append(((y - centre_y) ** 2 + (x - centre_x) ** 2, y, x))
    return [(y, x) for _, y, x in sorted(ranked)]


def settle(
    belief: np.ndarray, cell: np.ndarray, age: np.ndarray, stride: int, margin: int, cell_m: float, radius_mm: int
) -> tuple[np.ndarray, np.ndarray]:
    """Viewpoint cells and ages of all tiles after one more update: point 6."""
    fits = passable(belief, radius_mm, cell_m)
    open_question = undecided(belief, radius_mm, cell_m)
    cell, age = cell.copy(), age.copy()
    for i in range((belief.shape[0] - 2 * margin) // stride):
        for j in range((belief.shape[1] - 2 * margin) // stride):
            if cell[i, j, 0] >= 0:
                continue
            first = None
            better_may_come = False
            for place in preferred_cells(i, j, stride, margin):
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


def step_length(dy: int, dx: int, cell_m: float) -> int:
    """Length in mm of a step to a side neighbour or to a diagonal one: point 7."""
    if dy != 0 and dx != 0:
        return math.ceil(1000 * cell_m * math.sqrt(2) - 1e-6)
    return math.ceil(1000 * cell_m - 1e-6)


def steps(passable: np.ndarray, y: int, x: int, cell_m: float) -> Iterator[tuple[int, int, int]]:
    """Row, column and length in mm of each step from a cell: point 7."""
    if not passable[y, x]:
        return
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            to_y, to_x = y + dy, x + dx
            if (dy == 0 and dx == 0) or not inside(passable.shape, to_y, to_x) or not passable[to_y, to_x]:
                continue
            # For a step to the side, these are its two ends.
            if passable[to_y, x] and passable[y, to_x]:
                yield to_y, to_x, step_length(dy, dx, cell_m)


def flood(passable: np.ndarray, cell: np.ndarray, stride: int, cell_m: float) -> tuple[np.ndarray, np.ndarray]:
    """Distance in mm to the nearest viewpoint and the flat index of its tile, by Dijkstra: point 8.

    Ways are compared by (distance, tile): steps have a length, so this prefers the lower tile between equal distances.
    """
    limit = 3 * stride * step_length(0, 1, cell_m) // 2
    best: dict[Cell, tuple[int, int]] = {}
    heap = []
    for (i, j), place in viewpoints(cell).items():
        best[place] = (0, i * cell.shape[1] + j)
        heapq.heappush(heap, (*best[place], *place))
    while heap:
        so_far, tile, y, x = heapq.heappop(heap)
        if (so_far, tile) > best[y, x]:
            continue
        for to_y, to_x, length in steps(passable, y, x, cell_m):
            reached = (so_far + length, tile)
            if reached[0] <= limit and ((to_y, to_x) not in best or reached < best[to_y, to_x]):
                best[to_y, to_x] = reached
                heapq.heappush(heap, (*reached, to_y, to_x))
    distance = np.full(passable.shape, FAR_MM, dtype=np.int64)
    label = np.full(passable.shape, -1, dtype=np.int64)
    for place, (so_far, tile) in best.items():
        distance[place] = so_far
        label[place] = tile
    return distance, label


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
    return sorted(offsets)


def straight(passable: np.ndarray, u: Cell, v: Cell) -> bool:
    """Whether the body fits all along the straight line between two cells: point 10."""
    (uy, ux), (vy, vx) = u, v
    return all(bool(passable[uy + dy, ux + dx]) for dy, dx in line_offsets(int(vy - uy), int(vx - ux)))


def slot_between(a: tuple[int, int], b: tuple[int, int]) -> int | None:
    """The slot of tile a that leads to another tile b, if b is within two tiles of a: point 9."""
    for k in range(SLOTS):
        di, dj = slot_offset(k)
        if k != OWN_SLOT and (a[0] + di, a[1] + dj) == b:
            return k
    return None


def bent_lengths(passable: np.ndarray, cell: np.ndarray, stride: int, cell_m: float) -> np.ndarray:
    """Lengths in mm of the edges by steps, through the places where the floods of two tiles meet: point 9."""
    columns = cell.shape[1]
    distance, label = flood(passable, cell, stride, cell_m)
    bent = np.full((SLOTS, *cell.shape[:2]), FAR_MM, dtype=np.int64)
    for y in range(passable.shape[0]):
        for x in range(passable.shape[1]):
            if label[y, x] < 0:
                continue
            for to_y, to_x, length in steps(passable, y, x, cell_m):
                if label[to_y, to_x] < 0 or label[to_y, to_x] == label[y, x]:
                    continue
                a = divmod(int(label[y, x]), columns)
                k = slot_between(a, divmod(int(label[to_y, to_x]), columns))
                if k is not None:
                    whole = distance[y, x] + length + distance[to_y, to_x]
                    bent[k, *a] = min(bent[k, *a], whole)
    return bent


def straight_lengths(passable: np.ndarray, cell: np.ndarray, cell_m: float) -> np.ndarray:
    """Lengths in mm of the straight edges: point 10."""
    lengths = np.full((SLOTS, *cell.shape[:2]), FAR_MM, dtype=np.int64)
    places = viewpoints(cell)
    for (i, j), u in places.items():
        for k in range(SLOTS):
            di, dj = slot_offset(k)
            v = places.get((i + di, j + dj))
            if k != OWN_SLOT and v is not None and straight(passable, u, v):
                lengths[k, i, j] = math.ceil(1000 * cell_m * math.hypot(v[0] - u[0], v[1] - u[1]) - 1e-6)
    return lengths


def edge_lengths(
    belief: np.ndarray,
    cell: np.ndarray,
    before_mm: np.ndarray,
    stride: int,
    margin: int,
    cell_m: float,
    radius_mm: int,
) -> np.ndarray:
    """Length in mm of the edge from tile (i, j) in slot k, as [k, i, j]: point 11."""
    rows, columns = ((cells - 2 * margin) // stride for cells in belief.shape)
    assert cell.shape == (rows, columns, 2)
    assert before_mm.shape == (SLOTS, rows, columns)
    fits = passable(belief, radius_mm, cell_m)
    by_steps = bent_lengths(fits, cell, stride, cell_m)
    by_line = straight_lengths(fits, cell, cell_m)
    length = np.full(before_mm.shape, FAR_MM, dtype=np.int64)
    for k in range(SLOTS):
        for i in range(rows):
            for j in range(columns):
                length[k, i, j] = min(by_line[k, i, j], by_steps[k, i, j], before_mm[k, i, j], FAR_MM)
    return length


# Moves


def shortest_way(passable: np.ndarray, start_cell: Cell, end_cell: Cell, cell_m: float, box: int) -> int:
    """Length in mm of a shortest way over steps that stays within `box` rows and columns of its start: point 12."""
    start = (int(start_cell[0]), int(start_cell[1]))
    end = (int(end_cell[0]), int(end_cell[1]))
    best = {start: 0}
    heap = [(0, *start)]
    while heap:
        so_far, y, x = heapq.heappop(heap)
        if (y, x) == end:
            return so_far
        if so_far > best[y, x]:
            continue
        for to_y, to_x, length in steps(passable, y, x, cell_m):
            if abs(to_y - start[0]) > box or abs(to_x - start[1]) > box:
                continue
            longer = so_far + length
            if longer < best.get((to_y, to_x), FAR_MM):
                best[to_y, to_x] = longer
                heapq.heappush(heap, (longer, to_y, to_x))
    return FAR_MM
