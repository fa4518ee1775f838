"""Two more families, drawn in cells of 0.4 m: offices with ordinary doors and many loops, and open halls."""

from itertools import pairwise

import numpy as np
from jaxtyping import Bool
from scipy import ndimage

CELL_M = 0.4
_CELLS = 250
"""Cells a side: 100 m, like the indoor family, so that all families share one array shape. The building is smaller."""

_Grid = Bool[np.ndarray, "rows columns"]
_Span = tuple[int, int]
"""First cell and the cell after the last."""


def office(rng: np.random.Generator) -> tuple[_Grid, tuple[int, int]]:
    """Rooms on both sides of long corridors, which two or more cross corridors join. Starts where two corridors meet.

    From bottom to top come bands of [rooms, corridor, rooms]; each room has a door to its band's corridor, so that
    the building is in one piece; more doors between neighbouring rooms make loops.
    """
    free = np.zeros((_CELLS, _CELLS), bool)
    wall = int(rng.integers(1, 3))
    footprint_columns = _centred(int(rng.integers(140, 181)))
    heights: list[int] = []
    for _ in range(int(rng.integers(3, 5))):
        heights += [int(rng.integers(10, 19)), int(rng.integers(5, 9)), int(rng.integers(10, 19))]
    rows = _stack(_centred(sum(heights) + wall * (len(heights) - 1))[0], heights, wall)
    corridors, room_rows = rows[1::3], [row for k, row in enumerate(rows) if k % 3 != 1]

    wings = _divide(rng, footprint_columns, 35, 70, gap=int(rng.integers(5, 8)) + 2 * wall)
    crossings = [(left[1] + wall, right[0] - wall) for left, right in pairwise(wings)]
    for corridor in corridors:
        free[slice(*corridor), slice(*footprint_columns)] = True
    for crossing in crossings:
        free[corridors[0][0] : corridors[-1][1], slice(*crossing)] = True

    for number, row in enumerate(room_rows):
        corridor = corridors[number // 2]
        corridor_side = corridor[0] - wall if number % 2 == 0 else corridor[1]
        for wing in wings:
            rooms = _divide(rng, wing, 8, 22, gap=wall)
            for index, room in enumerate(rooms):
                free[slice(*row), slice(*room)] = True
                for _ in range(1 if room[1] - room[0] < 16 else 2):
                    free[corridor_side : corridor_side + wall, slice(*_door(rng, room))] = True
                if index and rng.random() < 0.25:
                    free[slice(*_door(rng, row)), room[0] - wall : room[0]] = True
                backs_on_band_below = number > 0 and number % 2 == 0
                if backs_on_band_below and rng.random() < 0.1:
                    _break_through(rng, free, row[0] - wall, wall, room)

    corridor, crossing = corridors[int(rng.integers(len(corridors)))], crossings[int(rng.integers(len(crossings)))]
    return free, (sum(corridor) // 2, sum(crossing) // 2)


def hall(rng: np.random.Generator) -> tuple[_Grid, tuple[int, int]]:
    """Two to six large halls with pillars, joined by wide gates. Starts at a random place with 2 m free all round."""
    free = np.zeros((_CELLS, _CELLS), bool)
    wall = int(rng.integers(1, 3))
    rows = _divide(rng, _centred(int(rng.integers(110, 171))), 50, 90, gap=wall)
    columns = _divide(rng, _centred(int(rng.integers(130, 171))), 50, 90, gap=wall)
    for row in rows:
        for column in columns:
            free[slice(*row), slice(*column)] = True
            _add_pillars(rng, free, row, column)
    for number, row in enumerate(rows):
        for left, right in pairwise(columns):
            free[slice(*_gate(rng, row)), left[1] : right[0]] = True
        for upper in rows[number + 1 : number + 2]:
            for index, column in enumerate(columns):
                if index == 0 or rng.random() < 0.7:
                    free[row[1] : upper[0], slice(*_gate(rng, column))] = True
    open_cells = np.argwhere(ndimage.distance_transform_edt(free) >= 2.0 / CELL_M)
    start_row, start_column = open_cells[rng.integers(len(open_cells))].tolist()
    return free, (start_row, start_column)


def _add_pillars(rng: np.random.Generator, free: _Grid, row: _Span, column: _Span) -> None:
    """Pillars in rows and columns, 2 m or more from walls and from each other, so that there is a way around each."""
    side = int(rng.integers(2, 6))
    spacing = int(rng.integers(side + 8, side + 18))
    for bottom in range(row[0] + spacing // 2, row[1] - side - 5, spacing):
        for left in range(column[0] + spacing // 2, column[1] - side - 5, spacing):
            if rng.random() < 0.85:
                free[bottom : bottom + side, left : left + side] = False


def _centred(length: int) -> _Span:
    first = (_CELLS - length) // 2
    return first, first + length


def _stack(first: int, lengths: list[int], gap: int) -> list[_Span]:
    spans = []
    for length in lengths:
        spans.append((first, first + length))
        first += length + gap
    return spans


def _divide(rng: np.random.Generator, span: _Span, shortest: int, longest: int, gap: int) -> list[_Span]:
    """Divide a span into pieces of random lengths with gaps between them; of equal lengths if one was too long."""
    total = span[1] - span[0]
    fewest, most = -(-(total + gap) // (longest + gap)), (total + gap) // (shortest + gap)
    pieces = max(1, int(rng.integers(fewest, max(fewest, most) + 1)))
    spare = total - gap * (pieces - 1) - shortest * pieces
    cuts = np.sort(rng.integers(0, max(spare, 0) + 1, size=pieces - 1))
    extra = np.diff(np.concatenate(([0], cuts, [max(spare, 0)])))
    even = np.diff(np.linspace(0, max(spare, 0), pieces + 1).astype(np.int64))
    lengths = shortest + (extra if (shortest + extra).max() <= longest else even)
    lengths[-1] += total - gap * (pieces - 1) - int(lengths.sum())
    return _stack(span[0], lengths.tolist(), gap)


def _door(rng: np.random.Generator, span: _Span) -> _Span:
    """An ordinary door, 1.2 to 2 m wide, at a random place of a wall."""
    return _opening(rng, span, int(rng.integers(3, 6)))


def _gate(rng: np.random.Generator, span: _Span) -> _Span:
    """A gate between halls, 3.2 to 6 m wide. Pillars keep 2 m away from walls, so that no gate is blocked."""
    return _opening(rng, span, int(rng.integers(8, 16)))


def _opening(rng: np.random.Generator, span: _Span, width: int) -> _Span:
    first = int(rng.integers(span[0] + 1, span[1] - width))
    return first, first + width


def _break_through(rng: np.random.Generator, free: _Grid, wall_row: int, wall: int, room: _Span) -> None:
    """A door down through the wall that begins at `wall_row`, unless another wall stands behind it."""
    door = slice(*_door(rng, room))
    if free[wall_row - 1, door].all():
        free[wall_row : wall_row + wall, door] = True
