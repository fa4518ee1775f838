"""Roads: where a body can stand and pass, the viewpoint of each tile, and the ways between viewpoints.

A robot decides between viewpoints, about one a tile, and travels on roads as fine as the cells. An edge is a straight
line that its body can follow, or a way over cells on which it meets no third viewpoint's surroundings. Known floor
never becomes unknown again, so viewpoints stay where they are and edges only become shorter.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int16, Int32, UInt8

from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOTS, shift_sites
from decmarvel.core.types import FAR_MM, FREE, OCCUPIED, Graph, Scalar, Site
from decmarvel.robot.steps import NO_WAY, SIDE, SLANT, shifted, spread, steps, way_mm

PATIENCE = 2
"""Decisions for which a tile waits until nothing unknown is nearer to its middle than its viewpoint would be."""
COLOURS = 5
"""Tiles with equal colours are five tiles apart, farther than two ways reach together."""
LABEL_BITS = 5
LABELS = 2**LABEL_BITS
"""More than there are pairs of colours: ways are kept as length * LABELS + colour."""
PROBES, LINES = 3, 64
"""Points at which a line is looked at first, and how many lines are followed to their ends at a time."""
LENGTH_BITS = 11
"""A way between two viewpoints of at most 36 * 48 + 17 fits into these bits."""
NONE = 2**30
"""Stands for no meeting of two ways."""


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
    """Whether a body at a cell touches a set cell. The result is smaller by the body's reach on all sides.

    A loop, although it is short: compilers copy a plain expression into all that read it, and compute it many times.
    """
    reach = body_reach(config)
    height, width = (side - 2 * reach for side in mask.shape)
    limit = (2 * radius_mm + config.cell_mm) ** 2

    def touch(touched: Bool[Array, "H W"], offset: Int32[Array, "3"]) -> tuple[Bool[Array, "H W"], None]:
        there = jax.lax.dynamic_slice(mask, (reach + offset[0], reach + offset[1]), (height, width))
        return touched | (there & (offset[2] < limit)), None

    offsets = jnp.array(body_offsets(config), jnp.int32).reshape(-1, 3)
    return jax.lax.scan(touch, mask[reach : reach + height, reach : reach + width], offsets)[0]


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
def preference(stride: int) -> Int16[np.ndarray, "n n"]:
    """The place of each cell of a tile in the order from its middle outwards."""
    rows, columns = np.mgrid[:stride, :stride]
    offset = np.stack([rows.ravel(), columns.ravel()], axis=-1) - stride // 2
    order = np.lexsort((offset[:, 1], offset[:, 0], (offset**2).sum(axis=1)))
    return np.argsort(order).reshape(stride, stride).astype(np.int16)


def nearest_in_tile(config: Config, mask: Bool[Array, "Y X"]) -> Int32[Array, "I J"]:
    """The place in the order of preference of the first set cell of each tile; NO_WAY if none is set."""
    count, stride = mask.shape[0] // config.stride, config.stride
    order = np.tile(preference(stride), (1, count))
    rows = jnp.where(mask.reshape(count, stride, -1), order, np.int16(NO_WAY)).min(axis=1)
    return rows.reshape(count, count, stride).min(axis=2).astype(jnp.int32)


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
    stand, open_ = nearest_in_tile(config, passable), nearest_in_tile(config, undecided)
    waiting = (cell[..., 0] < 0) & (stand < NO_WAY)
    ready = waiting & ((stand < open_) | (age >= PATIENCE))
    flat = jnp.asarray(np.argsort(preference(config.stride), axis=None).astype(np.int32)).at[stand].get(mode="clip")
    index = jnp.arange(cell.shape[0], dtype=jnp.int32) * config.stride
    place = jnp.stack([index[:, None] + flat // config.stride, index[None, :] + flat % config.stride], axis=-1)
    return jnp.where(ready[..., None], place, cell), age + (waiting & ~ready).astype(jnp.int32)


def tile_of(colour: Int32[Array, "*n"], own: Int32[Array, "..."]) -> Int32[Array, "*n"]:
    """Row or column of the tile of a colour that is at most two tiles from a cell's own tile."""
    return own + (colour - own + 2) % COLOURS - 2


