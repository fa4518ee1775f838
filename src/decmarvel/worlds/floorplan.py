"""The family of real-looking buildings: corridors with rooms on both sides, in bars, angles, rings and combs."""

import numpy as np
from jaxtyping import Bool
from scipy import ndimage

from decmarvel.worlds.canvas import Box, Canvas, between, pixels
from decmarvel.worlds.furniture import add_benches, add_columns, furnish
from decmarvel.worlds.rooms import Manner, Room, rooms_along
from decmarvel.worlds.scan import let_rays_out, ragged, show_through_glass, wander

_AROUND = pixels(20.0)
"""Solid surroundings while drawing: space for rooms and rays. What is left of them is cropped."""
_START_CLEARANCE = pixels(0.8)
_SHAPES = ("bar", "angle", "tee", "horseshoe", "ring", "ladder", "comb")

_Grid = Bool[np.ndarray, "rows columns"]
_Cropped = Bool[np.ndarray, "cropped_rows cropped_columns"]


def floorplan(rng: np.random.Generator) -> tuple[_Grid, tuple[int, int]]:
    """Free pixels of 0.1 m and the start, in a corridor or lobby."""
    manner = _manner(rng)
    corridors = _corridors(rng, manner)
    rows, columns = max(box.top for box in corridors), max(box.right for box in corridors)
    canvas = Canvas.empty(rows + _AROUND, columns + _AROUND)
    passage = Canvas.empty(rows + _AROUND, columns + _AROUND)
    for box in corridors:
        passage.carve(box)
    lobbies = [_lobby(rng, passage, corridors) for _ in range(int(rng.integers(0, 3)))]
    canvas.free[passage.free] = True

    rooms: list[Room] = []
    walls = [side for box in corridors for side in sides(canvas, box)]
    for view, box in [walls[k] for k in rng.permutation(len(walls)).tolist()]:
        rooms += rooms_along(rng, manner, view, box)
    _fit_out(rng, manner, canvas, passage.free, corridors, lobbies, rooms)

    free, way = canvas.free, passage.free
    if manner.drift:
        free, way = wander(rng, [free, way], manner.drift)
    for _ in range(int(rng.integers(4))):
        free, way = np.rot90(free), np.rot90(way)
    return crop_to_start(rng, free, way)


def crop_to_start(rng: np.random.Generator, free: _Grid, way: _Grid) -> tuple[_Cropped, tuple[int, int]]:
    """Choose a start with clearance on the way, keep what it is connected to, and crop to that and a border of wall."""
    start = _start(rng, free, way)
    parts, _ = ndimage.label(free)
    found = ndimage.find_objects(parts)[parts[start] - 1]
    border = pixels(0.6)
    rows, columns = found
    part = np.pad(parts[found] == parts[start], border)
    return part, (start[0] - rows.start + border, start[1] - columns.start + border)


def _start(rng: np.random.Generator, free: _Grid, way: _Grid) -> tuple[int, int]:
    """A random pixel of the way with clearance around it."""
    offset = np.arange(-_START_CLEARANCE, _START_CLEARANCE + 1)
    disc = offset[:, None] ** 2 + offset[None, :] ** 2 <= _START_CLEARANCE**2
    inner = way.copy()
    inner[: _START_CLEARANCE + 1] = inner[-_START_CLEARANCE - 1 :] = False
    inner[:, : _START_CLEARANCE + 1] = inner[:, -_START_CLEARANCE - 1 :] = False
    places = np.argwhere(inner)
    for row, column in places[rng.permutation(len(places))].tolist():
        around = free[
            row - _START_CLEARANCE : row + _START_CLEARANCE + 1,
            column - _START_CLEARANCE : column + _START_CLEARANCE + 1,
        ]
        if around[disc].all():
            return row, column
    raise AssertionError("a corridor of two metres has no place for the start")


def _manner(rng: np.random.Generator) -> Manner:
    """A clean plan, or a map that robots made; a university or a house of offices."""
    scanned, university = rng.random() < 0.5, rng.random() < 0.35
    wall = int(rng.choice([2, 3, 4, 6] if university or scanned else [1, 2, 3, 4]))
    return Manner(
        wall=wall,
        corridor=between(rng, 2.0, 4.6) if university else between(rng, 2.0, 3.4),
        depth=between(rng, 4.5, 8.5) if university else between(rng, 3.6, 6.5),
        module=between(rng, 3.4, 7.0) if university else between(rng, 3.0, 5.0),
        wide_doors=university,
        shut_share=float(rng.choice([0.02, 0.06, 0.15])),
        joined_share=float(rng.choice([0.05, 0.15, 0.35])),
        open_share=float(rng.choice([0.02, 0.06, 0.12])),
        suite_share=float(rng.uniform(0.1, 0.4)),
        clutter=float(rng.uniform(0.4, 1.3)) if scanned or rng.random() < 0.5 else 0.0,
        glass_share=float(rng.uniform(0.2, 0.8)) if scanned or rng.random() < 0.2 else 0.0,
        ragged=float(rng.uniform(0.02, 0.12)) if scanned else 0.0,
        drift=float(rng.uniform(0.0, 0.03)) if scanned and rng.random() < 0.6 else 0.0,
    )


