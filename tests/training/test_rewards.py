"""Every term of the reward against plain loops."""

import math
from dataclasses import fields
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.camera
import oracles.graph
import oracles.lattice
from cases import SMALL
from decmarvel.core.types import EXPLORING, RETURNING
from decmarvel.training.rewards import RewardTerms, reward
from oracles.lattice import FREE, UNKNOWN
from training.small_missions import ALL_TERMS, MISSIONS, ROBOTS, mission

pytestmark = pytest.mark.slow

TERMS = tuple(term.name for term in fields(RewardTerms))


def every_decision():
    return [decision for name in MISSIONS for decision in mission(name)]


def frontiers_in_view(belief: np.ndarray, target: tuple[int, int], heading: int) -> int:
    """How many thinned frontiers a robot with this map sees at a site, in the 13 bins around a heading."""
    cell = oracles.lattice.site_cell(SMALL, *target)
    frontier = oracles.graph.thinned(oracles.graph.frontiers(belief))
    middle, count = (heading + 5) // 10 % 36, 0
    for y, x in oracles.camera.visible_cells(belief == FREE, *cell, SMALL.utility_radius_cells) - {cell}:
        away = (oracles.lattice.direction_bin(SMALL, y - cell[0], x - cell[1]) - middle) % 36
        count += bool(frontier[y, x]) and min(away, 36 - away) <= 6
    return count


def trail_at(robot_sightings, number: int, target: tuple[int, int]) -> float:
    """Freshness of the latest sighting of a teammate in the tile of a site."""
    best = 0.0
    for mate in range(ROBOTS):
        for age in range(SMALL.history):
            away = (
                robot_sightings.cell[number, mate, age] - oracles.lattice.site_cell(SMALL, *target) + SMALL.stride // 2
            )
            if robot_sightings.seen[number, mate, age] and (away >= 0).all() and (away < SMALL.stride).all():
                best = max(best, 1 - age / SMALL.history)
    return best


def expected_terms(name):
    """Decision by decision and robot by robot, the terms by plain loops over the recorded states."""
    low_gains, free = [0] * ROBOTS, MISSIONS[name][0].free
    team_done, own_done = False, [False] * ROBOTS
    for index, (before, _, move, after, _, _) in enumerate(mission(name)):
        merged = oracles.camera.merged_belief(before.robots.belief)
        if index == 0:
            team_done = 100 * (merged == FREE).sum() >= 99 * free.sum()
            own_done = [100 * (belief == FREE).sum() >= 99 * free.sum() for belief in before.robots.belief]
        merged_after = oracles.camera.merged_belief(after.robots.belief)
        was, is_ = (oracles.graph.thinned(oracles.graph.frontiers(belief)) for belief in (merged, merged_after))
        removed = (was & ~is_).sum() / 39
        covered = (merged_after == FREE).sum()
        hurry = 0.0 if team_done else -0.25
        crossing = not team_done and 100 * covered >= 99 * free.sum()
        team_done = team_done or crossing
        rows = []
        for robot in range(ROBOTS):
            own_covered = (after.robots.belief[robot] == FREE).sum()
            own_crossing = not own_done[robot] and 100 * own_covered >= 99 * free.sum()
            own_done[robot] = own_done[robot] or own_crossing
            if move.mode[robot] != EXPLORING:
                rows.append([0.0] * 11)
                continue
            target, heading = tuple(move.target[robot].tolist()), int(move.heading[robot])
            fov = frontiers_in_view(before.robots.belief[robot], target, heading) / 26
            team = frontiers_in_view(merged, target, heading) / 26
            dy, dx = move.target[robot] - before.robots.site[robot]
            align = 0.1 * math.cos(math.radians(heading) - math.atan2(dy, dx)) if dy or dx else 0.0
            low_gains[robot] = low_gains[robot] + 1 if 0.5 * fov + team < 0.05 else 0
            trail = -0.15 * trail_at(before.robots.sightings, robot, target)
            repeat = -0.05 * max(low_gains[robot] - 1, 0)
            bonuses = 5.0 * crossing, 2.5 * own_crossing
            flown = math.ceil(SMALL.spacing_mm * math.hypot(dy, dx)) / SMALL.spacing_mm
            news = ((after.robots.belief[robot] == FREE) & (merged == UNKNOWN)).sum() / 100
            rows.append([0.7 * fov, team, align, trail, repeat, *bonuses, removed, -0.5, hurry * flown, 0.8 * news])
        yield np.array(rows)


