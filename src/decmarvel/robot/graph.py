"""Where one robot can go: lattice edges, shortest paths, and the graph after a decision."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, SLOTS, site_mask
from decmarvel.core.types import FAR_MM, FREE, Graph, Sight, Site
from decmarvel.core.windows import around_sites, tile
from decmarvel.robot.sight import paste_window, sight_window

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


def shift_sites(values: Array, slot: int, fill: Array) -> Array:
    """Value of each site's neighbour in a slot; `fill` outside the lattice."""
    dy, dx = (int(v) for v in SLOT_OFFSETS[slot])
    side = values.shape[0]
    padded = jnp.pad(values, 2, constant_values=fill)
    return padded[2 + dy : 2 + dy + side, 2 + dx : 2 + dx + side]


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


def shortest_paths(
    config: Config, edge: Bool[Array, "K I J"], start_mm: Int32[Array, "I J"], unit: int = 1
) -> Int32[Array, "I J"]:
    """Distances over edges, given 0 at the sources and upper bounds elsewhere (FAR_MM, or an earlier answer).

    Unit: 1 / `unit` of a millimetre. Paths add whole millimetres, so the remainder stays as it was at the source.
    """
    lengths = unit * config.lattice.slot_lengths_mm
    far = jnp.array(FAR_MM, jnp.int32)

    def relax(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        distance, _ = carry
        shorter = distance
        for slot in range(SLOTS):
            if slot != SELF_SLOT:
                through = shift_sites(distance, slot, far) + int(lengths[slot])
                shorter = jnp.minimum(shorter, jnp.where(edge[slot], through, FAR_MM))
        return shorter, (shorter < distance).any()

    return jax.lax.while_loop(lambda carry: carry[1], relax, (start_mm, jnp.array(True)))[0]


def from_sites(mask: Bool[Array, "I J"]) -> Int32[Array, "I J"]:
    """Start values of `shortest_paths` with the given sites as sources."""
    return jnp.where(mask, 0, FAR_MM).astype(jnp.int32)


def neighbour_values(values: Int32[Array, "I J"], site: Site, fill: int) -> Int32[Array, "K"]:
    """The values at the 25 slots around a site."""
    padded = jnp.pad(values, 2, constant_values=fill)
    return jax.lax.dynamic_slice(padded, (site[0], site[1]), (5, 5)).reshape(SLOTS)


def hop_costs(
    config: Config, edge: Bool[Array, "K I J"], distance_mm: Int32[Array, "I J"], site: Site
) -> Int32[Array, "K"]:
    """Length of the way through each slot to the source of a field of distances; the shortest is the next hop."""
    through = neighbour_values(distance_mm, site, FAR_MM) + jnp.asarray(config.lattice.slot_lengths_mm)
    return jnp.where(edge[:, site[0], site[1]], jnp.minimum(through, FAR_MM), FAR_MM)


def build(
    config: Config,
    belief: UInt8[Array, "Y X"],
    base: Site,
    sight: Sight,
    middle: Site,
    home_mm: Int32[Array, "I J"],
) -> Graph:
    """The graph after a decision that only changed the belief within sensor range of a move around `middle`.

    Utilities elsewhere are still right, and distances home only shrink, so both are updated from their old values.
    """
    edge = edges(config, belief)
    window, first = sight_window(config, belief, home_mm.shape[0], middle)
    sight = jax.tree.map(lambda whole, part: paste_window(whole, part, first), sight, window)
    home_mm = shortest_paths(config, edge, jnp.where(site_mask(home_mm.shape[0], base), 0, home_mm))
    useful = (sight.utility > 0) & (home_mm < FAR_MM)
    return Graph(edge, home_mm, shortest_paths(config, edge, from_sites(useful)), sight)
