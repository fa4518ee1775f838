"""Where one robot can go: edges between viewpoints, shortest paths, and the graph after a decision."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, SLOTS, shift_sites, site_mask
from decmarvel.core.types import FAR_MM, FREE, Graph, Scalar, Sight, Site
from decmarvel.core.windows import around_sites, tile
from decmarvel.robot.roads import Network, grow_network, no_network
from decmarvel.robot.sight import look_again

STRAIGHT_HALVES = {0: 6, 2: 7, 4: 8, 10: 11}
"""For each slot two sites away in a straight line, the slot of the site between. The long edge is two short ones."""


def touched_cells(config: Config, slot: int) -> Int32[np.ndarray, "n 2"]:
    """Offsets of all cells that the segment to the neighbour in this slot touches, their borders included."""
    end_y, end_x = (int(config.stride * value) for value in SLOT_OFFSETS[slot])
    ys = np.arange(min(0, end_y), max(0, end_y) + 1)
    xs = np.arange(min(0, end_x), max(0, end_x) + 1)
    y, x = (axis.ravel() for axis in np.meshgrid(ys, xs, indexing="ij"))
    near = 2 * np.abs(end_y * x - end_x * y) <= abs(end_x) + abs(end_y)
    return np.stack([y[near], x[near]], axis=1).astype(np.int32)


def edges(config: Config, belief: UInt8[Array, "Y X"]) -> Bool[Array, "K I J"]:
    """Two sites are joined if every cell that the segment between them touches is known free. Symmetric by design."""
    sites = config.lattice.sites(belief.shape[0])
    tiles = tile(config, belief == FREE)
    origin = jnp.full(2, config.margin_tiles, jnp.int32)
    found: dict[int, Bool[Array, "I J"]] = {}
    outside = jnp.array(False)
    for slot in (11, 7, 6, 8, 1, 3, 5, 9):  # one of each pair of opposite slots, the short ones
        clear = around_sites(config, tiles, touched_cells(config, slot), origin, sites).all(axis=0)
        inside = shift_sites(jnp.ones_like(clear), slot, outside)
        found[slot] = clear & inside
    for slot, half in STRAIGHT_HALVES.items():
        found[slot] = found[half] & shift_sites(found[half], half, outside)
    for slot in list(found):
        opposite = SLOTS - 1 - slot
        found[opposite] = shift_sites(found[slot], opposite, outside)
    found[SELF_SLOT] = jnp.zeros_like(found[0])
    return jnp.stack([found[slot] for slot in range(SLOTS)])


def lattice_network(config: Config, belief: UInt8[Array, "Y X"]) -> Network:
    """The paper's network: viewpoints in the middle of the tiles, straight edges."""
    sites = config.lattice.sites(belief.shape[0])
    index = jnp.arange(sites, dtype=jnp.int32)
    cell = config.lattice.cell(jnp.stack(jnp.meshgrid(index, index, indexing="ij"), axis=-1))
    length_mm = jnp.asarray(config.lattice.slot_lengths_mm)[:, None, None]
    none = jnp.zeros((sites, sites), jnp.int32)
    return Network(cell, none, jnp.where(edges(config, belief), length_mm, FAR_MM))


def network(config: Config, belief: UInt8[Array, "Y X"], before: Network, middle: Site, radius_mm: Scalar) -> Network:
    """The network after a decision that changed the belief within sensor range of a move around `middle`."""
    if config.roads:
        return grow_network(config, belief, before, middle, radius_mm)
    return lattice_network(config, belief)


def whole_network(config: Config, belief: UInt8[Array, "Y X"], radius_mm: Scalar) -> Network:
    """The network of a belief that appeared all at once, such as that of a robot which knows everything."""
    sites = config.lattice.sites(belief.shape[0])
    if not config.roads:
        return lattice_network(config, belief)
    return grow_network(config, belief, no_network(sites), None, radius_mm)


