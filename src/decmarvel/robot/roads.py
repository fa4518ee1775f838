"""Roads: where a body can stand and pass, the viewpoint of each tile, and the ways between viewpoints.

A robot decides between viewpoints, about one a tile, and travels on roads as fine as the cells. An edge is a straight
line that its body can follow, or a way over cells on which it meets no third viewpoint's surroundings. Known floor
never becomes unknown again, so viewpoints stay where they are and edges only become shorter.
"""

import functools
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int16, Int32, UInt8

from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOTS, shift_sites
from decmarvel.core.types import FAR_MM, FREE, OCCUPIED, Scalar, Site

FAR_TILE = 10_000
"""Stands for the tile of a cell that no way reaches."""
PATIENCE = 2
"""Decisions for which a tile waits until nothing unknown is nearer to its middle than its viewpoint would be."""
SIDES = ((0, 1), (1, 0))
DIAGONALS = ((1, 1), (1, -1))
SIDE, SLANT = 12, 17
"""Lengths of a step to the side and of a diagonal one. The second is a little longer than it is: 12 * 1.414 = 16.97."""
COLOURS = 5
"""Tiles with equal colours are five tiles apart, farther than two ways reach together."""
LABEL_BITS = 5
LABELS = 2**LABEL_BITS
"""More than there are pairs of colours: ways are kept as length * LABELS + colour."""
NO_WAY = 32000
"""More than any way, and with one more step still a number of 16 bits: then a relaxation takes microseconds."""


class Network(NamedTuple):
    """Viewpoints and the ways between them; see `core.types.Graph`."""

    cell: Int32[Array, "I J 2"]
    age: Int32[Array, "I J"]
    length_mm: Int32[Array, "K I J"]


def no_network(sites: int) -> Network:
    """The network of a robot that knows nothing."""
    return Network(
        jnp.full((sites, sites, 2), -1, jnp.int32),
        jnp.zeros((sites, sites), jnp.int32),
        jnp.full((SLOTS, sites, sites), FAR_MM, jnp.int32),
    )


@lru_cache
def body_offsets(config: Config) -> list[tuple[int, int, int]]:
    """Offsets of the cells that the largest body touches from its cell, each with the radius above which it does.

    A body touches a cell if the distance of the cells' middles is less than its radius and half a cell.
    """
    cell, most = config.cell_mm, 2 * config.radius_mm + config.cell_mm
    reach = most // (2 * cell) + 1
    found = []
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            if (dy or dx) and 4 * (dy * dy + dx * dx) * cell * cell < most * most:
                found.append((dy, dx, 4 * (dy * dy + dx * dx) * cell * cell))
    return found


def body_reach(config: Config) -> int:
    """Cells that the largest body reaches beyond its own."""
    return max([0, *(abs(dy) for dy, _, _ in body_offsets(config))])


def touching(config: Config, mask: Bool[Array, "h w"], radius_mm: Scalar) -> Bool[Array, "H W"]:
    """Whether a body at a cell touches a set cell. The result is smaller by the body's reach on all sides."""
    reach = body_reach(config)
    height, width = (side - 2 * reach for side in mask.shape)
    touched = mask[reach : reach + height, reach : reach + width]
    limit = (2 * radius_mm + config.cell_mm) ** 2
    for dy, dx, squared in body_offsets(config):
        there = mask[reach + dy : reach + dy + height, reach + dx : reach + dx + width]
        touched |= there & (squared < limit)
    return touched


def passable_cells(config: Config, belief: UInt8[Array, "h w"], radius_mm: Scalar) -> Bool[Array, "H W"]:
    """Cells at which a body touches known-free cells only; smaller by its reach on all sides."""
    return ~touching(config, belief != FREE, radius_mm)


def undecided_cells(
    config: Config, belief: UInt8[Array, "h w"], passable: Bool[Array, "H W"], radius_mm: Scalar
) -> Bool[Array, "H W"]:
    """Cells that may turn out to be passable, beside known floor. `belief` is one cell wider than a body needs."""
    free = jnp.pad(belief == FREE, 1)
    height, width = belief.shape
    beside = free[1:-1, 1:-1]
    for dy in range(3):
        for dx in range(3):
            beside |= free[dy : dy + height, dx : dx + width]
    blocked = touching(config, (belief == OCCUPIED)[1:-1, 1:-1], radius_mm)
    return ~passable & ~blocked & touching(config, beside[1:-1, 1:-1], radius_mm)


