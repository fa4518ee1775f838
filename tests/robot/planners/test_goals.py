"""Goals, viewpoints and their pursuit against the oracle."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.goals
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, LocalView
from decmarvel.robot.budget import affordable
from decmarvel.robot.planners import goals as goal
from decmarvel.robot.planners.goals import Goal
from minds import draw_cells, draw_mind, draw_view, fewer, pair, to_goal, whole, worlds
from robot.planners.checks import check_pursuit

pytestmark = pytest.mark.slow


@partial(jax.jit, static_argnums=0)
def look(config: Config, view: LocalView, cells):
    """Who sees some cells, and the viewpoints of both kinds of robots; (-1, -1) where there is none."""
    here_mm = goal.distances_from_here(config, view)
    within = affordable(config, view, here_mm)
    travel_mm = jnp.where(within, here_mm, FAR_MM)

    def each(cell):
        return goal.seen_from(config, view, cell), [
            goal.viewpoint(config, view, travel_mm, cell, whole([-1, -1]), far_sighted) for far_sighted in (False, True)
        ]

    return within, jax.vmap(each)(cells)


@worlds
def test_viewpoints_equal_oracle(config, seeds):
    found = 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        cells = draw_cells(mind, seed, 4)
        within, ((sees, length_mm), (plain, far)) = jax.device_get(look(config, view, whole(cells)))
        np.testing.assert_array_equal(within, mind.affordable)
        for index, cell in enumerate(cells):
            expected = oracles.goals.seeing_sites(mind, cell)
            got = {(int(i), int(j)): int(length_mm[index, i, j]) for i, j in np.argwhere(sees[index])}
            assert got == expected, (seed, cell)
            for far_sighted, site in ((False, plain), (True, far)):
                wanted = oracles.goals.viewpoint(mind, cell, far_sighted)
                assert pair(site[index]) == (wanted or (-1, -1)), (seed, cell, far_sighted)
                found += wanted is not None
    assert found > len(seeds)


@partial(jax.jit, static_argnums=0)
def chase(config: Config, view: LocalView, wanted: Goal):
    proposals = [goal.towards(config, view, wanted, far) for far in (False, True)]
    return goal.still_wanted(config, view, wanted), proposals, goal.first_slots(config, view)[tuple(wanted.site)]


@fewer
def test_pursuit_equals_oracle(config, seeds):
    kept = 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        for cell in draw_cells(mind, seed, 2):
            sites = [site for site in oracles.goals.seeing_sites(mind, cell) if mind.affordable[site]]
            wanted = oracles.goals.Goal(sites[seed % len(sites)] if sites else mind.site, cell)
            still, proposals, first = chase(config, view, to_goal(wanted))
            expected = oracles.goals.still_wanted(mind, wanted)
            assert (bool(still) and bool(mind.affordable[wanted.viewpoint])) == expected, seed
            kept += expected
            for far_sighted, proposal in zip((False, True), proposals, strict=True):
                if mind.feasible.any() and mind.affordable[wanted.viewpoint]:
                    check_pursuit(mind, wanted, far_sighted, jax.device_get(proposal))
                    assert int(first) * config.headings_per_node == int(proposal.choice)
    assert kept > len(seeds) // 10
