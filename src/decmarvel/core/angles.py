"""Angles: directions of offsets, headings in bins, turns. Whole degrees or hundredths, counter-clockwise from +x."""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from decmarvel.core.config import Config


def direction_hundredths(dy: np.ndarray, dx: np.ndarray) -> Int32[np.ndarray, "..."]:
    """Direction of an offset in hundredths of a degree; in double precision on the host, so equal on every machine."""
    return np.asarray(np.round(100 * np.degrees(np.arctan2(dy, dx))) % 36000, np.int32)


def direction_degrees(dy: np.ndarray, dx: np.ndarray) -> Int32[np.ndarray, "..."]:
    """Direction of an offset in whole degrees."""
    return ((direction_hundredths(dy, dx) + 50) // 100 % 360).astype(np.int32)


def direction_bins(config: Config, dy: np.ndarray, dx: np.ndarray) -> Int32[np.ndarray, "..."]:
    width = 100 * config.degrees_per_bin
    return ((direction_hundredths(dy, dx) + width // 2) // width % config.heading_bins).astype(np.int32)


def heading_bin(config: Config, heading: Int32[Array, "..."]) -> Int32[Array, "..."]:
    return (heading + config.degrees_per_bin // 2) // config.degrees_per_bin % config.heading_bins


def wrap_degrees(angle: Int32[Array, "..."]) -> Int32[Array, "..."]:
    """The angle in degrees, wrapped to -180..179."""
    return (angle + 180) % 360 - 180


def scaled_step(distance: Int32[Array, "..."], k: Int32[Array, "..."], steps: int) -> Int32[Array, "..."]:
    """`distance * k / steps` to the nearest integer, halves away from zero."""
    return jnp.sign(distance) * ((2 * jnp.abs(distance) * k + steps) // (2 * steps))


@lru_cache
def _table(reach: int) -> Int32[np.ndarray, "side side"]:
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    return direction_hundredths(dy, dx)


def hundredths_towards(offset: Int32[Array, "*n 2"], reach: int) -> Int32[Array, "*n"]:
    """Direction of offsets of at most `reach` cells, in hundredths of a degree."""
    place = jnp.clip(offset + reach, 0, 2 * reach)
    return jnp.asarray(_table(reach))[place[..., 0], place[..., 1]]


def degrees_towards(offset: Int32[Array, "*n 2"], reach: int) -> Int32[Array, "*n"]:
    """Direction of offsets of at most `reach` cells, in whole degrees."""
    return (hundredths_towards(offset, reach) + 50) // 100 % 360


def bins_towards(config: Config, offset: Int32[Array, "*n 2"], reach: int) -> Int32[Array, "*n"]:
    """Heading bin of the direction of offsets of at most `reach` cells."""
    width = 100 * config.degrees_per_bin
    return (hundredths_towards(offset, reach) + width // 2) // width % config.heading_bins
