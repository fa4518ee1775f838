"""The planner that flies a network: what it chooses, and what it cannot know."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.networks
from cases import SMALL, draw_case
from decmarvel.core.config import Config
from decmarvel.core.types import RETURN_HOME
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.robot.policy.option_actor import OptionActorConfig
from decmarvel.robot.policy.options import find_options
from decmarvel.robot.policy.planner import LearnedPlanner
from decmarvel.robot.policy.predecessor import MarvelConfig
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import run_mission
from robot.policy.small_networks import (
    ALL,
    OPTIONS,
    ROBOTS,
    SIZE,
    TINY,
    actor,
    fresh,
    known,
    missions,
    observe_all,
    of,
    parameters,
    plain,
    privileged_of,
    propose,
    seeds,
    stirred,
    true_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


def test_a_learned_planner_flies_and_everybody_gets_home():
    planner = LearnedPlanner(dataclasses.replace(TINY, identity=True).build(jax.random.key(0)))
    fly = eqx.filter_jit(run_mission)
    for seed in (3, 8):
        world = draw_case(SMALL, seed).world
        outcome = fly(SMALL, planner, jax.random.key(seed), world, Fleet.of(ROBOTS, 40.0), SMALL.max_decisions(40.0))
        assert outcome.home.all()
        assert outcome.stranded == 0
        assert outcome.decisions > 2


options_of_all = jax.jit(
    lambda state, stale: jax.vmap(lambda view, stale: find_options(SMALL, view, stale, OPTIONS)[1])(
        views(SMALL, state), stale
    )
)


@seeds
def test_choices_and_headings(seed):
    """Greedy takes the most probable, the lower index if equal; draws are valid and differ."""
    greedy, drawn = (LearnedPlanner(actor(), wanted) for wanted in (True, False))
    for state, observations, _ in missions(seed):
        proposals = propose(greedy, SMALL, jax.random.key(0), state)
        draws = [propose(drawn, SMALL, jax.random.key(number), state) for number in range(12)]
        np.testing.assert_array_equal(proposals.heading, 10 * observations.heading_bin)
        for number in range(ROBOTS):
            score = np.asarray(proposals.score[number]).reshape(-1)
            assert proposals.choice[number] == np.flatnonzero(score == score.max())[0]
            np.testing.assert_array_equal(draws[0].score[number].reshape(-1), score)
            valid = np.asarray(observations.action_mask[number]).reshape(-1)
            choices = {int(draw.choice[number]) for draw in draws}
            if valid.any():
                assert all(valid[choice] for choice in choices)
                assert len(choices) > 1


@seeds
def test_a_planner_asks_its_staleness_predictor(seed):
    """A new one whose predictor has learned something does what is cheapest in the same view, and else goes home."""
    network, followed = fresh(), 0
    network = eqx.tree_at(lambda n: n.staleness, network, stirred(network.staleness, 1))
    network = eqx.tree_at(lambda n: n.scorer.per_m, network, jnp.full(1, 100.0))
    p, planner = parameters(network), LearnedPlanner(network)
    decide = jax.jit(
        lambda state: jax.vmap(lambda view: planner.propose(SMALL, jax.random.key(0), view, None)[0])(
            views(SMALL, state)
        )
    )
    for state, (observations, ways), _ in known(seed):
        stale = np.zeros((ROBOTS, SIZE, SIZE), np.float32)
        for number in range(ROBOTS):
            observation, own_ways = plain(of(observations, number)), plain(of(ways, number))
            sites = [tuple(site) for site in np.argwhere(observation.node_mask).tolist()]
            for site, logit in oracles.networks.staleness(p, observation, own_ways, sites).items():
                stale[number][site] = 1 / (1 + np.exp(-logit))
        proposals, options = decide(state), options_of_all(state, stale)
        for number in range(ROBOTS):
            said = int(options.action[number, 0])
            if said >= 0 and observations.action_mask[number].reshape(-1)[said]:
                assert int(proposals.choice[number]) == said
                followed += 1
            if said < 0:
                assert int(proposals.choice[number]) == RETURN_HOME
    assert followed > 2


@seeds
def test_the_truth_changes_nothing_for_the_actor(seed):
    """Nor do teammates' maps; the critic, on the other hand, is told."""
    planner, (state, *_) = LearnedPlanner(actor()), missions(seed)[1]
    me, size = 1, ROBOTS
    own = jnp.arange(size) == me
    elsewhere = jnp.where(own[:, None, None], state.robots.belief, 0).astype(jnp.uint8)
    changed = eqx.tree_at(lambda s: (s.world.free, s.robots.belief), state, (~state.world.free, elsewhere))
    before, after = (propose(planner, SMALL, jax.random.key(0), s) for s in (state, changed))
    for one, two in zip(jax.tree.leaves(of(before, me)), jax.tree.leaves(of(after, me)), strict=True):
        np.testing.assert_array_equal(one, two)
    told = []
    for each in (state, changed):
        (observations, _), privileged = observe_all(SMALL, each)
        truth, _ = true_of(SMALL, state.world, ALL)
        told.append(privileged_of(SMALL, truth, of(observations, me), of(privileged, me)).features)
    np.testing.assert_array_equal(told[0][:, :9], told[1][:, :9])
    assert (told[0] != told[1]).any()


def test_an_actor_for_another_camera_or_budget_is_refused():
    """Whichever it is, before the first decision."""
    for network in (TINY.build(jax.random.key(0)), MarvelConfig().build(jax.random.key(0)), fresh()):
        planner = LearnedPlanner(network)
        assert planner.start(SMALL, SIZE) is None
        with pytest.raises(ValueError, match=r"made for .*\(36, 13, 1024.0\), not \(24, 13, 1024.0\)"):
            planner.start(Config(heading_bins=24), SIZE)
        with pytest.raises(ValueError, match=r"max_budget_m\) = \(36, 13, 1024.0\), not \(36, 13, 512.0\)"):
            network.check(Config(max_budget_m=512.0))
    for config in (GraphActorConfig(max_budget_m=512.0), OptionActorConfig(max_budget_m=512.0)):
        LearnedPlanner(config.build(jax.random.key(0))).start(Config(max_budget_m=512.0), SIZE)
