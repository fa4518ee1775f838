"""Edges, shortest paths, frontiers, utilities, candidate headings: each against its oracle."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles.graph
import oracles.lattice
from cases import DEFAULT, FINE, SITES, SMALL, Case, cases, draw_case
from decmarvel.core.config import Config
from decmarvel.core.lattice import SLOT_OFFSETS
from decmarvel.core.types import FAR_MM
from decmarvel.robot.graph import build, edges, from_sites, no_graph, shortest_paths
from decmarvel.robot.observation import candidate_headings, window_headings
from decmarvel.robot.sight import empty_sight, frontiers, grouped, nearest_frontiers, thin
from minds import lengths_mm, middles
from oracles.lattice import UNREACHABLE

seeds = st.integers(0, 2**32 - 1)


def draw_sensed(config: Config, seed: int) -> np.ndarray:
    sites = SITES[config]
    return np.random.default_rng(seed).random((sites, sites, config.heading_bins)) < 0.2


@partial(jax.jit, static_argnums=0)
def whole_graph(config: Config, belief, base, range_mm):
    """The graph built window by window over the whole lattice: as if the robot had looked at everything just now."""
    sites, unknown = SITES[config], jnp.zeros_like(belief)
    radius_mm = jnp.array(0, jnp.int32)

    def look(graph, middle):
        # It knew nothing there before, and what it had seen of other places stays.
        return build(config, unknown, belief, base, graph, middle, range_mm, radius_mm), None

    graph = no_graph(empty_sight(config, sites))
    return jax.lax.scan(look, graph, jnp.asarray(middles(config, sites)))[0]


def draw_camera(config: Config, seed: int) -> tuple[int, int]:
    """Field of view and range of a robot: every other one as the configuration says."""
    rng, farthest = np.random.default_rng([seed, 2]), round(1000 * config.sensor_range_m)
    if seed % 2:
        return config.fov_deg, farthest
    return int(rng.integers(20, 361)), int(rng.integers(farthest // 2, farthest + 1))


def check_graph(case: Case, seed: int) -> None:
    config, belief = case.config, case.belief.copy()
    belief[oracles.lattice.site_cell(config, *case.start)] = 1
    sensed = draw_sensed(config, seed)
    fov_deg, range_mm = draw_camera(config, seed)
    graph = whole_graph(config, jnp.asarray(belief), jnp.asarray(case.start, jnp.int32), jnp.asarray(range_mm))
    edge = oracles.graph.edges(config, belief)
    np.testing.assert_array_equal(graph.edge, edge)
    home = oracles.graph.distances(config, edge, [case.start])
    np.testing.assert_array_equal(graph.home_mm, home)
    node = home < UNREACHABLE
    utility, histogram = oracles.graph.utilities(config, belief, node, range_mm)
    np.testing.assert_array_equal(graph.utility, utility)
    np.testing.assert_array_equal(np.asarray(graph.sight.histogram) * node[..., None], histogram)
    useful = [tuple(site) for site in np.argwhere(utility > 0)]
    useful_mm = oracles.graph.distances(config, edge, useful)
    np.testing.assert_array_equal(graph.useful_mm, useful_mm)
    mm, cell = oracles.graph.nearest_frontiers(config, belief, node, sensed, range_mm)
    got_mm, got_cell = open_frontiers(config, graph, sensed)
    np.testing.assert_array_equal(np.where(node, got_mm, FAR_MM), mm)
    np.testing.assert_array_equal(np.where(node, got_cell, -1), cell)
    for here in np.argwhere(node)[:: max(1, node.sum() // 4)]:
        expected = oracles.graph.candidate_headings(config, edge, utility, histogram, useful_mm, tuple(here), fov_deg)
        got = np.asarray(jitted_headings(config, graph, jnp.asarray(here, jnp.int32), jnp.asarray(fov_deg)))
        linked = edge[:, here[0], here[1]]
        np.testing.assert_array_equal(got[linked], expected[linked])


def open_frontiers(config: Config, graph, sensed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest frontier over the directions that are still open, from the nearest in each direction."""
    mm, cell = (np.asarray(part) for part in nearest_frontiers(config, graph))
    rank = np.where(sensed, np.iinfo(np.int16).max, np.asarray(graph.sight.nearest_rank))
    best = rank.argmin(axis=-1)[..., None]
    mm = np.take_along_axis(np.where(sensed, FAR_MM, mm), best, axis=-1)[..., 0]
    cell = np.take_along_axis(cell, best[..., None], axis=-2)[..., 0, :]
    return mm, np.where(mm < FAR_MM, cell[..., 0] * config.lattice.grid_cells(mm.shape[0]) + cell[..., 1], -1)


