"""The lattice: sites, their neighbours, their cells, and windows of cells around them."""

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Shaped

from decmarvel.core.config import Config
from decmarvel.core.types import Scalar, Site


def site_mask(sites: int, site: Site) -> Bool[Array, "S S"]:
    index = jnp.arange(sites)
    return (index[:, None] == site[0]) & (index[None, :] == site[1])


def nearest_site(config: Config, cell: Int32[Array, "... 2"]) -> Int32[Array, "... 2"]:
    """The site whose tile a cell lies in."""
    return (cell - config.margin_cells) // config.stride


SLOTS = 25
SELF_SLOT = 12
SLOT_OFFSETS = np.array([(k // 5 - 2, k % 5 - 2) for k in range(SLOTS)], np.int32)
"""Site offsets (dy, dx) of the 5 x 5 neighbourhood; slot 12 is the site itself."""


@lru_cache
def slot_lengths_mm(config: Config) -> Int32[np.ndarray, "K"]:
    """Lengths rounded up, so that the sum of a path never falls short of it."""
    return np.array([math.ceil(config.spacing_mm * math.hypot(dy, dx) - 1e-6) for dy, dx in SLOT_OFFSETS], np.int32)


def nearer_stop_first_mm(config: Config) -> Int32[np.ndarray, "K"]:
    """Added to the lengths of ways by their first slot. So few millimetres decide between equals only."""
    return slot_lengths_mm(config) // 1000


def tile(config: Config, grid: Shaped[Array, "G G"]) -> Shaped[Array, "stride stride T T"]:
    """Bring the cells at equal place within a tile together: then all sites see an offset as one plain slice."""
    count, stride = grid.shape[0] // config.stride, config.stride
    return grid.reshape(count, stride, count, stride).transpose(1, 3, 0, 2)


def around_sites(
    config: Config,
    tiles: Shaped[Array, "stride stride T T"],
    offsets: Int32[np.ndarray, "n 2"],
    first: Int32[Array, "2"],
    count: int,
) -> Shaped[Array, "n count count"]:
    """The cell at each offset from each site of a square of sites, whose first site lies in tile `first` of `tiles`."""
    shifted = offsets + config.stride // 2
    phase, step = jnp.asarray(shifted % config.stride), jnp.asarray(shifted // config.stride)

    def one(phase: Int32[Array, "2"], step: Int32[Array, "2"]) -> Shaped[Array, "count count"]:
        begin = (phase[0], phase[1], first[0] + step[0], first[1] + step[1])
        return jax.lax.dynamic_slice(tiles, begin, (1, 1, count, count))[0, 0]

    return jax.vmap(one)(phase, step)


def site_cell(config: Config, site: Int32[Array, "... 2"]) -> Int32[Array, "... 2"]:
    return config.margin_cells + config.stride * site + config.stride // 2


def cut(grid: Array, cell: Int32[Array, "2"], reach: int) -> Array:
    """The square patch around a cell. The walls around every world keep it inside the array."""
    side = 2 * reach + 1
    return jax.lax.dynamic_slice(grid, (cell[0] - reach, cell[1] - reach), (side, side))


def move_length_mm(config: Config, start: Site, target: Site) -> Scalar:
    """Length of a move between two sites of one neighbourhood."""
    offset = target - start + 2
    return jnp.asarray(slot_lengths_mm(config))[5 * offset[0] + offset[1]]
