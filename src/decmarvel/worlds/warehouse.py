"""The family of warehouses: one hall with racks in rows, aisles, docks and offices at its sides."""

import numpy as np
from jaxtyping import Bool

from decmarvel.worlds.canvas import Box, Canvas, between, pixels
from decmarvel.worlds.floorplan import crop_to_start, sides
from decmarvel.worlds.furniture import furnish
from decmarvel.worlds.rooms import Manner, rooms_along
from decmarvel.worlds.scan import ragged

_AROUND = pixels(12.0)
_BAY = pixels(2.7)
"""Between the posts of a rack."""
_PALLET = pixels(1.2)
_LANE = pixels(2.4)
"""Between stacks of pallets, and from them to racks."""


def warehouse(rng: np.random.Generator) -> tuple[Bool[np.ndarray, "rows columns"], tuple[int, int]]:
    """Free pixels of 0.1 m and the start, in the open area before the racks."""
    width, height = between(rng, 26.0, 58.0), between(rng, 18.0, 40.0)
    canvas = Canvas.empty(height + 2 * _AROUND, width + 2 * _AROUND)
    hall = Box(_AROUND, _AROUND, _AROUND + height, _AROUND + width)
    canvas.carve(hall)
    staging = hall._replace(right=hall.left + between(rng, 5.0, min(12.0, max(6.0, 0.03 * width))))
    _add_annexes(rng, canvas, hall)

    margin = between(rng, 2.4, 4.5)
    field = Box(hall.bottom + margin, staging.right, hall.top - margin, hall.right - between(rng, 2.4, 4.5))
    if rng.random() < 0.3:  # racks against the walls
        field = field._replace(bottom=hall.bottom, top=hall.top)
    if rng.random() < 0.35:  # racks across the hall rather than along it
        turned = Canvas(canvas.free.T, canvas.keep.T)
        _add_racks(rng, turned, Box(field.left, field.bottom, field.right, field.top))
    else:
        _add_racks(rng, canvas, field)
    _add_stacks(rng, canvas, staging)
    if rng.random() < 0.5:
        _add_beams(rng, canvas, hall)

    way = np.zeros_like(canvas.free)
    way[staging.cells] = True
    free = canvas.free
    if rng.random() < 0.5:
        ragged(rng, free, canvas.keep, float(rng.uniform(0.01, 0.05)))
    for _ in range(int(rng.integers(4))):
        free, way = np.rot90(free), np.rot90(way)
    return crop_to_start(rng, free, way)


def _add_annexes(rng: np.random.Generator, canvas: Canvas, hall: Box) -> None:
    """Docks in one side of the hall, offices along a part of another."""
    manner = Manner(
        wall=int(rng.choice([2, 3, 4])),
        corridor=0,
        depth=between(rng, 3.5, 6.0),
        module=between(rng, 3.0, 5.0),
        wide_doors=bool(rng.random() < 0.5),
        shut_share=0.05,
        joined_share=0.1,
        open_share=0.1,
        suite_share=0.1,
        clutter=0.6,
        glass_share=0.0,
        ragged=0.0,
        drift=0.0,
    )
    views = sides(canvas, hall)
    dock_side, office_side = rng.choice(4, size=2, replace=False).tolist()
    if rng.random() < 0.8:
        view, box = views[dock_side]
        depth, pitch = between(rng, 0.6, 2.5), between(rng, 4.5, 7.0)
        for left in range(box.left + pixels(2.0), box.right - pixels(5.0), pitch):
            if rng.random() < 0.85:
                view.carve(Box(box.top, left, box.top + depth, left + pixels(3.4)))
    if rng.random() < 0.7:
        view, box = views[office_side]
        length = min(box.width, between(rng, 6.0, 20.0))
        left = box.left + int(rng.integers(0, box.width - length + 1))
        for room in rooms_along(rng, manner, view, box._replace(left=left, right=left + length)):
            furnish(rng, room, manner.clutter)


