"""Eq. 5, 6, 9 and 15, number by number, against loops over plain arrays."""

import math
from dataclasses import fields
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.goals
import oracles.graph
import oracles.guard
import oracles.lattice
import oracles.mind
from cases import SITES, SMALL, draw_case
from decmarvel.core.types import FAR_MM, Own
from decmarvel.robot.observation import Feature, observe, ways
from decmarvel.robot.planners.random import RandomPlanner
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import decide, take_off
from decmarvel.simulation.privileged import decompose, privileged_view
from minds import edges_of

ROBOTS, SEEDS = 4, (1, 2, 3, 5, 8, 13)
SIZE = SITES[SMALL]
seeds = pytest.mark.parametrize("seed", SEEDS)


@partial(jax.jit, static_argnums=0)
def observe_all(config, state):
    privileged = jax.vmap(lambda number: privileged_view(config, state, number))(jnp.arange(ROBOTS, dtype=jnp.int32))
    return jax.vmap(lambda view: (observe(config, view), ways(config, view)))(views(config, state)), privileged


@cache
def missions(seed):
    """As NumPy: (state, observations and ways, privileged views), at take-off and later with the random planner."""
    planner, case = RandomPlanner(), draw_case(SMALL, seed)
    fleet = Fleet.of(ROBOTS, 20.0 + 10 * (seed % 4))
    flight = jax.jit(take_off, static_argnums=(0, 1))(SMALL, planner, jax.random.key(seed), case.world, fleet)
    step, found = jax.jit(decide, static_argnums=(0, 1)), []
    for decision in range(13):
        if decision in (0, 1, 4, 12):
            state = jax.tree.map(np.asarray, flight.state)
            found.append((state, *jax.tree.map(np.asarray, observe_all(SMALL, flight.state))))
        flight = step(SMALL, planner, flight)[0]
    return found


def robots_of(seed):
    """Every robot of every moment: itself, and what is observed."""
    for robot, observation, _ in robots_with_ways(seed):
        yield robot, observation


def robots_with_ways(seed):
    """The same, with the robots' ways."""
    for state, (observations, own_ways), _ in missions(seed):
        for number in range(ROBOTS):
            yield jax.tree.map(lambda leaf, number=number: leaf[number], (state.robots, observations, own_ways))


def tile_of(cell):
    """The site in whose tile a cell lies: stride x stride cells, the site's own cell in the middle."""
    for i in range(SIZE):
        for j in range(SIZE):
            y, x = oracles.lattice.site_cell(SMALL, i, j)
            below = SMALL.stride // 2
            if 0 <= cell[0] - (y - below) < SMALL.stride and 0 <= cell[1] - (x - below) < SMALL.stride:
                return i, j
    return None


def sightings_of(robot):
    """(teammate, age, cell, heading) of all that the robot remembers."""
    memory = robot.sightings
    return [
        (mate, age, memory.cell[mate, age], memory.heading[mate, age])
        for mate in range(ROBOTS)
        for age in range(SMALL.history)
        if memory.seen[mate, age]
    ]


def way_to_useful(robot):
    """Sites from the robot's own to the nearest useful one, hop by hop."""
    here = tuple(int(v) for v in robot.site)
    useful_mm = robot.graph.useful_mm
    if useful_mm[here] >= FAR_MM:
        return []
    way = [here]
    while useful_mm[here] > 0:
        slot = oracles.guard.best_edge_slot(SMALL, edges_of(robot.graph), useful_mm, here)
        here = oracles.lattice.neighbour(here, slot)
        way.append(here)
    return way


def expected_features(robot):
    features = np.zeros((SIZE, SIZE, 9))
    way, seen = way_to_useful(robot), [(age, tile_of(cell)) for _, age, cell, _ in sightings_of(robot)]
    for i in range(SIZE):
        for j in range(SIZE):
            home_mm = robot.graph.home_mm[i, j]
            if home_mm >= FAR_MM:
                continue
            utility = robot.graph.sight.utility[i, j]
            occupied = any(age == 0 and site == (i, j) for age, site in seen)
            heading = -1.0
            if utility > 0:
                histogram = robot.graph.sight.histogram[i, j].astype(int)
                heading = oracles.graph.window_headings(SMALL, histogram)[0] / 36
            features[i, j] = [
                (j - robot.site[1]) * SMALL.spacing_m / 100,
                (i - robot.site[0]) * SMALL.spacing_m / 100,
                utility / 78,
                (i, j) in way,
                -1 if (i, j) == tuple(robot.site) else int(occupied),
                heading,
                max([1 - age / 10 for age, site in seen if site == (i, j)], default=0),
                min(home_mm / 1000 / 100, 2),
                min(robot.visits[i, j], 5) / 5,
            ]
    return features


