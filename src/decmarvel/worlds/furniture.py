"""Furniture of rooms and lobbies. Items touch a wall or stand clear of everything, so that small robots get round."""

import numpy as np

from decmarvel.worlds.canvas import Box, Canvas, between, pixels
from decmarvel.worlds.rooms import Room

_WAY = pixels(0.7)
"""Kept between items, for robots of 0.25 m radius with something to spare."""


def furnish(rng: np.random.Generator, room: Room, clutter: float) -> None:
    """Put furniture into a room: rows of desks into large ones, desks and cabinets into small ones."""
    box = room.box
    if room.wet or room.shut or rng.random() > 0.4 + 0.6 * clutter:
        return
    if box.width > pixels(8.0) and box.height > pixels(5.0) and rng.random() < 0.5:
        _rows_of_desks(rng, room, legs=rng.random() < 0.3)
        return
    area_m2 = box.width * box.height * 0.01
    for _ in range(min(20, round(clutter * area_m2 * rng.uniform(0.3, 0.7)))):
        _against_wall(rng, room.canvas, box)
    if min(box.width, box.height) > pixels(3.4) and rng.random() < 0.7:
        for _ in range(1 + int(area_m2 / 40)):
            _table(rng, room.canvas, box)


def add_columns(rng: np.random.Generator, canvas: Canvas, box: Box) -> None:
    """Columns at the crossings of a grid, away from the walls."""
    side, spacing = between(rng, 0.3, 0.7), between(rng, 3.5, 6.0)
    for bottom in range(box.bottom + pixels(1.6), box.top - side - pixels(1.4), spacing):
        for left in range(box.left + pixels(1.6), box.right - side - pixels(1.4), spacing):
            _stand(canvas, Box(bottom, left, bottom + side, left + side), 0)


def add_benches(rng: np.random.Generator, canvas: Canvas, corridor: Box, share: float) -> None:
    """Benches and cabinets along the lower wall of a corridor."""
    for left in range(corridor.left + 20, corridor.right - 40, pixels(4.0)):
        if rng.random() < share:
            length, depth = between(rng, 0.6, 2.0), between(rng, 0.3, 0.5)
            item = Box(corridor.bottom, left, corridor.bottom + depth, left + length)
            behind = canvas.free[corridor.bottom - 1, left : left + length]
            if not behind.any():
                _stand(canvas, item, 0)


def _stand(canvas: Canvas, item: Box, way: int) -> bool:
    """Put an item on free floor that need not stay free, with a free way of some pixels around it."""
    around = item.grown(way)
    if item.width < 1 or item.height < 1 or not canvas.free[around.cells].all() or canvas.keep[item.cells].any():
        return False
    canvas.free[item.cells] = False
    return True


def _against_wall(rng: np.random.Generator, canvas: Canvas, box: Box) -> None:
    """A desk, cabinet or shelf with its back to one of the walls, often in a corner."""
    length, depth = [(1.6, 0.8), (1.2, 0.6), (0.9, 0.4), (2.0, 0.4), (0.6, 0.6)][int(rng.integers(5))]
    long, deep = pixels(length), pixels(depth)
    side = int(rng.integers(4))
    across, along = (deep, long) if side < 2 else (long, deep)  # rows, columns
    if box.height - across < _WAY or box.width - along < _WAY:
        return
    bottom = int(rng.integers(box.bottom, box.top - across + 1))
    left = int(rng.integers(box.left, box.right - along + 1))
    if side < 2:
        bottom = box.bottom if side == 0 else box.top - across
        left = _into_corner(left, box.left, box.right - along)
    else:
        left = box.left if side == 2 else box.right - along
        bottom = _into_corner(bottom, box.bottom, box.top - across)
    item = Box(bottom, left, bottom + across, left + along)
    around = item.grown(_WAY)
    room_around = Box(*map(max, around[:2], box[:2]), *map(min, around[2:], box[2:]))
    if canvas.free[room_around.cells].all() and _stand(canvas, item, 0) and rng.random() < 0.6:
        _chair(rng, canvas, item)


def _chair(rng: np.random.Generator, canvas: Canvas, desk: Box) -> None:
    """A chair or bin somewhere near a desk."""
    size = int(rng.integers(2, 5))
    bottom = desk.bottom + int(rng.integers(-6, desk.height + 6))
    left = desk.left + int(rng.integers(-6, desk.width + 6))
    _stand(canvas, Box(bottom, left, bottom + size, left + size), 0)


def _into_corner(at: int, low: int, high: int) -> int:
    """Close gaps to a corner that a robot could not pass."""
    return low if at - low < _WAY else high if high - at < _WAY else at


def _table(rng: np.random.Generator, canvas: Canvas, box: Box) -> None:
    """A table with chairs around it, or the legs of one."""
    height, width = between(rng, 0.8, 1.4), between(rng, 0.8, 2.6)
    if rng.random() < 0.5:
        height, width = width, height
    space = Box(box.bottom + _WAY, box.left + _WAY, box.top - _WAY - height, box.right - _WAY - width)
    if space.height < 1 or space.width < 1:
        return
    bottom = int(rng.integers(space.bottom, space.top))
    left = int(rng.integers(space.left, space.right))
    table = Box(bottom, left, bottom + height, left + width)
    if not canvas.free[table.grown(_WAY).cells].all() or canvas.keep[table.grown(2).cells].any():
        return
    if rng.random() < 0.3:
        canvas.free[np.ix_([table.bottom, table.top - 1], [table.left, table.right - 1])] = False
    else:
        canvas.free[table.cells] = False
    for column in range(left + 3, left + width - 3, pixels(0.7)):
        for row in (bottom - 3, table.top + 1):
            if rng.random() < 0.6:
                canvas.free[row : row + 2, column : column + 2] = False


def _rows_of_desks(rng: np.random.Generator, room: Room, legs: bool) -> None:
    """Rows of desks, as in classrooms and open-plan offices, with aisles between them and along the walls."""
    box, canvas = room.box, room.canvas
    depth, spacing = between(rng, 0.5, 1.4), between(rng, 0.9, 1.6)
    long = between(rng, 1.6, 4.0)
    for bottom in range(box.bottom + pixels(1.6), box.top - depth - pixels(0.8), depth + spacing):
        for left in range(box.left + pixels(1.0), box.right - long - pixels(0.8), long + pixels(1.0)):
            desk = Box(bottom, left, bottom + depth, left + long)
            if rng.random() < 0.12 or not canvas.free[desk.grown(5).cells].all() or canvas.keep[desk.cells].any():
                continue
            if legs:
                canvas.free[np.ix_([bottom, desk.top - 1], range(left, desk.right, pixels(0.8)))] = False
            else:
                canvas.free[desk.cells] = False
