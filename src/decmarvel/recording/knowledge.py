"""A recorded mission told from the inside: what each robot knew, where it could go and what it hoped to see there.

Without noise a robot forgets nothing: cells, nodes and edges that it knows stay known. So a moment for each of them
says everything, in a fraction of the room that every moment's map would take.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8, UInt16

from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOTS
from decmarvel.core.types import FAR_MM, FREE, OCCUPIED, UNKNOWN, Graph, Site
from decmarvel.recording.format import Recording
from decmarvel.recording.playback import beliefs
from decmarvel.robot.graph import build
from decmarvel.robot.sight import empty_sight

NEVER = 65535
"""The moment of what did not happen."""
ROOM_CELLS = 4
"""That are shown around the floor of a building: its walls, and a little ground."""


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
    heard: bool = False
    """Whether what came by radio is in it, for planners that have one. A recording knows only what robots sensed."""

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
        """Rows and columns of the grid that are worth showing, whatever is known of them by now."""
        rows, columns = (np.flatnonzero(self.recording.free.any(axis=axis)) for axis in (1, 0))
        first, second = (slice(max(0, int(u[0]) - ROOM_CELLS), int(u[-1]) + 1 + ROOM_CELLS) for u in (rows, columns))
        return first, second


class Telling:
    """A story that still goes on: collects, moment by moment, what is new to everybody."""

    def __init__(self, robots: int, size: int, sites: int) -> None:
        self._known_at = np.full((robots, size, size), NEVER, np.uint16)
        self._node_at = np.full((robots, sites, sites), NEVER, np.uint16)
        self._edge_at = np.full((robots, SELF_SLOT, sites, sites), NEVER, np.uint16)
        self._home_mm: list[Int32[np.ndarray, "N"]] = []
        self._changes: list[Int32[np.ndarray, "changes 4"]] = []
        self._utility = np.zeros((robots, sites, sites), np.int32)

    def add(self, belief: UInt8[Array, "N G G"], graph: Graph, site: Int32[Array, "N 2"]) -> None:
        """One moment more: everybody's map and graph, and where everybody is."""
        moment, sites = len(self._home_mm), self._utility.shape[-1]
        belief, edge, home_mm, utility, site = jax.device_get((belief, graph.edge, graph.home_mm, graph.utility, site))
        node = home_mm < FAR_MM
        edge = edge[:, :SELF_SLOT] & node[:, None]
        for since, now in ((self._known_at, belief != UNKNOWN), (self._node_at, node), (self._edge_at, edge)):
            since[now & (since == NEVER)] = moment
        self._home_mm.append(home_mm[np.arange(len(site)), site[:, 0], site[:, 1]])
        number, row, column = np.nonzero(utility != self._utility)
        changes = [np.full(len(number), moment), number, row * sites + column, utility[number, row, column]]
        self._changes.append(np.stack(changes, axis=1).astype(np.int32))
        self._utility = utility

    def story(self, recording: Recording, first: int = 0, heard: bool = False) -> Story:
        """The story of a recording that has the moments from `first` to the newest, with what was new in them."""

        def new(since: np.ndarray) -> np.ndarray:
            return np.where(since < first, np.uint16(NEVER), since)

        return Story(
            recording,
            new(self._known_at),
            new(self._node_at),
            new(self._edge_at),
            np.stack(self._home_mm[first:]),
            np.concatenate(self._changes[first:]),
            heard,
        )


def tell(recording: Recording, progress: Callable[[int], None] = lambda moment: None) -> Story:
    """Work out a story. `progress` hears of every moment."""
    config, robots, size = recording.config, recording.robots, len(recording.free)
    sites = config.lattice.sites(size)
    base, site = jnp.asarray(recording.base, jnp.int32), jnp.asarray(recording.site, jnp.int32)
    start = jnp.broadcast_to(jnp.asarray(recording.start, jnp.int32), base.shape)
    middle = jnp.concatenate([start[None], (site[:-1] + site[1:]) // 2])
    graph = jax.vmap(lambda _: _unknown_graph(config, sites))(jnp.arange(robots))
    telling = Telling(robots, size, sites)
    for moment, belief in enumerate(beliefs(recording)):
        graph = _graphs(config, belief, base, middle[moment], graph)
        telling.add(belief, graph, site[moment])
        progress(moment)
    return telling.story(recording)


def _unknown_graph(config: Config, sites: int) -> Graph:
    far = jnp.full((sites, sites), FAR_MM, jnp.int32)
    return Graph(jnp.zeros((SLOTS, sites, sites), bool), far, far, empty_sight(config, sites))


@partial(jax.jit, static_argnums=0)
def _graphs(
    config: Config, belief: UInt8[Array, "N G G"], base: Int32[Array, "N 2"], middle: Int32[Array, "N 2"], before: Graph
) -> Graph:
    """Everybody's graph, one moment later."""

    def one(belief: Array, base: Site, middle: Site, before: Graph) -> Graph:
        return build(config, belief, base, before.sight, middle, before.home_mm)

    return jax.vmap(one)(belief, base, middle, before)
