"""What a camera sees from one pose: range, field of view, line of sight; and how a pose changes during a move."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from decmarvel.core.angles import direction_hundredths, scaled_step, wrap_degrees
from decmarvel.core.config import Config
from decmarvel.core.types import Key, Scalar, Site
from decmarvel.core.visibility import Disc, disc, line_of_sight, to_patch
from decmarvel.core.windows import cut


def sensor_disc(config: Config) -> Disc:
    return disc(config.sensor_radius_cells)


def scan(config: Config, free: Bool[Array, "Y X"], cell: Int32[Array, "2"]) -> Bool[Array, "side side"]:
    """All that can be seen around a cell, in every direction, as a patch centred on it."""
    view = sensor_disc(config)
    patch = cut(free, cell, view.reach)
    see_through = patch[view.offsets[..., 0] + view.reach, view.offsets[..., 1] + view.reach]
    return to_patch(view, line_of_sight(view, see_through[..., None])[..., 0], centre=True)


def in_view(config: Config, pointing_hundredths: Scalar) -> Bool[Array, "side side"]:
    """Mask of the directions that a camera with this heading sees, centred on it; its own cell is always set."""
    reach = sensor_disc(config).reach
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    difference = (jnp.asarray(direction_hundredths(dy, dx)) - pointing_hundredths + 18000) % 36000 - 18000
    return (jnp.abs(difference) <= 50 * config.fov_deg) | jnp.asarray((dy == 0) & (dx == 0))


def footprint(
    config: Config, free: Bool[Array, "Y X"], cell: Int32[Array, "2"], heading: Scalar, key: Key
) -> Bool[Array, "side side"]:
    """The part of a scan that lies in the camera's field of view. `key` matters only where the noise model is on."""
    pointing, noise = 100 * heading, config.noise
    key_pointing, key_range = jax.random.split(key)
    if noise.pointing_sd_deg:
        pointing += jnp.round(100 * noise.pointing_sd_deg * jax.random.normal(key_pointing)).astype(jnp.int32)
    seen = scan(config, free, cell) & in_view(config, pointing)
    if noise.range_sd_m:
        reach = sensor_disc(config).reach
        dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
        reach_m = config.sensor_range_m - jnp.abs(noise.range_sd_m * jax.random.normal(key_range))
        near = jnp.asarray(np.hypot(dy, dx) * config.cell_m, jnp.float32) <= reach_m
        seen &= near | jnp.asarray((dy == 0) & (dx == 0))
    return seen


def limited_turn(config: Config, heading: Scalar, wanted: Scalar, length_mm: Scalar) -> Scalar:
    """The signed turn in degrees towards the wanted heading that the yaw rate allows on a move of this length."""
    metres_mm = jnp.where(length_mm > 0, length_mm, round(1000 * config.hold_turn_m))
    limit = config.yaw_rate_deg_s * metres_mm // round(1000 * config.speed_m_s)
    return jnp.clip(wrap_degrees(wanted - heading), -limit, limit)


def substep_pose(
    config: Config, start: Site, target: Site, heading: Scalar, turn: Scalar, k: Scalar
) -> tuple[Int32[Array, "2"], Scalar]:
    """Cell and heading after `k` of the substeps of a move."""
    travel = config.stride * (target - start)
    cell = config.lattice.cell(start) + scaled_step(travel, k, config.substeps)
    return cell, (heading + scaled_step(turn, k, config.substeps)) % 360
