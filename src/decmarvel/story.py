"""A recorded mission told from the inside: what each robot knew, where it could go and what it hoped to see there.

Without noise a robot forgets nothing: cells, nodes and edges that it knows stay known. So a moment for each of them
says everything, in a fraction of the room that every moment's map would take.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8, UInt16

from decmarvel.config import Config
from decmarvel.geometry import SELF_SLOT, SLOTS
from decmarvel.graph import build
from decmarvel.recording import Recording
from decmarvel.replay import beliefs
from decmarvel.sight import empty_sight
from decmarvel.types import FAR_MM, FREE, OCCUPIED, UNKNOWN, Graph, Site

NEVER = 65535
"""The moment of what did not happen."""
ROOM_CELLS = 3
"""Of the ground around a building that is shown."""


@dataclass(frozen=True)
class Story:
    """Moment 0 is take-off, moment t after decision t. N: robots. S: sites a side. Slots: 0 to 11 of the 25."""

    recording: Recording
    known_at: UInt16[np.ndarray, "N G G"]
    """Since when each robot has known each cell."""
    node_at: UInt16[np.ndarray, "N S S"]
    """Since when it could go to each site."""
    edge_at: UInt16[np.ndarray, "N slots S S"]
    """Since when it could go from a site to its neighbour in a slot; the other slots are the same edges, backwards."""
    home_mm: Int32[np.ndarray, "moments N"]
    """The way home over its own graph."""
    utility: Int32[np.ndarray, "changes 4"]
    """Moment, robot, site (row * S + column), and the frontiers to be seen from there from then on."""

    @property
    def sites(self) -> int:
        return self.node_at.shape[-1]

    @property
    def merged(self) -> UInt8[np.ndarray, "G G"]:
        """The team's belief at the end."""
        known = self.known_at.min(axis=0) != NEVER
        return np.where(known, np.where(self.recording.free, FREE, OCCUPIED), UNKNOWN).astype(np.uint8)

    @cached_property
    def window(self) -> tuple[slice, slice]:
        """Rows and columns of the grid that are worth showing: the building, what anybody knows, and a little room."""
        shown = self.recording.free | (self.known_at.min(axis=0) != NEVER)
        rows, columns = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
        first, second = (slice(max(0, int(u[0]) - ROOM_CELLS), int(u[-1]) + 1 + ROOM_CELLS) for u in (rows, columns))
        return first, second


def tell(recording: Recording, progress: Callable[[int], None] = lambda moment: None) -> Story:
    """Work out a story. `progress` hears of every moment."""
    config, robots, size = recording.config, recording.robots, len(recording.free)
    sites = (size - 2 * config.margin_cells) // config.stride
    base, site = jnp.asarray(recording.base, jnp.int32), jnp.asarray(recording.site, jnp.int32)
    start = jnp.broadcast_to(jnp.asarray(recording.start, jnp.int32), base.shape)
    middle = jnp.concatenate([start[None], (site[:-1] + site[1:]) // 2])
    known = _Known(
        graph=jax.vmap(lambda _: _unknown_graph(config, sites))(jnp.arange(robots)),
        cell_at=jnp.full((robots, size, size), NEVER, jnp.uint16),
        node_at=jnp.full((robots, sites, sites), NEVER, jnp.uint16),
        edge_at=jnp.full((robots, SELF_SLOT, sites, sites), NEVER, jnp.uint16),
    )
    utility = np.zeros((robots, sites, sites), np.int32)
    home_mm, changes = [], []
    for moment, belief in enumerate(beliefs(recording)):
        known, home = _learn(config, jnp.array(moment, jnp.uint16), belief, base, middle[moment], site[moment], known)
        home_mm.append(home)
        now = np.asarray(known.graph.utility)
        number, row, column = np.nonzero(now != utility)
        rows = [np.full(len(number), moment), number, row * sites + column, now[number, row, column]]
        changes.append(np.stack(rows, axis=1))
        utility = now
        progress(moment)
    return Story(
        recording,
        np.asarray(known.cell_at),
        np.asarray(known.node_at),
        np.asarray(known.edge_at),
        np.asarray(jnp.stack(home_mm)),
        np.concatenate(changes).astype(np.int32),
    )


class _Known(eqx.Module):
    """What all robots know by now, and since when."""

    graph: Graph
    cell_at: UInt16[Array, "N G G"]
    node_at: UInt16[Array, "N S S"]
    edge_at: UInt16[Array, "N slots S S"]


def _unknown_graph(config: Config, sites: int) -> Graph:
    far = jnp.full((sites, sites), FAR_MM, jnp.int32)
    return Graph(jnp.zeros((SLOTS, sites, sites), bool), far, far, empty_sight(config, sites))


@partial(jax.jit, static_argnums=0, donate_argnums=6)
def _learn(
    config: Config,
    moment: UInt16[Array, ""],
    belief: UInt8[Array, "N G G"],
    base: Int32[Array, "N 2"],
    middle: Int32[Array, "N 2"],
    site: Int32[Array, "N 2"],
    known: _Known,
) -> tuple[_Known, Int32[Array, "N"]]:
    """One moment more: everybody's graph, what is new, and how far it is home."""

    def one(belief: Array, base: Site, middle: Site, graph: Graph) -> Graph:
        return build(config, belief, base, graph.sight, middle, graph.home_mm)

    def since(when: Array, true_now: Array) -> Array:
        return jnp.where(true_now, jnp.minimum(when, moment), when)

    graph = jax.vmap(one)(belief, base, middle, known.graph)
    home_mm = jax.vmap(lambda field, site: field[site[0], site[1]])(graph.home_mm, site)
    return _Known(
        graph=graph,
        cell_at=since(known.cell_at, belief != UNKNOWN),
        node_at=since(known.node_at, graph.node),
        edge_at=since(known.edge_at, graph.edge[:, :SELF_SLOT] & graph.node[:, None]),
    ), home_mm
