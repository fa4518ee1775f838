"""One mission at a time: its settings (`Mission`), and its flight decision by decision (`Flight`)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp

from decmarvel.core.config import Config
from decmarvel.core.jax_setup import keep_compiled
from decmarvel.core.limits import BUDGET_LIMITS_M, MAX_ROBOTS, MAX_SEED
from decmarvel.core.types import RETURNING, CandidateProbabilities, Key, Scalar
from decmarvel.robot.planners.base import Planner
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import InFlight, Moment, Outcome, decide, moment, outcome, run_mission, take_off
from decmarvel.simulation.team import Team
from decmarvel.simulation.types import Move, State
from decmarvel.worlds.building import Building
from decmarvel.worlds.fit import fit
from decmarvel.worlds.mapfile import load
from decmarvel.worlds.place import place
from decmarvel.worlds.world import World


class Mission:
    """Everything that determines a mission: equal arguments make equal missions, flown at once or step by step.

    `planner` is a name that the function `planner` knows, or a planner itself. `seed` decides first headings, bases,
    failures and what a planner draws. `broken` robots fail on the way. A `fleet`, with a budget and a time of failure
    for each robot, takes the place of `robots`, `budget_m` and `broken`. `config` has the constants of the model; the
    building must have cells of `config.cell_m`. `world` is the building as `worlds.fit` placed it, if it did.
    """

    def __init__(
        self,
        building: Building,
        planner: str | Planner = roster.BEST_PLANNER,
        robots: int = 4,
        budget_m: float = 720.0,
        *,
        seed: int = 0,
        config: Config | None = None,
        broken: int = 0,
        fleet: Fleet | None = None,
        world: World | None = None,
    ) -> None:
        if fleet is None:
            _check("robots", robots, 1, MAX_ROBOTS)
            _check("budget_m", budget_m, *BUDGET_LIMITS_M)
            _check("broken", broken, 0, robots)
        _check("seed", seed, 0, MAX_SEED)
        self.building = building
        self.planner = roster.planner(planner) if isinstance(planner, str) else planner
        self.planner_name = planner if isinstance(planner, str) else roster.name_of(planner)
        self.seed = seed
        self.config = config or Config()
        self.fleet = fleet or Fleet.failing(robots, budget_m, broken, [seed])
        self.world = world or place(building, self.config)
        self.max_decisions = self.config.max_decisions(int(self.fleet.budget_mm.max()) / 1000)
        """Upper limit on decisions; the budgets end before it."""

    @classmethod
    def on(
        cls,
        place: str | Path | Callable[[float], Building],
        team: Team,
        planner: str | Planner = roster.BEST_PLANNER,
        *,
        seed: int = 0,
        broken: int = 0,
        spacing_m: float | None = None,
    ) -> "Mission":
        """A mission of a team in any building: viewpoints as far apart, and cells as coarse, as it allows (`fit`).

        `place` is a map file, or a function that makes the building with cells of a given size. `spacing_m` takes the
        place of the fitting distance between viewpoints.
        """
        build = place if callable(place) else lambda cell_m: load(place, cell_m=cell_m)
        found = fit(build, team.config(), spacing_m, team.shortest_range_m)
        fleet = team.fleet(broken, [seed])
        return cls(found.building, planner, seed=seed, config=found.config, fleet=fleet, world=found.world)

    @property
    def key(self) -> Key:
        """The random key of the whole mission."""
        return jax.random.key(self.seed)

    def fly(self) -> Outcome:
        """The whole mission as one compiled program. All arrays of the outcome are NumPy's."""
        keep_compiled()
        cap = jnp.asarray(self.max_decisions, jnp.int32)
        return jax.device_get(_fly(self.config, self.planner, self.key, self.world, self.fleet, cap))

    def take_off(self) -> "Flight":
        """Begin the mission, to fly it decision by decision."""
        return Flight(self)


Step: TypeAlias = tuple[Move, CandidateProbabilities, Moment]
"""What every robot did, the candidates that it found most probable, and the moment after the decision."""


class Flight:
    """A running mission. `step` makes one decision of the whole team; iterating flies on to the end.

    The iterator gives the present moment, then the moment after each decision; `moment` is the newest, `decisions`
    their number. The first flight with a planner, a team size and a building size waits for the compiler; later ones do
    not.
    """

    def __init__(self, mission: Mission) -> None:
        keep_compiled()
        self.mission = mission
        self.decisions = 0
        self._now, first = _take_off(mission.config, mission.planner, mission.key, mission.world, mission.fleet)
        self.moment: Moment = jax.device_get(first)

    @property
    def state(self) -> State:
        """Everything about the mission now, on the device: maps, graphs, the team's record."""
        return self._now.state

    @property
    def landed(self) -> bool:
        """Whether every robot is home or has failed."""
        return bool((self.moment.mode > RETURNING).all())

    @property
    def done(self) -> bool:
        """Whether the mission is over."""
        return self.landed or self.decisions >= self.mission.max_decisions

    @property
    def coverage(self) -> float:
        """Share of the floor that the robots have seen together."""
        return float(self.moment.covered / self.mission.world.free_count)

    def step(self) -> Step:
        """One decision of the whole team."""
        self._now, made = _decide(self.mission.config, self.mission.planner, self._now)
        made = jax.device_get(made)
        self.moment = made[-1]
        self.decisions += 1
        return made

    def __iter__(self) -> Iterator[Moment]:
        yield self.moment
        while not self.done:
            yield self.step()[-1]

    def outcome(self) -> Outcome:
        """The metrics of the mission as it is now."""
        return jax.device_get(_outcome(self.mission.config, self.state))


def _check(name: str, value: int | float, low: int | float, high: int | float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {value:.10g}; choose {low:.10g} to {high:.10g}")


@eqx.filter_jit
def _fly(config: Config, planner: Planner, key: Key, world: World, fleet: Fleet, max_decisions: Scalar) -> Outcome:
    return run_mission(config, planner, key, world, fleet, max_decisions)


@eqx.filter_jit
def _take_off(config: Config, planner: Planner, key: Key, world: World, fleet: Fleet) -> tuple[InFlight, Moment]:
    flight = take_off(config, planner, key, world, fleet)
    return flight, moment(flight.state)


@eqx.filter_jit
def _decide(config: Config, planner: Planner, flight: InFlight) -> tuple[InFlight, Step]:
    flight, move, probabilities = decide(config, planner, flight)
    return flight, (move, probabilities, moment(flight.state))


@eqx.filter_jit
def _outcome(config: Config, state: State) -> Outcome:
    return outcome(config, state)
