"""Whole missions: lock-step with the oracles, the guard's theorem, determinism."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.camera
import oracles.graph
import oracles.guard
import oracles.lattice
from cases import SMALL, Case, draw_case
from decmarvel.core.config import Config, Noise
from decmarvel.core.types import ABSENT, EXPLORING, FAILED, HOME, RETURNING
from decmarvel.robot.sight import nearest_frontiers
from decmarvel.simulation import roster
from decmarvel.simulation.environment import reset
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import decide, outcome, run_mission, take_off
from decmarvel.worlds import generate
from decmarvel.worlds.place import place
from oracles.lattice import UNREACHABLE

pytestmark = pytest.mark.slow

NEVER = 2**30


@partial(jax.jit, static_argnums=(0, 1))
def begin(config, planner, key, world, fleet):
    return take_off(config, planner, key, world, fleet)


@partial(jax.jit, static_argnums=(0, 1))
def advance(config, planner, flight):
    return decide(config, planner, flight)[:2]


def fleet_of(budgets_m, fail_steps=None) -> Fleet:
    count = len(budgets_m)
    return Fleet(
        present=jnp.asarray([b > 0 for b in budgets_m]),
        budget_mm=jnp.asarray([round(1000 * b) for b in budgets_m], jnp.int32),
        fail_step=jnp.asarray(fail_steps if fail_steps else [NEVER] * count, jnp.int32),
    )


class Shadow:
    """The same mission by the oracles: told only which target and heading each robot took, it works out the rest."""

    def __init__(self, case: Case, state) -> None:
        self.config, self.free = case.config, case.free
        self.count = state.robots.mode.shape[0]
        start = oracles.lattice.site_cell(case.config, *case.start)
        scan = oracles.camera.full_scan(case.config, case.free, *start)
        belief = oracles.camera.update_belief(np.zeros(case.free.shape, np.uint8), case.free, scan)
        self.beliefs = [belief.copy() for _ in range(self.count)]
        self.site = [tuple(site) for site in np.asarray(state.robots.site).tolist()]
        self.base = list(self.site)
        self.heading = np.asarray(state.robots.heading).tolist()
        self.budget = np.asarray(state.robots.budget_mm).tolist()
        self.initial = list(self.budget)
        self.present = np.asarray(state.robots.present).tolist()
        self.overlaps: list[float] = []
        self.metres = -1

    def step(self, move) -> list[list[tuple]]:
        """Advance; returns who was seen by whom and where."""
        modes = np.asarray(move.mode)
        active = [robot for robot in range(self.count) if modes[robot] <= RETURNING]
        poses, lengths = {}, {}
        for robot in range(self.count):
            target = tuple(np.asarray(move.target)[robot].tolist())
            slot = 5 * (target[0] - self.site[robot][0] + 2) + target[1] - self.site[robot][1] + 2
            lengths[robot] = oracles.lattice.slot_length_mm(self.config, slot) if slot != 12 else 0
            turn = 0
            if robot in active:
                wanted = int(move.heading[robot])
                turn = oracles.camera.limited_turn(self.config, self.heading[robot], wanted, lengths[robot])
            poses[robot] = oracles.camera.substep_poses(
                self.config, self.site[robot], target, self.heading[robot], turn
            )
            self.site[robot] = target
        seen: list[list[tuple]] = [[() for _ in range(self.count)] for _ in range(self.count)]
        for k in range(self.config.substeps):
            feet = {
                r: oracles.camera.footprint(self.config, self.free, *poses[r][k][0], poses[r][k][1]) for r in active
            }
            for robot in active:
                self.beliefs[robot] = oracles.camera.update_belief(self.beliefs[robot], self.free, feet[robot])
                for other in range(self.count):
                    if other != robot and self.present[other] and poses[other][k][0] in feet[robot]:
                        seen[robot][other] = (poses[other][k][0], poses[other][k][1])
            if len(active) >= 2:
                twice, once = oracles.camera.overlap(list(feet.values()))
                self.overlaps.append(twice / once)
            covered, total = oracles.camera.coverage(oracles.camera.merged_belief(np.stack(self.beliefs)), self.free)
            if self.metres < 0 and 100 * covered >= 99 * total:
                done = [self.initial[r] - self.budget[r] + lengths[r] * (k + 1) // 6 for r in range(self.count)]
                self.metres = max(done)
        for robot in range(self.count):
            self.heading[robot] = poses[robot][-1][1]
            self.budget[robot] -= lengths[robot]
        return seen


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("planner", ["random", "sector"])
def test_a_mission_in_lock_step_with_the_oracles(planner, seed):
    """Beliefs, coverage, metres, overlap, sightings, graph: all equal after every decision (Eq. 2 to 4, 9)."""
    case = draw_case(SMALL, 1000 + seed)
    fleet = fleet_of([60, 45, 30, 0], [NEVER, NEVER, 6, NEVER])
    flight = begin(SMALL, roster.planner(planner), jax.random.key(seed), case.world, fleet)
    shadow = Shadow(case, flight.state)
    for _ in range(14):
        before = flight.state
        flight, move = advance(SMALL, roster.planner(planner), flight)
        robots, progress = flight.state.robots, flight.state.progress
        seen = shadow.step(move)
        for robot in range(3):
            np.testing.assert_array_equal(robots.belief[robot], shadow.beliefs[robot])
            check_sightings(robots, robot, seen[robot])
            check_graph(case, shadow, robots, robot)
            check_guard(shadow, before.robots, move, robot)
        assert np.asarray(robots.heading)[:3].tolist() == shadow.heading[:3]
        assert np.asarray(robots.budget_mm)[:3].tolist() == shadow.budget[:3]
        covered, _ = oracles.camera.coverage(oracles.camera.merged_belief(np.stack(shadow.beliefs)), case.free)
        assert int(progress.covered) == covered
        assert int(progress.metres_to_success_mm) == shadow.metres
        assert np.asarray(progress.own_covered)[:3].tolist() == [int((b == 1).sum()) for b in shadow.beliefs[:3]]
        known = sum((belief == 1).astype(int) for belief in shadow.beliefs[:3])
        np.testing.assert_array_equal(progress.known_by, known)
        assert float(progress.overlap_sum) == pytest.approx(sum(shadow.overlaps), rel=1e-5)
        assert int(progress.overlap_count) == len(shadow.overlaps)
    assert int(flight.state.robots.mode[3]) == ABSENT


def check_sightings(robots, robot: int, seen: list[tuple]) -> None:
    newest = robots.sightings
    for other, glimpse in enumerate(seen):
        assert bool(newest.seen[robot, other, 0]) == bool(glimpse)
        if glimpse:
            assert tuple(newest.cell[robot, other, 0].tolist()) == glimpse[0]
            assert int(newest.heading[robot, other, 0]) == glimpse[1]


def check_graph(case: Case, shadow: Shadow, robots, robot: int) -> None:
    """The graph that was updated in a window equals the one worked out from the whole belief."""
    edge = oracles.graph.edges(case.config, shadow.beliefs[robot])
    home = oracles.graph.distances(case.config, edge, [shadow.base[robot]])
    node = home < UNREACHABLE
    utility, histogram = oracles.graph.utilities(case.config, shadow.beliefs[robot], node)
    graph = jax.tree.map(lambda leaf: leaf[robot], robots.graph)
    np.testing.assert_array_equal(graph.edge, edge)
    np.testing.assert_array_equal(graph.home_mm, home)
    np.testing.assert_array_equal(graph.utility, utility)
    np.testing.assert_array_equal(np.asarray(graph.sight.histogram) * node[..., None], histogram)
    everywhere = np.zeros_like(np.asarray(robots.sensed[robot]))
    mm, _ = oracles.graph.nearest_frontiers(case.config, shadow.beliefs[robot], node, everywhere)
    nearest = np.asarray(nearest_frontiers(case.config, graph)[0]).min(axis=-1)
    np.testing.assert_array_equal(np.where(node, nearest, UNREACHABLE), mm)


def check_guard(shadow: Shadow, before, move, robot: int) -> None:
    """An exploring robot only moves where Eq. 2 allows; a returning one goes down the way home or waits."""
    config, site = shadow.config, tuple(before.site[robot].tolist())
    graph = jax.tree.map(lambda leaf: leaf[robot], before.graph)
    target = tuple(move.target[robot].tolist())
    slot = 5 * (target[0] - site[0] + 2) + target[1] - site[1] + 2
    budget = int(before.budget_mm[robot])
    if int(move.mode[robot]) == EXPLORING:
        assert not oracles.guard.must_return(config, np.asarray(graph.home_mm), site, budget)
        feasible = oracles.guard.feasible_slots(config, np.asarray(graph.edge), np.asarray(graph.home_mm), site, budget)
        assert slot == 12 or feasible[slot]
        assert feasible.any()
    elif int(move.mode[robot]) == RETURNING:
        assert slot in (12, oracles.guard.return_slot(config, np.asarray(graph.edge), np.asarray(graph.home_mm), site))
    else:
        assert slot == 12


def crowd(count: int, seed: int):
    """Many missions with random worlds, team sizes, budgets and failures, in one batch."""
    rng = np.random.default_rng(seed)
    worlds = [draw_case(SMALL, int(rng.integers(2**32))).world for _ in range(count)]
    world = jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)
    slots = 6
    fleet = Fleet(
        present=jnp.asarray(np.arange(slots) < rng.integers(1, slots + 1, (count, 1))),
        budget_mm=jnp.asarray(rng.integers(0, 80_000, (count, slots)), jnp.int32),
        fail_step=jnp.asarray(
            np.where(rng.random((count, slots)) < 0.2, rng.integers(0, 30, (count, slots)), NEVER), jnp.int32
        ),
    )
    keys = jax.vmap(jax.random.key)(jnp.arange(count) + seed)
    return keys, world, fleet


@pytest.mark.parametrize(
    ("planner", "noise"), [("random", Noise()), ("sector", Noise()), ("random", Noise(1.0, 10.0, 1.0, 20.0, 0.3, 0.1))]
)
def test_nobody_is_left_behind(planner, noise):
    """The guard as a theorem: whatever happens, every unfailed robot ends at its base with a budget not below zero."""
    config = replace(SMALL, noise=noise)
    count = 100
    keys, world, fleet = crowd(count, 7)
    flight = jax.jit(jax.vmap(lambda k, w, f: take_off(config, roster.planner(planner), k, w, f)))(keys, world, fleet)
    step = jax.jit(jax.vmap(lambda flight: decide(config, roster.planner(planner), flight)))
    for _ in range(400):
        before = np.asarray(flight.state.robots.site)
        flight, move, _ = step(flight)
        active, targets = np.asarray(move.mode) <= RETURNING, np.asarray(move.target)
        same = (targets[:, :, None] == targets[:, None, :]).all(axis=-1) & active[:, :, None] & active[:, None, :]
        waiting = (targets == before).all(axis=-1)
        shared_start = (
            (before[:, :, None] == before[:, None, :]).all(axis=-1) & waiting[:, :, None] & waiting[:, None, :]
        )
        assert not (same & ~np.eye(6, dtype=bool) & ~shared_start).any()
        if np.asarray(flight.state.done).all():
            break
    robots = flight.state.robots
    modes = np.asarray(robots.mode)
    assert np.isin(modes, [HOME, FAILED, ABSENT]).all()
    assert (np.asarray(robots.budget_mm)[modes != ABSENT] >= 0).all()
    home = modes == HOME
    np.testing.assert_array_equal(np.asarray(robots.site)[home], np.asarray(robots.base)[home])
    assert home.sum() > count
    assert (modes == FAILED).any()
    assert not np.asarray(jax.vmap(lambda state: outcome(config, state))(flight.state).stranded).any()


def test_the_same_seed_is_the_same_mission_alone_and_in_a_batch():
    keys, world, fleet = crowd(8, 3)
    fly = partial(run_mission, SMALL, roster.planner("sector"), max_decisions=400)
    together = jax.jit(jax.vmap(fly))(keys, world, fleet)
    reverse = jax.jit(jax.vmap(fly))(*jax.tree.map(lambda leaf: leaf[::-1], (keys, world, fleet)))
    single = jax.jit(fly)
    for index in range(8):
        alone = single(keys[index], *jax.tree.map(lambda leaf: leaf[index], (world, fleet)))  # noqa: B023
        for name in ("coverage", "metres_to_99", "travelled_m", "decisions", "overlap_cumulative", "home"):
            expected = np.asarray(getattr(alone, name))
            np.testing.assert_array_equal(getattr(together, name)[index], expected)
            np.testing.assert_array_equal(getattr(reverse, name)[7 - index], expected)
        np.testing.assert_allclose(together.overlap[index], alone.overlap, rtol=1e-6)


def test_empty_places_change_nothing():
    """A team of two in an array of two or of five flies the same mission."""
    case = draw_case(SMALL, 5)
    small = run_mission(SMALL, roster.planner("nearest"), jax.random.key(4), case.world, Fleet.of(2, 50.0), 300)
    large = run_mission(
        SMALL, roster.planner("nearest"), jax.random.key(4), case.world, Fleet.of(2, 50.0, slots=5), 300
    )
    assert float(small.coverage) == float(large.coverage)
    assert np.asarray(small.travelled_m).tolist() == np.asarray(large.travelled_m)[:2].tolist()


@pytest.mark.parametrize("count", [1, 4, 16])
def test_starts_are_distinct_seen_and_reachable(count):
    config = Config()
    world = place(generate("indoor", "heldout", 3), config)
    state = jax.jit(reset, static_argnums=0)(config, jax.random.key(1), world, Fleet.of(count, 720.0))
    bases = {tuple(site) for site in np.asarray(state.robots.base).tolist()}
    known = np.asarray(state.robots.belief[0])
    nodes = int(np.asarray(state.robots.graph.node[0]).sum())
    assert len(bases) == min(count, nodes)
    assert all(known[oracles.lattice.site_cell(config, *base)] == 1 for base in bases)
