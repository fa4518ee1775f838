"""How much of a building can be seen from the lattice sites that robots can reach, looking in all directions."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, UInt8

from decmarvel.core.camera import scan, sensor_disc
from decmarvel.core.config import Config
from decmarvel.core.lattice import site_mask
from decmarvel.core.types import FAR_MM, FREE, OCCUPIED, UNKNOWN, Site
from decmarvel.core.windows import cut
from decmarvel.robot.belief import remember
from decmarvel.robot.graph import from_sites, shortest_paths, whole_network
from decmarvel.robot.roads import PATIENCE, Network, grow_network, no_network
from decmarvel.worlds.building import Building
from decmarvel.worlds.place import place
from decmarvel.worlds.world import World

ENOUGH = 0.99
_CHUNK = 128
"""Number of scans computed together; they take a few megabytes for maps of every size."""


def visible_share(config: Config, world: World | Building) -> float:
    """Share of the free space within sensor range and line of sight of some reachable site."""
    placed = place(world, config) if isinstance(world, Building) else world
    return float(visible_cells(config, placed).sum() / int(placed.free_count))


def true_edges(config: Config, world: World) -> Bool[Array, "K I J"]:
    """The edges of the graph of a robot that knows everything."""
    return _graph(config, world.free, world.start)[0].length_mm < FAR_MM


def reachable_sites(config: Config, world: World) -> Bool[np.ndarray, "I J"]:
    """Sites with a path of edges from the start in the fully known building."""
    return np.asarray(_graph(config, world.free, world.start)[1])


def visible_cells(config: Config, world: World) -> Bool[np.ndarray, "Y X"]:
    """Free cells that a robot gets to see: from all sites that it can reach; on roads as `explored_cells` says."""
    if config.roads:
        return explored_cells(config, world)
    reachable = _graph(config, world.free, world.start)[1]
    cells = np.asarray(_graph(config, world.free, world.start)[0].cell)[np.asarray(reachable)]
    belief = np.zeros(world.free.shape, np.uint8)
    look_around(config, world, cells, belief)
    return belief == FREE


def explored_cells(config: Config, world: World) -> Bool[np.ndarray, "Y X"]:
    """Free cells that a robot gets to see which goes to every viewpoint that it learns of and looks all around there.

    What it has not seen it cannot pass, so where viewpoints are far apart it may find fewer ways than there are.
    """
    belief = np.zeros(world.free.shape, np.uint8)
    network = no_network(config.lattice.sites(len(belief)))
    looked = np.zeros(network.age.shape, bool)
    cells, waited = np.asarray(config.lattice.cell(world.start))[None], 0
    while waited <= PATIENCE + 1:
        look_around(config, world, cells, belief)
        network, reachable = _grown(config, jnp.asarray(belief), network, world.start)
        new = np.asarray(reachable) & (np.asarray(network.cell)[..., 0] >= 0) & ~looked
        cells, looked = np.asarray(network.cell)[new], looked | new
        waited = 0 if len(cells) else waited + 1
    return belief == FREE


class _Walk(NamedTuple):
    """A robot that looks around everywhere."""

    belief: UInt8[Array, "Y X"]
    network: Network
    site: Site
    looked: Bool[Array, "I J"]
    waited: Int32[Array, ""]
    """Updates of its network since it last had somewhere to go."""


@partial(jax.jit, static_argnums=0)
def walked_cells(config: Config, world: World) -> Bool[Array, "Y X"]:
    """Free cells that one robot sees which always goes to the nearest viewpoint where it has not looked, on roads.

    It looks all around, and learns of viewpoints as robots do: a tile that it passes too early may get one from which a
    door cannot be entered. What such a walk does not find, missions may miss as well, though it could be seen.
    """
    radius_mm, reach = jnp.array(config.radius_mm, jnp.int32), sensor_disc(config).reach
    sites = config.lattice.sites(world.free.shape[0])

    def look(belief: UInt8[Array, "Y X"], cell: Int32[Array, "2"]) -> UInt8[Array, "Y X"]:
        seen = scan(config, world.free, cell, config.sensor_range_mm)
        return remember(belief, cut(world.free, cell, reach), seen, cell)

    def going(walk: _Walk) -> Bool[Array, ""]:
        return walk.waited <= PATIENCE + 1

    def go_on(walk: _Walk) -> _Walk:
        way_mm = shortest_paths(walk.network.length_mm, from_sites(site_mask(sites, walk.site)))
        left = (walk.network.cell[..., 0] >= 0) & ~walk.looked
        left_mm = jnp.where(left, way_mm, FAR_MM)
        found, nearest = left_mm.min() < FAR_MM, jnp.argmin(left_mm).astype(jnp.int32)
        site = jnp.where(found, jnp.stack([nearest // sites, nearest % sites]), walk.site)
        belief = look(walk.belief, walk.network.cell[site[0], site[1]])
        return _Walk(
            belief=belief,
            network=grow_network(config, belief, walk.network, site, radius_mm),
            site=site,
            looked=walk.looked | site_mask(sites, site),
            waited=jnp.where(found, 0, walk.waited + 1),
        )

    at_start = site_mask(sites, world.start)
    stands = no_network(sites)._replace(age=PATIENCE * at_start.astype(jnp.int32))
    belief = look(jnp.full(world.free.shape, UNKNOWN, jnp.uint8), config.lattice.cell(world.start))
    network = grow_network(config, belief, stands, world.start, radius_mm)
    begin = _Walk(belief, network, world.start, at_start, jnp.array(0, jnp.int32))
    return jax.lax.while_loop(going, go_on, begin).belief == FREE


def look_around(
    config: Config, world: World, cells: Int32[np.ndarray, "n 2"], belief: UInt8[np.ndarray, "Y X"]
) -> None:
    """Add to a belief what can be seen from some cells, looking in all directions.

    Cells are scanned in chunks, in a fixed random order; those around which nothing is unknown are skipped.
    """
    reach = sensor_disc(config).reach
    cells = np.random.default_rng(0).permutation(cells).astype(np.int32)
    truth = np.where(np.asarray(world.free), FREE, OCCUPIED).astype(np.uint8)
    # What a camera sees does not depend on the lattice, so that all spacings share one compiled program.
    looking = replace(config, spacing_m=2 * config.cell_m, coarsest_cell_m=config.cell_m, roads=False, radius_m=0.0)
    while len(cells := cells[_any_around((belief == UNKNOWN) & (truth == FREE), cells, reach)]):
        chunk, cells = cells[:_CHUNK], cells[_CHUNK:]
        padded = np.concatenate([chunk, np.repeat(chunk[:1], _CHUNK - len(chunk), axis=0)])
        patches = np.asarray(_scans(looking, world.free, jnp.asarray(padded)))
        for (y, x), patch in zip(chunk.tolist(), patches, strict=False):
            square = slice(y - reach, y + reach + 1), slice(x - reach, x + reach + 1)
            belief[square] = np.where(patch, truth[square], belief[square])


def _any_around(mask: Bool[np.ndarray, "Y X"], cells: Int32[np.ndarray, "n 2"], reach: int) -> Bool[np.ndarray, " n"]:
    """Whether the square around each cell holds any set cell."""
    sums: Int[np.ndarray, "above right"] = np.pad(mask, ((1, 0), (1, 0))).cumsum(axis=0, dtype=np.int32).cumsum(axis=1)
    y, x = cells.T
    low_y, high_y, low_x, high_x = y - reach, y + reach + 1, x - reach, x + reach + 1
    inside = sums[high_y, high_x] - sums[low_y, high_x] - sums[high_y, low_x] + sums[low_y, low_x]
    return np.asarray(inside > 0)


@partial(jax.jit, static_argnums=0)
def _graph(config: Config, free: Bool[Array, "Y X"], start: Site) -> tuple[Network, Bool[Array, "I J"]]:
    belief: UInt8[Array, "Y X"] = jnp.where(free, FREE, OCCUPIED).astype(jnp.uint8)
    network = whole_network(config, belief, jnp.array(config.radius_mm, jnp.int32))
    return network, shortest_paths(network.length_mm, from_sites(site_mask(network.age.shape[0], start))) < FAR_MM


@partial(jax.jit, static_argnums=0)
def _grown(
    config: Config, belief: UInt8[Array, "Y X"], network: Network, start: Site
) -> tuple[Network, Bool[Array, "I J"]]:
    """The network after a belief grew anywhere, and the sites that can be reached over it."""
    network = grow_network(config, belief, network, None, jnp.array(config.radius_mm, jnp.int32))
    return network, shortest_paths(network.length_mm, from_sites(site_mask(network.age.shape[0], start))) < FAR_MM


@partial(jax.jit, static_argnums=0)
def _scans(config: Config, free: Bool[Array, "Y X"], cells: Int32[Array, "n 2"]) -> Bool[Array, "n side side"]:
    return jax.vmap(lambda cell: scan(config, free, cell, config.sensor_range_mm))(cells)
