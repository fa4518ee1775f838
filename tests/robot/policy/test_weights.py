"""Networks on disk: what is written is read again, and what does not fit is explained in one line."""

import dataclasses
import hashlib
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load, save

from decmarvel import cli
from decmarvel.robot.policy.actor import Actor
from decmarvel.robot.policy.blocks import NetworkConfig
from decmarvel.robot.policy.planner import PUBLISHED, load_actor
from decmarvel.robot.policy.weights import (
    Card,
    Evaluation,
    WeightsError,
    card_path,
    load_weights,
    named_arrays,
    read_card,
    save_weights,
)
from decmarvel.training.critic import Critic

pytestmark = pytest.mark.usefixtures("quick_compilation")

TINY = NetworkConfig(width=16, heads=2, layers=1, feed=16, channels=2, token_width=8, token_layers=1, token_feed=8)
CARD = Card("actor", TINY, 7, 12.5, (Evaluation("indoor heldout", 4, 720.0, 100, 0.94, 398.0, 0.083),))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "policy.safetensors"
    save_weights(path, Actor(jax.random.key(0), TINY), CARD)
    return path


@pytest.mark.slow
def test_weights_round_trip(saved):
    network, card = load_actor(saved)
    assert card == CARD
    expected = Actor(jax.random.key(0), TINY)
    assert eqx.tree_equal(network, expected)
    for name, leaf in named_arrays(expected).items():
        np.testing.assert_array_equal(named_arrays(network)[name], leaf)
    assert sorted(file.name for file in saved.parent.iterdir()) == ["policy.json", "policy.safetensors"]
    assert named_arrays(network)["graph.layers.attention.query.weight"].shape == (1, 16, 16)
    other = saved.with_name("critic.safetensors")
    save_weights(other, Critic(jax.random.key(1), TINY), dataclasses.replace(CARD, kind="critic", evaluation=()))
    like = eqx.filter_eval_shape(Critic, jax.random.key(0), TINY)
    assert eqx.tree_equal(load_weights(other, like), Critic(jax.random.key(1), TINY))
    assert read_card(other, "critic").evaluation == ()


def rewrite(path, **changes):
    fields = json.loads(card_path(path).read_text())
    card_path(path).write_text(json.dumps(fields | changes))


def widen(path):
    rewrite(path, network=dataclasses.asdict(dataclasses.replace(TINY, feed=32)))


def deepen(path):
    rewrite(path, network=dataclasses.asdict(dataclasses.replace(TINY, layers=2)))


def other_arrays(path, change):
    """Other arrays, with a card that knows them."""
    content = save(change(load(path.read_bytes())))
    path.write_bytes(content)
    rewrite(path, sha256=hashlib.sha256(content).hexdigest())


def name_anew(path):
    other_arrays(
        path, lambda found: {name.replace("pointer.query", "pointer.wish"): leaf for name, leaf in found.items()}
    )


def add_more(path):
    other_arrays(path, lambda found: found | {"more": np.zeros(3, np.float32)})


def other_type(path):
    network = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), Actor(jax.random.key(0), TINY))
    save_weights(path, network, CARD)


def spoil(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:50])
    rewrite(path, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), r"policy\.safetensors: there is no such file; give"),
        (lambda path: card_path(path).unlink(), r"policy\.json: the card .* is missing; keep the two files together"),
        (lambda path: card_path(path).write_text("{"), r"policy\.json: damaged .*; copy"),
        (lambda path: card_path(path).write_text("[]"), r"policy\.json: damaged .*; copy"),
        (lambda path: rewrite(path, seed="x"), r"policy\.json: damaged \(.*seed.*\); copy"),
        (lambda path: rewrite(path, network={"depth": 3}), r"policy\.json: damaged .*depth.*; copy"),
        (lambda path: rewrite(path, kind="critic"), r"the weights of a critic, not of a actor; name"),
        (lambda path: rewrite(path, version=99), r"written in version 99 .* reads version 1; update decmarvel"),
        (lambda path: rewrite(path, version=0), r"written in version 0 .*; train again, or use that version"),
        (spoil, r"not the weights that policy\.json describes; copy both files again"),
        (truncate, r"policy\.safetensors: damaged .*; copy"),
        (
            widen,
            r"'graph\.layers\.feed_in\.weight' is float32\[1, 16, 16\], and this network needs float32\[1, 32, 16\]",
        ),
        (
            deepen,
            r"'graph\.layers\.attention\.gate' is float32\[1, 2, 16\], and this network needs float32\[2, 2, 16\]",
        ),
        (name_anew, r"has no 'pointer\.query\.weight', which this network needs; load it with"),
        (add_more, r"has 'more', which this network does not know; load it with"),
        (other_type, r"is float16\[\d+\], and this network needs float32\[\d+\]; load it with"),
    ],
)
def test_weights_that_do_not_fit_are_explained_in_one_line(saved, change, message):
    change(saved)
    with pytest.raises(WeightsError, match=message) as problem:
        load_actor(saved)
    assert "\n" not in str(problem.value)
    assert str(saved.parent) in str(problem.value)


def test_weights_that_cannot_be_written(tmp_path):
    network = Actor(jax.random.key(0), TINY)
    with pytest.raises(WeightsError, match=r"cannot be written \(No such file or directory\); choose another place"):
        save_weights(tmp_path / "nowhere" / "policy.safetensors", network, CARD)
    with pytest.raises(WeightsError, match=r"written as \.safetensors; name the file so"):
        save_weights(tmp_path / "policy.pt", network, CARD)


def test_the_command_line_says_it_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cli, "app", lambda *_, **__: load_actor(tmp_path / "none.safetensors"))
    assert cli.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_package_has_weights_of_its_own():
    """Of the preset that the documentation names, with all that a card has to say."""
    actor, card = load_actor(PUBLISHED)
    assert (card.network.identity, card.network.advice) == (True, True)
    assert card.command.startswith("decmarvel train --preset advised")
    assert card.wall_time_s > 60
    assert {each.robots for each in card.evaluation} == {2, 4, 8}
    assert all(each.missions >= 48 for each in card.evaluation)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(actor))
    assert np.ptp(np.asarray(actor.adviser.hunch.last.weight)) > 0.1, "it has learned something"
    assert np.asarray(actor.trust.value.weight).any(), "and not only from the team's maps"
