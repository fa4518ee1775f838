"""Steps of a body from cell to cell, and the shortest ways over them."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int16, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import Scalar

SIDES = ((0, 1), (1, 0))
DIAGONALS = ((1, 1), (1, -1))
SIDE, SLANT = 12, 17
"""Lengths of a step to the side and of a diagonal one. The second is a little longer than it is: 12 * 1.414 = 16.97."""
NO_WAY = 32000
"""More than any way, and with one more step still a number of 16 bits: then a relaxation takes microseconds."""


def steps(passable: Bool[Array, "Y X"]) -> dict[tuple[int, int], Bool[Array, "Y X"]]:
    """From which cells a body can step to the neighbour at each offset (half of the eight; the others are the same)."""
    found = {}
    for dy, dx in SIDES:
        found[dy, dx] = passable & shifted(passable, dy, dx, False)
    for dy, dx in DIAGONALS:
        corners = shifted(passable, dy, 0, False) & shifted(passable, 0, dx, False)
        found[dy, dx] = passable & shifted(passable, dy, dx, False) & corners
    return found


def shifted(values: Array, dy: int, dx: int, fill: int | bool) -> Array:
    """The value at an offset of at most one cell from each cell; `fill` outside."""
    height, width = values.shape
    return jnp.pad(values, 1, constant_values=fill)[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]


def way_mm(config: Config, units: Int32[Array, "*n"]) -> Int32[Array, "*n"]:
    """Length of a way over steps in millimetres, rounded up."""
    parts = SIDE * config.stride
    return (config.spacing_mm * units + parts - 1) // parts


def spread(
    passable: Bool[Array, "Y X"], start: Int16[Array, "Y X"], unit: int, most: Scalar | int
) -> Int16[Array, "Y X"]:
    """Shortest ways over at most `most` steps from the cells with a start value. Lengths count `unit`.

    Walls are numbers here, and the field keeps a border, so that a relaxation is a few operations on 16 bits.
    """
    height, width = passable.shape
    wall = jnp.where(passable, 0, NO_WAY).astype(jnp.int16)
    square = passable[:-1, :-1] & passable[1:, 1:] & passable[1:, :-1] & passable[:-1, 1:]
    corner = jnp.pad(jnp.where(square, 0, NO_WAY).astype(jnp.int16), 1, constant_values=NO_WAY)
    side, slant = (jnp.array(unit * length, jnp.int16) for length in (SIDE, SLANT))

    def nearer(_: Scalar, wide: Int16[Array, "h w"]) -> Int16[Array, "h w"]:
        straight = jnp.minimum(
            jnp.minimum(wide[:-2, 1:-1], wide[2:, 1:-1]), jnp.minimum(wide[1:-1, :-2], wide[1:-1, 2:])
        )
        slanted = [
            jnp.maximum(corner[low:, left:][:height, :width], wide[2 * low :, 2 * left :][:height, :width])
            for low in (0, 1)
            for left in (0, 1)
        ]
        through = jnp.minimum(straight + side, functools.reduce(jnp.minimum, slanted) + slant)
        known = jnp.minimum(wide[1:-1, 1:-1], jnp.maximum(through, wall))
        return jnp.pad(known, 1, constant_values=NO_WAY)

    wide = jnp.pad(start, 1, constant_values=NO_WAY)
    return jax.lax.fori_loop(0, most, nearer, wide)[1:-1, 1:-1]
