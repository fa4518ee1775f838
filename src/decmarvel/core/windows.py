"""Windows of cells: the patch around a cell, and the cells at one offset from many sites at once."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Shaped

from decmarvel.core.config import Config


def cut(grid: Array, cell: Int32[Array, "2"], reach: int) -> Array:
    """The square patch around a cell. The walls around every world keep it inside the array."""
    side = 2 * reach + 1
    return jax.lax.dynamic_slice(grid, (cell[0] - reach, cell[1] - reach), (side, side))


def tile(config: Config, grid: Shaped[Array, "Y X"]) -> Shaped[Array, "stride stride TY TX"]:
    """Group the cells by their place within a tile: then the cells at one offset from all sites are one plain slice."""
    count, stride = grid.shape[0] // config.stride, config.stride
    return grid.reshape(count, stride, count, stride).transpose(1, 3, 0, 2)


def around_sites(
    config: Config,
    tiles: Shaped[Array, "stride stride TY TX"],
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
