"""Moves along the roads: the cells that a robot passes on its way to a viewpoint, and how long the way is."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.angles import scaled_step
from decmarvel.core.config import Config
from decmarvel.core.types import Scalar
from decmarvel.core.windows import cut
from decmarvel.robot.roads import body_reach, line_codes, line_is_clear, passable_cells, straight_mm
from decmarvel.robot.steps import NO_WAY, SIDE, SLANT, shifted, spread, steps, way_mm


def travel_path(
    config: Config, belief: UInt8[Array, "Y X"], start: Int32[Array, "2"], end: Int32[Array, "2"], radius_mm: Scalar
) -> tuple[Int32[Array, "substeps 2"], Scalar]:
    """The cells of a move along an edge after each substep, and its length: straight if that is clear, else bent.

    An edge has at most `most` steps. So no cell of a way as short is farther than half as many from its ends' middle.
    """
    most = 3 * config.stride + 1
    reach = most // 2 + 1
    wide = reach + body_reach(config)
    middle = (start + end) // 2
    patch = cut(jnp.pad(belief, wide), middle + wide, wide)
    passable = passable_cells(config, patch, radius_mm)
    begin, goal = start - middle + reach, end - middle + reach
    straight = line_is_clear(config, line_codes(passable), begin, goal)
    field = jnp.full(passable.shape, NO_WAY, jnp.int16).at[goal[0], goal[1]].set(0)
    field = spread(passable, field, 1, jnp.where(straight, 0, most)).astype(jnp.int32)
    whole = field[begin[0], begin[1]]
    length = jnp.where(straight, straight_mm(config, end - start), way_mm(config, whole))
    number = jnp.arange(1, config.substeps + 1, dtype=jnp.int32)
    onward = start[None] + scaled_step((end - start)[None], number[:, None], config.substeps)

    onto = steps(passable)
    around = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    step = jnp.array([SLANT if dy and dx else SIDE for dy, dx in around], jnp.int32)
    ways = [onto[d] if d in onto else shifted(onto[-d[0], -d[1]], *d, fill=False) for d in around]
    left = [jnp.where(go, shifted(field, *d, fill=NO_WAY), NO_WAY) for go, d in zip(ways, around, strict=True)]
    best = jnp.argmin(jnp.stack(left) + step[:, None, None], axis=0)

    def going(carry: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        return ~straight & (carry[0] != goal).any() & (whole < NO_WAY)

    def walk(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        at, gone, cells = carry
        onward = best[at[0], at[1]]
        at, gone = at + jnp.array(around, jnp.int32)[onward], gone + step[onward]
        passed = gone * config.substeps <= whole * number
        return at, gone, jnp.where(passed[:, None], (at + middle - reach)[None], cells)

    still = jnp.broadcast_to(start, (config.substeps, 2))
    _, _, cells = jax.lax.while_loop(going, walk, (begin, jnp.array(0, jnp.int32), still))
    return jnp.where(straight, onward, cells).astype(jnp.int32), length.astype(jnp.int32)
