"""Rooms beside a corridor, drawn upward from it: offices, suites, wet rooms, open lounges, doors."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from decmarvel.worlds.canvas import Box, Canvas, between, pixels

_SHALLOWEST = pixels(2.2)
_LONGEST = pixels(17.0)
_APPROACH = pixels(0.8)
"""Floor that stays free on both sides of a door."""


@dataclass(frozen=True)
class Manner:
    """How one building is built. Lengths in pixels."""

    wall: int
    corridor: int
    depth: int
    """Of a row of rooms."""
    module: int
    """Length of the rooms that are repeated."""
    wide_doors: bool
    """Doors of 1.2 to 2 m, like those of universities, rather than 0.8 to 1.2 m."""
    shut_share: float
    joined_share: float
    """Share of neighbouring rooms with a door between them."""
    open_share: float
    """Share of rooms without a wall to the corridor."""
    suite_share: float
    clutter: float
    """Items of furniture, relative to a full office; 0 is an empty building."""
    glass_share: float
    """Share of the rooms at an outer wall whose windows let rays out."""
    ragged: float
    """Share of the floor along walls that is taken for wall, as in maps that robots made."""
    drift: float
    """Sideways metres per metre that walls wander."""


@dataclass(frozen=True)
class Room:
    """A room or lobby in the view that it was drawn in, its outer wall at the top."""

    canvas: Canvas
    box: Box
    wet: bool = False
    shut: bool = False
    """Nothing of it is drawn, but its glass shows rays of it."""


def rooms_along(rng: np.random.Generator, manner: Manner, canvas: Canvas, corridor: Box) -> list[Room]:
    """Draw rooms on the upper side of a corridor where there is space; each has a door to it unless it is shut."""
    wall, base = manner.wall, corridor.top + manner.wall
    end = corridor.width <= manner.corridor
    beyond = pixels(4.0) if end else pixels(8.0) if rng.random() < 0.6 else 0
    first = max(wall + 1, corridor.left - beyond)
    last = min(canvas.free.shape[1] - wall - 1, corridor.right + beyond)
    taken = canvas.free[corridor.top : base + _SHALLOWEST + wall, first:last].max(axis=0)
    row_depth = int(manner.depth * rng.uniform(0.8, 1.15))
    rooms: list[Room] = []
    for left, right in _runs(~taken):
        left, right = left + first + wall, right + first - wall
        inner = max(left, corridor.left), min(right, corridor.right)
        previous: Room | None = None
        spans = _divide(rng, manner, *inner)
        for number, (room_left, room_right) in enumerate(spans):
            if number == 0:
                room_left = max(left, room_left - int(rng.integers(0, beyond + 1)), room_right - _LONGEST)
            if number == len(spans) - 1:
                room_right = min(right, room_right + int(rng.integers(0, beyond + 1)), room_left + _LONGEST)
            box = _fit(rng, canvas, Box(base, room_left, base + row_depth, room_right), wall)
            if box is None or rng.random() < 0.03:  # a shaft, stairs or store
                previous = None
                continue
            room = _build(rng, manner, canvas, box, corridor)
            rooms.append(room)
            _partition(rng, manner, room)
            if previous is not None and not room.shut and rng.random() < manner.joined_share:
                _join(rng, manner, canvas, previous.box, box)
            previous = None if room.shut else room
    return rooms


def door_width(rng: np.random.Generator, manner: Manner, longest: int) -> int:
    """Of an ordinary door; some doors of long walls are double."""
    if manner.wide_doors:
        width = between(rng, 1.2, 2.0)
    elif longest > pixels(7.0) and rng.random() < 0.45:
        width = between(rng, 1.4, 1.8)
    else:
        width = between(rng, 0.8, 1.2)
    return min(width, longest - 2)


def _build(rng: np.random.Generator, manner: Manner, canvas: Canvas, box: Box, corridor: Box) -> Room:
    """Draw one room and its doors to the corridor."""
    wall_top, wall_bottom = box.bottom, box.bottom - manner.wall
    left, right = max(box.left, corridor.left), min(box.right, corridor.right)
    if rng.random() < manner.shut_share:
        return Room(canvas, box, shut=True)
    canvas.carve(box)
    if rng.random() < manner.open_share:
        canvas.carve(Box(wall_bottom, left, wall_top, right))
        return Room(canvas, box)
    wet = pixels(2.0) <= box.width <= pixels(2.7) and corridor.width > manner.corridor
    doors = 2 if right - left > pixels(9.0) and rng.random() < 0.6 else 1
    width = between(rng, 0.8, 1.0) if wet and not manner.wide_doors else door_width(rng, manner, right - left)
    for number in range(doors):
        low, high = left + number * (right - left) // doors, left + (number + 1) * (right - left) // doors
        at_side = low + 1 if rng.random() < 0.5 else high - width - 1
        at = at_side if rng.random() < 0.6 else int(rng.integers(low, high - width + 1))
        canvas.open_door(Box(wall_bottom, at, wall_top, at + width), _APPROACH)
        if manner.clutter and rng.random() < 0.15:  # a door ajar
            canvas.free[wall_top - 1, at : at + width - between(rng, 0.6, 0.8)] = False
    if wet and box.height > pixels(4.0):
        _stalls(canvas, box)
    return Room(canvas, box, wet=wet)


def _fit(rng: np.random.Generator, canvas: Canvas, wanted: Box, wall: int) -> Box | None:
    """The room as deep as there is space for, up to the next room's wall if little is left behind it."""
    depth = wanted.height
    if rng.random() < 0.25:
        depth = int(depth * rng.uniform(0.75, 1.25))
    limit = min(depth + pixels(1.8), canvas.free.shape[0] - wanted.bottom - wall)
    if wanted.width < pixels(1.8) or limit < _SHALLOWEST:
        return None
    taken = canvas.free[wanted.bottom : wanted.bottom + limit + wall, wanted.left - wall : wanted.right + wall].any(
        axis=1
    )
    if taken.any():
        depth = int(taken.argmax()) - wall
    return wanted._replace(top=wanted.bottom + depth) if depth >= _SHALLOWEST else None


