"""Training runs: what they leave behind, what they refuse to resume from, and their settings."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from cases import SMALL
from decmarvel.robot.policy.compute import PLAIN
from decmarvel.robot.policy.planner import load_actor
from decmarvel.robot.policy.weights import Card, WeightsError, critic_paths, fingerprint, read_card
from decmarvel.training.checkpoint import CheckpointError, load_state, save_state
from decmarvel.training.evaluate import EvaluationSettings
from decmarvel.training.methods.presets import CRITIC_CONFIGS
from decmarvel.training.run import RunSettings, TrainingRun, run_rounds
from decmarvel.training.warm_start import load_learner, save_networks
from training.small_run import OPTIONS, SETTINGS, fresh, maps

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


def test_checkpoints_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "state.safetensors"
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load_state(path, {"a": jnp.zeros(2)})
    save_state(path, {"a": jnp.zeros(3)}, {})
    with pytest.raises(CheckpointError, match=r"is float32\[3\], not float32\[2\]"):
        load_state(path, {"a": jnp.zeros(2)})
    with pytest.raises(CheckpointError, match="is missing"):
        load_state(path, {"b": jnp.zeros(2)})
    path.write_bytes(b"something else")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_state(path, {"a": jnp.zeros(3)})


def test_a_run_leaves_weights_logs_and_a_state_to_resume_from(tmp_path):
    settings = RunSettings(minutes=0.02, log_every_s=0.0, evaluate_every_s=1e9, save_every_s=1e9)
    settings = dataclasses.replace(
        settings, evaluation=EvaluationSettings(maps=4, robots=(2, 3), budgets_m=(30.0, 40.0))
    )
    heard = []

    def begin(seed: int, resume: bool) -> TrainingRun:
        return TrainingRun(SMALL, SETTINGS, settings, PLAIN, maps(), maps().world, tmp_path, seed, resume)

    for resume in (False, True):
        run_rounds(begin(5, resume), lambda seconds, figures: heard.append((seconds, figures)))
    _, card = load_actor(tmp_path / "best.safetensors")
    assert (card.network, card.planner) == (SETTINGS.actor, "dec-marvel")
    assert [(each.robots, each.budget_m) for each in card.evaluation] == [(2, 30.0), (2, 40.0), (3, 30.0), (3, 40.0)]
    assert card.evaluation[0].missions == 4
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["decisions"] for line in lines] == sorted(line["decisions"] for line in lines)
    assert {"reward/fov", "curriculum/target", "speed/decisions a second"} <= lines[0].keys()
    assert heard
    with pytest.raises(CheckpointError, match="another seed"):
        begin(6, True)
    folder, parent = tmp_path / "second leg", tmp_path / "best.safetensors"
    folder.mkdir()
    leg = TrainingRun(
        SMALL, SETTINGS, settings, PLAIN, maps(), maps().world, folder, 5, False, parent, "decmarvel train"
    )
    assert eqx.tree_equal(jax.device_get(leg.training.learner.actor), jax.device_get(load_actor(parent)[0]))
    run_rounds(leg, lambda *_: None)
    card = load_actor(folder / "last.safetensors")[1]
    assert card.command == "decmarvel train"
    assert card.parent == json.loads((tmp_path / "best.json").read_text())["fingerprint"]
    with pytest.raises(CheckpointError, match="another parent"):
        TrainingRun(SMALL, SETTINGS, settings, PLAIN, maps(), maps().world, folder, 5, True)


@pytest.mark.parametrize("settings", [SETTINGS, OPTIONS], ids=["twins", "one critic"])
def test_a_leg_begins_with_the_networks_of_another(tmp_path, settings):
    """The actor that is published, and as many critics as are trained."""
    path, learner = tmp_path / "best.safetensors", fresh(settings, jax.random.key(2))
    save_networks(path, settings, learner, Card("actor", learner.actor.name, settings.actor, 1, 2.0))
    count = settings.algorithm.critics
    assert [place.exists() for place in critic_paths(path, 3)] == [number < count for number in range(3)]
    for number, place in enumerate(critic_paths(path, count)):
        card = read_card(place, "critic", CRITIC_CONFIGS)
        assert (card.planner, card.network) == (learner.actor.name, settings.critic)
        one = jax.tree.map(lambda leaf, number=number: leaf[number], learner.critics)
        assert json.loads(place.with_suffix(".json").read_text())["fingerprint"] == fingerprint(one)
    again = load_learner(settings, path)
    assert eqx.tree_equal(again.actor, learner.actor)
    assert eqx.tree_equal(again.published, learner.actor)
    assert eqx.tree_equal(again.critics, learner.critics)
    assert eqx.tree_equal(again.targets, learner.critics)
    assert getattr(again, "post_begun", True)
    assert again.updates == 0
    other = OPTIONS if settings is SETTINGS else SETTINGS
    for wrong in (
        dataclasses.replace(settings, actor=dataclasses.replace(settings.actor, max_budget_m=512.0)),
        dataclasses.replace(settings, critic=dataclasses.replace(settings.critic, layers=2)),
        dataclasses.replace(settings, actor=other.actor),
    ):
        with pytest.raises(WeightsError, match="made for another network") as problem:
            load_learner(wrong, path)
        assert "\n" not in str(problem.value)