COLUMNS = ("dx", "dy", "utility", "guidepost", "occupancy", "heading", "trail", "home", "visits")


def test_columns_have_names():
    """Eq. 5 in the paper's order."""
    assert tuple(feature.name.lower() for feature in Feature) == COLUMNS
    assert [int(feature) for feature in Feature] == list(range(9))


@seeds
def test_node_features(seed):
    """Eq. 5."""
    for robot, observation in robots_of(seed):
        expected = expected_features(robot)
        for column, name in enumerate(COLUMNS):
            got = observation.node_features[..., column]
            np.testing.assert_allclose(got, expected[..., column], rtol=1e-5, atol=1e-6, err_msg=name)
        np.testing.assert_array_equal(observation.node_mask, robot.graph.home_mm < FAR_MM)


def test_every_column_is_put_to_the_test():
    """The missions above hold used and unused nodes, teammates now and before, ways to go, and more than one visit."""
    nodes = np.concatenate([o.node_features[o.node_mask] for seed in SEEDS for _, o in robots_of(seed)])
    for column, name in enumerate(COLUMNS):
        assert len(np.unique(nodes[:, column])) >= 2, name
    assert {-1.0, 0.0, 1.0} == set(np.unique(nodes[:, 4]))
    assert len(np.unique(nodes[:, 6])) >= 4
    assert nodes[:, 8].max() > 0.2
    assert max(len(way_to_useful(robot)) for seed in SEEDS for robot, _ in robots_of(seed)) >= 3


@seeds
def test_budget_features(seed):
    """Eq. 6."""
    for robot, observation in robots_of(seed):
        initial, left = robot.initial_budget_mm / 1000, robot.budget_mm / 1000
        home = robot.graph.home_mm[tuple(robot.site)] / 1000
        expected = [
            math.log(1 + initial) / math.log(1 + 1024),
            math.log(1 + left) / math.log(1 + 1024),
            left / initial,
            min(home / max(left, 1), 2),
        ]
        np.testing.assert_allclose(observation.budget, expected, rtol=1e-5, atol=1e-7)


@seeds
def test_trajectory_tokens(seed):
    """Eq. 9: offsets along the axes of the world in units of 20 m; zero and masked where nobody was seen."""
    for robot, observation in robots_of(seed):
        expected, mask = np.zeros((ROBOTS, 10, 5)), np.zeros((ROBOTS, 10), bool)
        own = oracles.lattice.site_cell(SMALL, *robot.site)
        for mate, age, cell, heading in sightings_of(robot):
            dy, dx = (SMALL.cell_m * (cell[axis] - own[axis]) / 20 for axis in (0, 1))
            angle = math.radians(heading)
            expected[mate, age] = [dx, dy, math.sin(angle), math.cos(angle), age / 10]
            mask[mate, age] = True
        np.testing.assert_array_equal(observation.token_mask, mask)
        np.testing.assert_allclose(observation.tokens, expected, rtol=1e-5, atol=1e-6)


@seeds
def test_a_token_belongs_to_an_own_node_nearby_or_to_none(seed):
    for robot, observation in robots_of(seed):
        node = robot.graph.home_mm < FAR_MM
        assert (observation.token_site[~observation.token_mask] == -1).all()
        for mate, age, cell, _ in sightings_of(robot):
            site, token_site = tile_of(cell), tuple(observation.token_site[mate, age])
            if site is not None and node[site]:
                assert token_site == site
            elif token_site != (-1, -1):
                away = np.array(oracles.lattice.site_cell(SMALL, *token_site)) - cell
                assert node[token_site]
                assert SMALL.cell_m * math.hypot(*away) <= SMALL.spacing_m


@seeds
def test_the_rest_of_the_observation(seed):
    for robot, observation in robots_of(seed):
        node = robot.graph.home_mm < FAR_MM
        np.testing.assert_array_equal(observation.action_mask, np.repeat(feasible_slots(robot)[:, None], 3, axis=1))
        np.testing.assert_array_equal(observation.histogram, robot.graph.sight.histogram * node[..., None])
        np.testing.assert_array_equal(observation.edge, edges_of(robot.graph))
        np.testing.assert_array_equal(observation.sensed, robot.sensed)
        for field in fields(Own):
            np.testing.assert_array_equal(getattr(observation, field.name), getattr(robot, field.name), field.name)


