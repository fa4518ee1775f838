"""Every stage and every proposal of SMMR against the oracle."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.smmr
from cases import DEFAULT, SMALL
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, LocalView
from decmarvel.robot.budget import affordable
from decmarvel.robot.planners import goals as goal
from decmarvel.robot.planners import smmr
from decmarvel.simulation import roster
from minds import draw_mind, draw_view, fewer, pair, whole, worlds
from robot.planners.checks import check_pursuit, propose


@worlds
def test_clusters_equal_oracle(config, seeds):
    group = jax.jit(smmr.cluster)
    most = 0
    for seed in seeds:
        mind = draw_mind(config, seed)
        expected = oracles.smmr.clusters(mind.frontier)
        got = jax.device_get(group(jnp.asarray(mind.frontier)))
        count = int((got.size > 0).sum())
        assert [(int(n), pair(cell)) for n, cell in zip(got.size[:count], got.centre[:count], strict=True)] == [
            (cluster.size, cluster.centre) for cluster in expected
        ], seed
        most = max(most, count)
    assert most >= (20 if config == SMALL else 3)


def test_clusters_of_too_many_targets():
    """More frontier cells and clusters than fit: the first cells count, and of those the largest clusters."""
    rng = np.random.default_rng(1)
    for density in (0.05, 0.1, 0.2, 0.4):
        frontier = rng.random((80, 80)) < density
        got = jax.device_get(jax.jit(smmr.cluster)(jnp.asarray(frontier)))
        expected = oracles.smmr.clusters(frontier)
        assert got.size.tolist()[: len(expected)] == [cluster.size for cluster in expected]
        assert [pair(cell) for cell in got.centre][: len(expected)] == [cluster.centre for cluster in expected]


@partial(jax.jit, static_argnums=0)
def field(config: Config, view: LocalView, distance_mm, size):
    """The potential, given the distances."""
    pull = smmr.attraction(config, distance_mm, size)
    return pull + smmr.repulsion(config, view.sightings, view.graph.cell)


@partial(jax.jit, static_argnums=0)
def fall(config: Config, view: LocalView, potential, viewpoints):
    open_ = affordable(config, view, goal.distances_from_here(config, view))
    return smmr.descend(view, open_, potential, viewpoints)


@pytest.mark.slow
@fewer
def test_potential_and_descent_equal_oracle(config, seeds):
    ends, repelled = 0, 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        attracted = oracles.smmr.attractors(mind)
        shape = (oracles.smmr.MOST_CLUSTERS, mind.size, mind.size)
        distance_mm, size, stops = np.full(shape, FAR_MM), np.zeros(shape[0]), np.full(shape[0], -1)
        for index, attractor in enumerate(attracted):
            distance_mm[index] = oracles.smmr.cluster_mm(mind, attractor)
            size[index] = attractor.cluster.size
            stops[index] = attractor.viewpoint[0] * mind.size + attractor.viewpoint[1]
        level, reach = oracles.smmr.potential(mind, attracted), mind.affordable
        got = np.asarray(field(config, view, whole(distance_mm), whole(size)))
        np.testing.assert_array_equal(got[reach], level[reach])
        repelled += bool(mind.in_sight)
        last = int(fall(config, view, whole(level), whole(stops)))
        descent = oracles.smmr.descend(mind, level, {attractor.viewpoint for attractor in attracted})
        assert (last // mind.size, last % mind.size) == descent.last, seed
        ends += descent.end is not None
    assert ends > len(seeds) // 4
    assert repelled > len(seeds) // 4


@pytest.mark.slow
@fewer
def test_descent_over_rough_ground_equals_oracle(config, seeds):
    """Levels at random: the descent is caught, and the flow sets it free again, often or until the steps run out."""
    reached = 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        rng = np.random.default_rng([seed, 12])
        level = rng.integers(-20, 20, mind.affordable.shape) * 25_000  # with ties
        stops = set()
        if seed % 2:  # some viewpoints, not too near; without any, all steps are taken
            stops = {s for s in mind.sites() if mind.affordable[s] and mind.here[s] > 3 * config.spacing_mm}
            stops = {s for s in sorted(stops)[: oracles.smmr.MOST_CLUSTERS] if rng.random() < 0.3}
        flat = np.full(oracles.smmr.MOST_CLUSTERS, -1)
        flat[: len(stops)] = [i * mind.size + j for i, j in sorted(stops)]
        last = int(fall(config, view, whole(level), whole(flat)))
        descent = oracles.smmr.descend(mind, level, stops)
        assert (last // mind.size, last % mind.size) == descent.last, seed
        reached += descent.end is not None
    assert reached > len(seeds) // 10 or config == DEFAULT


@pytest.mark.slow
@fewer
def test_smmr_equals_oracle(config, seeds):
    chosen = 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        proposal, _ = jax.device_get(propose(config, roster.planner("smmr"), view, None, jax.random.key(seed)))
        if mind.feasible.any():
            check_pursuit(mind, oracles.smmr.smmr_goal(mind), True, proposal)
            chosen += int(proposal.choice) >= 0
    assert chosen > len(seeds) // 4
