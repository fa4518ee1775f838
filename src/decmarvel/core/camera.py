"""What a camera sees from one pose: range, field of view, line of sight; and how a robot turns during a move."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from decmarvel.core.angles import direction_hundredths, wrap_degrees
from decmarvel.core.config import Config
from decmarvel.core.types import Key, Own, Scalar
from decmarvel.core.visibility import Disc, disc, line_of_sight, to_patch
from decmarvel.core.windows import cut


def sensor_disc(config: Config) -> Disc:
    """The disc of the farthest-seeing camera in the team."""
    return disc(config.sensor_radius_cells)


@lru_cache
def lengths_mm(reach: int, cell_m: float) -> Int32[np.ndarray, "side side"]:
    """Distances from the middle of a square patch to its cells, rounded down."""
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    return np.floor(1000 * cell_m * np.hypot(dy, dx) + 1e-6).astype(np.int32)


def scan(
    config: Config, free: Bool[Array, "Y X"], cell: Int32[Array, "2"], range_mm: Scalar | int
) -> Bool[Array, "side side"]:
    """All that can be seen around a cell within a range, in every direction, as a patch centred on it."""
    view = sensor_disc(config)
    patch = cut(free, cell, view.reach)
    see_through = patch[view.offsets[..., 0] + view.reach, view.offsets[..., 1] + view.reach]
    seen = to_patch(view, line_of_sight(view, see_through[..., None])[..., 0], centre=True)
    return seen & (jnp.asarray(lengths_mm(view.reach, config.cell_m)) <= range_mm)


def in_view(config: Config, pointing_hundredths: Scalar, fov_deg: Scalar | int) -> Bool[Array, "side side"]:
    """Mask of the directions that a camera with this heading sees, centred on it; its own cell is always set."""
    reach = sensor_disc(config).reach
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    difference = (jnp.asarray(direction_hundredths(dy, dx)) - pointing_hundredths + 18000) % 36000 - 18000
    return (jnp.abs(difference) <= 50 * fov_deg) | jnp.asarray((dy == 0) & (dx == 0))


def footprint(
    config: Config,
    free: Bool[Array, "Y X"],
    cell: Int32[Array, "2"],
    heading: Scalar,
    key: Key,
    range_mm: Scalar,
    fov_deg: Scalar,
) -> Bool[Array, "side side"]:
    """The part of a scan that lies in the camera's field of view. `key` matters only where the noise model is on."""
    pointing, noise = 100 * heading, config.noise
    key_pointing, key_range = jax.random.split(key)
    if noise.pointing_sd_deg:
        pointing += jnp.round(100 * noise.pointing_sd_deg * jax.random.normal(key_pointing)).astype(jnp.int32)
    seen = scan(config, free, cell, range_mm) & in_view(config, pointing, fov_deg)
    if noise.range_sd_m:
        reach = sensor_disc(config).reach
        dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
        reach_m = range_mm / 1000 - jnp.abs(noise.range_sd_m * jax.random.normal(key_range))
        near = jnp.asarray(np.hypot(dy, dx) * config.cell_m, jnp.float32) <= reach_m
        seen &= near | jnp.asarray((dy == 0) & (dx == 0))
    return seen


def surely_seen_bins(config: Config, fov_deg: Scalar) -> Scalar:
    """Bins on either side of a heading's own that lie wholly in view, wherever in its bin the heading is."""
    inside = jnp.maximum(0, fov_deg // (2 * config.degrees_per_bin) - 1)
    return jnp.where(fov_deg >= 360, config.heading_bins, inside)


def limited_turn(config: Config, own: Own, wanted: Scalar, length_mm: Scalar) -> Scalar:
    """The signed turn in degrees towards the wanted heading that the yaw rate allows on a move of this length."""
    metres_mm = jnp.where(length_mm > 0, length_mm, round(1000 * config.hold_turn_m))
    limit = own.yaw_rate_deg_s * metres_mm // own.speed_mm_s
    return jnp.clip(wrap_degrees(wanted - own.heading), -limit, limit)
