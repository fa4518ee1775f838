"""Snapshots in the memory give the inputs of the networks again, and are small."""

from dataclasses import fields, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mixed
from cases import SMALL
from decmarvel.core.types import Own
from decmarvel.robot.observation import observe, ways
from decmarvel.robot.policy.nodes import Options, compact, situation_of
from decmarvel.simulation.environment import views
from decmarvel.simulation.privileged import privileged_view
from decmarvel.training.codec import Inputs, decode, encode
from decmarvel.training.memory import bytes_per_row, create
from decmarvel.training.privileged_nodes import privileged_nodes, shares_at, true_nodes
from decmarvel.training.stale_labels import stale_labels
from training.small_missions import MISSIONS, ROBOTS, hall, mission

pytestmark = pytest.mark.slow

OPTIONS = Options(
    jnp.array([74, 5, 0, -1, -1, -1], jnp.int32),
    jnp.array([[3, 4], [0, 9], [5, 5], [-1, -1], [-1, -1], [-1, -1]], jnp.int32),
    jnp.array([0.123, 20.5, 300.25, 0, 0, 0], jnp.float32),
    jnp.array([0, 1, 2601, 0, 0, 0], jnp.int32),
)


@partial(jax.jit, static_argnums=(0, 3, 4))
def there_and_back(config, state, worlds, bucket, weighs=True):
    """The inputs of all robots of a state, as they are and out of a snapshot. The state's world is the second.

    Of robots that weigh options, or of robots that do not.
    """
    truths = jax.vmap(lambda world: true_nodes(config, world, bucket)[0])(worlds)
    truth = jax.tree.map(lambda leaf: leaf[1], truths)
    seen = views(config, state)
    privileged = jax.vmap(lambda number: privileged_view(config, state, number))(jnp.arange(ROBOTS, dtype=jnp.int32))

    def direct(view, told, stale):
        observation = observe(config, view)
        own = compact(observation, bucket, ways(config, view) if weighs else None)
        other = told.active & (jnp.arange(ROBOTS) != observation.number)
        shares = shares_at(truth, told)
        here = view.graph.cell[view.site[0], view.site[1]]
        nodes = privileged_nodes(config, truth, own, observation.site, here, shares, told.sites, other)
        known = replace(situation_of(observation), options=OPTIONS if weighs else None)
        labels = own.mask & stale[own.site[:, 0], own.site[:, 1]] if weighs else None
        return Inputs(own, known, nodes, labels, -0.5 * jnp.ones(()))

    def kept(inputs, view, told, stale):
        number, labels = jnp.array(1, jnp.int32), stale if weighs else None
        known = inputs.nodes, inputs.situation, told, view.graph.cell
        return encode(config, truth, number, *known, labels, inputs.log_probability)

    stale = stale_labels(config, seen)
    inputs = jax.vmap(direct)(seen, privileged, stale)
    snapshots = jax.vmap(kept)(inputs, seen, privileged, stale)
    return inputs, jax.vmap(lambda snapshot: decode(config, truths, snapshot))(snapshots), snapshots


def check_inputs(direct, back) -> None:
    """Everything that the networks read is there again."""
    for kind in ("nodes", "critic_nodes"):
        one, two = getattr(direct, kind), getattr(back, kind)
        for field in ("site", "mask", "edges", "histogram"):
            np.testing.assert_array_equal(getattr(two, field), getattr(one, field), err_msg=field)
        np.testing.assert_allclose(two.features, one.features, atol=2e-5)
    for field in ("way_cm", "open_cm"):
        one, two = (getattr(inputs.nodes.known_ways, field) for inputs in (direct, back))
        np.testing.assert_array_equal(two, one, err_msg=field)
    np.testing.assert_array_equal(back.stale, direct.stale)
    np.testing.assert_array_equal(back.log_probability, direct.log_probability)
    own = [field.name for field in fields(Own)]
    assert {"number", "team_size", "base", "site", "heading", "budget_mm", "initial_budget_mm"} <= set(own)
    assert {"fov_deg", "range_mm", "spacing_mm", "cell_mm"} <= set(own)
    for field in (*own, "budget", "heading_bin", "action_mask", "sensed", "token_mask", "token_site"):
        np.testing.assert_array_equal(getattr(back.situation, field), getattr(direct.situation, field), err_msg=field)
    jax.tree.map(np.testing.assert_array_equal, back.situation.known_options, direct.situation.known_options)
    np.testing.assert_allclose(back.situation.tokens, direct.situation.tokens, atol=1e-6)