NOTHING_CM = 65535


def feasible_slots(robot):
    site = tuple(int(v) for v in robot.site)
    return oracles.guard.feasible_slots(SMALL, edges_of(robot.graph), robot.graph.home_mm, site, int(robot.budget_mm))


def expected_ways(robot):
    """How far each node is, and how far one looks from there."""
    way_cm, open_cm = np.zeros((SIZE, SIZE), int), np.full((SIZE, SIZE), NOTHING_CM)
    here, base = (tuple(int(v) for v in site) for site in (robot.site, robot.base))
    mind = oracles.mind.Mind(SMALL, robot.belief, robot.sensed, here, base, int(robot.budget_mm))
    way_mm = oracles.graph.distances(SMALL, edges_of(robot.graph), [here])
    for site in np.ndindex(SIZE, SIZE):
        home_mm = int(robot.graph.home_mm[site])
        if home_mm >= FAR_MM:
            continue
        way_cm[site] = min(way_mm[site] // 10, NOTHING_CM)
        if way_mm[site] + home_mm + SMALL.safety_margin_mm <= robot.budget_mm:
            looks = [mm for mm, _ in oracles.goals.nearest_by_bin(mind, site).values()]
            open_cm[site] = min([mm // 10 for mm in looks], default=NOTHING_CM)
    return way_cm, open_cm


@seeds
def test_ways(seed):
    for robot, _, found in robots_with_ways(seed):
        for name, expected in zip(("way_cm", "open_cm"), expected_ways(robot), strict=True):
            got = getattr(found, name)
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got, expected, err_msg=name)


def test_ways_of_every_kind_are_put_to_the_test():
    """Open nodes, the own one among them, sensed ones, and ones too far for the budget."""
    kinds = dict.fromkeys(("open", "own", "sensed", "far"), 0)
    for seed in SEEDS:
        for robot, observation, found in robots_with_ways(seed):
            node, here = observation.node_mask, tuple(robot.site)
            kinds["open"] += (found.open_cm[node] < NOTHING_CM).sum()
            kinds["own"] += found.open_cm[here] < NOTHING_CM
            needed = 10 * found.way_cm + robot.graph.home_mm + SMALL.safety_margin_mm
            affordable = node & (needed <= robot.budget_mm)
            in_sight = (robot.graph.sight.nearest_rank < np.iinfo(np.int16).max).any(axis=-1)
            kinds["sensed"] += (affordable & in_sight & (found.open_cm == NOTHING_CM)).sum()
            kinds["far"] += (node & ~affordable & in_sight & (found.way_cm < NOTHING_CM)).sum()
    assert all(count > 10 for count in kinds.values()), kinds


@seeds
def test_privileged_fractions(seed):
    """Eq. 15: of each tile the shares that the robot knows, that only teammates know, that nobody has explored."""
    for state, _, privileged in missions(seed):
        beliefs, free, stride = state.robots.belief, state.world.free, SMALL.stride
        for number in range(ROBOTS):
            label = np.zeros(free.shape, int)  # 1 own, 2 a teammate's, 3 free but unexplored, 0 the rest
            for cell in np.ndindex(free.shape):
                if beliefs[number][cell] != 0:
                    label[cell] = 1
                elif any(belief[cell] != 0 for belief in beliefs):
                    label[cell] = 2
                elif free[cell]:
                    label[cell] = 3
            np.testing.assert_array_equal(decompose(jnp.asarray(beliefs), jnp.asarray(free), jnp.int32(number)), label)
            for i in range(SIZE):
                for j in range(SIZE):
                    y, x = (centre - stride // 2 for centre in oracles.lattice.site_cell(SMALL, i, j))
                    tile = label[y : y + stride, x : x + stride]
                    shares = [(tile == kind).sum() / stride**2 for kind in (1, 2, 3)]
                    np.testing.assert_allclose(privileged.fractions[number, i, j], shares, atol=1e-6)
        np.testing.assert_array_equal(privileged.sites, np.stack([state.robots.site] * ROBOTS))
        np.testing.assert_array_equal(privileged.active, np.stack([state.robots.mode <= 1] * ROBOTS))
        known = (beliefs == 1).any(axis=0).sum()
        if 100 * known >= 99 * state.world.free_count:
            assert privileged.post_success.all()
