"""Where bodies fit, viewpoints, ways between them and moves along them: each against its oracle, and what never fails.

Maps grow in steps, as robots' maps do, and the network grows with them.
"""

import dataclasses
from itertools import pairwise
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles.roads
from cases import ROADS, SITES, SMALL, WIDE_ROADS, draw_case
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, SLOTS
from decmarvel.core.types import FAR_MM, FREE
from decmarvel.robot.graph import from_sites, network, shortest_paths, whole_network
from decmarvel.robot.roads import Network, body_reach, grow_network, no_network, passable_cells, undecided_cells
from decmarvel.robot.travel import travel_path
from decmarvel.simulation.fleet import Bodies, Fleet
from minds import whole
from missions import jitted_reset

RADII_MM = (0, 150, 250, 450)
RIM = (103, 131)
"""Seeds of growing maps in which a viewpoint settles late, at the rim of what is updated."""
seeds = st.integers(0, 2**32 - 1)
radii = st.sampled_from(RADII_MM)
road_configs = pytest.mark.parametrize("config", ROADS, ids=lambda config: f"stride {config.stride}")

jitted_passable = jax.jit(passable_cells, static_argnums=0)
jitted_undecided = jax.jit(undecided_cells, static_argnums=0)
jitted_grow = jax.jit(grow_network, static_argnums=0)
jitted_whole = jax.jit(whole_network, static_argnums=0)
jitted_network = jax.jit(network, static_argnums=0)
jitted_travel = jax.jit(travel_path, static_argnums=0)


def radius_for(config: Config, radius_mm: int) -> int:
    """A body in a team whose largest has the radius of the configuration."""
    return min(radius_mm, config.radius_mm)


def draw_house(config: Config, seed: int) -> np.ndarray:
    """Floor with walls at random places, doors in them, and pillars: room for every body, and ways around corners."""
    if seed % 4 == 0:
        return draw_case(config, seed).free
    rng, side = np.random.default_rng([seed, 5]), config.stride * SITES[config]
    floor = np.ones((side, side), bool)
    for _ in range(rng.integers(2, 10)):
        wall = floor if rng.random() < 0.5 else floor.T
        line, begin, length = rng.integers(0, side, 3)
        wall[line : line + rng.integers(1, 3), begin : begin + length] = False
        door = begin + rng.integers(0, length + 1)
        wall[line : line + 2, door : door + rng.integers(1, 8)] = True
    for y, x in rng.integers(0, side, (rng.integers(0, 20), 2)):
        floor[y, x] = False
    return np.pad(floor, config.margin_cells)