@lru_cache
def preference(stride: int) -> Int32[np.ndarray, "n"]:
    """The cells of a tile, flat, from its middle outwards."""
    rows, columns = np.mgrid[:stride, :stride]
    offset = np.stack([rows.ravel(), columns.ravel()], axis=-1) - stride // 2
    return np.lexsort((offset[:, 1], offset[:, 0], (offset**2).sum(axis=1))).astype(np.int32)


def by_tile(config: Config, mask: Bool[Array, "Y X"]) -> Bool[Array, "I J n"]:
    """The cells of each tile, from its middle outwards."""
    count, stride = mask.shape[0] // config.stride, config.stride
    tiles = mask.reshape(count, stride, count, stride).transpose(0, 2, 1, 3).reshape(count, count, -1)
    return tiles[..., preference(stride)]


def settle(
    config: Config,
    passable: Bool[Array, "Y X"],
    undecided: Bool[Array, "Y X"],
    cell: Int32[Array, "I J 2"],
    age: Int32[Array, "I J"],
) -> tuple[Int32[Array, "I J 2"], Int32[Array, "I J"]]:
    """Viewpoints of tiles that have none: the passable cell nearest to the middle, as soon as it is sure to stay that.

    Cells count from the first cell of the first tile.
    """
    stand, open_ = by_tile(config, passable), by_tile(config, undecided)
    first = jnp.argmax(stand, axis=-1).astype(jnp.int32)
    sure = ~open_.any(axis=-1) | (first < jnp.argmax(open_, axis=-1))
    waiting = (cell[..., 0] < 0) & stand.any(axis=-1)
    ready = waiting & (sure | (age >= PATIENCE))
    flat = jnp.asarray(preference(config.stride))[first]
    index = jnp.arange(cell.shape[0], dtype=jnp.int32) * config.stride
    place = jnp.stack([index[:, None] + flat // config.stride, index[None, :] + flat % config.stride], axis=-1)
    return jnp.where(ready[..., None], place, cell), age + (waiting & ~ready).astype(jnp.int32)


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


def spread(passable: Bool[Array, "Y X"], start: Int16[Array, "Y X"], unit: int, most: int) -> Int16[Array, "Y X"]:
    """Shortest ways over steps from the cells with a start value; none is longer than `most`. Lengths count `unit`."""
    height, width = passable.shape
    corner = jnp.pad(passable[:-1, :-1] & passable[1:, 1:] & passable[1:, :-1] & passable[:-1, 1:], 1)
    far, side, slant = (jnp.array(value, jnp.int16) for value in (NO_WAY, unit * SIDE, unit * SLANT))
    fits = passable & jnp.ones((height, width), bool)

    def nearer(known: Int16[Array, "Y X"]) -> Int16[Array, "Y X"]:
        wide = jnp.pad(known, 1, constant_values=NO_WAY)
        straight = jnp.minimum(
            jnp.minimum(wide[:-2, 1:-1], wide[2:, 1:-1]), jnp.minimum(wide[1:-1, :-2], wide[1:-1, 2:])
        )
        slanted = [
            jnp.where(
                corner[low : low + height, left : left + width], wide[2 * low :, 2 * left :][:height, :width], far
            )
            for low in (0, 1)
            for left in (0, 1)
        ]
        through = jnp.minimum(straight + side, functools.reduce(jnp.minimum, slanted) + slant)
        return jnp.minimum(known, jnp.where(fits & (through < most), through, far))

    def relax(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        before = nearer(carry[0])
        after = nearer(before)
        return after, (after < before).any()

    return jax.lax.while_loop(lambda carry: carry[1], relax, (start, jnp.array(True)))[0]


def tile_of(colour: Int32[Array, "Y X"], own: Int32[np.ndarray, "..."]) -> Int32[Array, "Y X"]:
    """Row or column of the tile of a colour that is at most two tiles from a cell's own tile."""
    ahead = colour + ((2 - own) % COLOURS).astype(np.int32)
    return jnp.asarray(own) + jax.lax.rem(ahead, jnp.full_like(ahead, COLOURS)) - 2


def bent_lengths(config: Config, passable: Bool[Array, "Y X"], cell: Int32[Array, "I J 2"]) -> Int32[Array, "K I J"]:
    """Lengths of the ways between viewpoints whose surroundings touch; FAR_MM where they do not."""
    count, stride = cell.shape[0], config.stride
    there = cell[..., 0] >= 0
    index = jnp.arange(count, dtype=jnp.int32)
    colour = (COLOURS * (index[:, None] % COLOURS) + index[None, :] % COLOURS).astype(jnp.int16)
    y, x = (jnp.where(there, cell[..., axis], passable.shape[0]) for axis in (0, 1))
    start = jnp.full(passable.shape, NO_WAY, jnp.int16).at[y, x].set(colour, mode="drop")
    way = spread(passable, start, LABELS, (SIDE * 3 * stride // 2 + 1) * LABELS).astype(jnp.int32)

    # A way is no longer than one and a half strides, so its tile is at most two tiles from the cell's own.
    own = np.arange(passable.shape[0], dtype=np.int32) // stride
    paint, length, reached = way & (LABELS - 1), way >> LABEL_BITS, way < NO_WAY
    paint_y = jax.lax.div(paint, jnp.full_like(paint, COLOURS))
    tile_y = jnp.where(reached, tile_of(paint_y, own[:, None]), FAR_TILE)
    tile_x = jnp.where(reached, tile_of(paint - COLOURS * paint_y, own[None, :]), 0)

    bins, lengths = [], []
    for (dy, dx), go in steps(passable).items():
        apart_y = shifted(tile_y, dy, dx, FAR_TILE) - tile_y
        apart_x = shifted(tile_x, dy, dx, 0) - tile_x
        meet = go & reached & ((apart_y != 0) | (apart_x != 0)) & (jnp.abs(apart_y) <= 2) & (jnp.abs(apart_x) <= 2)
        slot = jnp.where(meet, 5 * apart_y + apart_x + SELF_SLOT, SLOTS)
        bins.append((slot * count + jnp.where(meet, tile_y, 0)) * count + jnp.where(meet, tile_x, 0))
        lengths.append(length + shifted(length, dy, dx, 0) + (SLANT if dy and dx else SIDE))
    place, total = (jnp.stack(values).reshape(-1) for values in (bins, lengths))
    none = jnp.array(NO_WAY, jnp.int32)
    found = jnp.full((SLOTS + 1) * count * count, none).at[place].min(total, mode="promise_in_bounds")
    found = found.reshape(SLOTS + 1, count, count)
    found = jnp.stack([jnp.minimum(found[k], shift_sites(found[SLOTS - 1 - k], k, none)) for k in range(SLOTS)])
    return jnp.where(found < NO_WAY, way_mm(config, found), FAR_MM)


def line_is_clear(
    config: Config, passable: Bool[Array, "Y X"], start: Int32[Array, "*n 2"], end: Int32[Array, "*n 2"]
) -> Bool[Array, "*n"]:
    """Whether a body can follow the straight line between two cells: all cells beside its points are passable."""
    ways = steps(passable)
    codes = passable.astype(jnp.uint8) + 2 * ways[1, 1].astype(jnp.uint8) + 4 * ways[1, -1].astype(jnp.uint8)
    width = passable.shape[1]
    flat = codes.reshape(-1)
    offset = end - start
    length = jnp.abs(offset).max(axis=-1)
    diagonal = (jnp.abs(offset[..., 0]) == jnp.abs(offset[..., 1])) & (length > 0)
    rising, code = offset[..., 0] > 0, jnp.where(offset[..., 0] * offset[..., 1] > 0, 2, 4)
    some = jnp.maximum(length, 1)[..., None]

    def point(k: Scalar, clear: Bool[Array, "*n"]) -> Bool[Array, "*n"]:
        low, high = start + offset * k // some, start - (-offset * k // some)
        below = flat.at[low[..., 0] * width + low[..., 1]].get(mode="clip")
        above = flat.at[high[..., 0] * width + high[..., 1]].get(mode="clip")
        passes = (below & above & 1) == 1
        # On a diagonal line every step has to be one that a body can take.
        inner = jnp.where(rising, k < length, k > 0)
        passes &= ~(diagonal & inner) | ((below & code) > 0)
        return clear & (passes | (k > length))

    inside = (start >= 0).all(axis=-1) & (end >= 0).all(axis=-1) & (length < 3 * config.stride)
    most = jnp.max(jnp.where(inside, length, 0)).astype(jnp.int32)
    return jax.lax.fori_loop(jnp.int32(0), most + 1, point, inside)


def straight_lengths(
    config: Config, passable: Bool[Array, "Y X"], cell: Int32[Array, "I J 2"]
) -> Int32[Array, "K I J"]:
    """Lengths of the straight lines between viewpoints that a body can follow; FAR_MM elsewhere."""
    none = jnp.array(-1, jnp.int32)
    half = range(SELF_SLOT + 1, SLOTS)
    there = jnp.stack([jnp.stack([shift_sites(cell[..., axis], k, none) for axis in (0, 1)], axis=-1) for k in half])
    here = jnp.broadcast_to(cell[None], there.shape)
    clear = line_is_clear(config, passable, here, there)
    found = jnp.where(clear, straight_mm(config, there - here), FAR_MM)
    far = jnp.array(FAR_MM, jnp.int32)
    back = [shift_sites(found[SELF_SLOT - 1 - k], k, far) for k in range(SELF_SLOT)]
    return jnp.concatenate([jnp.stack(back), jnp.full((1, *cell.shape[:2]), FAR_MM, jnp.int32), found])


def straight_mm(config: Config, offset: Int32[Array, "*n 2"]) -> Int32[Array, "*n"]:
    """Length of the straight line to an offset in cells."""
    away = jnp.minimum(jnp.abs(offset), 3 * config.stride - 1)
    return jnp.asarray(config.lattice.lengths_mm)[away[..., 0], away[..., 1]]


def grow_network(
    config: Config, belief: UInt8[Array, "Y X"], before: Network, middle: Site | None, radius_mm: Scalar
) -> Network:
    """The network after the belief grew around `middle`; anywhere if that is None."""
    sites = before.age.shape[0]
    count = sites if middle is None else min(sites, config.road_window_sites)
    first = jnp.zeros(2, jnp.int32) if middle is None else jnp.clip(middle - count // 2, 0, sites - count)
    wide = body_reach(config) + 1
    side, corner = config.stride * count, config.margin_cells + config.stride * first
    known = jax.lax.dynamic_slice(belief, (corner[0] - wide, corner[1] - wide), (side + 2 * wide, side + 2 * wide))
    passable = passable_cells(config, known[1:-1, 1:-1], radius_mm)
    undecided = undecided_cells(config, known, passable, radius_mm)
    cell = jax.lax.dynamic_slice(before.cell, (first[0], first[1], 0), (count, count, 2))
    age = jax.lax.dynamic_slice(before.age, (first[0], first[1]), (count, count))
    length_mm = jax.lax.dynamic_slice(before.length_mm, (0, first[0], first[1]), (SLOTS, count, count))
    cell, age = settle(config, passable, undecided, jnp.where(cell >= 0, cell - corner[None, None], -1), age)
    length_mm = jnp.minimum(length_mm, bent_lengths(config, passable, cell))
    length_mm = jnp.minimum(length_mm, straight_lengths(config, passable, cell))
    cell = jnp.where(cell >= 0, cell + corner[None, None], -1)
    return Network(
        jax.lax.dynamic_update_slice(before.cell, cell, (first[0], first[1], 0)),
        jax.lax.dynamic_update_slice(before.age, age, (first[0], first[1])),
        jax.lax.dynamic_update_slice(before.length_mm, length_mm, (0, first[0], first[1])),
    )
