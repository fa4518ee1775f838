"""What each robot of a mission knew, and since when: cells, nodes, edges, its way home, the utility of its nodes.

Without noise a robot forgets nothing: known cells, nodes and edges stay known. So the moment at which each became
known is the whole history, and takes far less memory than a map for every moment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int16, Int32, UInt8, UInt16

from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, site_mask
from decmarvel.core.types import FAR_MM, FREE, OCCUPIED, UNKNOWN, Graph, Site
from decmarvel.recording.format import Recording
from decmarvel.recording.playback import beliefs
from decmarvel.robot.graph import build, no_graph
from decmarvel.robot.roads import PATIENCE
from decmarvel.robot.sight import empty_sight

NOT_YET = 65535
"""The moment in since-when arrays of what had not become known by the end."""
_MARGIN_CELLS = 4
"""Cells shown around the floor of a building: its walls, and a little ground."""


@dataclass(frozen=True)
class KnowledgeHistory:
    """Moment 0 is take-off, moment t is after decision t. N: robots. slots: 0 to 11 of the 25."""

    recording: Recording
    known_at: UInt16[np.ndarray, "N Y X"]
    """Since when each robot knows each cell."""
    node_at: UInt16[np.ndarray, "N I J"]
    """Since when it can go to each site."""
    node_cell: Int16[np.ndarray, "N I J 2"]
    """The cell at which it stands there; (-1, -1) at sites to which it could not go by the end."""
    edge_at: UInt16[np.ndarray, "N slots I J"]
    """Since when it can go from a site to its neighbour in a slot. The other slots are the same edges, backwards."""
    home_mm: Int32[np.ndarray, "moments N"]
    """The length of the way home over its own graph."""
    utility: Int32[np.ndarray, "changes 4"]
    """Moment, robot, site (row * S + column), and the number of frontiers visible from there from then on."""
    heard: bool = False
    """Whether knowledge that came by radio is included. From a recording it is not: that has only what was sensed."""

    @property
    def sites(self) -> int:
        return self.node_at.shape[-1]

    @property
    def merged(self) -> UInt8[np.ndarray, "Y X"]:
        """The team's belief at the end."""
        known = self.known_at.min(axis=0) != NOT_YET
        return np.where(known, np.where(self.recording.free, FREE, OCCUPIED), UNKNOWN).astype(np.uint8)

    @cached_property
    def window(self) -> tuple[slice, slice]:
        """Rows and columns of the grid that pictures show: the floor and a margin, the same at every moment."""
        rows, columns = (np.flatnonzero(self.recording.free.any(axis=axis)) for axis in (1, 0))
        y, x = (slice(max(0, int(u[0]) - _MARGIN_CELLS), int(u[-1]) + 1 + _MARGIN_CELLS) for u in (rows, columns))
        return y, x


class HistoryBuilder:
    """Builds a history moment by moment, while a mission flies or is played back."""

    def __init__(self, robots: int, size: int, sites: int) -> None:
        self._known_at = np.full((robots, size, size), NOT_YET, np.uint16)
        self._node_at = np.full((robots, sites, sites), NOT_YET, np.uint16)
        self._node_cell = np.full((robots, sites, sites, 2), -1, np.int16)
        self._edge_at = np.full((robots, SELF_SLOT, sites, sites), NOT_YET, np.uint16)
        self._home_mm: list[Int32[np.ndarray, "N"]] = []
        self._changes: list[Int32[np.ndarray, "changes 4"]] = []
        self._utility = np.zeros((robots, sites, sites), np.int32)

    def add(self, belief: UInt8[Array, "N Y X"], graph: Graph, site: Int32[Array, "N 2"]) -> None:
        """Add a moment: all robots' maps, graphs and sites."""
        moment, sites = len(self._home_mm), self._utility.shape[-1]
        belief, cell, edge, home_mm, utility, site = jax.device_get(
            (belief, graph.cell, graph.edge, graph.home_mm, graph.utility, site)
        )
        node = home_mm < FAR_MM
        self._node_cell[node] = cell[node]
        edge = edge[:, :SELF_SLOT] & node[:, None]
        for since, now in ((self._known_at, belief != UNKNOWN), (self._node_at, node), (self._edge_at, edge)):
            since[now & (since == NOT_YET)] = moment
        self._home_mm.append(home_mm[np.arange(len(site)), site[:, 0], site[:, 1]])
        number, row, column = np.nonzero(utility != self._utility)
        changes = [np.full(len(number), moment), number, row * sites + column, utility[number, row, column]]
        self._changes.append(np.stack(changes, axis=1).astype(np.int32))
        self._utility = utility

    def history(self, recording: Recording, first: int = 0, heard: bool = False) -> KnowledgeHistory:
        """The history so far; with `first`, only what became known from there on. `recording` has those moments."""

        def new(since: np.ndarray) -> np.ndarray:
            return np.where(since < first, np.uint16(NOT_YET), since)

        return KnowledgeHistory(
            recording,
            new(self._known_at),
            new(self._node_at),
            self._node_cell,
            new(self._edge_at),
            np.stack(self._home_mm[first:]),
            np.concatenate(self._changes[first:]),
            heard,
        )


def knowledge_history(recording: Recording, progress: Callable[[int], None] = lambda moment: None) -> KnowledgeHistory:
    """The history of a recorded mission. `progress` is called after every moment."""
    config, robots, size = recording.config, recording.robots, len(recording.free)
    sites = config.lattice.sites(size)
    base, site = jnp.asarray(recording.base, jnp.int32), jnp.asarray(recording.site, jnp.int32)
    start = jnp.broadcast_to(jnp.asarray(recording.start, jnp.int32), base.shape)
    middle = jnp.concatenate([start[None], (site[:-1] + site[1:]) // 2])
    range_mm, radius_mm = (jnp.asarray(recording.body(name)) for name in ("range_mm", "radius_mm"))
    graph = jax.vmap(partial(_at_take_off, config, sites))(base)
    builder = HistoryBuilder(robots, size, sites)
    before = jnp.full((robots, size, size), UNKNOWN, jnp.uint8)
    for moment, belief in enumerate(beliefs(recording)):
        graph = _graphs(config, before, belief, base, graph, middle[moment], range_mm, radius_mm)
        before = belief
        builder.add(belief, graph, site[moment])
        progress(moment)
    return builder.history(recording)


def _at_take_off(config: Config, sites: int, base: Site) -> Graph:
    """The graph of a robot that knows nothing but that it stands at its base."""
    nothing = no_graph(empty_sight(config, sites))
    return eqx.tree_at(lambda graph: graph.age, nothing, PATIENCE * site_mask(sites, base).astype(jnp.int32))


@partial(jax.jit, static_argnums=0)
def _graphs(
    config: Config,
    belief_before: UInt8[Array, "N Y X"],
    belief: UInt8[Array, "N Y X"],
    base: Int32[Array, "N 2"],
    before: Graph,
    middle: Int32[Array, "N 2"],
    range_mm: Int32[Array, "N"],
    radius_mm: Int32[Array, "N"],
) -> Graph:
    """All robots' graphs at the next moment."""
    return jax.vmap(partial(build, config))(belief_before, belief, base, before, middle, range_mm, radius_mm)
