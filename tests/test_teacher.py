"""The teacher against a second version, and what it tells the policy."""

import jax

import oracles
import planner_oracles as slow
from cases import SMALL
from decmarvel.environment import views
from decmarvel.learning.teacher import NO_LESSON, Teacher, lessons
from decmarvel.mission import Flight, decide
from decmarvel.types import EXPLORING, RETURN_HOME
from test_planners import MOST_CLOSE_CALLS, ROBOTS, mind_of, mission, of

STALE_MM = 500_000


@jax.jit
def taught(state):
    seen, exploring = views(SMALL, state), state.robots.mode == EXPLORING
    return seen, Teacher().propose_team(SMALL, None, seen, exploring)[0], lessons(SMALL, seen, exploring)


def test_teacher_equals_oracle():
    """Every proposal along missions of robots with maps of their own; and the lesson is the candidate nearest to it."""
    checked = different = stale = 0
    for seed in range(8):
        for before, *_ in mission(SMALL, "sector", seed, 12):
            seen, proposals, lesson = jax.device_get(taught(before.state))
            robots = jax.device_get(before.state.robots)
            news = oracles.frontiers(oracles.merged_belief(robots.belief))
            taken = []
            for number in range(ROBOTS):
                if robots.mode[number] != EXPLORING:
                    assert lesson[number] == NO_LESSON
                    continue
                mind, proposal = mind_of(SMALL, robots, number), of(proposals, number)

                def cost(cell):
                    away = slow.sector_cost(mind, cell, weight_m=15)  # noqa: B023
                    return slow.crowding_cost(SMALL, cell, taken) + away + STALE_MM * (not news[cell])  # noqa: B023

                found = slow.offers(mind, cost)
                best = slow.cheapest(found)
                goal = slow.goal_of(mind, best, far_sighted=True)
                pursuit = slow.pursue(mind, goal, True) if mind.feasible.any() else None
                if goal is None or pursuit is None:
                    assert (goal is not None) or proposal.choice == RETURN_HOME
                    continue
                checked += 1
                stale += sum(not news[offer.cell] for offer in found)
                taken.append(goal.cell)
                if int(proposal.choice) != 3 * pursuit.slot:
                    different += 1
                    continue
                wanted = pursuit.headings[pursuit.slot]
                offered = of(seen, number).candidates.heading_bin[pursuit.slot] * SMALL.degrees_per_bin
                away = [min((int(heading) - wanted) % 360, (wanted - int(heading)) % 360) // 30 for heading in offered]
                assert int(lesson[number]) == 3 * pursuit.slot + away.index(min(away))
    assert checked > 100
    assert stale > 50, "somebody else had looked behind some of them"
    assert different <= MOST_CLOSE_CALLS * checked


def test_everybody_keeps_their_own_map():
    """A mission of the teacher's: with the same start, robots come to know different things."""
    flight = next(mission(SMALL, "sector", 0, 1))[0]
    flight = Flight(flight.state, None, flight.key)
    step = jax.jit(lambda flight: decide(SMALL, Teacher(), flight)[0])
    for _ in range(4):
        flight = step(flight)
    first, second, _ = jax.device_get(flight.state.robots.belief)
    assert (first != second).any()