def shortest_paths(
    length_mm: Int32[Array, "K I J"], start_mm: Int32[Array, "I J"], unit: int = 1
) -> Int32[Array, "I J"]:
    """Distances over edges, given 0 at the sources and upper bounds elsewhere (FAR_MM, or an earlier answer).

    Unit: 1 / `unit` of a millimetre. Paths add whole millimetres, so the remainder stays as it was at the source.
    """
    far = jnp.array(FAR_MM, jnp.int32)
    step = jnp.where(length_mm < FAR_MM, unit * length_mm, FAR_MM)

    def relax(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        distance, _ = carry
        shorter = distance
        for slot in range(SLOTS):
            if slot != SELF_SLOT:
                shorter = jnp.minimum(shorter, shift_sites(distance, slot, far) + step[slot])
        return shorter, (shorter < distance).any()

    return jax.lax.while_loop(lambda carry: carry[1], relax, (start_mm, jnp.array(True)))[0]


def from_sites(mask: Bool[Array, "I J"]) -> Int32[Array, "I J"]:
    """Start values of `shortest_paths` with the given sites as sources."""
    return jnp.where(mask, 0, FAR_MM).astype(jnp.int32)


def neighbour_values(values: Int32[Array, "I J"], site: Site, fill: int) -> Int32[Array, "K"]:
    """The values at the 25 slots around a site."""
    padded = jnp.pad(values, 2, constant_values=fill)
    return jax.lax.dynamic_slice(padded, (site[0], site[1]), (5, 5)).reshape(SLOTS)


def hop_costs(length_mm: Int32[Array, "K I J"], distance_mm: Int32[Array, "I J"], site: Site) -> Int32[Array, "K"]:
    """Length of the way through each slot to the source of a field of distances; the shortest is the next hop."""
    through = neighbour_values(distance_mm, site, FAR_MM) + length_mm[:, site[0], site[1]]
    return jnp.minimum(through, FAR_MM)


def neighbour_cells(graph: Graph, site: Site) -> Int32[Array, "K 2"]:
    """The viewpoints at the 25 slots around a site; (-1, -1) where there is none."""
    padded = jnp.pad(graph.cell, ((2, 2), (2, 2), (0, 0)), constant_values=-1)
    return jax.lax.dynamic_slice(padded, (site[0], site[1], 0), (5, 5, 2)).reshape(SLOTS, 2)


def way_offsets(graph: Graph, site: Site) -> Int32[Array, "K 2"]:
    """Offsets in cells from a site's viewpoint to those at the 25 slots around it."""
    return neighbour_cells(graph, site) - graph.cell[site[0], site[1]][None]


def no_graph(sight: Sight) -> Graph:
    """The graph of a robot that knows nothing; `sight` is that of a robot that has seen nothing."""
    sites = sight.utility.shape[0]
    far = jnp.full((sites, sites), FAR_MM, jnp.int32)
    return Graph(*no_network(sites), far, far, sight)


def build(
    config: Config,
    belief_before: UInt8[Array, "Y X"],
    belief: UInt8[Array, "Y X"],
    base: Site,
    before: Graph,
    middle: Site,
    range_mm: Scalar,
    radius_mm: Scalar,
) -> Graph:
    """The graph after a decision that only changed the belief within sensor range of a move around `middle`.

    Utilities elsewhere are still right, and distances home only shrink, so both are updated from their old values.
    """
    cell, age, length_mm = network(
        config, belief, Network(before.cell, before.age, before.length_mm), middle, radius_mm
    )
    home_mm = shortest_paths(length_mm, jnp.where(site_mask(age.shape[0], base), 0, before.home_mm))
    fresh = (cell[..., 0] >= 0) & (before.cell[..., 0] < 0)
    sight = look_again(config, before.sight, belief_before, belief, cell, fresh, middle, range_mm)
    useful = (sight.utility > 0) & (home_mm < FAR_MM)
    return Graph(cell, age, length_mm, home_mm, shortest_paths(length_mm, from_sites(useful)), sight)
