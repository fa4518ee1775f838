"""Stale nodes against a second version: what is left to see from them is nothing new to the team."""

import dataclasses
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.camera
import oracles.goals
import oracles.graph
import oracles.lattice
from cases import SMALL
from decmarvel.core.types import LocalView
from decmarvel.simulation.environment import views
from decmarvel.training.stale_labels import stale_labels
from minds import ROBOTS, draw_mind, draw_view
from missions import mind_of, mission
from oracles.lattice import UNKNOWN, UNREACHABLE
from oracles.mind import Mind

pytestmark = pytest.mark.slow

find = jax.jit(stale_labels, static_argnums=0)
find_in_flight = jax.jit(lambda state: stale_labels(SMALL, views(SMALL, state)))


def left_to_see(mind: Mind, site: oracles.lattice.Site) -> oracles.lattice.Cell | None:
    """The nearest frontier in the directions in which a robot has not looked from a site, ties to the lower bin."""
    nearest = oracles.goals.nearest_by_bin(mind, site)
    if not nearest:
        return None
    return nearest[min(nearest, key=lambda towards: (nearest[towards][0], towards))][1]


def check(mind: Mind, frontier: np.ndarray, got: np.ndarray) -> Counter[str]:
    """Compare the nodes of one robot, given the frontiers of its team, and count what there was to compare."""
    counts: Counter[str] = Counter()
    for site in mind.sites():
        node, cell = mind.home[site] < UNREACHABLE, left_to_see(mind, site)
        if cell is None:
            assert not got[site], (mind.number, site)
            counts["nothing left"] += node
        elif node:
            assert got[site] == (not frontier[cell]), (mind.number, site, cell)
            counts["fresh" if frontier[cell] else "stale"] += 1
            around = oracles.graph.around(frontier.shape, *cell)
            counts["lone"] += bool(frontier[cell]) and not any(frontier[other] for other in around)
    return counts


def test_stale_labels_along_missions_equal_oracle():
    """Teams of three with plenty to fly, with little, and with a robot that fails."""
    counts: Counter[str] = Counter()
    for seed in (0, 1, 2, 4, 5, 6):
        for before, *_ in mission(SMALL, "sector", seed, 12):
            robots, got = jax.device_get((before.state.robots, find_in_flight(before.state)))
            assert got.dtype == bool
            assert got.shape == robots.visits.shape
            frontier = oracles.graph.frontiers(oracles.camera.merged_belief(robots.belief))
            for number in range(ROBOTS):
                counts += check(mind_of(SMALL, robots, number), frontier, got[number])
    assert counts["stale"] > 800
    assert counts["fresh"] > 800
    assert counts["nothing left"] > 300


def team_of(view: LocalView, beliefs: np.ndarray) -> LocalView:
    """Robots that differ in nothing but their maps."""
    alike = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(beliefs)), view)
    return dataclasses.replace(alike, belief=jnp.asarray(beliefs))


def test_lone_frontiers_of_the_team_count():
    """A teammate that knows cells here and there leaves frontiers of the team in groups of one."""
    counts: Counter[str] = Counter()
    for seed in range(40):
        mind, rng = draw_mind(SMALL, seed), np.random.default_rng([seed, 12])
        mate = rng.choice(3, mind.belief.shape, p=(0.4, 0.3, 0.3)) * (mind.belief == UNKNOWN)
        beliefs = np.stack([mind.belief, mate.astype(np.uint8)])
        got = find(SMALL, team_of(draw_view(SMALL, seed), beliefs))
        counts += check(mind, oracles.graph.frontiers(oracles.camera.merged_belief(beliefs)), np.asarray(got[0]))
    assert counts["stale"] > 300
    assert counts["fresh"] > 150
    assert counts["lone"] > 10


def test_alone_nothing_is_stale():
    """What the team knows is then what the robot knows."""
    counts: Counter[str] = Counter()
    for seed in range(40):
        mind = draw_mind(SMALL, seed)
        got = np.asarray(find(SMALL, team_of(draw_view(SMALL, seed), mind.belief[None])))
        assert got.shape == (1, mind.size, mind.size)
        assert not got.any()
        counts += check(mind, oracles.graph.frontiers(mind.belief), got[0])
    assert counts["fresh"] > 500
