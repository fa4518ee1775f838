"""What a robot cannot know must not change what it does: teammates' maps, goals and whereabouts, and the true walls."""

import dataclasses
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.lattice
from cases import SITES, SMALL, draw_case
from decmarvel.core.config import Config
from decmarvel.core.types import EXPLORING, FAILED, HOME, Candidates, Graph, LocalView, Robot, Sight, Sightings
from decmarvel.simulation import roster
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import InFlight, decide, take_off

pytestmark = pytest.mark.slow

ROBOTS, ME, SIZE = 3, 1, SITES[SMALL]
SILENT = [name for name, entry in roster.PLANNERS.items() if not entry.radio and not entry.learned]
RADIO = "shared-greedy"
planners = pytest.mark.parametrize("name", SILENT)
seeds = pytest.mark.parametrize("seed", [1, 3, 8, 9])


@partial(jax.jit, static_argnums=(0, 1))
def propose(config: Config, planner, flight: InFlight):
    """Every robot's view, and what its planner makes of it."""
    seen, keys = views(config, flight.state), jax.random.split(flight.key, ROBOTS)
    return seen, *jax.vmap(lambda *rest: planner.propose(config, *rest))(keys, seen, flight.memory)


advance = jax.jit(decide, static_argnums=(0, 1))


@cache
def mission(name: str, seed: int) -> InFlight:
    """Three decisions into a mission."""
    planner, world = roster.planner(name), draw_case(SMALL, seed).world
    start = jax.jit(take_off, static_argnums=(0, 1))
    flight = start(SMALL, planner, jax.random.key(seed), world, Fleet.of(ROBOTS, 40.0))
    for _ in range(3):
        flight = advance(SMALL, planner, flight)[0]
    return flight


def exploring(name: str, seed: int) -> InFlight:
    """A mission in which the robot still has something to decide."""
    flight = mission(name, seed)
    assert flight.state.robots.mode[ME] == EXPLORING
    return flight


def with_strangers(flight: InFlight, other: InFlight) -> InFlight:
    """The same robot among the teammates of another mission: their maps, graphs, places, memories and goals."""

    def swap(mine, theirs):
        own = (jnp.arange(ROBOTS) == ME).reshape(ROBOTS, *[1] * (mine.ndim - 1))
        return jnp.where(jnp.broadcast_to(own, mine.shape), mine, theirs)

    robots = jax.tree.map(swap, flight.state.robots, other.state.robots)
    memory = jax.tree.map(swap, flight.memory, other.memory)
    return eqx.tree_at(
        lambda f: (f.state.robots, f.memory), flight, (robots, memory), is_leaf=lambda leaf: leaf is None
    )


def of(tree, number: int = ME) -> dict[str, np.ndarray]:
    """The leaves of one robot, by name."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf[number]) for path, leaf in leaves}


def assert_same(one, two) -> None:
    expected, got = of(one), of(two)
    assert expected.keys() == got.keys()
    for name, leaf in expected.items():
        np.testing.assert_array_equal(got[name], leaf, err_msg=name)


@planners
@seeds
def test_teammates_and_truth_are_invisible(name, seed):
    """Views and proposals do not change when everything else in the state does."""
    flight, other = exploring(name, seed), mission(name, seed + 10)
    changed = with_strangers(flight, other)
    state = changed.state
    changed = eqx.tree_at(
        lambda f: (f.state.world, f.state.progress),
        changed,
        (dataclasses.replace(state.world, free=~state.world.free), other.state.progress),
    )
    before, after = propose(SMALL, roster.planner(name), flight), propose(SMALL, roster.planner(name), changed)
    for one, two in zip(before, after, strict=True):
        assert_same(one, two)
    for number in {*range(ROBOTS)} - {ME}:  # the change is a real one
        assert (of(before[0], number)[".belief"] != of(after[0], number)[".belief"]).any()


def far_sites(flight: InFlight) -> list[tuple[int, int]]:
    """Sites that stay out of the robot's sight during one decision."""
    y, x = flight.state.robots.site[ME].tolist()
    reach = 2 + SMALL.sensor_radius_cells / SMALL.stride
    return [(i, j) for i in range(SIZE) for j in range(SIZE) if max(abs(i - y), abs(j - x)) > reach]


