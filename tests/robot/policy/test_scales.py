"""The actor that weighs options on roads, and at other scales: its facts do not depend on how large everything is."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mixed
import oracles.networks
from cases import SMALL
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM
from decmarvel.robot.observation import observe, ways
from decmarvel.robot.policy.scorer import option_facts
from decmarvel.simulation.environment import views
from decmarvel.simulation.types import State
from robot.policy.small_networks import apply, close, fresh, known, of, option_actor, parameters, plain

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]

SMALLER, LARGER = 3, 6
"""Times by which lengths are multiplied, such that rounding to millimetres and centimetres hardly matters."""
BUDGET_FACTS = 4
"""The last facts of an option, those of Eq. 6: logarithms of metres, whatever the camera."""


@eqx.filter_jit
def read(network, config: Config, state: State):
    """What an actor reads of every robot, and what it was made of."""

    def one(view):
        nodes, situation = network.read(config, view, view.visits.size)
        return nodes, situation, observe(config, view), ways(config, view)

    return jax.vmap(one)(views(config, state))


def on_roads():
    """(nodes, situation, observation, ways) of the robots of a mixed team at some moments of a mission."""
    range_mm = jnp.array((4990, 3470, 4130, 1000), jnp.int32)  # no two nodes are just 12 or 24 units apart
    for state in mixed.flown().states[1:17:5]:
        state = eqx.tree_at(lambda s: s.robots.range_mm, state, range_mm)
        everybody = read(option_actor(), mixed.CONFIG, state)
        for number in range(3):
            yield of(everybody, number)


def test_actor_on_roads_equals_oracle():
    """With options and cameras as they come: hardly a unit is that of the paper's setting."""
    network, options, spread, units = option_actor(), 0, [], set()
    p = parameters(network)
    for nodes, where, observation, own_ways in on_roads():
        stale = np.asarray(eqx.filter_jit(network.staleness)(nodes, where))
        sites = [tuple(site) for site in nodes.site[nodes.mask].tolist()]
        wanted = oracles.networks.staleness(p, plain(observation), plain(own_ways), sites)
        close(stale[: len(sites)], [wanted[site] for site in sites])
        weighed = jax.device_get(where.known_options)
        expected = oracles.networks.option_policy(p, plain(observation), plain(own_ways), weighed)
        close(apply(network, nodes, where), expected)
        units |= set(oracles.networks.shares(observation))
        options += (weighed.action >= 0).sum()
        spread.append(np.ptp(list(wanted.values())))
    assert options > 10
    assert max(spread) > 0.05
    assert len(units - {1.0}) == 9


LENGTHS = ("spacing_m", "coarsest_cell_m", "radius_m", "sensor_range_m", "utility_range_m", "speed_m_s", "hold_turn_m")
"""Of a configuration, all that has metres in it; the margin and the unit of the budget, too."""


def enlarged_config(config: Config, times: int) -> Config:
    """The same model, in which everything is so much larger and everybody so much faster."""
    names = (*LENGTHS, "safety_margin_m", "max_budget_m")
    return dataclasses.replace(config, **{name: times * getattr(config, name) for name in names})


def enlarged(state: State, times: int) -> State:
    """The same moment in a building that is so much larger."""

    def multiplied(mm):
        return jnp.where(mm < FAR_MM, times * mm, mm)

    def lengths(state):
        robots, graph = state.robots, state.robots.graph
        own = (robots.budget_mm, robots.initial_budget_mm, robots.range_mm, robots.speed_mm_s)
        own += (robots.radius_mm, robots.spacing_mm, robots.cell_mm)
        return (*own, graph.length_mm, graph.home_mm, graph.useful_mm)

    return eqx.tree_at(lengths, state, tuple(multiplied(mm) for mm in lengths(state)))


facts = eqx.filter_jit(
    lambda nodes, where, max_budget_m: option_facts(nodes, where, fresh().stale(nodes, where), max_budget_m)
)


@pytest.mark.parametrize("config", [SMALL, mixed.CONFIG])
def test_a_building_that_is_twice_as_large_looks_the_same(config):
    """Options and their facts are equal up to rounding; budgets have their own unit.

    The predictor is a new one, which holds all nodes for as likely stale as not, so that no rounding adds up.
    """
    states = mixed.flown().states[1:17:5] if config.roads else [state for state, *_ in known(3)]
    configs = [enlarged_config(config, times) for times in (SMALLER, LARGER)]
    compared = 0
    for state in states:
        both = [read(fresh(), c, enlarged(state, t)) for c, t in zip(configs, (SMALLER, LARGER), strict=True)]
        for number in range(3):
            inputs = [of(each, number)[:2] for each in both]
            options, larger = (where.known_options for _, where in inputs)
            np.testing.assert_array_equal(larger.action, options.action)
            np.testing.assert_array_equal(larger.site, options.site)
            np.testing.assert_array_equal(larger.shown_cells, options.shown_cells)
            close(larger.cost_m, options.cost_m, 0.005)
            there = np.asarray(options.action >= 0)
            one, two = (facts(*each, c.max_budget_m)[there] for each, c in zip(inputs, configs, strict=True))
            close(two[:, :-BUDGET_FACTS], one[:, :-BUDGET_FACTS], 0.002)
            compared += there.sum()
    assert compared > 10
