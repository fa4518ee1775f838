"""Networks on disk: what is written is read again, and what does not fit is explained in one line."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load, save

from decmarvel import cli
from decmarvel.robot.policy.option_actor import OptionActorConfig
from decmarvel.robot.policy.planner import ACTOR_CONFIGS, LearnedPlanner, load_actor, published
from decmarvel.robot.policy.predecessor import MarvelConfig
from decmarvel.robot.policy.weights import (
    VERSION,
    Card,
    Evaluation,
    WeightsError,
    card_path,
    critic_paths,
    fingerprint,
    known_fingerprint,
    load_weights,
    named_arrays,
    read_card,
    save_weights,
)
from decmarvel.training.critic import GraphCriticConfig
from decmarvel.training.methods.presets import CRITIC_CONFIGS, PRESETS
from decmarvel.training.warm_start import load_learner
from robot.policy.small_networks import TINY

pytestmark = pytest.mark.usefixtures("quick_compilation")

CARD = Card("actor", "dec-marvel", TINY, 7, 12.5, (Evaluation("indoor heldout", 4, 720.0, 100, 0.94, 398.0, 0.083),))


def tiny():
    return TINY.build(jax.random.key(0))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "policy.safetensors"
    save_weights(path, tiny(), CARD)
    return path


@pytest.mark.slow
def test_weights_round_trip(saved):
    network, card = load_actor(saved)
    assert card == CARD
    expected = tiny()
    assert eqx.tree_equal(network, expected)
    for name, leaf in named_arrays(expected).items():
        np.testing.assert_array_equal(named_arrays(network)[name], leaf)
    assert sorted(file.name for file in saved.parent.iterdir()) == ["policy.json", "policy.safetensors"]
    assert named_arrays(network)["graph.layers.attention.query.weight"].shape == (1, 16, 16)
    other, sizes = saved.with_name("critic.safetensors"), GraphCriticConfig(width=16, layers=1, feed=16, channels=2)
    critic = sizes.build(jax.random.key(1))
    save_weights(other, critic, dataclasses.replace(CARD, kind="critic", network=sizes, evaluation=()))
    card = read_card(other, "critic", CRITIC_CONFIGS)
    assert eqx.tree_equal(load_weights(other, eqx.filter_eval_shape(card.network.build, jax.random.key(0))), critic)
    assert card.evaluation == ()
    assert card.network == sizes


def test_every_kind_of_actor_comes_back_as_what_it_was(tmp_path):
    """The card names the planner and has the sizes of its own kind, and nothing else."""
    sizes = {"width": 16, "heads": 2, "layers": 1, "feed": 16, "channels": 2}
    for config in (OptionActorConfig(staleness_width=8, options=3), TINY, MarvelConfig(**sizes)):
        path, network = tmp_path / "policy.safetensors", config.build(jax.random.key(0))
        save_weights(path, network, dataclasses.replace(CARD, planner=network.name, network=config))
        again, card = load_actor(path)
        assert type(again) is type(network)
        assert eqx.tree_equal(again, network)
        assert card.network == again.config == config
        fields = {field.name for field in dataclasses.fields(config)}
        assert json.loads(card_path(path).read_text())["network"].keys() == fields
    assert ACTOR_CONFIGS.keys() == CRITIC_CONFIGS.keys()
    for settings in PRESETS.values():
        planner = eqx.filter_eval_shape(settings.actor.build, jax.random.key(0)).name
        assert type(settings.actor) is ACTOR_CONFIGS[planner]
        assert type(settings.critic) is CRITIC_CONFIGS[planner]


def test_a_fingerprint_is_of_the_arrays_alone(saved):
    """On the card, and the same wherever the weights came from; another for other values, types or shapes."""
    network = tiny()
    own = fingerprint(network)
    assert own == known_fingerprint(saved) == fingerprint(load_actor(saved)[0])
    assert json.loads(card_path(saved).read_text())["fingerprint"] == own
    assert fingerprint(LearnedPlanner(network)) == own, "which is what rows of a benchmark say"
    moved = eqx.tree_at(lambda n: n.pointer.query.weight, network, replace_fn=lambda leaf: leaf.at[0, 0].add(1e-3))
    turned = eqx.tree_at(lambda n: n.pointer.query.weight, network, replace_fn=lambda leaf: leaf.reshape(32, 8))
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), network)
    assert len({own, *map(fingerprint, (moved, turned, half))}) == 4
    assert len(own) == 16


def rewrite(path, **changes):
    fields = json.loads(card_path(path).read_text())
    card_path(path).write_text(json.dumps(fields | changes))


def widen(path):
    rewrite(path, network=dataclasses.asdict(dataclasses.replace(TINY, feed=32)))


def deepen(path):
    rewrite(path, network=dataclasses.asdict(dataclasses.replace(TINY, layers=2)))


def other_arrays(path, change):
    """Other arrays below the same card."""
    path.write_bytes(save(change(load(path.read_bytes()))))


def name_anew(path):
    other_arrays(
        path, lambda found: {name.replace("pointer.query", "pointer.wish"): leaf for name, leaf in found.items()}
    )


def add_more(path):
    other_arrays(path, lambda found: found | {"more": np.zeros(3, np.float32)})


def other_type(path):
    network = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), tiny())
    save_weights(path, network, CARD)


def spoil(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:50])


def of_version_1(path):
    """As they were before actors had kinds: another card, with the digest of the file."""
    fields = json.loads(card_path(path).read_text())
    fields = {name: value for name, value in fields.items() if name not in ("planner", "fingerprint")}
    fields |= {"version": 1, "sha256": "0" * 64, "network": {"width": 64, "advice": True}}
    card_path(path).write_text(json.dumps(fields))


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
        (lambda path: rewrite(path, planner="nobody"), r"policy\.json: damaged .*nobody.*; copy"),
        (lambda path: rewrite(path, planner="options"), r"policy\.json: damaged .*width.*; copy"),
        (lambda path: rewrite(path, network={"width": 17}), r"policy\.json: damaged .*heads must divide.*; copy"),
        (lambda path: rewrite(path, fingerprint=None), r"policy\.json: damaged .*fingerprint.*; copy"),
        (lambda path: rewrite(path, version=99), r"written in version 99 .* reads version 2; update decmarvel"),
        (lambda path: rewrite(path, version=0), r"written in version 0 .*; train again, or use that version"),
        (
            of_version_1,
            r"policy\.json: written in version 1 by decmarvel \S+, this is .* reads version 2; train again, or use",
        ),
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
    network = tiny()
    with pytest.raises(WeightsError, match=r"cannot be written \(No such file or directory\); choose another place"):
        save_weights(tmp_path / "nowhere" / "policy.safetensors", network, CARD)
    with pytest.raises(WeightsError, match=r"written as \.safetensors; name the file so"):
        save_weights(tmp_path / "policy.pt", network, CARD)


def test_the_command_line_says_it_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cli, "app", lambda *_, **__: load_actor(tmp_path / "none.safetensors"))
    assert cli.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def shipped():
    return published("options")


def test_the_package_has_weights_of_its_own():
    """With all that a card has to say."""
    actor, card = load_actor(shipped())
    assert card.planner == actor.name == "options"
    assert card.network == PRESETS["options"].actor
    assert card.command.startswith("decmarvel train --preset ")
    assert card.wall_time_s > 60
    assert {each.robots for each in card.evaluation} == {2, 4, 8}
    assert all(each.missions >= 48 for each in card.evaluation)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(actor))
    assert np.ptp(np.asarray(actor.staleness.last.weight)) > 0.1, "it has learned something"
    assert np.asarray(actor.scorer.value.weight).any(), "and not only from the team's maps"
    assert not published("dec-marvel").exists()


def test_the_cards_of_the_package_tell_the_true_sizes():
    """The configuration on a card builds exactly the arrays that are in the file; and a run can begin with them."""
    actor, (critic,) = shipped(), critic_paths(shipped(), 1)
    assert not critic_paths(shipped(), 2)[1].exists(), "one critic is trained"
    for path, kind, configs in ((actor, "actor", ACTOR_CONFIGS), (critic, "critic", CRITIC_CONFIGS)):
        card = read_card(path, kind, configs)
        built = named_arrays(eqx.filter_eval_shape(card.network.build, jax.random.key(0)))
        found = load(path.read_bytes())
        assert {name: leaf.shape for name, leaf in found.items()} == {name: leaf.shape for name, leaf in built.items()}
        assert json.loads(card_path(path).read_text())["network"] == dataclasses.asdict(card.network)
        assert card.version == VERSION
        network = load_weights(path, eqx.filter_eval_shape(card.network.build, jax.random.key(0)))
        assert fingerprint(network) == known_fingerprint(path)
    assert known_fingerprint(actor) == "3f374a2277616984"
    norms = [leaf for name, leaf in load(critic.read_bytes()).items() if name.endswith(".scale")]
    assert norms
    assert all((leaf != 1).any() for leaf in norms), "it has learned, too"
    learner = load_learner(PRESETS["options"], actor)
    assert eqx.tree_equal(learner.actor, load_actor(actor)[0])
    assert fingerprint(jax.tree.map(lambda leaf: leaf[0], learner.critics)) == known_fingerprint(critic)