def parked(flight: InFlight, site: tuple[int, int], mode: int) -> InFlight:
    """The teammates are bodies that stand at a site."""
    own = jnp.arange(ROBOTS) == ME
    robots = flight.state.robots
    sites = jnp.where(own[:, None], robots.site, jnp.asarray(site, jnp.int32)[None])
    modes = jnp.where(own, robots.mode, mode)
    return eqx.tree_at(lambda f: (f.state.robots.site, f.state.robots.mode), flight, (sites, modes))


@planners
@seeds
def test_what_is_out_of_sight_changes_nothing_during_a_decision(name, seed):
    """Other teammates elsewhere, and other walls beyond the camera's reach: the robot does, sees and wants the same."""
    planner, flight = roster.planner(name), exploring(name, seed)
    hidden = far_sites(flight)
    here = parked(flight, hidden[0], FAILED)
    there = parked(with_strangers(flight, mission(name, seed + 10)), hidden[-1], HOME)
    y, x = oracles.lattice.site_cell(SMALL, *flight.state.robots.site[ME].tolist())
    rows, columns = np.indices(flight.state.world.free.shape)
    reach = 2 * SMALL.stride + int(SMALL.sensor_radius_cells)
    beyond = jnp.asarray(np.maximum(abs(rows - y), abs(columns - x)) > reach)
    there = eqx.tree_at(
        lambda f: f.state.world.free, there, jnp.where(beyond, ~there.state.world.free, there.state.world.free)
    )
    (one, move, _), (two, other_move, _) = advance(SMALL, planner, here), advance(SMALL, planner, there)
    assert_same(move, other_move)
    assert_same(one.state.robots, two.state.robots)
    for left, right in zip(propose(SMALL, planner, one), propose(SMALL, planner, two), strict=True):
        assert_same(left, right)


def test_a_radio_lets_teammates_in():
    """The counterpart: with a radio the same exchange of teammates does change what a robot knows, and what it does."""
    changed = 0
    for seed in (1, 2, 3, 8, 9):
        flight, hidden = exploring(RADIO, seed), far_sites(exploring(RADIO, seed))
        here = parked(flight, hidden[0], FAILED)
        there = parked(with_strangers(flight, mission(RADIO, seed + 10)), hidden[-1], HOME)
        one, two = (advance(SMALL, roster.planner(RADIO), flight)[0] for flight in (here, there))
        assert (of(one.state.robots)[".belief"] != of(two.state.robots)[".belief"]).any()
        after, otherwise = (propose(SMALL, roster.planner(RADIO), flight)[1] for flight in (one, two))
        changed += (of(after)[".score"] != of(otherwise)[".score"]).any()
    assert changed > 0


def test_a_teammate_in_sight_is_noticed():
    """The counterpart: the same change within view does reach the robot's memory of teammates, and nothing else."""
    noticed = 0
    for seed in (1, 3, 8, 9):
        flight = exploring("random", seed)
        away = advance(SMALL, roster.planner("random"), parked(flight, far_sites(flight)[0], FAILED))[0]
        for step in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            site = tuple((flight.state.robots.site[ME] + jnp.asarray(step)).tolist())
            near = advance(SMALL, roster.planner("random"), parked(flight, site, FAILED))[0]
            seen = near.state.robots.sightings.seen[ME, :, 0]
            noticed += bool(seen.any())
            assert not seen[ME]
            one, two = of(away.state.robots), of(near.state.robots)
            different = {leaf for leaf in one if (one[leaf] != two[leaf]).any()}
            assert all(leaf.startswith(".sightings") for leaf in different)
    assert noticed > 0


def test_a_local_view_is_made_of_local_types():
    """No field of a view has a type that holds the world, the team's record or another robot."""
    allowed, found, todo = {LocalView, Graph, Sight, Candidates, Sightings}, set(), [LocalView]
    while todo:
        kind = todo.pop()
        found.add(kind)
        todo += [field.type for field in dataclasses.fields(kind) if dataclasses.is_dataclass(field.type)]
    assert found == allowed


def test_no_robot_knows_when_it_will_fail():
    for kind in (Robot, LocalView):
        assert not any("fail" in field.name for field in dataclasses.fields(kind))
