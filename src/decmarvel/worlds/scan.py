"""What robots' maps have and plans do not: rays through glass, ragged walls, speckles, walls that wander."""

import numpy as np
from jaxtyping import Bool

from decmarvel.worlds.canvas import Box, Canvas, between, pixels
from decmarvel.worlds.rooms import Room

_STEP = 0.25
"""Pixels between the samples of a ray: fine enough for the ray to be joined through sides."""
_BESIDE = pixels(0.4)
"""Between the windows' rays, so that no robot fits between them."""


def let_rays_out(rng: np.random.Generator, room: Room) -> None:
    """Draw rays through the window of a room: thin streaks of floor beyond its outer wall."""
    canvas, box = room.canvas, room.box
    outside = canvas.free[box.top : box.top + pixels(3.0), max(0, box.left) : box.right]
    if outside.any() or box.width < pixels(1.5):
        return
    eye = (box.top - between(rng, 1.0, 3.0), int(rng.integers(box.left + 3, box.right - 3)))
    first = int(rng.integers(box.left + 2, box.left + 2 + max(1, box.width // 3)))
    for column in range(first, box.right - 2, _BESIDE + int(rng.integers(0, pixels(1.2)))):
        if rng.random() < 0.75 and canvas.free[box.top - 1, column]:
            longest = between(rng, 0.4, 2.5) if rng.random() < 0.65 else between(rng, 2.5, 8.0)
            _streak(canvas, eye, (box.top, column), longest)


def show_through_glass(rng: np.random.Generator, room: Room, wall: int) -> None:
    """Draw rays through the glass front of a shut room, as far as its back wall."""
    canvas, box = room.canvas, room.box
    if not canvas.free[box.bottom - wall - 1, box.left : box.right].all() or canvas.free[box.cells].any():
        return
    eye = (box.bottom - wall - pixels(1.0), int(rng.integers(box.left, box.right)))
    for column in range(box.left + 3, box.right - 3, pixels(0.7)):
        aside = abs(column - eye[1]) / (wall + pixels(1.0))
        longest = min(box.height, int(0.5 * box.width / max(aside, 0.1)))
        _streak(canvas, eye, (box.bottom - wall, column), wall + int(longest * rng.uniform(0.4, 0.9)))


def _streak(canvas: Canvas, eye: tuple[int, int], through: tuple[int, int], longest: int) -> None:
    """A ray of floor from the wall at `through`, away from the eye; not drawn where it would meet other floor."""
    along, aside = through[0] - eye[0], through[1] - eye[1]
    length = float(np.hypot(along, aside))
    steps = np.arange(0, longest, _STEP)
    rows = np.floor(through[0] + 0.5 + steps * along / length).astype(np.int64)
    columns = np.floor(through[1] + 0.5 + steps * aside / length).astype(np.int64)
    inside = (rows > 0) & (rows < canvas.free.shape[0] - 1) & (columns > 0) & (columns < canvas.free.shape[1] - 1)
    rows, columns = rows[inside], columns[inside]
    ahead = Box(int(rows.min()), int(columns.min()), int(rows.max()) + 1, int(columns.max()) + 1) if len(rows) else None
    if ahead is not None and not canvas.free[ahead._replace(bottom=min(ahead.bottom + 1, ahead.top)).cells].any():
        canvas.free[rows, columns] = True


def ragged(
    rng: np.random.Generator,
    free: Bool[np.ndarray, "rows columns"],
    keep: Bool[np.ndarray, "rows columns"],
    share: float,
) -> None:
    """Turn a share of the floor along walls into wall, and some single pixels anywhere; not where it must be free."""
    beside = np.zeros_like(free)
    for axis in (0, 1):
        for shift in (1, -1):
            beside |= ~np.roll(free, shift, axis)
    rows, columns = free.shape
    rough = rng.random(((rows + 2) // 3, (columns + 2) // 3)) < 0.5
    rough = rough.repeat(3, axis=0).repeat(3, axis=1)[:rows, :columns]
    noise = rng.random(free.shape, dtype=np.float32)
    free &= keep | ~(((noise < 2 * share) & rough & beside) | (noise > 1 - 0.005 * share))


def wander(
    rng: np.random.Generator, arrays: list[Bool[np.ndarray, "rows columns"]], slope: float
) -> list[Bool[np.ndarray, "new_rows columns"]]:
    """Shift columns along a slow wave, the same in all arrays: straight walls get steps of one pixel.

    Neighbouring columns shift by one pixel at most, so walls stay closed to moves through sides.
    """
    columns = arrays[0].shape[1]
    wave_px = rng.uniform(200.0, 500.0)
    phase, tilt = rng.uniform(0, 2 * np.pi), rng.uniform(-slope, slope) / 2
    along = np.arange(columns)
    shift = tilt * (along - columns / 2) + slope * wave_px / (4 * np.pi) * np.sin(2 * np.pi * along / wave_px + phase)
    shift = np.rint(shift - shift.min()).astype(np.int64)
    wandered = []
    for array in arrays:
        padded = np.pad(array, ((0, int(shift.max())), (0, 0)))
        rows = (np.arange(padded.shape[0])[:, None] - shift[None, :]) % padded.shape[0]
        wandered.append(np.take_along_axis(padded, rows, axis=0))
    return wandered
