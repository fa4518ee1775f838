"""Where moves are short, options look where the planner would: along the motion, or at the frontier that they want."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mixed
from decmarvel.core.lattice import SLOT_OFFSETS
from decmarvel.core.types import EXPLORING
from decmarvel.robot.policy.options import NO_OPTION, find_options
from decmarvel.simulation import roster
from decmarvel.simulation.environment import views
from decmarvel.simulation.mission import decide, take_off
from decmarvel.worlds.place import place

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


def degrees_of(offset: np.ndarray) -> float:
    return float(np.degrees(np.arctan2(offset[0], offset[1])))


def test_the_cheapest_option_of_a_slot_looks_along_its_way_or_further_on():
    config, planner = dataclasses.replace(mixed.CONFIG, spacing_m=1.0), roster.planner("sector")
    assert config.short_moves
    assert not mixed.CONFIG.short_moves
    flight = take_off(config, planner, jax.random.key(0), place(mixed.house(), config), mixed.team())
    go_on = jax.jit(lambda flight: decide(config, planner, flight)[0])
    ask = jax.jit(jax.vmap(lambda view: find_options(config, view, jnp.zeros(view.visits.shape, jnp.float32), 6)))
    see = jax.jit(lambda state: views(config, state))
    along, ahead = 0, 0
    for _ in range(5):
        flight = go_on(go_on(flight))
        state, seen = jax.device_get((flight.state, see(flight.state)))
        headings, options = jax.device_get(ask(seen))
        for robot in np.flatnonzero(np.asarray(state.robots.mode) == EXPLORING):
            taken = set()
            view = jax.tree.map(lambda leaf: leaf[robot], seen)  # noqa: B023
            cells, here = np.asarray(view.graph.cell), np.asarray(view.site)
            for action, site in zip(options.action[robot].tolist(), options.site[robot], strict=True):
                if action == NO_OPTION or action // 3 in taken:
                    continue
                slot = action // 3
                taken.add(slot)
                given = headings[robot].reshape(-1)[action] * config.degrees_per_bin
                assert given == headings[robot][slot, -1] * config.degrees_per_bin
                offset = cells[tuple(here + SLOT_OFFSETS[slot])] - cells[tuple(here)]
                if offset.any() and tuple(here + SLOT_OFFSETS[slot]) != tuple(site):
                    away = (given - degrees_of(offset) + 180) % 360 - 180
                    along += abs(away) <= 5.5
                    ahead += 1
    assert ahead > 0
    assert along > 0
