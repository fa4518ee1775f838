"""The unknown cells that a camera would see on the way to a waypoint, as the robot estimates: to choose a heading.

A robot turns while it moves, up to 35 degrees a metre, and sees all the way. So its heading at the end decides which
cells the camera sees in between.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.angles import scaled_step
from decmarvel.core.camera import in_view, limited_turn, scan, sensor_disc
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT
from decmarvel.core.types import FREE, OCCUPIED, UNKNOWN, LocalView, Scalar
from decmarvel.core.windows import cut
from decmarvel.robot.graph import way_offsets

DEPTH = 5
"""Unknown cells at most this many cells beyond known-free ones are assumed to be free: 2 m."""
DEPTH_M = 2.0
"""The same with roads, for a sensing range of 10 m."""
FINEST_CELLS = 25
"""Cells in a sensing range."""


def shown(config: Config, view: LocalView, slots: Int32[Array, "n"]) -> Int32[Array, "n H"]:
    """Number of unknown cells that would be seen on the way to some slots, with each candidate heading there.

    An estimate needs no finer cells than the paper's, 25 in a sensing range: where they are finer, blocks of them are
    looked at as one.
    """
    coarse = block_cells(config)
    looking = replace(
        config, roads=False, radius_m=0.0, spacing_m=2 * coarse * config.cell_m, coarsest_cell_m=coarse * config.cell_m
    )
    reach = sensor_disc(looking).reach
    centre = reach + -(-(3 if config.roads else 2) * config.stride // coarse)
    around = coarse * centre + coarse - 1
    clear, unknown = (in_blocks(mask, coarse) for mask in guessed(config, view, around))
    offsets = scaled_step(way_offsets(view.graph, view.site), jnp.array(1, jnp.int32), coarse)
    lengths_mm = view.graph.length_mm[:, view.site[0], view.site[1]].at[SELF_SLOT].set(0)
    substeps = jnp.arange(1, config.substeps + 1, dtype=jnp.int32)

    def one(slot: Scalar) -> Int32[Array, "H"]:
        headings = config.degrees_per_bin * view.candidates.heading_bin[slot]
        turns = jax.vmap(lambda heading: limited_turn(config, view, heading, lengths_mm[slot]))(headings)

        def substep(seen: UInt8[Array, "P P"], k: Scalar) -> tuple[UInt8[Array, "P P"], None]:
            """Set bit h of each cell that is seen if heading h is chosen."""
            at = centre + scaled_step(offsets[slot], k, config.substeps)
            pointing = (view.heading + scaled_step(turns, k, config.substeps)) % 360
            visible = scan(looking, clear, at, view.range_mm) & cut(unknown, at, reach)
            patch = cut(seen, at, reach)
            for number in range(config.headings_per_node):
                patch |= (visible & in_view(looking, 100 * pointing[number], view.fov_deg)).astype(jnp.uint8) << number
            return jax.lax.dynamic_update_slice(seen, patch, (at[0] - reach, at[1] - reach)), None

        seen = jax.lax.scan(substep, jnp.zeros(clear.shape, jnp.uint8), substeps)[0]
        counts = [(seen >> number & 1).sum(dtype=jnp.int32) for number in range(config.headings_per_node)]
        return coarse * coarse * jnp.stack(counts)

    return jax.vmap(one)(slots)


def block_cells(config: Config) -> int:
    """Side in cells of the blocks that are looked at as one."""
    return max(1, round(config.sensor_radius_cells / FINEST_CELLS))


def in_blocks(mask: Bool[Array, "P P"], side: int) -> Bool[Array, "Q Q"]:
    """Whether at least half of each block is set. The blocks begin at the first cell; a rest at the end is left out."""
    if side == 1:
        return mask
    count = mask.shape[0] // side
    blocks = mask[: side * count, : side * count].reshape(count, side, count, side)
    return 2 * blocks.sum(axis=(1, 3), dtype=jnp.int32) >= side * side


def guessed(config: Config, view: LocalView, reach: int) -> tuple[Bool[Array, "P P"], Bool[Array, "P P"]]:
    """The surroundings of a robot: cells assumed to be free, and those among them that are unknown."""
    depth = DEPTH if not config.roads else max(1, round(DEPTH_M * config.scale / config.cell_m))
    beyond = (3 if config.roads else 2) * config.stride + depth
    around = jnp.pad(view.belief, beyond, constant_values=OCCUPIED)
    patch = cut(around, view.graph.cell[view.site[0], view.site[1]] + beyond, reach + depth)
    near = patch == FREE
    for _ in range(depth):
        wider = jnp.pad(near, 1)
        near |= wider[2:, 1:-1] | wider[:-2, 1:-1] | wider[1:-1, 2:] | wider[1:-1, :-2]
    inside = slice(depth, -depth)
    near, patch = near[inside, inside], patch[inside, inside]
    return near & (patch != OCCUPIED), near & (patch == UNKNOWN)
