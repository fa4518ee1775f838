"""The reward of a robot's decision, term by term. It reads the merged belief, so it is for training only.

Each method has a reward of its own (`training.methods`); what they share is here.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from decmarvel.core.angles import direction_bins, direction_hundredths, heading_bin
from decmarvel.core.config import FREE_MARGIN_CELLS, Config
from decmarvel.core.lattice import SLOT_OFFSETS, slot_of
from decmarvel.core.types import EXPLORING, FREE, Scalar, Site
from decmarvel.core.visibility import line_of_sight
from decmarvel.core.windows import cut
from decmarvel.robot.guard import must_turn_back
from decmarvel.robot.observation import trail_evidence
from decmarvel.robot.sight import frontiers, thin, utility_layout
from decmarvel.simulation.environment import fail, views
from decmarvel.simulation.team_map import merge
from decmarvel.simulation.types import Move, State

Terms: TypeAlias = OrderedDict[str, Float32[Array, "*batch N"]]
"""Named parts of a reward with their signs, robot by robot. Ordered, as a sum depends on its order: JAX would sort a
plain dictionary by name."""


@dataclass(frozen=True)
class Reward(ABC):
    """The weights of one method's terms."""

    @abstractmethod
    def of_explorers(
        self, config: Config, before: State, move: Move, after: State, low_gains: Int32[Array, "N"]
    ) -> tuple[dict[str, Float32[Array, "N"]], Int32[Array, "N"]]:
        """The terms of a decision in order, meaningful for robots that explore; and the count of low gains after it."""

    def __call__(
        self, config: Config, before: State, move: Move, after: State, low_gains: Int32[Array, "N"]
    ) -> tuple[Terms, Int32[Array, "N"]]:
        """The terms for each robot of what was decided `before`; zero for robots that do not explore.

        `low_gains` is q of Eq. 7, the number of waypoints with little to see in a row; zero at take-off, passed on from
        decision to decision.
        """
        terms, low_gains = self.of_explorers(config, before, move, after, low_gains)
        exploring = move.mode == EXPLORING
        return OrderedDict((name, jnp.where(exploring, term, 0.0)) for name, term in terms.items()), low_gains


def total_reward(terms: Terms) -> Float32[Array, "*batch N"]:
    """The sum of all terms."""
    first, *rest = terms.values()
    return sum(rest, first)


def frontiers_in_view(
    config: Config, patches: UInt8[Array, "V side side"], cell: Int32[Array, "2"], heading: Scalar
) -> Int32[Array, "V"]:
    """Thinned frontiers that can be seen from a cell in the window around a heading, in each of several maps.

    Patches are centred on the cell and reach two cells beyond the disc, so that its frontiers are known.
    """
    view, margin = utility_layout(config).view, FREE_MARGIN_CELLS
    corner = cell - view.reach - margin
    frontier = jax.vmap(lambda patch: thin(frontiers(patch), corner))(patches)
    place = view.offsets + view.reach + margin
    ringed = jnp.stack([frontier, patches == FREE])[..., place[..., 0], place[..., 1]]
    seen = line_of_sight(view, jnp.moveaxis(ringed[1], 0, -1)) & jnp.moveaxis(ringed[0], 0, -1)
    bins = jnp.asarray(direction_bins(config, view.offsets[..., 0], view.offsets[..., 1]))
    away = (bins - heading_bin(config, heading) + config.heading_bins // 2) % config.heading_bins
    window = jnp.abs(away - config.heading_bins // 2) <= config.window_bins // 2
    return (seen & window[..., None]).sum(axis=(0, 1)).astype(jnp.int32)


def gains(config: Config, state: State, move: Move) -> Int32[Array, "N 2"]:
    """Frontiers in view of each robot's waypoint: by its own belief, and by the merged one."""
    reach = utility_layout(config).view.reach + FREE_MARGIN_CELLS

    def gain(number: Scalar, target: Site, heading: Scalar) -> Int32[Array, "2"]:
        cell = state.robots.graph.cell[number, target[0], target[1]]
        patches = jax.vmap(lambda belief: cut(belief, cell, reach))(state.robots.belief)
        return frontiers_in_view(config, jnp.stack([patches[number], merge(patches)]), cell, heading)

    number = jnp.arange(move.mode.shape[0], dtype=jnp.int32)
    return jax.vmap(gain)(number, move.target, move.heading)


def alignment(site: Site, target: Site, heading: Scalar) -> Float32[Array, ""]:
    """Cosine between the camera and the motion; 0 when holding."""
    motion = jnp.asarray(direction_hundredths(SLOT_OFFSETS[:, 0], SLOT_OFFSETS[:, 1]))
    away = (100 * heading - motion[slot_of(target - site)]).astype(jnp.float32)
    return jnp.where((target == site).all(), 0.0, jnp.cos(away * (np.pi / 18000)))


def crossings(before: State, after: State) -> tuple[Bool[Array, "N"], Bool[Array, ""]]:
    """Which robots, and whether the team, reached 99% with this decision."""
    own, team = (
        (was < 0) & (now >= 0)
        for was, now in (
            (before.progress.own_success_mm, after.progress.own_success_mm),
            (before.progress.metres_to_success_mm, after.progress.metres_to_success_mm),
        )
    )
    return own, team


def trails(config: Config, state: State, move: Move) -> Float32[Array, "N"]:
    """m_v of Eq. 5 at each robot's waypoint."""
    return jax.vmap(
        lambda sightings, graph, target: trail_evidence(config, sightings, graph.node)[target[0], target[1]]
    )(state.robots.sightings, state.robots.graph, move.target)


def alignments(state: State, move: Move) -> Float32[Array, "N"]:
    """The cosine between camera and motion of each robot."""
    return jax.vmap(alignment)(state.robots.site, move.target, move.heading)


def explores_on(config: Config, state: State) -> Bool[Array, "N"]:
    """Whether each robot has another decision to make: it explores, and neither the guard nor a failure stops it now.

    A transition into a state where this is false ends there. The views are made once more for the next decision. To
    carry them from decision to decision would save next to nothing: only their masks are read here, so the compiler
    leaves out the headings, which are 98% of the work.
    """
    robots = fail(state)
    turns_back = jax.vmap(lambda waits, view: must_turn_back(config, waits, view))(robots.waits, views(config, state))
    return (robots.mode == EXPLORING) & ~turns_back
