"""Never caught: whatever a planner proposes, its robot sees what it can and comes home.

While a robot's map does not grow and it takes no view that it had not taken, its planner leads it to each node at most
`most_visits` times. Then it follows the shortest way to the nearest open view: what remains of that way falls with
every decision, and at its end the turn does. If no view is left within its budget, it turns home.
"""

import dataclasses
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.pursuit
from cases import SITES, SMALL
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOTS
from decmarvel.core.types import EXPLORING, HOME, RETURN_HOME, RETURNING, Graph, Proposal
from decmarvel.robot.guard import intend
from decmarvel.robot.planners.base import Planner, by_slot
from decmarvel.robot.pursuit import pursue
from decmarvel.robot.sight import utility_layout
from decmarvel.simulation.environment import reset, views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.flight import Mission
from decmarvel.simulation.mission import InFlight, decide
from decmarvel.simulation.team import Member, Team
from decmarvel.worlds import generate
from minds import draw_view, of, pair, whole, worlds
from missions import wide_world

ROADS = dataclasses.replace(SMALL, roads=True, radius_m=0.25)
SITES[ROADS] = 10
PLACES = 3
KINDS = ("to and fro", "holds", "indifferent")
jitted_pursue = jax.jit(pursue, static_argnums=0)


def roadmap(config: Config, graph: Graph) -> oracles.pursuit.Roadmap:
    frontier = np.asarray(graph.sight.nearest_rank) < len(utility_layout(config).length_mm)
    return oracles.pursuit.Roadmap(*(np.asarray(a) for a in (graph.length_mm, graph.home_mm, graph.cell)), frontier)


def expected_pursuit(config: Config, view) -> oracles.pursuit.Pursuit | None:
    return oracles.pursuit.pursue(
        roadmap(config, view.graph),
        np.asarray(view.sensed),
        pair(view.site),
        int(view.heading),
        int(view.budget_mm),
        config.safety_margin_mm,
    )


def check_pursuit(config: Config, view, found) -> bool:
    expected = expected_pursuit(config, view)
    assert bool(found.found) == (expected is not None)
    if expected is not None:
        got = oracles.pursuit.Pursuit(int(found.slot), int(found.heading), int(found.way_mm))
        assert got == expected
    return expected is not None


@worlds
def test_the_way_to_the_nearest_view_equals_oracle(config, seeds):
    some = 0
    for seed in list(seeds)[:20]:
        view = draw_view(config, seed)
        for heading in (0, 137):
            view = dataclasses.replace(view, heading=whole(heading))
            some += check_pursuit(config, view, jitted_pursue(config, view))
    assert some > 4


class Adversary(Planner):
    """Does its best to get nowhere, and looks where it has looked."""

    kind: jax.Array

    def start(self, config, sites):
        return whole([-1, -1])

    def propose(self, config, key, view, memory):
        slot = 5 * (memory[0] - view.site[0]) + memory[1] - view.site[1] + SELF_SLOT
        near = (memory[0] >= 0) & (jnp.abs(memory - view.site) <= 2).all()
        back = jnp.where(near, jnp.arange(SLOTS) == slot, False)
        stay = jnp.arange(SLOTS) == SELF_SLOT
        score = jnp.stack([back, stay, jnp.zeros(SLOTS, bool)])[self.kind].astype(jnp.float32)
        heading = jnp.broadcast_to(view.heading, (SLOTS,))
        choice = jnp.argmax(score).astype(jnp.int32) * config.headings_per_node
        return by_slot(config, score, heading, choice), view.site


@cache
def programs(config: Config):
    """Take-off and one decision of a team of adversaries; also how each robot would pursue a view before it."""

    @jax.jit
    def take_off(key, world, fleet):
        return reset(config, key, world, fleet)

    @jax.jit
    def go_on(planner, flight):
        after, move, _ = decide(config, planner, flight)
        return after, move, jax.vmap(partial(pursue, config))(views(config, flight.state))

    return take_off, go_on


def flown(config: Config, kind: str, seed: int, robots: int, budget_m: float = 300.0):
    """A mission decision by decision: before, after, the move, and the pursuit of each robot."""
    take_off, go_on = programs(config)
    planner = Adversary(whole(KINDS.index(kind)))
    fleet = Fleet.of(robots, budget_m, slots=PLACES)
    state = take_off(jax.random.key(seed), wide_world(config, seed), fleet)
    flight = InFlight(state, jnp.full((PLACES, 2), -1, jnp.int32), jax.random.key(seed))
    for _ in range(config.max_decisions(budget_m)):
        if bool(flight.state.done):
            return
        before = flight
        flight, move, pursuit = go_on(planner, before)
        yield jax.device_get((before.state.robots, flight.state.robots, move, pursuit))
    raise AssertionError("the mission does not end")


