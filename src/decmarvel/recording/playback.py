"""Each robot's belief at every moment of a recorded mission, computed again from the recorded moves."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.angles import scaled_step, wrap_degrees
from decmarvel.core.camera import footprint, scan, sensor_disc
from decmarvel.core.config import Config
from decmarvel.core.types import ABSENT, FAR_MM, RETURNING, UNKNOWN, Scalar
from decmarvel.core.windows import cut
from decmarvel.recording.format import Recording, RecordingError
from decmarvel.robot.belief import remember


def beliefs(recording: Recording) -> Iterator[UInt8[Array, "N Y X"]]:
    """Yield the beliefs of all robots after take-off and after each decision: T + 1 arrays."""
    config = recording.config
    if not config.noise.off:
        raise RecordingError("this mission had sensor noise, and beliefs are rebuilt only without; record it without")
    free, start = jnp.asarray(recording.free), jnp.asarray(recording.start_cell, jnp.int32)
    path, heading = jnp.asarray(recording.path, jnp.int32), jnp.asarray(recording.heading, jnp.int32)
    turn = wrap_degrees(heading[1:] - heading[:-1])
    active = jnp.asarray(recording.move_mode <= RETURNING)
    range_mm, fov_deg = jnp.asarray(recording.body("range_mm")), jnp.asarray(recording.body("fov_deg"))
    shortest_mm = jnp.where(recording.mode[0] != ABSENT, range_mm, FAR_MM).min()
    known = _after_start_scan(config, free, start, shortest_mm, recording.robots)
    yield known
    for t in range(recording.decisions):
        known = _after_move(config, free, known, path[t], heading[t], turn[t], active[t], range_mm, fov_deg)
        yield known


def beliefs_after(recording: Recording, decision: int) -> UInt8[Array, "N Y X"]:
    """The beliefs after one decision; 0 is take-off, `recording.decisions` is the end."""
    if not 0 <= decision <= recording.decisions:
        raise RecordingError(f"there is no decision {decision}; the mission has {recording.decisions}")
    return next(known for t, known in enumerate(beliefs(recording)) if t == decision)


@partial(jax.jit, static_argnums=(0, 4))
def _after_start_scan(
    config: Config, free: Bool[Array, "Y X"], cell: Int32[Array, "2"], range_mm: Scalar, robots: int
) -> UInt8[Array, "N Y X"]:
    around = cut(free, cell, sensor_disc(config).reach)
    known = remember(jnp.full(free.shape, UNKNOWN, jnp.uint8), around, scan(config, free, cell, range_mm), cell)
    return jnp.repeat(known[None], robots, axis=0)


@partial(jax.jit, static_argnums=0)
def _after_move(
    config: Config,
    free: Bool[Array, "Y X"],
    known: UInt8[Array, "N Y X"],
    path: Int32[Array, "N substeps 2"],
    heading: Int32[Array, "N"],
    turn: Int32[Array, "N"],
    active: Bool[Array, "N"],
    range_mm: Int32[Array, "N"],
    fov_deg: Int32[Array, "N"],
) -> UInt8[Array, "N Y X"]:
    unused = jax.random.key(0)  # only noise needs random numbers

    def robot(
        belief: Array, path: Array, heading: Scalar, turn: Scalar, active: Array, range_mm: Scalar, fov_deg: Scalar
    ) -> Array:
        def substep(k: Scalar, belief: Array) -> Array:
            cell, now = path[k - 1], (heading + scaled_step(turn, k, config.substeps)) % 360
            seen = footprint(config, free, cell, now, unused, range_mm, fov_deg) & active
            return remember(belief, cut(free, cell, sensor_disc(config).reach), seen, cell)

        return jax.lax.fori_loop(jnp.int32(1), jnp.int32(config.substeps + 1), substep, belief)

    return jax.vmap(robot)(known, path, heading, turn, active, range_mm, fov_deg)
