"""Counts of a building made of square blocks: rooms, doors, loops. Used to compare families of maps."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from scipy import ndimage

from decmarvel.worlds.building import Building

_NODE_SPACING_M = 4.0


@dataclass(frozen=True)
class BlockStatistics:
    """Counts of one building. Rooms are what remains of the free blocks when passages one block wide are taken away."""

    free_area_m2: float
    """The area of free cells; it is a little less than that of the blocks where cells cross a block's border."""
    free_blocks: int
    components: int
    loops: int
    """First Betti number of the free blocks: the number of walls with a way around them."""
    share_in_2x2: float
    """Share of the free blocks that are inside some 2 x 2 square of free blocks."""
    share_in_3x3: float
    cores_3x3: int
    """Number of separate places where a 3 x 3 square fits."""
    room_sides: tuple[int, ...]
    """Both sides, in blocks, of every room's bounding rectangle."""
    room_degrees: tuple[int, ...]
    """Number of doors of each room."""
    rooms_on_loops: int
    """Number of rooms left when dead ends are removed repeatedly."""
    nodes: int
    """Free sites of a 4 m lattice that has the start as a site."""

    @property
    def rooms(self) -> int:
        return len(self.room_degrees)

    @property
    def leaf_rooms(self) -> int:
        return sum(degree == 1 for degree in self.room_degrees)


def block_statistics(building: Building, block_m: float = 5.0) -> BlockStatistics:
    blocks = blocks_of(building, block_m)
    in_2x2 = ndimage.binary_opening(blocks, np.ones((2, 2)))
    core_3x3 = ndimage.binary_erosion(blocks, np.ones((3, 3)))
    in_3x3 = ndimage.binary_dilation(core_3x3, np.ones((3, 3)))
    free_blocks = int(blocks.sum())
    rooms, room_count = ndimage.label(in_2x2)
    doors = _doors(blocks, rooms)
    boxes = ndimage.find_objects(rooms)
    return BlockStatistics(
        free_area_m2=float(building.free.sum()) * building.cell_m**2,
        free_blocks=free_blocks,
        components=int(ndimage.label(blocks)[1]),
        loops=betti_number(blocks),
        share_in_2x2=float(in_2x2.sum()) / max(1, free_blocks),
        share_in_3x3=float(in_3x3.sum()) / max(1, free_blocks),
        cores_3x3=int(ndimage.label(core_3x3)[1]),
        room_sides=tuple(side.stop - side.start for box in boxes for side in box),
        room_degrees=tuple(sum(room in door for door in doors) for room in range(1, room_count + 1)),
        rooms_on_loops=len(_without_dead_ends(room_count, doors)),
        nodes=_node_count(building),
    )


def blocks_of(building: Building, block_m: float = 5.0) -> Bool[np.ndarray, "block_rows block_columns"]:
    """The value at the centre of each block."""
    per_block = block_m / building.cell_m
    rows, columns = (
        ((np.arange(round(cells / per_block)) + 0.5) * per_block).astype(np.int64) for cells in building.free.shape
    )
    return building.free[np.ix_(rows, columns)]


def betti_number(free: Bool[np.ndarray, "rows columns"]) -> int:
    """Independent loops of a 4-connected grid: components minus the Euler characteristic (squares count as filled)."""
    sides = (free[1:] & free[:-1]).sum() + (free[:, 1:] & free[:, :-1]).sum()
    squares = (free[1:, 1:] & free[:-1, 1:] & free[1:, :-1] & free[:-1, :-1]).sum()
    return int(ndimage.label(free)[1] - (free.sum() - sides + squares))


def _node_count(building: Building, spacing_m: float = _NODE_SPACING_M) -> int:
    stride = round(spacing_m / building.cell_m)
    row, column = building.start
    return int(building.free[row % stride :: stride, column % stride :: stride].sum())


def _doors(blocks: Bool[np.ndarray, "rows columns"], rooms: Int[np.ndarray, "rows columns"]) -> list[tuple[int, ...]]:
    """The rooms at the ends of each passage one block wide."""
    passages, count = ndimage.label(blocks & (rooms == 0))
    ends: list[list[int]] = [[] for _ in range(count)]
    for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):
        beside = np.roll(rooms, shift, axis)  # the border is solid, so the roll brings in no room
        touching = (passages > 0) & (beside > 0)
        for passage, room in zip(passages[touching].tolist(), beside[touching].tolist(), strict=True):
            ends[passage - 1].append(room)
    return [tuple(end) for end in ends]


def _without_dead_ends(room_count: int, doors: list[tuple[int, ...]]) -> set[int]:
    rooms = set(range(1, room_count + 1))
    while True:
        live_doors = [door for door in doors if sum(room in rooms for room in door) > 1]
        dead_ends = {room for room in rooms if sum(room in door for door in live_doors) < 2}
        if not dead_ends:
            return rooms
        rooms -= dead_ends