jitted_headings = jax.jit(candidate_headings, static_argnums=0)


@pytest.mark.slow
@given(cases(SMALL), seeds)
@settings(max_examples=150)
def test_graph_equals_oracle(case, seed):
    check_graph(case, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("config", "seed"), [(DEFAULT, 1), (DEFAULT, 2), (FINE, 3), (FINE, 4), (FINE, 5)])
def test_graph_equals_oracle_at_other_scales(config, seed):
    check_graph(draw_case(config, seed), seed)


@given(cases(SMALL))
@settings(max_examples=100)
def test_edges_are_symmetric(case):
    edge = np.asarray(jax.jit(edges, static_argnums=0)(SMALL, jnp.asarray(case.belief)))
    for slot, (dy, dx) in enumerate(SLOT_OFFSETS):
        for y, x in np.argwhere(edge[slot]):
            assert edge[24 - slot, y + dy, x + dx]


@given(cases(SMALL))
@settings(max_examples=100)
def test_frontiers_equal_oracle(case):
    frontier = frontiers(jnp.asarray(case.belief))
    expected = oracles.graph.frontiers(case.belief)
    np.testing.assert_array_equal(frontier, expected)
    np.testing.assert_array_equal(grouped(frontier), oracles.graph.grouped(expected))
    np.testing.assert_array_equal(thin(frontier, jnp.zeros(2, jnp.int32)), oracles.graph.thinned(expected))


@given(cases(SMALL), st.integers(0, 11), st.integers(0, 11))
@settings(max_examples=100)
def test_distances_from_anywhere_and_from_an_earlier_answer(case, y, x):
    edge = oracles.graph.edges(SMALL, case.belief)
    expected = oracles.graph.distances(SMALL, edge, [(y, x)])
    mask = np.zeros((12, 12), bool)
    mask[y, x] = True
    relax = jax.jit(lambda edge, start: shortest_paths(lengths_mm(SMALL, edge), start))
    got = relax(jnp.asarray(edge), from_sites(jnp.asarray(mask)))
    np.testing.assert_array_equal(got, expected)
    fewer = edge & (np.random.default_rng(y).random(edge.shape) > 0.3)
    fewer &= np.stack([np.roll(fewer[24 - k], -SLOT_OFFSETS[k], (0, 1)) for k in range(25)])  # stays symmetric
    earlier = relax(jnp.asarray(fewer), from_sites(jnp.asarray(mask)))
    np.testing.assert_array_equal(relax(jnp.asarray(edge), earlier), expected)


@given(st.lists(st.integers(0, 9), min_size=36, max_size=36), seeds, st.sampled_from([120, 10, 45, 79, 180, 360]))
def test_window_headings_equal_oracle(counts, seed, fov_deg):
    histogram = np.array(counts) * (np.random.default_rng(seed).random(36) < 0.2)
    histogram[seed % 36] += 1
    got = window_headings(DEFAULT, jnp.asarray(histogram, jnp.int32), jnp.asarray(fov_deg))
    assert got.tolist() == oracles.graph.window_headings(DEFAULT, histogram, fov_deg)


def test_a_single_frontier_is_looked_at_straight():
    histogram = np.zeros(36, np.int32)
    histogram[7] = 5
    assert window_headings(DEFAULT, jnp.asarray(histogram), jnp.asarray(120)).tolist() == [7, 10, 4]
