"""Random worlds and beliefs for the tests, and small configurations on which the slow oracles are quick."""

from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

import oracles.lattice
from decmarvel.core.config import Config
from decmarvel.worlds.world import World

SMALL = Config(spacing_m=2.0, sensor_range_m=4.0, utility_range_m=3.2, safety_margin_m=2.0, hold_turn_m=2.0)
"""Twelve sites a side, a camera of ten cells: everything happens, quickly."""
FINE = Config(spacing_m=1.0, sensor_range_m=3.0, utility_range_m=2.5, safety_margin_m=1.0)
"""An odd stride and cells that are not 0.4 m."""
DEFAULT = Config()
ROADS = (
    Config(spacing_m=1.0, coarsest_cell_m=0.2, sensor_range_m=1.0, utility_range_m=0.9, roads=True, radius_m=0.45),
    Config(spacing_m=2.0, coarsest_cell_m=0.3, sensor_range_m=3.0, utility_range_m=2.7, roads=True, radius_m=0.25),
    Config(spacing_m=1.6, coarsest_cell_m=0.4, sensor_range_m=4.0, utility_range_m=3.6, roads=True),
)
"""Strides 5, 7 and 4; radii from none to two cells and a quarter."""
WIDE_ROADS = Config(
    spacing_m=0.8, coarsest_cell_m=0.2, sensor_range_m=0.8, utility_range_m=0.72, roads=True, radius_m=0.25
)
"""So many sites that a decision does not change all of them."""
SITES = {SMALL: 12, FINE: 16, DEFAULT: 16} | dict.fromkeys(ROADS, 8) | {WIDE_ROADS: 18}


@dataclass(frozen=True)
class Case:
    """A world, a start site in it, and a belief that is true but partial."""

    config: Config
    free: np.ndarray
    start: tuple[int, int]
    belief: np.ndarray

    @property
    def sites(self) -> int:
        return SITES[self.config]

    @cached_property
    def world(self) -> World:
        free = jnp.asarray(self.free)
        return World(free, jnp.asarray(self.start, jnp.int32), free, jnp.asarray(self.free.sum(), jnp.int32))


def connected(free: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """The free cells that are 4-connected to the start."""
    reached, stack = np.zeros_like(free), [start]
    reached[start] = True
    while stack:
        y, x = stack.pop()
        for cell in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            if free[cell] and not reached[cell]:
                reached[cell] = True
                stack.append(cell)
    return reached


def draw_case(config: Config, seed: int) -> Case:
    """Rooms, thin walls, doors and clutter in random amounts; a belief of random patches and scans."""
    rng = np.random.default_rng(seed)
    sites, margin = SITES[config], config.margin_cells
    size = config.lattice.grid_cells(sites)
    free = np.zeros((size, size), bool)
    inner = free[margin:-margin, margin:-margin]
    inner[:] = rng.random() < 0.5
    for _ in range(rng.integers(2, 12)):
        y, x = rng.integers(0, inner.shape[0], 2)
        h, w = rng.integers(1, max(3, inner.shape[0] // 2), 2)
        inner[y : y + h, x : x + w] = True
    for _ in range(rng.integers(0, 8)):
        line, begin, length = rng.integers(0, inner.shape[0], 3)
        wall = inner if rng.random() < 0.5 else inner.T
        wall[line, begin : begin + length] = False
    inner &= rng.random(inner.shape) > rng.choice([0.0, 0.0, 0.02, 0.2])
    start = (int(rng.integers(0, sites)), int(rng.integers(0, sites)))
    y, x = oracles.lattice.site_cell(config, *start)
    free[y - 1 : y + 2, x - 1 : x + 2] = True
    free = connected(free, (y, x))

    known = np.zeros_like(free)
    for _ in range(rng.integers(1, 10)):
        y0, x0 = rng.integers(0, size, 2)
        h, w = rng.integers(1, size, 2)
        known[y0 : y0 + h, x0 : x0 + w] = True
    known &= rng.random(known.shape) > rng.choice([0.0, 0.0, 0.05, 0.3])
    known[:margin] = known[-margin:] = False
    known[:, :margin] = known[:, -margin:] = False
    belief = np.where(known, np.where(free, 1, 2), 0).astype(np.uint8)
    return Case(config, free, start, belief)


def cases(config: Config) -> st.SearchStrategy[Case]:
    """Hypothesis draws the seed; NumPy does the rest."""
    return st.integers(0, 2**32 - 1).map(lambda seed: draw_case(config, seed))


def free_cell(case: Case, seed: int) -> tuple[int, int]:
    """Some free cell of the world."""
    cells = np.argwhere(case.free)
    y, x = cells[np.random.default_rng(seed).integers(len(cells))]
    return int(y), int(x)
