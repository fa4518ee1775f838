"""Every proposal of the classical planners along whole missions against the oracles."""

import equinox as eqx
import jax
import pytest

import oracles.goals
import oracles.lattice
import oracles.shared_greedy
import oracles.smmr
from cases import SMALL
from decmarvel.core.types import EXPLORING, Proposal
from minds import MOST_CLOSE_CALLS, ROBOTS, from_goal, of, pair
from missions import Noted, mind_of, mission
from oracles.mind import Mind
from robot.planners.checks import check_close, check_nbvp, check_nearest, check_pursuit

pytestmark = pytest.mark.slow

CLASSICAL = ("nearest", "sector", "smmr", "nbvp", "shared-greedy")


def check_alone(name: str, mind: Mind, before: Noted, after: Noted) -> bool:
    """One robot's proposal, by a planner that has no radio."""
    if name == "smmr":
        if mind.feasible.any():
            check_pursuit(mind, oracles.smmr.smmr_goal(mind), True, after.proposal)
        return True
    if name == "nbvp":
        return check_nbvp(mind, before.memory, after.memory, after.proposal, jax.random.wrap_key_data(after.key))
    return check_nearest(mind, from_goal(before.memory), name == "sector", from_goal(after.memory), after.proposal)


def check_shared(minds: list[Mind], exploring: list[bool], before: Noted, after: Noted) -> list[bool]:
    """Everybody's goal in the order of their numbers, each given the goals that were chosen before."""
    goals = oracles.shared_greedy.kept_goals(
        minds, exploring, [from_goal(of(before.memory, n)) for n in range(len(minds))]
    )
    same = []
    for number, mind in enumerate(minds):
        got = from_goal(of(after.memory, number))
        found: list[oracles.goals.Offer] = []
        expected = goals[number]
        if exploring[number] and expected is None:
            expected, found = oracles.shared_greedy.shared_goal(mind, goals)
        if got != expected:
            check_close(mind, found, got)
        same.append(got == expected)
        goals[number] = got
        if mind.feasible.any():
            check_pursuit(mind, got, True, of(after.proposal, number))
    return same


@pytest.mark.parametrize("name", CLASSICAL)
def test_missions_equal_oracle(name):
    """Every proposal of every exploring robot along whole missions."""
    different, checked, in_sight, away = 0, 0, 0, 0
    for seed in range(8):
        for before, after, move in mission(SMALL, name, seed, 16):
            before, after, move = jax.device_get((eqx.tree_at(lambda f: f.key, before, None), after.memory, move))
            robots = before.state.robots
            minds = [mind_of(SMALL, robots, number) for number in range(ROBOTS)]
            exploring = [bool(mode == EXPLORING) for mode in robots.mode]
            if name == "shared-greedy":
                same = check_shared(minds, exploring, before.memory, after)
            else:
                same = [
                    not exploring[n] or check_alone(name, minds[n], of(before.memory, n), of(after, n))
                    for n in range(ROBOTS)
                ]
            different += same.count(False)
            for number, mind in enumerate(minds):
                if exploring[number]:
                    checked += 1
                    in_sight += bool(mind.in_sight)
                    away += check_move(mind, of(after.proposal, number), of(move, number))
    assert different <= MOST_CLOSE_CALLS * checked
    assert checked > 100
    assert in_sight > 10
    assert away <= checked // 4


def check_move(mind: Mind, proposal: Proposal, move) -> bool:
    """An exploring robot flies what it proposed, unless another robot took the node. Whether one did."""
    if int(move.mode) != EXPLORING:
        return False
    if int(move.choice) != int(proposal.choice):
        return True
    slot = int(proposal.choice) // mind.config.headings_per_node
    assert pair(move.target) == oracles.lattice.neighbour(mind.site, slot)
    assert int(move.heading) == int(proposal.heading[slot, 0])
    return False