@pytest.mark.parametrize("name", MISSIONS)
def test_reward_terms(name):
    """Eq. 7."""
    for (*_, terms, _), expected in zip(mission(name), expected_terms(name), strict=True):
        for column, term in enumerate(TERMS):
            np.testing.assert_allclose(getattr(terms, term), expected[:, column], atol=2e-5, err_msg=term)
        total = jax.tree.map(jnp.asarray, terms).total
        np.testing.assert_allclose(total, expected.sum(axis=1), atol=1e-4)


def test_every_term_is_put_to_the_test():
    """The missions hold gains that differ between own and merged maps, trails, repeats and both crossings."""
    terms = [terms for *_, terms, _ in every_decision()]
    for name in TERMS:
        assert len({round(float(v), 4) for term in terms for v in getattr(term, name)}) >= 2, name
    assert any((np.abs(term.fov - 0.7 * term.merged) > 0.01).any() for term in terms)
    assert min(term.repeat.min() for term in terms) < -0.06
    assert any(((term.align < 0).any() and (term.align > 0).any()) for term in terms)


def test_bonuses_are_paid_once():
    """Each team crosses 99% once, each robot once; a robot that turned home before gets neither."""
    paid = 0
    for name in MISSIONS:
        team = np.array([terms.team for *_, terms, _ in mission(name)])
        own = np.array([terms.individual for *_, terms, _ in mission(name)])
        exploring = np.array([move.mode == EXPLORING for _, _, move, *_ in mission(name)])
        assert team.any(axis=1).sum() <= 1
        assert ((own > 0).sum(axis=0) <= 1).all()
        assert (team[team.any(axis=1)] == 5.0 * exploring[team.any(axis=1)]).all()
        paid += team.any()
    assert paid >= 2


def test_the_executed_choice_counts():
    """Where a conflict sent a robot elsewhere, fov is what it sees there and not where it wanted to go."""
    moved = held = different = 0
    for before, proposals, move, _, terms, _ in every_decision():
        for robot in np.flatnonzero((move.mode == EXPLORING) & (move.choice != proposals.choice)):
            site, wanted = before.robots.site[robot], int(proposals.choice[robot])
            target = tuple((site + oracles.lattice.slot_offset(wanted // 3)).tolist())
            heading = int(proposals.heading[robot].reshape(-1)[wanted])
            instead = frontiers_in_view(before.robots.belief[robot], target, heading) / 26
            moved, held = moved + (move.choice[robot] >= 0), held + (move.choice[robot] < 0)
            different += abs(0.7 * instead - terms.fov[robot]) > 0.01
            if move.choice[robot] < 0:
                assert terms.align[robot] == 0
    assert min(moved, held, different) >= 1


def test_robots_that_do_not_explore_earn_nothing():
    modes = set()
    for _, _, move, _, terms, _ in every_decision():
        for robot in np.flatnonzero(move.mode != EXPLORING):
            modes.add(int(move.mode[robot]))
            assert all(getattr(terms, term)[robot] == 0 for term in TERMS)
    assert modes == {1, 2, 3, 4}


def test_a_transition_ends_where_the_robot_explores_no_more():
    """`explores_on` after a decision tells which robots explore at the next one."""
    stops = 0
    for name in MISSIONS:
        decisions = mission(name)
        for (_, _, move, *_, on), (_, proposals, onward, *_) in pairwise(decisions):
            gave_up = (onward.mode == RETURNING) & (proposals.choice < 0)
            np.testing.assert_array_equal(on & ~gave_up, onward.mode == EXPLORING)
            stops += ((move.mode == EXPLORING) & ~on).sum()
    assert stops >= 4


def test_rewards_of_many_missions_at_once():
    """Mapped over missions, the reward is what it is alone."""
    pairs = [(before, move, after) for before, _, move, after, *_ in mission("rooms")[2:6]]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)
    none = jnp.zeros((4, ROBOTS), jnp.int32)
    score = jax.jit(jax.vmap(lambda b, m, a, q: reward(SMALL, ALL_TERMS, b, m, a, q)))
    terms, _ = score(*states, none)
    for index in range(4):
        alone = mission("rooms")[2 + index][4]
        for term in ("fov", "merged", "align", "trail", "team", "individual", "removed", "step", "hurry"):
            np.testing.assert_allclose(getattr(terms, term)[index], getattr(alone, term), atol=1e-6)
