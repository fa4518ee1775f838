"""Missions decision by decision, with what every planner proposed and remembered."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cases import SITES, draw_case
from decmarvel.core.config import Config
from decmarvel.core.types import ABSENT, Proposal
from decmarvel.robot.planners.base import Planner, by_slot
from decmarvel.simulation import roster
from decmarvel.simulation.environment import reset
from decmarvel.simulation.fleet import NEVER, Fleet
from decmarvel.simulation.mission import InFlight, decide
from decmarvel.simulation.radio import RadioPlanner
from decmarvel.worlds.world import World
from minds import ROBOTS, edges_of, pair, whole
from oracles.mind import Mind


class Noted(eqx.Module):
    """A planner's memory, with what it last proposed and the key that it had."""

    memory: object
    proposal: Proposal
    key: jax.Array

    @staticmethod
    def at_start(config: Config, planner: Planner, sites: int) -> "Noted":
        nothing = by_slot(config, jnp.zeros(25), jnp.zeros(25, jnp.int32), whole(0))
        return Noted(planner.start(config, sites), nothing, jax.random.key_data(jax.random.key(0)))


class Spy(Planner):
    """Does what another planner does, and remembers what that was."""

    planner: Planner

    def start(self, config, sites):
        return Noted.at_start(config, self.planner, sites)

    def propose(self, config, key, view, memory):
        proposal, inner = self.planner.propose(config, key, view, memory.memory)
        return proposal, Noted(inner, proposal, jax.random.key_data(key))


class RadioSpy(RadioPlanner):
    """The same for a planner with a radio."""

    planner: RadioPlanner

    def start(self, config, sites):
        return Noted.at_start(config, self.planner, sites)

    def propose_team(self, config, keys, views, exploring, memory):
        proposals, inner = self.planner.propose_team(config, keys, views, exploring, memory.memory)
        return proposals, Noted(inner, proposals, jax.random.key_data(keys))


jitted_reset = jax.jit(reset, static_argnums=0)
advance = jax.jit(decide, static_argnums=(0, 1))
FLEETS = {
    "rich": ([90, 80, 70], [NEVER, NEVER, NEVER]),
    "mixed": ([60, 45, 25], [NEVER, 6, NEVER]),
    "tight": ([16, 12, 20], [NEVER, NEVER, NEVER]),
    "alone": ([60, 0, 0], [NEVER, NEVER, NEVER]),
}


def wide_world(config: Config, seed: int) -> World:
    """A random world with something to explore: one in four is small."""
    rng = np.random.default_rng([seed, 11])
    while True:
        case = draw_case(config, int(rng.integers(2**32)))
        if case.free.mean() > (0.02 if seed % 4 == 3 else 0.2):
            return case.world


def mission(config: Config, name: str, seed: int, decisions: int) -> Iterator[tuple[InFlight, InFlight, object]]:
    """A mission decision by decision: before, after, and the moves; everything as NumPy arrays."""
    planner = roster.planner(name)
    spy = RadioSpy(planner) if isinstance(planner, RadioPlanner) else Spy(planner)
    budget_m, fail_step = list(FLEETS.values())[seed % len(FLEETS)]
    fleet = Fleet(
        present=jnp.asarray([metres > 0 for metres in budget_m]),
        budget_mm=whole([1000 * metres for metres in budget_m]),
        fail_step=whole(fail_step),
    )
    state = jitted_reset(config, jax.random.key(seed), wide_world(config, seed), fleet)
    fresh = jax.tree.map(lambda leaf: jnp.stack([leaf] * ROBOTS), spy.start(config, SITES[config]))
    flight = InFlight(state, fresh, jax.random.key(seed + 100))
    for _ in range(decisions):
        after, move, _ = advance(config, spy, flight)
        yield flight, after, move
        flight = after
        if bool(flight.state.done):
            break


def mind_of(config: Config, robots, number: int) -> Mind:
    """What one robot of a mission knows. Its graph was compared with the oracles elsewhere."""
    team_size = int((robots.mode != ABSENT).sum())
    site, base = pair(robots.site[number]), pair(robots.base[number])
    mind = Mind(
        config,
        robots.belief[number],
        robots.sensed[number],
        site,
        base,
        int(robots.budget_mm[number]),
        number,
        team_size,
    )
    mind.edge, mind.home = edges_of(robots.graph)[number], robots.graph.home_mm[number].astype(np.int64)
    mind.fov_deg, mind.range_mm = int(robots.fov_deg[number]), int(robots.range_mm[number])
    for mate in np.flatnonzero(robots.sightings.seen[number, :, 0]):
        mind.in_sight.append(pair(robots.sightings.cell[number, mate, 0]))
    return mind