def test_a_snapshot_gives_the_inputs_again():
    """Eq. 5, 6, 9 and 15 as the networks read them."""
    tokens = sensed = goals = stale = 0
    for name in ("rooms", "clutter"):
        worlds = jax.tree.map(lambda *leaves: jnp.stack(leaves), hall(30, 9, (0, 1)).world, MISSIONS[name][0].world)
        for before, *_ in mission(name)[::2]:
            state = jax.tree.map(jnp.asarray, before)
            direct, back, kept = jax.tree.map(np.asarray, there_and_back(SMALL, state, worlds, 144))
            check_inputs(direct, back)
            assert kept.node_cell is None
            goals += (direct.nodes.mask & (direct.nodes.known_ways.open_cm < 65535)).sum()
            stale += direct.stale.sum()
            tokens += direct.situation.token_mask.sum()
            sensed += direct.situation.sensed.sum()
    assert tokens > 20
    assert sensed > 20
    assert goals > 20
    assert stale > 20


def test_a_snapshot_gives_the_inputs_of_a_mixed_team_on_roads():
    """Viewpoints lie anywhere in their tiles, cameras are not alike."""
    tokens = goals = aside = 0
    for state in mixed.flown().states[2:14:2]:
        worlds = jax.tree.map(lambda leaf: jnp.stack([jnp.zeros_like(leaf), leaf]), state.world)
        direct, back, kept = jax.tree.map(np.asarray, there_and_back(mixed.CONFIG, state, worlds, 192))
        check_inputs(direct, back)
        np.testing.assert_array_equal(back.situation.range_mm, mixed.BODIES["range_mm"])
        held = direct.nodes.mask
        aside += (kept.node_cell[held] != mixed.CONFIG.stride // 2).any(axis=-1).sum()
        np.testing.assert_array_equal(direct.critic_nodes.mask.sum(axis=1), direct.critic_nodes.mask[0].sum())
        tokens += direct.situation.token_mask.sum()
        goals += (held & (direct.nodes.known_ways.open_cm < 65535)).sum()
    assert min(tokens, goals, aside) > 20


def test_robots_that_weigh_no_options_have_none_to_remember():
    """Everything else is the same."""
    state = jax.tree.map(jnp.asarray, mission("rooms")[4][0])
    worlds = jax.tree.map(lambda *leaves: jnp.stack(leaves), hall(30, 9, (0, 1)).world, MISSIONS["rooms"][0].world)
    (_, usual, _), (_, back, kept) = (there_and_back(SMALL, state, worlds, 144, weighs) for weighs in (True, False))
    assert kept.options is None
    assert back.stale is None
    assert back.nodes.ways is None
    assert back.situation.options is None
    bare = replace(
        usual, nodes=replace(usual.nodes, ways=None), situation=replace(usual.situation, options=None), stale=None
    )
    jax.tree.map(np.testing.assert_array_equal, back, bare)


def test_a_million_transitions_fit():
    """With 384 places and four robots: far below what a GPU holds. Options and labels cost less than 3 kB."""
    state = jax.tree.map(jnp.asarray, mission("rooms")[0][0])
    world = jax.tree.map(lambda leaf: leaf[None].repeat(2, axis=0), MISSIONS["rooms"][0].world)
    sizes = []
    for weighs in (True, False):
        kept = jax.eval_shape(lambda s, w, weighs=weighs: there_and_back(SMALL, s, w, 384, weighs), state, world)[2]
        one = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), kept)
        sizes.append(bytes_per_row(create(2, 1, 1, one)))
    assert 21_000 < sizes[1] < sizes[0] < 24_000
    assert sizes[0] - sizes[1] < 3_000
