"""Every term of the reward against plain loops."""

import math
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
from decmarvel.training.rewards import total_reward
from oracles.lattice import FREE, UNKNOWN
from training.small_missions import MISSIONS, REWARDS, ROBOTS, mission

pytestmark = pytest.mark.slow

TERMS = {
    "paper": ("fov", "merged", "align", "trail", "repeat", "team", "individual"),
    "predecessor": ("fov", "align", "team", "removed", "step"),
    "options": ("hurry", "covered"),
}


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
    """Decision by decision, robot by robot, the terms of each method by plain loops over the recorded states."""
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
                rows.append({method: [0.0] * len(TERMS[method]) for method in TERMS})
                continue
            target, heading = tuple(move.target[robot].tolist()), int(move.heading[robot])
            fov = frontiers_in_view(before.robots.belief[robot], target, heading) / 26
            team = frontiers_in_view(merged, target, heading) / 26
            dy, dx = move.target[robot] - before.robots.site[robot]
            align = math.cos(math.radians(heading) - math.atan2(dy, dx)) if dy or dx else 0.0
            low_gains[robot] = low_gains[robot] + 1 if 0.5 * fov + team < 0.05 else 0
            trail = -0.15 * trail_at(before.robots.sightings, robot, target)
            repeat = -0.05 * max(low_gains[robot] - 1, 0)
            flown = math.ceil(SMALL.spacing_mm * math.hypot(dy, dx)) / SMALL.spacing_mm
            news = ((after.robots.belief[robot] == FREE) & (merged == UNKNOWN)).sum() / 100
            rows.append(
                {
                    "paper": [0.7 * fov, team, 0.1 * align, trail, repeat, 5.0 * crossing, 2.5 * own_crossing],
                    "predecessor": [0.6 * fov, 0.2 * align, 8.0 * crossing, removed, -0.5],
                    "options": [hurry * flown, 0.8 * news],
                }
            )
        yield {method: np.array([row[method] for row in rows]) for method in TERMS}


@pytest.mark.parametrize("name", MISSIONS)
def test_reward_terms(name):
    """Eq. 7."""
    for (*_, found, _), wanted in zip(mission(name), expected_terms(name), strict=True):
        for method, terms in found.items():
            expected = wanted[method]
            assert set(terms) == set(TERMS[method])
            for column, term in enumerate(TERMS[method]):
                np.testing.assert_allclose(terms[term], expected[:, column], atol=2e-5, err_msg=f"{method}: {term}")
            np.testing.assert_allclose(total_reward(jax.tree.map(jnp.asarray, terms)), expected.sum(axis=1), atol=1e-4)


def test_every_term_is_put_to_the_test():
    """The missions hold gains that differ between own and merged maps, trails, repeats and both crossings."""
    found = [terms for *_, terms, _ in every_decision()]
    for method, names in TERMS.items():
        for name in names:
            assert len({round(float(v), 4) for terms in found for v in terms[method][name]}) >= 2, (method, name)
    terms = [each["paper"] for each in found]
    assert any((np.abs(term["fov"] - 0.7 * term["merged"]) > 0.01).any() for term in terms)
    assert min(term["repeat"].min() for term in terms) < -0.06
    assert any(((term["align"] < 0).any() and (term["align"] > 0).any()) for term in terms)


def test_bonuses_are_paid_once():
    """Each team crosses 99% once, each robot once; a robot that turned home before gets neither."""
    paid = 0
    for name in MISSIONS:
        team = np.array([terms["paper"]["team"] for *_, terms, _ in mission(name)])
        own = np.array([terms["paper"]["individual"] for *_, terms, _ in mission(name)])
        exploring = np.array([move.mode == EXPLORING for _, _, move, *_ in mission(name)])
        assert team.any(axis=1).sum() <= 1
        assert ((own > 0).sum(axis=0) <= 1).all()
        assert (team[team.any(axis=1)] == 5.0 * exploring[team.any(axis=1)]).all()
        paid += team.any()
    assert paid >= 2


def test_the_executed_choice_counts():
    """Where a conflict sent a robot elsewhere, fov is what it sees there and not where it wanted to go."""
    moved = held = different = 0
    for before, proposals, move, _, found, _ in every_decision():
        terms = found["paper"]
        for robot in np.flatnonzero((move.mode == EXPLORING) & (move.choice != proposals.choice)):
            site, wanted = before.robots.site[robot], int(proposals.choice[robot])
            target = tuple((site + oracles.lattice.slot_offset(wanted // 3)).tolist())
            heading = int(proposals.heading[robot].reshape(-1)[wanted])
            instead = frontiers_in_view(before.robots.belief[robot], target, heading) / 26
            moved, held = moved + (move.choice[robot] >= 0), held + (move.choice[robot] < 0)
            different += abs(0.7 * instead - terms["fov"][robot]) > 0.01
            if move.choice[robot] < 0:
                assert terms["align"][robot] == 0
    assert min(moved, held, different) >= 1


def test_robots_that_do_not_explore_earn_nothing():
    modes = set()
    for _, _, move, _, terms, _ in every_decision():
        for robot in np.flatnonzero(move.mode != EXPLORING):
            modes.add(int(move.mode[robot]))
            assert all(term[robot] == 0 for method in terms.values() for term in method.values())
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
    for method, reward in REWARDS.items():
        score = jax.jit(jax.vmap(lambda b, m, a, q, reward=reward: reward(SMALL, b, m, a, q)))
        terms, _ = score(*states, none)
        for index in range(4):
            alone = mission("rooms")[2 + index][4][method]
            for term in {*TERMS[method]} - {"repeat"}:  # which counts what was before
                np.testing.assert_allclose(terms[term][index], alone[term], atol=1e-6)
