"""Every stage and every proposal of NBVP against the oracle."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.lattice
import oracles.nbvp
from cases import DEFAULT, FINE, SMALL
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, FREE, RETURN_HOME, LocalView
from decmarvel.robot.budget import affordable
from decmarvel.robot.planners import goals as goal
from decmarvel.robot.planners import nbvp
from decmarvel.simulation import roster
from minds import draw_mind, draw_view, fewer, whole
from oracles.mind import Mind
from robot.planners.checks import check_nbvp, propose, samples_of, whole_gain

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(60)), (FINE, range(10)), (DEFAULT, range(1))])
def test_gains_equal_oracle(config, seeds):
    for seed in seeds:
        mind = draw_mind(config, seed)
        got = jax.device_get(whole_gain(config, draw_view(config, seed)))
        floor = np.array([[mind.belief[mind.cell((i, j))] == FREE for j in range(mind.size)] for i in range(mind.size)])
        assert floor.any()
        for field, expected in zip(got, oracles.nbvp.gains(config, mind.belief, floor, *mind.camera), strict=True):
            np.testing.assert_array_equal(field, expected)


@partial(jax.jit, static_argnums=0)
def plant(config: Config, view: LocalView, promise, branch, key):
    open_ = affordable(config, view, goal.distances_from_here(config, view))
    young = nbvp.replant(config, view, open_, promise, branch)
    tree = nbvp.grow(config, key, view, open_, promise, young)
    return young, tree, nbvp.best_branch(tree, view.site)


def check_tree(mind: Mind, got: nbvp.Tree, expected: oracles.nbvp.Tree) -> None:
    assert int(got.size) == len(expected)
    assert {(int(i), int(j)) for i, j in np.argwhere(got.inside)} == set(expected)
    for site, vertex in expected.items():
        parent = vertex.parent or site
        assert int(got.parent[site]) == parent[0] * mind.size + parent[1]
        assert int(got.length_mm[site]) == vertex.path_mm
        assert float(got.worth[site]) == pytest.approx(vertex.worth, rel=1e-5, abs=1e-6)


def padded(branch: list[oracles.lattice.Site]) -> np.ndarray:
    """A branch as the planner keeps it."""
    rows = np.full((oracles.nbvp.REMEMBERED, 2), -1)
    for index, site in enumerate(branch[: oracles.nbvp.REMEMBERED]):
        rows[index] = site
    return rows


def walk(mind: Mind, seed: int) -> list[oracles.lattice.Site]:
    """A walk from the robot's node that holds for a while: as a branch of the past."""
    rng, here, branch = np.random.default_rng([seed, 9]), mind.site, []
    for _ in range(rng.integers(0, 8)):
        slots = np.flatnonzero(mind.edge[:, here[0], here[1]])
        slot = int(rng.choice(slots)) if len(slots) and rng.random() < 0.9 else int(rng.integers(25))
        here = oracles.lattice.neighbour(here, slot)
        if not oracles.lattice.inside((mind.size, mind.size), *here):
            break
        branch.append(here)
    return branch


@fewer
def test_trees_equal_oracle(config, seeds):
    """Replanting, growth, worth and the best branch, for promises that are many, few or none."""
    replanted, large, worthless = 0, 0, 0
    for seed in seeds:
        mind, view, key = draw_mind(config, seed), draw_view(config, seed), jax.random.key(seed)
        if not mind.affordable.any():
            continue
        rng = np.random.default_rng([seed, 10])
        some = mind.affordable & (rng.random(mind.affordable.shape) < rng.choice([0.0, 0.05, 0.8]))
        promise = np.where(some, rng.integers(10, 100, some.shape), 0)
        branch = walk(mind, seed)
        young, tree, best = jax.device_get(
            plant(config, view, jnp.asarray(promise, jnp.float32), whole(padded(branch)), key)
        )
        expected = oracles.nbvp.replant(mind, promise, branch)
        check_tree(mind, young, expected)
        replanted += len(expected) > 1
        expected = oracles.nbvp.grow(mind, promise, expected, samples_of(mind, key))
        check_tree(mind, tree, expected)
        large += len(expected) >= oracles.nbvp.ENOUGH_VERTICES
        if max(vertex.worth for vertex in expected.values()) > 0:
            np.testing.assert_array_equal(best, padded(oracles.nbvp.best_branch(expected)))
        else:
            worthless += 1
    assert replanted > len(seeds) // 4
    assert min(large, worthless) >= len(seeds) // 20


def one_view_left(mind: Mind, cells: np.ndarray, bins: np.ndarray, own: bool) -> Mind:
    """The same robot, which has looked everywhere but from one node: its own, or the farthest that promises much."""
    rich = [site for site in mind.sites() if mind.affordable[site] and cells[site] >= oracles.nbvp.LEAST_GAIN]
    left = mind.site if own else max(rich, key=lambda site: mind.here[site], default=mind.site)
    sensed = np.ones_like(mind.sensed)
    sensed[left][bins[left]] = False
    return dataclasses.replace(mind, sensed=sensed)


def test_nbvp_equals_oracle():
    """Whole proposals on random maps: with worth, with the only promise outside the tree, with none."""
    different, home, outside = 0, 0, 0
    for seed in range(60):
        mind, view, key = draw_mind(SMALL, seed), draw_view(SMALL, seed), jax.random.key(seed)
        if not mind.feasible.any() or not mind.affordable.any():
            continue
        cells, bins = oracles.nbvp.gains(SMALL, mind.belief, mind.home < FAR_MM, *mind.camera)
        if seed % 3:
            mind = one_view_left(mind, cells, bins, own=seed % 3 == 1)
            view = dataclasses.replace(view, sensed=jnp.asarray(mind.sensed))
        old = nbvp.Plan(whole(cells), whole(bins), whole(padded(walk(mind, seed))), whole(mind.site))
        proposal, new = jax.device_get(propose(SMALL, roster.planner("nbvp"), view, old, key))
        different += not check_nbvp(mind, jax.device_get(old), new, proposal, key)
        home += int(proposal.choice) == RETURN_HOME
        outside += seed % 3 == 1 and int(proposal.choice) != RETURN_HOME
    assert different <= 1
    assert min(home, outside) > 3
