"""Each robot's belief at every moment of a recorded mission, computed again from the recorded moves."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.angles import wrap_degrees
from decmarvel.core.camera import footprint, scan, sensor_disc, substep_pose
from decmarvel.core.config import Config
from decmarvel.core.types import RETURNING, UNKNOWN, Scalar, Site
from decmarvel.core.windows import cut
from decmarvel.recording.format import Recording, RecordingError
from decmarvel.robot.belief import remember


def beliefs(recording: Recording) -> Iterator[UInt8[Array, "N Y X"]]:
    """Yield the beliefs of all robots after take-off and after each decision: T + 1 arrays."""
    config = recording.config
    if not config.noise.off:
        raise RecordingError("this mission had sensor noise, and beliefs are rebuilt only without; record it without")
    free = jnp.asarray(recording.free)
    site, heading = jnp.asarray(recording.site, jnp.int32), jnp.asarray(recording.heading, jnp.int32)
    turn = wrap_degrees(heading[1:] - heading[:-1])
    active = jnp.asarray(recording.move_mode <= RETURNING)
    known = _after_start_scan(config, free, jnp.asarray(recording.start, jnp.int32), recording.robots)
    yield known
    for t in range(recording.decisions):
        known = _after_move(config, free, known, site[t], site[t + 1], heading[t], turn[t], active[t])
        yield known


def beliefs_after(recording: Recording, decision: int) -> UInt8[Array, "N Y X"]:
    """The beliefs after one decision; 0 is take-off, `recording.decisions` is the end."""
    if not 0 <= decision <= recording.decisions:
        raise RecordingError(f"there is no decision {decision}; the mission has {recording.decisions}")
    return next(known for t, known in enumerate(beliefs(recording)) if t == decision)


@partial(jax.jit, static_argnums=(0, 3))
def _after_start_scan(config: Config, free: Bool[Array, "Y X"], start: Site, robots: int) -> UInt8[Array, "N Y X"]:
    cell = config.lattice.cell(start)
    around = cut(free, cell, sensor_disc(config).reach)
    known = remember(jnp.full(free.shape, UNKNOWN, jnp.uint8), around, scan(config, free, cell), cell)
    return jnp.repeat(known[None], robots, axis=0)


@partial(jax.jit, static_argnums=0)
def _after_move(
    config: Config,
    free: Bool[Array, "Y X"],
    known: UInt8[Array, "N Y X"],
    site: Int32[Array, "N 2"],
    target: Int32[Array, "N 2"],
    heading: Int32[Array, "N"],
    turn: Int32[Array, "N"],
    active: Bool[Array, "N"],
) -> UInt8[Array, "N Y X"]:
    unused = jax.random.key(0)  # only noise needs random numbers

    def robot(belief: Array, site: Site, target: Site, heading: Scalar, turn: Scalar, active: Array) -> Array:
        def substep(k: Scalar, belief: Array) -> Array:
            cell, now = substep_pose(config, site, target, heading, turn, k)
            around = cut(free, cell, sensor_disc(config).reach)
            return remember(belief, around, footprint(config, free, cell, now, unused) & active, cell)

        return jax.lax.fori_loop(jnp.int32(1), jnp.int32(config.substeps + 1), substep, belief)

    return jax.vmap(robot)(known, site, target, heading, turn, active)