def _corridors(rng: np.random.Generator, manner: Manner) -> list[Box]:
    """Corridors of one of the shapes; the first is the longest."""
    shape = _SHAPES[rng.choice(len(_SHAPES), p=[0.16, 0.16, 0.1, 0.14, 0.2, 0.12, 0.12])]
    width, depth, wall = manner.corridor, manner.depth, manner.wall
    long = between(rng, 70.0, 90.0) if rng.random() < 0.12 else between(rng, 24.0, 64.0)
    if shape in ("horseshoe", "ring", "ladder", "comb"):
        long = min(long, pixels(48.0))
    back_to_back = 2 * depth + 3 * wall
    apart = back_to_back + (between(rng, 4.0, 14.0) if rng.random() < 0.5 else 0)  # a courtyard, or none
    low, left = _AROUND, _AROUND

    def across(bottom: int, first: int = 0, last: int = long) -> Box:
        return Box(low + bottom, left + first, low + bottom + width, left + last)

    def up(column: int, top: int) -> Box:
        return Box(low, left + column, low + top, left + column + width)

    if shape == "bar":
        return [across(0)]
    if shape == "angle":
        return [across(0), up(0, between(rng, 14.0, 40.0))]
    if shape == "tee":
        return [across(0), up(int(long * rng.uniform(0.25, 0.7)), between(rng, 12.0, 30.0))]
    if shape == "horseshoe":
        return [across(0), up(0, between(rng, 12.0, 32.0)), up(max(apart, long - width), between(rng, 12.0, 32.0))]
    if shape == "comb":
        pitch = width + back_to_back + between(rng, 0.0, 6.0)
        teeth = range(int(rng.integers(0, depth)), max(long, pitch + width) - width, pitch)
        return [across(0, 0, max(long, pitch + width)), *(up(at, between(rng, 10.0, 26.0)) for at in teeth)]
    long = max(long, apart + 2 * width)
    ring = [across(0, 0, long), across(width + apart, 0, long)]
    top = 2 * width + apart
    crossings = [0, long - width]
    if shape == "ladder" or rng.random() < 0.2:
        crossings.append(int(long * rng.uniform(0.35, 0.6)))
    return ring + [up(at, top) for at in crossings]


def sides(canvas: Canvas, box: Box) -> list[tuple[Canvas, Box]]:
    """Views in which each side of a corridor is its upper side: the long sides first, then the ends."""
    rows, columns = canvas.free.shape
    turned = Box(box.left, box.bottom, box.right, box.top)
    flat = [
        (canvas, box),
        (canvas.upside_down(), Box(rows - box.top, box.left, rows - box.bottom, box.right)),
        (canvas.transposed(), turned),
        (canvas.transposed().upside_down(), Box(columns - box.right, box.bottom, columns - box.left, box.top)),
    ]
    return flat if box.width >= box.height else flat[2:] + flat[:2]


def _lobby(rng: np.random.Generator, passage: Canvas, corridors: list[Box]) -> Box:
    """Widen a corridor to a lobby at its end, its middle or a meeting with another one; some lobbies are round."""
    corridor = corridors[int(rng.integers(len(corridors)))]
    height, width = between(rng, 5.0, 10.0), between(rng, 5.0, 12.0)
    row = (corridor.bottom + corridor.top) // 2
    column = (corridor.left + corridor.right) // 2
    if corridor.width >= corridor.height:
        column = [corridor.left + width // 2, column, corridor.right - width // 2][int(rng.integers(3))]
    else:
        row = [corridor.bottom + height // 2, row, corridor.top - height // 2][int(rng.integers(3))]
    box = Box(row - height // 2, column - width // 2, row + height - height // 2, column + width - width // 2)
    if rng.random() < 0.25:
        y, x = np.ogrid[-1 : 1 : box.height * 1j, -1 : 1 : box.width * 1j]
        passage.free[box.cells] |= y**2 + x**2 <= 1
    else:
        passage.carve(box)
    return box


def _fit_out(
    rng: np.random.Generator,
    manner: Manner,
    canvas: Canvas,
    passage: _Grid,
    corridors: list[Box],
    lobbies: list[Box],
    rooms: list[Room],
) -> None:
    """Furniture, columns and benches; ragged walls; and last the rays through glass, which raggedness would cut off."""
    for box in lobbies:
        if rng.random() < 0.5:
            add_columns(rng, canvas, box)
    if manner.clutter:
        if manner.corridor >= pixels(2.4):
            for box in corridors:
                for view, side in sides(canvas, box)[:2]:
                    add_benches(rng, view, side, 0.15 * manner.clutter)
        for room in rooms:
            furnish(rng, room, manner.clutter)
    if manner.ragged:
        ragged(rng, canvas.free, canvas.keep | passage, manner.ragged)
    if manner.glass_share:
        for room in [*rooms, *(Room(view, side) for box in lobbies for view, side in sides(canvas, box))]:
            if rng.random() < manner.glass_share:
                if room.shut:
                    show_through_glass(rng, room, manner.wall)
                else:
                    let_rays_out(rng, room)