def _add_racks(rng: np.random.Generator, canvas: Canvas, field: Box) -> None:
    """Rows of racks with an aisle between two rows and cross aisles through all of them."""
    single = between(rng, 0.9, 1.3)
    depth = 2 * single + between(rng, 0.0, 0.3) if rng.random() < 0.6 else single
    aisle = between(rng, 2.5, 6.0)
    hollow = rng.random() < 0.4
    cross, longest = between(rng, 2.6, 5.0), _BAY * int(rng.integers(4, 10))
    blocks = _blocks(field.left, field.right, longest, cross)
    for bottom in range(field.bottom, field.top - depth + 1, depth + aisle):
        if rng.random() < 0.06:  # a row left out: an open lane
            continue
        for left, right in blocks:
            short = _BAY * int(rng.integers(0, 2)) if rng.random() < 0.2 else 0
            _add_rack(rng, canvas, Box(bottom, left, bottom + depth, right - short), hollow)
            if aisle > pixels(3.6) and rng.random() < 0.3:  # a blocked bay: pallets left before the rack
                at = int(rng.integers(left, max(left + 1, right - 2 * _PALLET)))
                canvas.free[bottom + depth : bottom + depth + pixels(0.8), at : at + _PALLET] = False


def _blocks(left: int, right: int, longest: int, cross: int) -> list[tuple[int, int]]:
    """Equal racks in a row, with cross aisles between them."""
    count = max(1, -(-(right - left + cross) // (longest + cross)))
    length = (right - left - cross * (count - 1)) // count
    return [(left + k * (length + cross), left + k * (length + cross) + length) for k in range(count)]


def _add_rack(rng: np.random.Generator, canvas: Canvas, rack: Box, hollow: bool) -> None:
    """A rack: solid, or posts with some bays filled. Bays of solid racks are missing here and there."""
    for left in range(rack.left, rack.right - 1, _BAY):
        right = min(left + _BAY, rack.right)
        if canvas.keep[Box(rack.bottom, left, rack.top, right).grown(pixels(1.2)).cells].any():  # a door
            continue
        if hollow:
            canvas.free[np.ix_([rack.bottom, rack.top - 1], [left, right - 1])] = False
            if rng.random() < 0.8:
                canvas.free[rack.bottom + 1 : rack.top - 1, left + 1 : right - int(rng.integers(1, 8))] = False
        elif rng.random() < 0.97:
            canvas.free[rack.bottom : rack.top, left:right] = False


def _add_stacks(rng: np.random.Generator, canvas: Canvas, staging: Box) -> None:
    """Pallets in the staging area, alone or side by side, with lanes between them; now and then a conveyor."""
    if rng.random() < 0.3:
        bottom = int(rng.integers(staging.bottom + _LANE, staging.top - pixels(9.0)))
        column = (staging.left + staging.right) // 2
        canvas.free[bottom : bottom + between(rng, 4.0, 6.5), column : column + pixels(0.6)] = False
        return
    for bottom in range(staging.bottom + _LANE, staging.top - _LANE - _PALLET, _PALLET + _LANE):
        for left in range(staging.left + _LANE, staging.right - _LANE - _PALLET + 1, _PALLET + _LANE):
            if rng.random() < 0.4:
                height, width = pixels(0.8) + int(rng.integers(0, 5)), _PALLET
                up, aside = int(rng.integers(0, 5)), int(rng.integers(0, 5))
                canvas.free[bottom + up : bottom + up + height, left + aside : left + aside + width] = False


def _add_beams(rng: np.random.Generator, canvas: Canvas, hall: Box) -> None:
    """The columns that carry the roof."""
    side, spacing = between(rng, 0.3, 0.5), between(rng, 8.0, 12.0)
    for bottom in range(hall.bottom + spacing // 2, hall.top - side, spacing):
        for left in range(hall.left + spacing // 2, hall.right - side, spacing):
            beam = Box(bottom, left, bottom + side, left + side)
            if canvas.free[beam.grown(pixels(2.2)).cells].all():  # the others are hidden in racks
                canvas.free[beam.cells] = False
