"""Snapshots in the memory give the inputs of the networks again, and are small."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import SMALL
from decmarvel.robot.observation import observe
from decmarvel.robot.policy.nodes import Advice, compact, situation
from decmarvel.simulation.environment import views
from decmarvel.simulation.privileged import privileged_view
from decmarvel.training.codec import Inputs, decode, encode
from decmarvel.training.memory import bytes_per_row, create
from decmarvel.training.privileged_nodes import privileged_nodes, shares_at, true_nodes
from training.small_missions import MISSIONS, ROBOTS, hall, mission

pytestmark = pytest.mark.slow

ADVICE = Advice(
    jnp.array([74, 5, 0, -1, -1, -1], jnp.int32),
    jnp.array([[3, 4], [0, 9], [5, 5], [-1, -1], [-1, -1], [-1, -1]], jnp.int32),
    jnp.array([0.123, 20.5, 300.25, 0, 0, 0], jnp.float32),
    jnp.array([0, 1, 2601, 0, 0, 0], jnp.int32),
)


@partial(jax.jit, static_argnums=(0, 3))
def there_and_back(config, state, worlds, bucket):
    """The inputs of all robots of a state, as they are and out of a snapshot. The state's world is the second."""
    truths = jax.vmap(lambda world: true_nodes(config, world, bucket)[0])(worlds)
    truth = jax.tree.map(lambda leaf: leaf[1], truths)
    observations = jax.vmap(lambda view: observe(config, view))(views(config, state))
    privileged = jax.vmap(lambda number: privileged_view(config, state, number))(jnp.arange(ROBOTS, dtype=jnp.int32))
    number = jnp.array(1, jnp.int32)
    stale = stale_nodes(config, views(config, state))
    kept = jax.vmap(lambda o, p, s: encode(config, truth, number, o, ADVICE, p, s, -0.5 * jnp.ones(())))(
        observations, privileged, stale
    )

    def direct(observation, seen, stale):
        own = compact(observation, bucket)
        other = seen.active & (jnp.arange(ROBOTS) != observation.number)
        shares = shares_at(truth, seen)
        nodes = privileged_nodes(config, truth, own, observation.site, shares, seen.sites, other)
        known = replace(situation(observation), advice=ADVICE)
        return Inputs(own, known, nodes, own.mask & stale[own.site[:, 0], own.site[:, 1]], -0.5 * jnp.ones(()))

    back = jax.vmap(lambda snapshot: decode(config, truths, snapshot))(kept)
    return jax.vmap(direct)(observations, privileged, stale), back, kept


def test_a_snapshot_gives_the_inputs_again():
    """Eq. 5, 6, 9 and 15 as the networks read them."""
    tokens = sensed = goals = stale = 0
    for name in ("rooms", "clutter"):
        worlds = jax.tree.map(lambda *leaves: jnp.stack(leaves), hall(30, 9, (0, 1)).world, MISSIONS[name][0].world)
        for before, *_ in mission(name)[::2]:
            state = jax.tree.map(jnp.asarray, before)
            direct, back, _ = jax.tree.map(np.asarray, there_and_back(SMALL, state, worlds, 144))
            for kind in ("nodes", "critic_nodes"):
                one, two = getattr(direct, kind), getattr(back, kind)
                for field in ("site", "mask", "edges", "histogram"):
                    np.testing.assert_array_equal(getattr(two, field), getattr(one, field), err_msg=field)
                np.testing.assert_allclose(two.features, one.features, atol=2e-5)
            for field in ("way_cm", "open_cm"):
                one, two = (getattr(inputs.nodes.ways, field) for inputs in (direct, back))
                np.testing.assert_array_equal(two, one, err_msg=field)
            goals += (direct.nodes.mask & (direct.nodes.ways.open_cm < 65535)).sum()
            np.testing.assert_array_equal(back.stale, direct.stale)
            stale += direct.stale.sum()
            np.testing.assert_array_equal(back.log_probability, direct.log_probability)
            for field in ("site", "base", "budget", "heading_bin", "action_mask", "sensed", "token_mask", "token_site"):
                np.testing.assert_array_equal(
                    getattr(back.situation, field), getattr(direct.situation, field), err_msg=field
                )
            np.testing.assert_array_equal(back.situation.number, direct.situation.number)
            np.testing.assert_array_equal(back.situation.team_size, direct.situation.team_size)
            jax.tree.map(np.testing.assert_array_equal, back.situation.advice, direct.situation.advice)
            np.testing.assert_allclose(back.situation.tokens, direct.situation.tokens, atol=1e-6)
            tokens += direct.situation.token_mask.sum()
            sensed += direct.situation.sensed.sum()
    assert tokens > 20
    assert sensed > 20
    assert goals > 20
    assert stale > 20


def test_a_million_transitions_fit():
    """With 384 places and four robots: far below what a GPU holds."""
    state = jax.tree.map(jnp.asarray, mission("rooms")[0][0])
    world = jax.tree.map(lambda leaf: leaf[None].repeat(2, axis=0), MISSIONS["rooms"][0].world)
    kept = jax.eval_shape(lambda state, world: there_and_back(SMALL, state, world, 384), state, world)[2]
    one = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), kept)
    assert 21_000 < bytes_per_row(create(2, 1, 1, one)) < 24_000