def _partition(rng: np.random.Generator, manner: Manner, room: Room) -> None:
    """Part a deep room into an anteroom and one or two rooms behind it."""
    box, wall = room.box, manner.wall
    if room.wet or room.shut or min(box.height, box.width) < pixels(5.4) or rng.random() >= manner.suite_share:
        return
    cut = box.bottom + int(rng.integers(pixels(2.2), box.height - pixels(2.4) - wall + 1))
    parts = [(box.left, box.right)]
    if box.width > pixels(5.5):
        middle = (box.left + box.right) // 2 + between(rng, -0.3, 0.3)
        parts = [(box.left, middle), (middle + wall, box.right)]
        room.canvas.free[cut : box.top, middle : middle + wall] = False
    room.canvas.free[cut : cut + wall, box.left : box.right] = False
    for left, right in parts:
        width = door_width(rng, manner, right - left)
        at = int(rng.integers(left + 1, right - width))
        room.canvas.open_door(Box(cut, at, cut + wall, at + width), _APPROACH)


def _join(rng: np.random.Generator, manner: Manner, canvas: Canvas, one: Box, other: Box) -> None:
    """A door through the wall between neighbouring rooms, if there is but one wall and floor on both of its sides."""
    if other.left - one.right > 2 * manner.wall:
        return
    low, high = max(one.bottom, other.bottom) + pixels(0.5), min(one.top, other.top)
    width = door_width(rng, manner, high - low)
    if width < pixels(0.8):
        return
    at = int(rng.integers(low, high - width + 1))
    beside = canvas.free[at : at + width, [one.right - 1, other.left]]
    if beside.all():
        canvas.open_door(Box(at, one.right, at + width, other.left), 0)
        canvas.keep[Box(at, one.right - _APPROACH, at + width, other.left + _APPROACH).cells] = True


def _stalls(canvas: Canvas, box: Box) -> None:
    """Stalls of a wet room along its left wall, at the far end from the door, open to its right."""
    depth, length = pixels(1.0), pixels(0.9)
    for bottom in range(box.bottom + pixels(1.6), box.top - length, length + 1):
        canvas.free[bottom, box.left : box.left + depth] = False


def _divide(rng: np.random.Generator, manner: Manner, left: int, right: int) -> list[tuple[int, int]]:
    """Lengths of rooms along a wall: most of one module, some of two, some large ones, some wet rooms."""
    shortest = pixels(3.0)
    spans: list[tuple[int, int]] = []
    while right - left >= pixels(2.0):
        kind = rng.random()
        if kind < 0.62:
            length = manner.module
        elif kind < 0.76:
            length = 2 * manner.module + manner.wall
        elif kind < 0.90:
            length = between(rng, 6.0, 17.0)
        else:
            length = between(rng, 2.0, 2.6)
        if right - left - length < shortest + manner.wall:
            length = right - left if right - left <= _LONGEST else (right - left - manner.wall) // 2
        spans.append((left, left + length))
        left += length + manner.wall
    return spans


def _runs(mask: Bool[np.ndarray, " columns"]) -> list[tuple[int, int]]:
    """First and past-last index of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
