"""The team's record of a mission: coverage, metres to 99%, overlap. Planners never see it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from decmarvel.core.config import Config
from decmarvel.core.types import FREE, Scalar
from decmarvel.simulation.types import Progress
from decmarvel.worlds.world import World


class Footprints(eqx.Module):
    """What the robots sensed at one substep, as patches around their cells."""

    cell: Int32[Array, "N 2"]
    seen: Bool[Array, "N side side"]
    learned: Bool[Array, "N side side"]
    """Cells that count for coverage and were new to the robot itself."""


def begin_progress(config: Config, world: World, belief: UInt8[Array, "Y X"], present: Bool[Array, "N"]) -> Progress:
    """The record after the start scan, which every present robot shares."""
    known = (belief == FREE) & world.counted
    covered = known.sum().astype(jnp.int32)
    done = 100 * covered >= config.success_percent * world.free_count
    return Progress(
        known_by=jnp.where(known, present.sum(), 0).astype(jnp.uint8),
        covered=covered,
        own_covered=jnp.where(present, covered, 0),
        metres_to_success_mm=jnp.where(done, 0, -1).astype(jnp.int32),
        own_success_mm=jnp.where(done & present, 0, -1).astype(jnp.int32),
        overlap_sum=jnp.array(0, jnp.float32),
        overlap_count=jnp.array(0, jnp.int32),
    )


def add_patches(
    grid: UInt8[Array, "Y X"], cells: Int32[Array, "N 2"], patches: Bool[Array, "N side side"]
) -> UInt8[Array, "Y X"]:
    """Add one at every set cell of every patch."""
    side = patches.shape[-1]

    def add(grid: Array, patch: tuple[Array, Array]) -> tuple[Array, None]:
        begin = (patch[0][0] - side // 2, patch[0][1] - side // 2)
        old = jax.lax.dynamic_slice(grid, begin, (side, side))
        return jax.lax.dynamic_update_slice(grid, old + patch[1].astype(jnp.uint8), begin), None

    return jax.lax.scan(add, grid, (cells, patches))[0]


def record_substep(
    config: Config,
    progress: Progress,
    free_count: Scalar,
    footprints: Footprints,
    active: Bool[Array, "N"],
    travelled_mm: Int32[Array, "N"],
) -> Progress:
    """The record after one more substep: coverage, distances at 99%, and instantaneous overlap."""
    known_by = add_patches(progress.known_by, footprints.cell, footprints.learned)
    covered = (known_by > 0).sum().astype(jnp.int32)
    own_covered = progress.own_covered + footprints.learned.sum(axis=(1, 2)).astype(jnp.int32)
    needed = config.success_percent * free_count
    first = (progress.metres_to_success_mm < 0) & (100 * covered >= needed)
    own_first = (progress.own_success_mm < 0) & (100 * own_covered >= needed)

    times_seen = add_patches(jnp.zeros_like(known_by), footprints.cell, footprints.seen)
    shared = (times_seen >= 2).sum().astype(jnp.float32) / jnp.maximum((times_seen >= 1).sum(), 1).astype(jnp.float32)
    together = active.sum() >= 2
    return Progress(
        known_by=known_by,
        covered=covered,
        own_covered=own_covered,
        metres_to_success_mm=jnp.where(first, travelled_mm.max(), progress.metres_to_success_mm),
        own_success_mm=jnp.where(own_first & active, travelled_mm, progress.own_success_mm),
        overlap_sum=progress.overlap_sum + jnp.where(together, shared, 0.0),
        overlap_count=progress.overlap_count + together.astype(jnp.int32),
    )


def cumulative_overlap(progress: Progress) -> Float32[Array, ""]:
    """Of the free cells that the team knows, the share that two robots or more know."""
    shared = (progress.known_by >= 2).sum(axis=(-2, -1)).astype(jnp.float32)
    return shared / jnp.maximum(progress.covered, 1).astype(jnp.float32)


def mean_overlap(progress: Progress) -> Float32[Array, ""]:
    """Instantaneous overlap averaged over the time with two active robots or more."""
    return progress.overlap_sum / jnp.maximum(progress.overlap_count, 1).astype(jnp.float32)