def meetings(passable: Bool[Array, "Y X"], way: Int16[Array, "Y X"]) -> Int32[Array, "4 Y X"]:
    """For each cell and half of its steps to neighbours: the colours on both sides, the smaller one first, and the
    length of the way through this step, in one number; NONE if the colours are equal or there is no such step.
    """
    found = []
    for (dy, dx), go in steps(passable).items():
        here, there = way.astype(jnp.int32), shifted(way, dy, dx, NO_WAY).astype(jnp.int32)
        low, high = (choose(here & (LABELS - 1), there & (LABELS - 1)) for choose in (jnp.minimum, jnp.maximum))
        total = (here >> LABEL_BITS) + (there >> LABEL_BITS) + (SLANT if dy and dx else SIDE)
        meet = go & (here < NO_WAY) & (there < NO_WAY) & (low != high)
        found.append(jnp.where(meet, ((low << LABEL_BITS | high) << LENGTH_BITS) | total, NONE))
    return jnp.stack(found)


def bent_lengths(config: Config, passable: Bool[Array, "Y X"], cell: Int32[Array, "I J 2"]) -> Int32[Array, "H I J"]:
    """Lengths of the ways to the later half of the slots, where surroundings of viewpoints touch; elsewhere FAR_MM.

    A way to a cell is no longer than one and a half strides, so that its tile is at most two tiles from the cell's own
    and from that of the cell's neighbours.
    """
    count, stride = cell.shape[0], config.stride
    index = jnp.arange(count, dtype=jnp.int32)
    colour = (COLOURS * (index[:, None] % COLOURS) + index[None, :] % COLOURS).astype(jnp.int16)
    y, x = (jnp.where(cell[..., 0] >= 0, cell[..., axis], passable.shape[0]) for axis in (0, 1))
    start = jnp.full(passable.shape, NO_WAY, jnp.int16).at[y, x].set(colour, mode="drop")
    way = spread(passable, start, LABELS, 3 * stride // 2)
    way = jnp.where(way >> LABEL_BITS <= SIDE * 3 * stride // 2, way, NO_WAY).astype(jnp.int16)
    meeting = meetings(passable, way).reshape(4, count, stride, -1)
    own_y, own_x = index[:, None], jnp.asarray(np.arange(passable.shape[1], dtype=np.int32) // stride)[None, :]

    # Few pairs of tiles meet in one column of cells of a tile: take one pair after the other, the least number of each.
    def take(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        last, found = carry
        least = jnp.where(meeting > last[None, :, None, :], meeting, NONE).min(axis=(0, 2))
        pair, total = least >> LENGTH_BITS, least & (2**LENGTH_BITS - 1)
        (a_y, a_x), (b_y, b_x) = (
            (tile_of(paint // COLOURS, own_y), tile_of(paint % COLOURS, own_x))
            for paint in (pair >> LABEL_BITS, pair & (LABELS - 1))
        )
        slot = 5 * (b_y - a_y) + b_x - a_x + SELF_SLOT
        near = (least < NONE) & (jnp.abs(b_y - a_y) <= 2) & (jnp.abs(b_x - a_x) <= 2)
        first_y, first_x = (jnp.where(slot > SELF_SLOT, a, b) for a, b in ((a_y, b_y), (a_x, b_x)))
        half = jnp.where(near, jnp.abs(slot - SELF_SLOT) - 1, SLOTS)
        return least | (2**LENGTH_BITS - 1), found.at[half, first_y, first_x].min(total, mode="drop")

    nothing = jnp.full((SELF_SLOT, count, count), NO_WAY, jnp.int32)
    first = jnp.full((count, passable.shape[1]), -1, jnp.int32)
    found = jax.lax.while_loop(lambda carry: (carry[0] < NONE).any(), take, (first, nothing))[1]
    return jnp.where(found < NO_WAY, way_mm(config, found), FAR_MM)


def line_codes(passable: Bool[Array, "Y X"]) -> UInt8[Array, "Y X"]:
    """What lines need of a cell: bit 0 if it is passable, bits 1 and 2 if the two diagonal steps from it are."""
    ways = steps(passable)
    return passable.astype(jnp.uint8) + 2 * ways[1, 1].astype(jnp.uint8) + 4 * ways[1, -1].astype(jnp.uint8)


def lines_pass(
    codes: UInt8[Array, "Y X"],
    start: Int32[Array, "*n 2"],
    end: Int32[Array, "*n 2"],
    at: Int32[Array, "*n k"],
) -> Bool[Array, "*n"]:
    """Whether a body can pass the straight lines between two cells at these of their points, counted from the start.

    The cells beside a point are passable, and on a diagonal line the step to it is one that a body can take.
    """
    flat, width = codes.reshape(-1), codes.shape[1]
    away = end - start
    length = jnp.abs(away).max(axis=-1)[..., None]
    diagonal = (jnp.abs(away[..., :1]) == jnp.abs(away[..., 1:])) & (length > 0)
    rising, code = away[..., :1] > 0, jnp.where(away[..., :1] * away[..., 1:] > 0, 2, 4)
    (low_y, high_y), (low_x, high_x) = (
        (from_ + offset * at // jnp.maximum(length, 1), from_ - (-offset * at // jnp.maximum(length, 1)))
        for from_, offset in ((start[..., :1], away[..., :1]), (start[..., 1:], away[..., 1:]))
    )
    below = flat.at[low_y * width + low_x].get(mode="clip")
    above = flat.at[high_y * width + high_x].get(mode="clip")
    step = diagonal & jnp.where(rising, at < length, at > 0)
    passes = ((below & above & 1) == 1) & (~step | ((below & code) > 0))
    return (passes | (at > length)).all(axis=-1)


def line_is_clear(
    config: Config, codes: UInt8[Array, "Y X"], start: Int32[Array, "*n 2"], end: Int32[Array, "*n 2"]
) -> Bool[Array, "*n"]:
    """Whether a body can follow the straight line between two cells: all cells beside its points are passable."""
    inside = (start >= 0).all(axis=-1) & (end >= 0).all(axis=-1)
    short = jnp.abs(end - start).max(axis=-1) < 3 * config.stride
    every = jnp.broadcast_to(jnp.arange(3 * config.stride, dtype=jnp.int32), (*start.shape[:-1], 3 * config.stride))
    return inside & short & lines_pass(codes, start, end, every)


def straight_lengths(
    config: Config, passable: Bool[Array, "Y X"], cell: Int32[Array, "I J 2"], length_mm: Int32[Array, "H I J"]
) -> Int32[Array, "H I J"]:
    """Lengths of the ways to the later half of the slots, with straight lines that a body can follow, if shorter."""
    none, codes = jnp.array(-1, jnp.int32), line_codes(passable)
    half = range(SELF_SLOT + 1, SLOTS)
    there = jnp.stack([jnp.stack([shift_sites(cell[..., axis], k, none) for axis in (0, 1)], axis=-1) for k in half])
    here = jnp.broadcast_to(cell[None], there.shape)
    straight = straight_mm(config, there - here)
    shorter = (here[..., 0] >= 0) & (there[..., 0] >= 0) & (straight < length_mm)
    # Most lines that are not clear are blocked at one of a few points: only the others are followed, some at a time.
    away = jnp.abs(there - here).max(axis=-1)
    probes = jnp.stack([away * part // (PROBES + 1) for part in range(1, PROBES + 1)], axis=-1)
    likely = shorter & lines_pass(codes, here, there, probes)
    start, end = here.reshape(-1, 2), there.reshape(-1, 2)
    total = likely.sum(dtype=jnp.int32)
    (order,) = jnp.nonzero(likely.reshape(-1), size=-(-likely.size // LINES) * LINES, fill_value=likely.size)

    def follow(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        done, clear = carry
        some = jax.lax.dynamic_slice(order, (done,), (LINES,))
        new = line_is_clear(config, codes, start.at[some].get(mode="clip"), end.at[some].get(mode="clip"))
        return done + LINES, clear.at[some].set(new, mode="drop")

    begin = (jnp.array(0, jnp.int32), jnp.zeros(likely.size, bool))
    clear = jax.lax.while_loop(lambda carry: carry[0] < total, follow, begin)[1].reshape(likely.shape)
    return jnp.where(clear, straight, length_mm)


def both_ways(length_mm: Int32[Array, "H I J"]) -> Int32[Array, "K I J"]:
    """Lengths of the ways to all slots from those to the later half: they are as long in both directions."""
    far = jnp.array(FAR_MM, jnp.int32)
    back = [shift_sites(length_mm[SELF_SLOT - 1 - k], k, far) for k in range(SELF_SLOT)]
    return jnp.concatenate([jnp.stack(back), jnp.full((1, *length_mm.shape[1:]), far), length_mm])


def straight_mm(config: Config, offset: Int32[Array, "*n 2"]) -> Int32[Array, "*n"]:
    """Length of the straight line to an offset in cells."""
    away = jnp.minimum(jnp.abs(offset), 3 * config.stride - 1)
    return jnp.asarray(config.lattice.lengths_mm)[away[..., 0], away[..., 1]]


def window(config: Config, sites: int, middle: Site | None) -> tuple[int, Site]:
    """The square of sites that is updated around `middle`, all if that is None: its side and its first site."""
    if middle is None:
        return sites, jnp.zeros(2, jnp.int32)
    count = min(sites, config.road_window_sites)
    return count, jnp.clip(middle - count // 2, 0, sites - count)


def settles_soon(config: Config, graph: Graph, site: Site) -> Bool[Array, ""]:
    """Whether a robot that stays gets another viewpoint, as a tile around it has waited for one."""
    sites = graph.age.shape[0]
    count, first = window(config, sites, site)
    index = jnp.arange(sites, dtype=jnp.int32)[:, None]
    around = (index >= first[None]) & (index < first[None] + count)
    waiting = (graph.age > 0) & (graph.cell[..., 0] < 0)
    return (waiting & around[:, :1] & around[None, :, 1]).any()


def grow_network(
    config: Config, belief: UInt8[Array, "Y X"], before: Network, middle: Site | None, radius_mm: Scalar
) -> Network:
    """The network after the belief grew around `middle`; anywhere if that is None."""
    count, first = window(config, before.age.shape[0], middle)
    wide = body_reach(config) + 1
    side, corner = config.stride * count, config.margin_cells + config.stride * first
    known = jax.lax.dynamic_slice(belief, (corner[0] - wide, corner[1] - wide), (side + 2 * wide, side + 2 * wide))
    passable = passable_cells(config, known[1:-1, 1:-1], radius_mm)
    undecided = undecided_cells(config, known, passable, radius_mm)
    cell = jax.lax.dynamic_slice(before.cell, (first[0], first[1], 0), (count, count, 2))
    age = jax.lax.dynamic_slice(before.age, (first[0], first[1]), (count, count))
    length_mm = jax.lax.dynamic_slice(before.length_mm, (0, first[0], first[1]), (SLOTS, count, count))
    cell, age = settle(config, passable, undecided, jnp.where(cell >= 0, cell - corner[None, None], -1), age)
    bent_mm = jnp.minimum(length_mm[SELF_SLOT + 1 :], bent_lengths(config, passable, cell))
    length_mm = jnp.minimum(length_mm, both_ways(straight_lengths(config, passable, cell, bent_mm)))
    cell = jnp.where(cell >= 0, cell + corner[None, None], -1)
    return Network(
        jax.lax.dynamic_update_slice(before.cell, cell, (first[0], first[1], 0)),
        jax.lax.dynamic_update_slice(before.age, age, (first[0], first[1])),
        jax.lax.dynamic_update_slice(before.length_mm, length_mm, (0, first[0], first[1])),
    )