def growing(config: Config, seed: int, steps: int, reach: int | None = None) -> list[tuple[np.ndarray, tuple]]:
    """Beliefs of a robot to which more and more of a building becomes known, and where that was.

    Rectangles anywhere; with `reach`, squares of that many cells around moves of at most two tiles.
    """
    free, rng = draw_house(config, seed), np.random.default_rng([seed, 3])
    stride, margin, sites = config.stride, config.margin_cells, SITES[config]
    belief, site, grown = np.zeros(free.shape, np.uint8), rng.integers(0, sites, 2), []
    while len(grown) < steps:
        onward = np.clip(site + rng.integers(-2, 3, 2), 0, sites - 1)
        if reach is None:
            low, size = rng.integers(margin, margin + stride * sites, 2), rng.integers(1, 6 * stride, 2)
            known = [(low, low + size)]
        else:
            cells = [margin + stride * place + rng.integers(0, stride, 2) for place in (site, (site + onward) // 2)]
            known = [(cell - reach, cell + reach + 1) for cell in cells]
        seen = np.zeros(belief.shape, bool)
        for (y0, x0), (y1, x1) in known:
            seen[y0:y1, x0:x1] = True
        seen &= rng.random(seen.shape) > rng.choice([0.0, 0.0, 0.01])
        seen[:margin] = seen[-margin:] = seen[:, :margin] = seen[:, -margin:] = False
        belief = np.where(seen, np.where(free, 1, 2), belief).astype(np.uint8)
        grown.append((belief, tuple(((site + onward) // 2).tolist())))
        site = onward
    return grown


def nothing(config: Config) -> Network:
    return no_network(SITES[config])


def check(found: Network, expected) -> None:
    for name, array in zip(Network._fields, expected, strict=True):
        np.testing.assert_array_equal(getattr(found, name), array, name)


def fits(config: Config, belief: np.ndarray, radius_mm: int) -> np.ndarray:
    return oracles.roads.passable(belief, radius_mm, config.cell_m)


@road_configs
@given(seed=seeds, radius_mm=radii)
@settings(max_examples=10)
def test_where_a_body_fits_and_where_it_may_equals_oracle(config, seed, radius_mm):
    radius_mm = radius_for(config, radius_mm)
    belief, reach = draw_case(config, seed).belief, body_reach(config)
    passable = np.asarray(jitted_passable(config, jnp.asarray(belief), whole(radius_mm)))
    expected = fits(config, belief, radius_mm)
    inner = slice(reach, len(belief) - reach)
    np.testing.assert_array_equal(passable, expected[inner, inner])
    inside = jnp.asarray(passable[1:-1, 1:-1])
    undecided = jitted_undecided(config, jnp.asarray(belief), inside, whole(radius_mm))
    inner = slice(reach + 1, len(belief) - reach - 1)
    expected = oracles.roads.undecided(belief, radius_mm, config.cell_m)[inner, inner]
    np.testing.assert_array_equal(undecided, expected)


@road_configs
@given(seed=seeds, radius_mm=radii)
@settings(max_examples=5)
def test_networks_of_growing_maps_equal_oracle(config, seed, radius_mm):
    """Viewpoints, when they settle, and all lengths."""
    radius_mm = radius_for(config, radius_mm)
    found = nothing(config)
    expected = tuple(np.asarray(part) for part in found)
    for belief, _ in growing(config, seed, 4):
        found = jitted_grow(config, jnp.asarray(belief), found, None, whole(radius_mm))
        expected = oracles.roads.grow(config, belief, *expected, radius_mm)
        check(found, expected)
    expected = oracles.roads.grow(config, belief, *(np.asarray(part) for part in nothing(config)), radius_mm)
    check(jitted_whole(config, jnp.asarray(belief), whole(radius_mm)), expected)


@given(seed=seeds, radius_mm=radii)
@settings(max_examples=4)
def test_a_decision_changes_the_network_around_it_as_the_oracle_does(seed, radius_mm):
    """Only a square of tiles around the move; the rest stays as it was."""
    config, radius_mm = WIDE_ROADS, radius_for(WIDE_ROADS, radius_mm)
    assert config.road_window_sites < SITES[config]
    found = nothing(config)
    for belief, middle in growing(config, seed, 4, reach=4):
        expected = oracles.roads.grow(config, belief, *(np.asarray(part) for part in found), radius_mm, middle)
        found = jitted_network(config, jnp.asarray(belief), found, whole(middle), whole(radius_mm))
        check(found, expected)


@pytest.mark.parametrize("seed", [*range(8), *RIM])
def test_what_is_updated_in_parts_is_right_everywhere(seed):
    """After many moves: the viewpoints of updates of everything; the ways that lead between them now, none longer.

    A viewpoint that settles late, at the rim of what is updated, may lack a way to a tile beyond (1 way in 10,000).
    """
    config, radius_mm = WIDE_ROADS, RADII_MM[seed % 3]
    parts = all_at_once = nothing(config)
    for belief, middle in growing(config, seed, 14, reach=4):
        parts = jitted_network(config, jnp.asarray(belief), parts, whole(middle), whole(radius_mm))
        all_at_once = jitted_grow(config, jnp.asarray(belief), all_at_once, None, whole(radius_mm))
    np.testing.assert_array_equal(parts.cell, all_at_once.cell)
    nobody_waits_long = jnp.full_like(parts.age, -config.stride)
    fresh = Network(parts.cell, nobody_waits_long, jnp.full_like(parts.length_mm, FAR_MM))
    fresh = jitted_grow(config, jnp.asarray(belief), fresh, None, whole(radius_mm))
    np.testing.assert_array_equal(fresh.cell, parts.cell)
    longer, there = np.asarray(parts.length_mm > fresh.length_mm), np.asarray(fresh.length_mm < FAR_MM)
    assert longer.sum() <= (0.02 * there.sum() if seed in RIM else 0)


def histories(seed: int, radius_mm: int, steps: int = 8) -> list[tuple[np.ndarray, Network]]:
    """Beliefs and networks of a robot that moves about."""
    found, history = nothing(WIDE_ROADS), []
    for belief, middle in growing(WIDE_ROADS, seed, steps, reach=4):
        found = jitted_network(WIDE_ROADS, jnp.asarray(belief), found, whole(middle), whole(radius_mm))
        history.append((belief, jax.device_get(found)))
    return history


@given(seed=seeds, radius_mm=st.sampled_from(RADII_MM[:3]))
@settings(max_examples=25)
def test_viewpoints_stay_where_they_are_and_ways_only_become_shorter(seed, radius_mm):
    config, before, base = WIDE_ROADS, jax.device_get(nothing(WIDE_ROADS)), None
    home_mm = np.full(before.age.shape, FAR_MM, np.int32)
    for belief, now in histories(seed, radius_mm):
        there = before.cell[..., 0] >= 0
        np.testing.assert_array_equal(now.cell[there], before.cell[there])
        assert (now.length_mm <= before.length_mm).all()
        assert (now.age >= before.age).all()
        assert now.age.max() <= oracles.roads.PATIENCE
        places = np.argwhere(now.cell[..., 0] >= 0)
        cells = now.cell[tuple(places.T)]
        np.testing.assert_array_equal(config.lattice.site(cells), places)
        assert fits(config, belief, radius_mm)[tuple(cells.T)].all()
        if base is None and len(places):
            base = places[0]
        if base is not None:
            home_mm = check_home(now, base, home_mm)
        check_edges(config, belief, now, radius_mm)
        before = now


jitted_paths = jax.jit(shortest_paths)


def check_home(now: Network, base: np.ndarray, before_mm: np.ndarray) -> np.ndarray:
    """Distances home only shrink, and the old ones are a start from which the new ones are found."""
    at_base = np.zeros(before_mm.shape, bool)
    at_base[tuple(base)] = True
    anew = np.asarray(jitted_paths(now.length_mm, from_sites(jnp.asarray(at_base))))
    assert (anew <= before_mm).all()
    onward = jitted_paths(now.length_mm, jnp.where(at_base, 0, before_mm))
    np.testing.assert_array_equal(onward, anew)
    return anew


def check_edges(config: Config, belief: np.ndarray, now: Network, radius_mm: int) -> None:
    """Edges join viewpoints, lead both ways, and are no shorter than the straight line."""
    assert (now.length_mm[SELF_SLOT] == FAR_MM).all()
    for slot, i, j in np.argwhere(now.length_mm < FAR_MM).tolist():
        there = (i + int(SLOT_OFFSETS[slot, 0]), j + int(SLOT_OFFSETS[slot, 1]))
        assert min(there) >= 0, "an edge that leaves the lattice"
        start, end = now.cell[i, j], now.cell[there]
        assert start[0] >= 0
        assert end[0] >= 0
        length_mm = now.length_mm[slot, i, j]
        assert length_mm == now.length_mm[SLOTS - 1 - slot, *there]
        assert oracles.roads.straight_mm(tuple(start), tuple(end), config.spacing_mm, config.stride) <= length_mm


@given(seed=seeds, radius_mm=st.sampled_from(RADII_MM[:3]))
@settings(max_examples=6)
def test_moves_follow_the_edges(seed, radius_mm):
    """Each cell is one where the body fits; the way ends at the viewpoint, and is the shortest there is."""
    config, box = WIDE_ROADS, 9 * WIDE_ROADS.stride // 2 + 1
    rng = np.random.default_rng(seed)
    belief, now = histories(seed, radius_mm)[-1]
    free = fits(config, belief, radius_mm)
    edges = rng.permutation(np.argwhere(now.length_mm < FAR_MM))
    for slot, i, j in edges[:40].tolist():
        start = tuple(now.cell[i, j].tolist())
        end = tuple(now.cell[i + SLOT_OFFSETS[slot, 0], j + SLOT_OFFSETS[slot, 1]].tolist())
        path, length_mm = jitted_travel(config, jnp.asarray(belief), whole(start), whole(end), whole(radius_mm))
        if oracles.roads.straight(free, start, end):
            expected = oracles.roads.straight_mm(start, end, config.spacing_mm, config.stride)
        else:
            parts = oracles.roads.shortest_way(free, start, end, box)
            expected = oracles.roads.way_mm(parts, config.spacing_mm, config.stride)
        assert length_mm == expected
        assert length_mm <= now.length_mm[slot, i, j], "a move that is longer than its robot counted with"
        check_path(config, free, [start, *map(tuple, np.asarray(path).tolist())], end, int(length_mm))


def check_path(config: Config, free: np.ndarray, cells: list, end: tuple[int, int], length_mm: int) -> None:
    """The cells after each substep: at equal parts of the way, as near as cells allow."""
    assert cells[-1] == end
    part_mm, cell_mm = length_mm / config.substeps, config.spacing_mm / config.stride
    for here, there in pairwise(cells):
        assert free[there]
        parts = oracles.roads.shortest_way(free, here, there, 9 * config.stride // 2 + 1)
        assert parts is not None
        assert np.hypot(there[0] - here[0], there[1] - here[1]) * cell_mm <= part_mm + 1.5 * cell_mm


@pytest.mark.slow
def test_every_robot_stands_at_a_viewpoint_of_its_own():
    """Robots of different width start together. A smaller one does not wait for a better viewpoint at its base."""
    config = dataclasses.replace(SMALL, coarsest_cell_m=0.2, roads=True, radius_m=0.45)
    radius_mm = whole([450, 150, 0])
    fleet = dataclasses.replace(
        Fleet.of(3, 40.0), bodies=dataclasses.replace(Bodies.alike(config, 3), radius_mm=radius_mm)
    )
    for seed in (45, 92, 130, 262, 270):
        with patch.dict(SITES, {config: 10}):
            world = draw_case(config, seed).world
        robots = jax.device_get(jitted_reset(config, jax.random.key(seed), world, fleet).robots)
        for number in range(3):
            cell = robots.graph.cell[number, *robots.base[number]]
            assert cell[0] >= 0
            assert fits(config, robots.belief[number], int(radius_mm[number]))[tuple(cell)]


def test_a_robot_that_stays_is_where_it_was():
    belief = np.full((SITES[WIDE_ROADS] * 4 + 2 * WIDE_ROADS.margin_cells,) * 2, FREE, np.uint8)
    here = whole((30, 31))
    path, length_mm = jitted_travel(WIDE_ROADS, jnp.asarray(belief), here, here, whole(250))
    np.testing.assert_array_equal(path, np.tile([30, 31], (WIDE_ROADS.substeps, 1)))
    assert length_mm == 0


@pytest.mark.parametrize(("config", "seed"), [(ROADS[0], 1), (ROADS[1], 2), (ROADS[2], 3), (WIDE_ROADS, 5)])
def test_there_are_straight_ways_and_bent_ones(config, seed):
    """What the other tests compare is not nothing."""
    belief, radius_mm = growing(config, seed, 30)[-1][0], config.radius_mm
    found = jax.device_get(jitted_whole(config, jnp.asarray(belief), whole(radius_mm)))
    free = fits(config, belief, radius_mm)
    straight = oracles.roads.straight_lengths(free, found.cell, config.spacing_mm, config.stride) < FAR_MM
    assert straight.sum() > 20
    assert ((found.length_mm < FAR_MM) & ~straight).sum() > 4
    middle = config.lattice.cell(np.argwhere(found.cell[..., 0] >= 0))
    assert (found.cell[found.cell[..., 0] >= 0] != middle).any(), "all viewpoints are in the middle of their tiles"
