"""Moves along the roads: the cells that a robot passes on its way to a viewpoint, and how long the way is."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.angles import scaled_step
from decmarvel.core.config import Config
from decmarvel.core.types import Scalar
from decmarvel.core.windows import cut
from decmarvel.robot.roads import (
    NO_WAY,
    SIDE,
    SLANT,
    body_reach,
    line_is_clear,
    passable_cells,
    spread,
    steps,
    straight_mm,
    way_mm,
)


def travel_path(
    config: Config, belief: UInt8[Array, "Y X"], start: Int32[Array, "2"], end: Int32[Array, "2"], radius_mm: Scalar
) -> tuple[Int32[Array, "substeps 2"], Scalar]:
    """The cells of a move along an edge after each substep, and its length: straight if that is clear, else bent."""
    reach = 9 * config.stride // 2 + 1
    wide = reach + body_reach(config)
    grid = jnp.pad(belief, wide)
    patch = cut(grid, start + wide, wide)
    passable = passable_cells(config, patch, radius_mm)
    begin, goal = jnp.full(2, reach, jnp.int32), end - start + reach
    straight = line_is_clear(config, passable, begin, goal)
    nothing = jnp.full(passable.shape, NO_WAY, jnp.int16)
    field = nothing.at[goal[0], goal[1]].set(jnp.where(straight, NO_WAY, 0).astype(jnp.int16))
    field = spread(passable, field, 1, NO_WAY).astype(jnp.int32)
    whole = field[reach, reach]
    length = jnp.where(straight, straight_mm(config, end - start), way_mm(config, whole))
    number = jnp.arange(1, config.substeps + 1, dtype=jnp.int32)
    onward = start[None] + scaled_step((end - start)[None], number[:, None], config.substeps)
    around = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    step = jnp.array([SLANT if dy and dx else SIDE for dy, dx in around], jnp.int32)
    ways = steps(passable)

    def allowed(at: Int32[Array, "2"]) -> Bool[Array, "8"]:
        """Whether each of the eight steps from a cell can be taken."""
        found = []
        for dy, dx in around:
            forward = (dy, dx) in ways
            mask = ways[dy, dx] if forward else ways[-dy, -dx]
            place = at if forward else at + jnp.array([dy, dx], jnp.int32)
            found.append(mask.at[place[0], place[1]].get(mode="fill", fill_value=False))
        return jnp.stack(found)

    def going(carry: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        return ~straight & (carry[0] != goal).any() & (whole < NO_WAY)

    def walk(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        at, gone, cells = carry
        there = at[None] + jnp.array(around, jnp.int32)
        left = field.at[there[:, 0], there[:, 1]].get(mode="fill", fill_value=NO_WAY)
        best = jnp.argmin(jnp.where(allowed(at), left + step, NO_WAY))
        at, gone = there[best], gone + step[best]
        passed = gone * config.substeps <= whole * number
        return at, gone, jnp.where(passed[:, None], (at + start - reach)[None], cells)

    still = jnp.broadcast_to(start, (config.substeps, 2))
    _, _, cells = jax.lax.while_loop(going, walk, (begin, jnp.array(0, jnp.int32), still))
    return jnp.where(straight, onward, cells).astype(jnp.int32), length.astype(jnp.int32)
