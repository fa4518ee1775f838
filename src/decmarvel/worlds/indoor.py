"""The default family of buildings: rooms of 10 to 20 m joined by doors, with exactly one loop.

A building is 100 m x 100 m, made of 5 m blocks. Rooms are rectangles of 2 to 4 blocks a side, walls are at least one
block thick, doors one block wide and one long. Rooms are added one after another, each through a door in the wall of a
room that is there already, so they form a tree; one more door then closes the single loop. The room that the robots
start in has one door only, as on the maps that this family imitates.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

BLOCK_M = 5.0
_BLOCKS = 20
"""Blocks a side, the solid border of one block included."""

_WALL = 1
_FAILURES_TO_STOP = 70
_NEWEST_ROOM_PROBABILITY = 0.3
"""Adding a room beside the newest one makes chains; adding it beside any room makes branches."""
_LOOP_CLASSES = (((2, 2), 0.20), ((3, 4), 0.19), ((5, 8), 0.20), ((9, _BLOCKS**2), 0.41))
"""Ranges of the number of rooms on the loop, and the probability that each is wanted. Long loops are often impossible,
so in the end about a quarter of the loops is in each range, a little more in the first."""


@dataclass(frozen=True)
class IndoorStyle:
    """What differs between the training and the held-out maps of the family."""

    side_probabilities: tuple[float, float, float] = (0.30, 0.33, 0.37)
    """Probabilities of room sides of 2, 3 and 4 blocks."""
    small_side_probabilities: tuple[float, float, float] = (0.40, 0.54, 0.06)
    """Probabilities of room sides of 2, 3 and 4 blocks on maps with small rooms."""
    small_rooms_share: float = 0.0
    """Share of maps with small rooms."""
    rotate: bool = False
    """Turn the map by a random multiple of 90 degrees, so that the start lies in any quadrant."""


class _Room(NamedTuple):
    """A rectangle of free blocks: its lowest row and column, and its sides."""

    row: int
    column: int
    height: int
    width: int


def indoor_blocks(
    rng: np.random.Generator, style: IndoorStyle
) -> tuple[Bool[np.ndarray, "block_rows block_columns"], tuple[int, int]]:
    """Free blocks and the start block. If no wall is left for the last door, it begins again."""
    while True:
        small = rng.random() < style.small_rooms_share
        plan = _Plan(rng, style.small_side_probabilities if small else style.side_probabilities)
        plan.grow()
        if plan.close_loop():
            break
    start = plan.start_block
    free = plan.free
    if style.rotate:
        for _ in range(rng.integers(4)):
            free = np.rot90(free)
            start = (_BLOCKS - 1 - start[1], start[0])
    return free, start


class _Plan:
    """A building under construction."""

    def __init__(self, rng: np.random.Generator, side_probabilities: tuple[float, float, float]) -> None:
        self.rng = rng
        self.free = np.zeros((_BLOCKS, _BLOCKS), bool)
        self.rooms: list[_Room] = []
        self.parents: list[int] = []
        self._side_limits = np.cumsum(side_probabilities)[:2]
        self._fits_cache: dict[tuple[int, int], Bool[np.ndarray, "rows columns"]] = {}
        self._build_start_room()

    @property
    def start_block(self) -> tuple[int, int]:
        room = self.rooms[0]
        return room.row + room.height // 2, room.column + room.width // 2

    def _build_start_room(self) -> None:
        """Add a room with sides of 3 or 4 blocks and its lower corner at block (11, 11) or one or two blocks before."""
        height, width = self.rng.integers(3, 5, size=2).tolist()
        row = 11 - int(self.rng.choice(3, p=(0.94, 0.05, 0.01)))
        column = 11 - int(self.rng.choice(3, p=(0.86, 0.12, 0.02)))
        self._add(_Room(row, column, height, width), parent=-1)

    def _add(self, room: _Room, parent: int, door: tuple[int, int] | None = None) -> None:
        self.free[room.row : room.row + room.height, room.column : room.column + room.width] = True
        if door is not None:
            self.free[door] = True
        self.rooms.append(room)
        self.parents.append(parent)
        self._fits_cache.clear()

    def grow(self) -> None:
        """Add rooms until `_FAILURES_TO_STOP` attempts in a row have failed: then the building counts as full."""
        failures = 0
        while failures < _FAILURES_TO_STOP:
            newest, any_room, side_1, side_2, choice = self.rng.random(5)
            count = len(self.rooms)
            parent = count - 1 if newest < _NEWEST_ROOM_PROBABILITY else int(any_room * count)
            parent = max(parent, min(1, count - 1))  # the start room has a single door
            if self._add_beside(parent, self._side(side_1), self._side(side_2), choice):
                failures = 0
            else:
                failures += 1

    def _side(self, uniform: float) -> int:
        return 2 + int(uniform > self._side_limits[0]) + int(uniform > self._side_limits[1])

    def _add_beside(self, parent: int, height: int, width: int, choice: float) -> bool:
        """Add a room through a door in the parent's wall; each pair of a place and a door is equally likely."""
        beside = self.rooms[parent]
        fits = self._fits(height, width)
        above, below = beside.row + beside.height + _WALL, beside.row - _WALL - height
        right, left = beside.column + beside.width + _WALL, beside.column - _WALL - width
        options: list[tuple[_Room, tuple[int, int]]] = []
        for row, door_row in ((above, above - 1), (below, beside.row - 1)):
            if 0 <= row < fits.shape[0]:
                first = max(0, beside.column - width + 1)
                for column in (first + np.flatnonzero(fits[row, first : beside.column + beside.width])).tolist():
                    overlap = range(max(column, beside.column), min(column + width, beside.column + beside.width))
                    options += [(_Room(row, column, height, width), (door_row, door)) for door in overlap]
        for column, door_column in ((right, right - 1), (left, beside.column - 1)):
            if 0 <= column < fits.shape[1]:
                first = max(0, beside.row - height + 1)
                for row in (first + np.flatnonzero(fits[first : beside.row + beside.height, column])).tolist():
                    overlap = range(max(row, beside.row), min(row + height, beside.row + beside.height))
                    options += [(_Room(row, column, height, width), (door, door_column)) for door in overlap]
        if not options:
            return False
        room, door = options[int(choice * len(options))]
        self._add(room, parent, door)
        return True

    def _fits(self, height: int, width: int) -> Bool[np.ndarray, "rows columns"]:
        """Whether a room with its lower corner at [row, column] fits with a solid ring around it, corners included."""
        if (height, width) not in self._fits_cache:
            outer_height, outer_width = height + 2 * _WALL, width + 2 * _WALL
            sums = np.zeros((_BLOCKS + 1, _BLOCKS + 1), np.int16)
            np.cumsum(np.cumsum(self.free, axis=0, dtype=np.int16), axis=1, out=sums[1:, 1:])
            occupied = (
                sums[outer_height:, outer_width:]
                - sums[:-outer_height, outer_width:]
                - sums[outer_height:, :-outer_width]
                + sums[:-outer_height, :-outer_width]
            )
            fits = np.zeros((_BLOCKS, _BLOCKS), bool)
            fits[_WALL : _WALL + occupied.shape[0], _WALL : _WALL + occupied.shape[1]] = occupied == 0
            self._fits_cache[height, width] = fits
        return self._fits_cache[height, width]

    def close_loop(self) -> bool:
        """Open one more door between two rooms that share a wall; the loop's length is in a randomly drawn class."""
        doors, loop_rooms = self._possible_doors()
        if not doors:
            return False
        wishes: Float[np.ndarray, " classes"] = np.array([share for _, share in _LOOP_CLASSES])
        in_class = np.array([[low <= rooms <= high for rooms in loop_rooms] for (low, high), _ in _LOOP_CLASSES])
        wishes = np.where(in_class.any(axis=1), wishes, 0)
        chosen = self.rng.choice(len(wishes), p=wishes / wishes.sum())
        self.free[doors[int(self.rng.choice(np.flatnonzero(in_class[chosen])))]] = True
        return True

    def _possible_doors(self) -> tuple[list[tuple[int, int]], list[int]]:
        """Solid blocks with a room on two opposite sides and walls on the other two, and the rooms on their loops.

        Such a block adds one block, two adjacencies and no 2 x 2 square, so it always adds exactly one loop.
        """
        room_of = np.full((_BLOCKS, _BLOCKS), -1)
        for index, room in enumerate(self.rooms):
            room_of[room.row : room.row + room.height, room.column : room.column + room.width] = index
        doors: list[tuple[int, int]] = []
        loop_rooms: list[int] = []
        solid = ~self.free
        in_room = room_of >= 0
        inner = slice(1, -1)
        across_rows = in_room[:-2, inner] & in_room[2:, inner] & solid[inner, :-2] & solid[inner, 2:]
        across_columns = in_room[inner, :-2] & in_room[inner, 2:] & solid[:-2, inner] & solid[2:, inner]
        for possible, (step_row, step_column) in ((across_rows, (1, 0)), (across_columns, (0, 1))):
            for row, column in (np.argwhere(possible & solid[inner, inner]) + 1).tolist():
                one = int(room_of[row - step_row, column - step_column])
                other = int(room_of[row + step_row, column + step_column])
                if min(one, other) > 0:  # the start room keeps its single door
                    doors.append((row, column))
                    loop_rooms.append(self._rooms_between(one, other))
        return doors, loop_rooms

    def _rooms_between(self, one: int, other: int) -> int:
        """Rooms on the way from one to the other through the tree, both counted."""
        depth_of = {}
        room, depth = one, 1
        while room >= 0:
            depth_of[room] = depth
            room, depth = self.parents[room], depth + 1
        room, depth = other, 0
        while room not in depth_of:
            room, depth = self.parents[room], depth + 1
        return depth_of[room] + depth


HELDOUT_STYLE = IndoorStyle()
TRAIN_STYLE = IndoorStyle(small_rooms_share=0.45, rotate=True)