class Witness:
    """What one robot did since it last made progress: `robot.pursuit` a second time."""

    def __init__(self, config: Config, robot) -> None:
        self.config, self.stood, self.lost = config, {pair(robot.site): 1}, False

    def note(self, before, after, move, pursuit) -> None:
        here, there = pair(before.site), pair(move.target)
        views = oracles.pursuit.open_views(roadmap(self.config, before.graph), before.sensed)
        took = (views[there] & after.sensed[there]).any()
        progress = took or (before.belief != after.belief).any()
        if move.mode == EXPLORING:
            assert check_pursuit(self.config, before, pursuit) or not self.lost
            self.lost = self.lost or move.choice < 0
            if self.lost:
                self.follow(before, after, there, pursuit, progress)
            else:
                assert self.stood.get(there, 0) < self.config.most_visits, "led to a node once more"
        self.stood = {there: 1} if progress else self.stood | {there: self.stood.get(there, 0) + 1}
        self.lost = self.lost and not progress
        assert bool(after.circling.lost) == self.lost
        counted = {pair(site): int(after.circling.stood[tuple(site)]) for site in np.argwhere(after.circling.stood)}
        assert counted == self.stood
        assert here in self.stood or progress

    def follow(self, before, after, there, pursuit, progress) -> None:
        """A robot that is lost comes nearer to the nearest open view, or turns towards it."""
        assert there == pair(before.site + np.array(divmod(int(pursuit.slot), 5)) - 2)
        if progress or after.mode != EXPLORING:
            return
        now = expected_pursuit(self.config, after)
        assert now is not None
        assert now.left_mm <= pursuit.way_mm
        if pursuit.way_mm > 0:
            assert now.left_mm < pursuit.way_mm
        else:
            assert self.turn_left(after) < self.turn_left(before)

    def turn_left(self, robot) -> int:
        bins = np.flatnonzero(
            oracles.pursuit.open_views(roadmap(self.config, robot.graph), robot.sensed)[pair(robot.site)]
        )
        return min(oracles.pursuit.turn_to(int(b), self.config.degrees_per_bin, int(robot.heading)) for b in bins)


adversaries = pytest.mark.parametrize("kind", KINDS)
both = pytest.mark.parametrize("config", [SMALL, ROADS], ids=["lattice", "roads"])


@pytest.mark.slow
@both
@adversaries
def test_a_robot_is_never_caught(config, kind):
    lost = 0
    for seed in (1, 5):
        witness, last = None, None
        for before, after, move, pursuit in flown(config, kind, seed, robots=1):
            before, after, move, pursuit = (of(part, 0) for part in (before, after, move, pursuit))
            witness = witness or Witness(config, before)
            witness.note(before, after, move, pursuit)
            lost += int(move.mode == EXPLORING and move.choice < 0)
            last = after
        assert last is None or last.mode == HOME
        assert last is None or last.budget_mm >= 0
    assert lost > 0, "nobody was ever lost"


@pytest.mark.slow
@both
@adversaries
def test_teams_of_them_come_home(config, kind):
    for seed in (4, 6):
        last = None
        for _, last, _, _ in flown(config, kind, seed, robots=PLACES):
            assert (last.budget_mm >= 0).all()
        assert last is None or (last.mode == HOME).all()


@pytest.mark.slow
@both
def test_a_planner_that_gives_up_sends_its_robot_home(config):
    """Wherever the robot has been, unless it is lost already: then nobody asks its planner."""
    take_off, _ = programs(config)
    state = take_off(jax.random.key(0), wide_world(config, 1), Fleet.of(1, 60.0, slots=PLACES))
    robot, view = of(state.robots, 0), of(jax.jit(partial(views, config))(state), 0)
    score = jnp.zeros((SLOTS, config.headings_per_node))
    proposal = Proposal(score, score.astype(jnp.int32), whole(RETURN_HOME))
    everywhere = jnp.full_like(robot.circling.stood, config.most_visits)
    for lost, mode in ((False, (RETURNING, HOME)), (True, (EXPLORING,))):
        circling = dataclasses.replace(robot.circling, stood=everywhere, lost=jnp.array(lost))
        circled = eqx.tree_at(lambda r: r.circling, robot, circling)
        assert int(jax.jit(partial(intend, config))(circled, view, proposal).mode) in mode


@pytest.mark.slow
@pytest.mark.parametrize(("index", "radius_m"), [(10, 0.25), (11, 0.2), (25, 0.3)])
def test_one_robot_sees_everything_there_is_and_comes_home(index, radius_m):
    """In a whole building: nearest frontiers, one robot, enough budget."""
    member = Member(range_m=5.0, radius_m=radius_m, budget_m=1500.0)
    mission = Mission.on(
        lambda cell_m: generate("floorplan", "train", index, cell_m=cell_m), Team((member,)), "nearest", spacing_m=2.0
    )
    outcome = mission.fly()
    assert outcome.home.all()
    assert outcome.decisions < mission.max_decisions
    assert outcome.coverage >= 0.99
    assert outcome.remaining_m.min() > 0
