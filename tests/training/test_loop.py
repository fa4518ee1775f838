"""The training round: it flies, remembers and learns, on several devices, and can be repeated."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import SMALL
from decmarvel.core.errors import TrainingError
from decmarvel.robot.policy.compute import PLAIN
from decmarvel.training.batches import make_batch
from decmarvel.training.checkpoint import is_key, load_state, read_about, save_state
from decmarvel.training.collect import succeeded
from decmarvel.training.loop import play_round
from decmarvel.training.memory import sample
from decmarvel.training.reward_normaliser import scaled
from decmarvel.training.state import prepare, put_in_place, with_own
from paths import ROOT
from training.small_run import SETTINGS, begun, drawn, drawn_with_options, flown_to_success, maps, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]

PINNED_ROUNDS = json.loads((ROOT / "tests" / "training" / "pinned_rounds.json").read_text())
"""The first rounds of a short run."""


def test_missions_can_end_at_success():
    """Nothing is remembered of what would come after, and the curriculum hears of it, though nobody is home."""
    training, gathered = flown_to_success()
    won = sum(int(each.success) for each in gathered)
    assert won > 0
    assert not training.memory.post.any()
    assert not succeeded(training.air.state).any(), "others have taken off in their place"
    assert training.curriculum.episodes == sum(int(each.finished) for each in gathered)
    assert training.curriculum.recent.sum() > 0
    assert run(12)[0].memory.post.any(), "others go on"


def test_options_and_labels_are_remembered_of_who_weighs_options():
    """Options from the cheapest to the dearest, that the robot can do; and which of its nodes are stale."""
    one, none = drawn_with_options().state, drawn().state
    options = one.situation.known_options
    there = options.action >= 0
    assert there.sum() > 20
    assert (there[:, :-1] >= there[:, 1:]).all()
    assert (jnp.diff(options.cost_m, axis=1)[there[:, 1:]] >= 0).all()
    assert (options.shown_cells[there] > 0).mean() > 0.5
    assert not options.shown_cells[~there].any()
    assert 0.05 < one.stale[one.nodes.mask].mean() < 0.95
    assert not one.stale[~one.nodes.mask].any()
    assert none.situation.options is None
    assert none.nodes.ways is None
    assert none.stale is None


def test_rewards_of_several_steps_are_discounted():
    settings = dataclasses.replace(SETTINGS, algorithm=dataclasses.replace(SETTINGS.algorithm, steps=3, discount=0.5))
    training = jax.device_get(with_own(run(12)[0], lambda leaf: leaf[0]))
    key = jax.random.key(1)
    read = jax.jit(lambda t: make_batch(SMALL, settings, maps(), t.memory, t.spread, key, 64))
    batch, raw = read(training), jax.jit(lambda t: sample(t.memory, key, 64, 3))(training)
    assert set(np.asarray(raw.steps).tolist()) == {1, 2, 3}
    for index in range(64):
        earned = [float(scaled(training.spread, reward)) for reward in raw.reward[index][: raw.steps[index]]]
        assert batch.reward[index] == pytest.approx(sum(0.5**age * each for age, each in enumerate(earned)), rel=1e-4)
        assert batch.discount[index] == (0.0 if raw.done[index] else 0.5 ** len(earned))


def test_each_device_has_missions_of_its_own_and_all_have_the_same_networks():
    training, reports = run(12)
    assert training.air.map.shape == (2, 3)
    assert (training.memory.reward[0] != training.memory.reward[1]).any()
    assert reports[-1].remembered == training.memory.count.sum()
    for leaf in jax.tree.leaves(training.learner):
        first, second = (np.asarray(shard.data) for shard in leaf.addressable_shards)
        np.testing.assert_array_equal(first, second)
    with pytest.raises(TrainingError, match="4 devices cannot share missions = 6"):
        prepare(SMALL, SETTINGS, maps(), jax.random.key(5), 4)


def test_rounds_are_what_they_were_before_the_modules_moved():
    """Counts are equal; sums of floats to what another processor may round."""
    for report, pinned in zip(run(12)[1], PINNED_ROUNDS, strict=False):
        gathered = report.gathered
        for name in ("decisions", "finished"):
            assert getattr(gathered, name) == pinned[name]
        assert (report.learned, report.remembered) == (pinned["learned"], pinned["remembered"])
        for found, known in ((gathered.terms, pinned["terms"]), (report.metrics, pinned["metrics"])):
            assert set(found) == set(known)
            for name, value in known.items():
                np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_round_flies_remembers_and_learns():
    training, reports = run(12)
    assert training.rounds == 12
    assert reports[-1].learned == SETTINGS.updates
    assert training.learner.updates == SETTINGS.updates * sum(report.learned > 0 for report in reports)
    assert training.learner.updates > 0
    assert reports[0].learned == 0 or reports[0].remembered >= SETTINGS.first_rows
    assert sum(report.gathered.finished for report in reports) == training.curriculum.episodes + np.sum(
        training.air.state.step >= SETTINGS.collect.max_decisions
    )
    assert all(np.isfinite(list(report.metrics.values())).all() for report in reports)
    assert not training.air.state.robots.mode.max() > 4


def test_the_same_seed_gives_the_same_training():
    everywhere, again = begun()
    for _ in range(12):
        again, _ = play_round(SMALL, SETTINGS, PLAIN, everywhere, again)
    same(run(12)[0], again)


def same(one, other) -> None:
    """Bit for bit."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if is_key(a):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_a_run_that_was_saved_and_loaded_goes_on_as_if_nothing_had_happened(tmp_path):
    training, _ = run(6)
    save_state(tmp_path / "state.safetensors", training, {"note": 7})
    assert read_about(tmp_path / "state.safetensors") == {"note": 7}
    shapes = jax.eval_shape(lambda: prepare(SMALL, SETTINGS, maps(), jax.random.key(5), 2))
    loaded = load_state(tmp_path / "state.safetensors", shapes)
    same(loaded, training)
    everywhere, loaded = put_in_place(maps(), loaded)
    for _ in range(6):
        loaded, _ = play_round(SMALL, SETTINGS, PLAIN, everywhere, loaded)
    same(loaded, run(12)[0])
