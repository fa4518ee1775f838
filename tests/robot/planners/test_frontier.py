"""Nearest and Sector against the oracle."""

import jax
import pytest

import oracles.goals
from decmarvel.simulation import roster
from minds import MOST_CLOSE_CALLS, draw_cells, draw_mind, draw_view, fewer, from_goal, to_goal
from robot.planners.checks import check_nearest, propose

pytestmark = pytest.mark.slow


@fewer
@pytest.mark.parametrize("name", ["nearest", "sector"])
def test_nearest_and_sector_equal_oracle(name, config, seeds):
    different, chosen = 0, 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        old = None
        if seed % 3 == 0:  # some goal of the past
            cell = draw_cells(mind, seed, 1)[0]
            old = oracles.goals.Goal(min(oracles.goals.seeing_sites(mind, cell), default=mind.site), cell)
        proposal, memory = jax.device_get(
            propose(config, roster.planner(name), view, to_goal(old), jax.random.key(seed))
        )
        got = from_goal(memory)
        chosen += got is not None
        different += not check_nearest(mind, old, name == "sector", got, proposal)
    assert different <= MOST_CLOSE_CALLS * len(seeds)
    assert len(seeds) // 4 < chosen < len(seeds)
