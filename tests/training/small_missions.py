"""Short missions of crowded teams, with the reward of every decision."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from cases import SITES, SMALL, Case, draw_case
from decmarvel.core.types import EXPLORING
from decmarvel.simulation import environment, roster
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import take_off
from decmarvel.simulation.radio import propose_all
from decmarvel.training.methods.options import OptionReward
from decmarvel.training.methods.paper import PaperReward
from decmarvel.training.methods.predecessor import MarvelReward
from decmarvel.training.rewards import explores_on

NEVER = 2**30
ROBOTS = 4
REWARDS = {
    "paper": PaperReward(fov=0.7),
    "predecessor": MarvelReward(fov=0.6, align=0.2, team=8.0),
    "options": OptionReward(hurry=-0.25, covered=0.8),
}
"""Of every method, with weights that tell its terms from those of the others."""


def hall(width: int, height: int, start: tuple[int, int]) -> Case:
    """Two rooms with a door between them: small enough that a team explores them and gets in its own way."""
    sites, margin = SITES[SMALL], SMALL.margin_cells
    size = SMALL.lattice.grid_cells(sites)
    free = np.zeros((size, size), bool)
    free[margin : margin + height, margin : margin + width] = True
    free[margin : margin + height, margin + width // 2] = False
    free[margin + height // 2 - 2 : margin + height // 2 + 3, margin + width // 2] = True
    return Case(SMALL, free, start, np.zeros_like(free, np.uint8))


@partial(jax.jit, static_argnums=(0, 1))
def begin(config, planner, key, world, fleet):
    return take_off(config, planner, key, world, fleet)


@partial(jax.jit, static_argnums=(0, 1))
def advance(config, planner, flight, low_gains):
    """One decision as `decide` makes it, but the proposals are kept."""
    key_planner, key_step = jax.random.split(jax.random.fold_in(flight.key, flight.state.step))
    keys = jax.vmap(lambda number: jax.random.fold_in(key_planner, number))(jnp.arange(ROBOTS))
    exploring = flight.state.robots.mode == EXPLORING
    team_views = views(config, flight.state)
    proposals, memory = propose_all(config, planner, keys, team_views, exploring, flight.memory)
    after, move = environment.step(config, key_step, flight.state, team_views, proposals)
    terms, counts = {}, {}
    for name, reward in REWARDS.items():
        terms[name], counts[name] = reward(config, flight.state, move, after, low_gains[name])
    return type(flight)(after, memory, flight.key), proposals, move, terms, counts, explores_on(config, after)


MISSIONS = {
    "corridor": (hall(40, 5, (0, 3)), [60, 50, 40, 30], [NEVER] * 4, 3, 14),
    "rooms": (hall(24, 14, (1, 1)), [60, 60, 40, 30], [NEVER, NEVER, 3, NEVER], 4, 14),
    "narrow": (hall(50, 7, (0, 4)), [80, 80, 80, 80], [NEVER] * 4, 4, 18),
    "clutter": (draw_case(SMALL, 1003), [60, 45, 30, 0], [NEVER] * 4, 3, 8),
}
"""World, budgets in metres, failures, seed, decisions."""
PLANNER = roster.planner("random")


@cache
def mission(name):
    """(before, proposals, move, after, terms of each method, explores on) of each decision, as NumPy."""
    case, budgets, fail_steps, seed, decisions = MISSIONS[name]
    fleet = Fleet(
        present=jnp.asarray([budget > 0 for budget in budgets]),
        budget_mm=jnp.asarray([1000 * budget for budget in budgets], jnp.int32),
        fail_step=jnp.asarray(fail_steps, jnp.int32),
    )
    flight = begin(SMALL, PLANNER, jax.random.key(seed), case.world, fleet)
    low_gains, found = dict.fromkeys(REWARDS, jnp.zeros(ROBOTS, jnp.int32)), []
    for _ in range(decisions):
        before = flight.state
        flight, proposals, move, terms, low_gains, on = advance(SMALL, PLANNER, flight, low_gains)
        found.append(jax.tree.map(np.asarray, (before, proposals, move, flight.state, terms, on)))
    return found
