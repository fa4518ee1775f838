"""Networks with random weights, and what robots observe along two short missions."""

import dataclasses
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import SITES, SMALL, draw_case
from decmarvel.robot.observation import observe, ways
from decmarvel.robot.planners.random import RandomPlanner
from decmarvel.robot.policy.compute import PLAIN
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.robot.policy.nodes import Options, attention_mask, compact, places, situation_of
from decmarvel.robot.policy.option_actor import OptionActorConfig
from decmarvel.robot.policy.weights import named_arrays
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import decide, take_off
from decmarvel.simulation.privileged import privileged_view
from decmarvel.training.critic import GraphCriticConfig
from decmarvel.training.privileged_nodes import privileged_nodes, shares_at, true_nodes

ROBOTS, SIZE = 4, SITES[SMALL]
ALL = SIZE * SIZE
SEEDS = (3, 9)
seeds = pytest.mark.parametrize("seed", SEEDS)


TINY = GraphActorConfig(width=16, heads=2, layers=1, feed=16, channels=2, token_width=8, token_layers=1, token_feed=8)


@partial(jax.jit, static_argnums=0)
def observe_all(config, state):
    privileged = jax.vmap(lambda number: privileged_view(config, state, number))(jnp.arange(ROBOTS, dtype=jnp.int32))
    return jax.vmap(lambda view: (observe(config, view), ways(config, view)))(views(config, state)), privileged


@cache
def known(seed):
    """(state, observations and ways, privileged views) at take-off and after some decisions of the random planner."""
    planner, case = RandomPlanner(), draw_case(SMALL, seed)
    fleet = Fleet.of(ROBOTS, 80.0)
    flight = jax.jit(take_off, static_argnums=(0, 1))(SMALL, planner, jax.random.key(seed), case.world, fleet)
    step, found = jax.jit(decide, static_argnums=(0, 1)), []
    for decision in range(13):
        if decision in (0, 4, 12):
            found.append((flight.state, *observe_all(SMALL, flight.state)))
        flight = step(SMALL, planner, flight)[0]
    return found


def missions(seed):
    """(state, observations, privileged views) of these moments."""
    return [(state, observations, privileged) for state, (observations, _), privileged in known(seed)]


def of(tree, number):
    return jax.tree.map(lambda leaf: leaf[number], tree)


def plain(tree):
    return jax.tree.map(np.asarray, tree)


def one_each(seed):
    """(state, observation, privileged view) of another robot at each moment."""
    for turn, (state, observations, privileged) in enumerate(missions(seed)):
        number = (turn + seed) % ROBOTS
        yield state, of(observations, number), of(privileged, number)


def one_each_with_ways(seed):
    """(observation, ways) of the same robots."""
    for turn, (_, both, _) in enumerate(known(seed)):
        yield of(both, (turn + seed) % ROBOTS)


def stirred(network, seed):
    """Random weights everywhere, also where a new network has ones and zeros."""
    leaves, structure = jax.tree.flatten(network)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    moved = [leaf + 0.1 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, moved)


@cache
def actor(identity=False):
    return stirred(GraphActorConfig(identity=identity).build(jax.random.key(0)), 1)


@cache
def option_actor():
    return stirred(fresh(), 1)


def fresh():
    return OptionActorConfig().build(jax.random.key(0))


@cache
def critic(identity=False, dual_head=True):
    return stirred(GraphCriticConfig(identity=identity, dual_head=dual_head).build(jax.random.key(2)), 3)


def parameters(network):
    """Arrays by name, those of stacked layers one by one."""
    found = {}
    for name, leaf in named_arrays(network).items():
        before, layers, rest = name.partition(".layers.")
        each = enumerate(leaf) if layers else ()
        found |= {f"{before}.layers.{number}.{rest}": np.asarray(one, float) for number, one in each}
        if not layers:
            found[name] = np.asarray(leaf, float)
    return found


apply = eqx.filter_jit(lambda network, nodes, where, compute=PLAIN: network(nodes, where, compute))
judge = eqx.filter_jit(lambda critic, nodes, where, post, compute=PLAIN: critic(nodes, where, post, compute))
embed = eqx.filter_jit(lambda network, nodes: network.graph(nodes))
pack = jax.jit(lambda observation, bucket: (compact(observation, bucket), situation_of(observation)), static_argnums=1)
pack_with_ways = jax.jit(
    lambda observation, ways, bucket: (compact(observation, bucket, ways), situation_of(observation)), static_argnums=2
)
apply_all = eqx.filter_jit(lambda network, nodes, where: jax.vmap(network)(nodes, where))
pack_all = jax.jit(jax.vmap(lambda observation: (compact(observation, ALL), situation_of(observation))))
mask_of, places_of = jax.jit(attention_mask), jax.jit(places)
true_of = jax.jit(true_nodes, static_argnums=(0, 2))


@partial(jax.jit, static_argnums=0)
def privileged_of(config, truth, observation, seen):
    other = seen.active & (jnp.arange(ROBOTS) != observation.number)
    own, here = compact(observation, ALL), config.lattice.cell(observation.site)
    return privileged_nodes(config, truth, own, observation.site, here, shares_at(truth, seen), seen.sites, other)


def close(found, expected, tolerance=1e-4):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def lonely(where):
    return dataclasses.replace(where, token_mask=jnp.zeros_like(where.token_mask))


OPTIONS = 6


def draw_options(nodes, where, seed):
    """Two options begin alike, one could be anything, one has no place; then there are no more."""
    rng, valid = np.random.default_rng(seed), np.flatnonzero(where.action_mask)
    known = nodes.site[nodes.mask]
    agreed, other = (int(rng.choice(valid)) if len(valid) else 0 for _ in range(2))
    action = [agreed, int(rng.integers(75)), agreed, other, -1, -1]
    site = [*rng.choice(known, 3).tolist(), [99, 99], [-1, -1], [-1, -1]]
    cost_m = [*np.sort(rng.uniform(10, 30, 4)), 0, 0]
    shown = [*rng.integers(0, 900, 4), 0, 0]
    return Options(whole(action), whole(site), single(cost_m), whole(shown))


def no_options():
    """Of a robot that has no goal."""
    return Options(whole([-1] * OPTIONS), whole([[-1, -1]] * OPTIONS), single([0] * OPTIONS), whole([0] * OPTIONS))


def single(values):
    return jnp.array(values, jnp.float32)


def whole(values):
    return jnp.array(values, jnp.int32)


def weighing(where, options):
    """The situation of a robot that has these options."""
    return dataclasses.replace(where, options=options)


@eqx.filter_jit
def propose(planner, config, key, state):
    return jax.vmap(lambda view: planner.propose(config, key, view, None)[0])(views(config, state))
