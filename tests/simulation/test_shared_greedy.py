"""Shared-greedy, the planner with a radio, against the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.shared_greedy
from cases import DEFAULT, FINE, SMALL
from decmarvel.core.types import FAR_MM
from decmarvel.robot.planners.goals import Goal
from decmarvel.robot.sight import nearest_frontiers
from decmarvel.simulation import roster
from decmarvel.simulation.radio import RadioPlanner
from decmarvel.simulation.shared_greedy import repulsion_mm
from minds import ROBOTS, draw_cells, draw_mind, draw_view, from_goal, pair, whole


@pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(60)), (FINE, range(10)), (DEFAULT, range(4))])
def test_repulsion_equals_oracle(config, seeds):
    repel = jax.jit(repulsion_mm, static_argnums=0)
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        goals = draw_cells(mind, seed, ROBOTS)
        told = whole([*goals[:-1], (-1, -1)])
        mm, cell = jax.device_get(nearest_frontiers(config, view.graph))
        got = np.asarray(repel(config, jnp.asarray(cell), told))
        for place in np.argwhere(mm < FAR_MM)[:: 1 + seed % 7]:
            expected = oracles.shared_greedy.crowding_cost(config, pair(cell[tuple(place)]), goals[:-1])
            assert abs(int(got[tuple(place)]) - expected) <= 10 * (ROBOTS - 1)  # each rounded to a centimetre


def test_alone_a_robot_is_a_team_of_one():
    planner, chosen = roster.planner("shared-greedy"), 0

    @jax.jit
    def both_ways(view, key):
        keys, views, memory = jax.tree.map(lambda leaf: leaf[None], (key, view, Goal.none()))
        team = planner.propose_team(SMALL, keys, views, jnp.ones(1, bool), memory)
        return planner.propose(SMALL, key, view, Goal.none()), team

    for seed in range(20):
        mind = draw_mind(SMALL, seed)
        alone, together = both_ways(draw_view(SMALL, seed), jax.random.key(seed))
        for left, right in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            np.testing.assert_array_equal(left, right[0])
        wanted, _ = oracles.shared_greedy.shared_goal(mind, [])
        assert from_goal(alone[1]) == wanted
        chosen += wanted is not None
    assert 5 < chosen < 20


def test_only_shared_greedy_has_a_radio():
    planners = {name: roster.planner(name) for name, entry in roster.PLANNERS.items() if entry.packaged}
    assert {name for name, planner in planners.items() if planner.communicates} == {"shared-greedy"}
    for name, planner in planners.items():
        assert isinstance(planner, RadioPlanner) == planner.communicates == roster.needs_radio(name)
