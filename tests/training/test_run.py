"""Training runs: what they leave behind, what they refuse to resume from, and their settings."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import SMALL
from decmarvel.robot.policy.blocks import PLAIN
from decmarvel.robot.policy.planner import load_actor
from decmarvel.robot.policy.weights import Card, WeightsError
from decmarvel.training.checkpoint import CheckpointError, load_state, save_state
from decmarvel.training.evaluate import EvaluationSettings
from decmarvel.training.run import RunSettings, TrainingRun, train
from decmarvel.training.warm_start import load_learner, save_networks
from training.small_run import SETTINGS, TINY, drawn, fresh, maps

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
        train(begin(5, resume), lambda seconds, figures: heard.append((seconds, figures)))
    _, card = load_actor(tmp_path / "best.safetensors")
    assert card.network == TINY
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
    train(leg, lambda *_: None)
    card = load_actor(folder / "last.safetensors")[1]
    assert card.command == "decmarvel train"
    assert card.parent == json.loads((tmp_path / "best.json").read_text())["sha256"]
    with pytest.raises(CheckpointError, match="another parent"):
        TrainingRun(SMALL, SETTINGS, settings, PLAIN, maps(), maps().world, folder, 5, True)


def test_a_leg_begins_with_the_networks_of_another(tmp_path):
    path, batch = tmp_path / "best.safetensors", drawn()
    learner = fresh(SETTINGS.sac, TINY, jax.random.key(2))
    save_networks(path, learner, Card("actor", TINY, 1, 2.0))
    again = load_learner(SETTINGS.sac, TINY, path)
    assert eqx.tree_equal(again.actor, learner.actor)
    assert eqx.tree_equal(again.critics, learner.critics)
    assert eqx.tree_equal(again.targets, learner.critics)
    assert again.post_begun
    numbered = load_learner(SETTINGS.sac, dataclasses.replace(TINY, identity=True), path)
    nodes, situation = batch.state.nodes, batch.state.situation
    np.testing.assert_allclose(numbered.actor(nodes, situation), learner.actor(nodes, situation), atol=1e-5)
    new = (numbered.actor.context.budget.weight[:, 4:], numbered.actor.graph.embed.weight[:, 9:])
    assert all(columns.size and not np.asarray(columns).any() for columns in new)
    weigh = jnp.where(situation.action_mask, jnp.arange(75.0).reshape(25, 3)[None], 0.0)
    slope = jax.jit(jax.grad(lambda actor: (actor(nodes, situation) * weigh).sum()))(numbered.actor)
    assert np.asarray(slope.context.budget.weight[:, 4:]).any(), "but it can learn to read it"
    assert np.asarray(slope.graph.embed.weight[:, 9:]).any()
    with pytest.raises(WeightsError, match="made for another network"):
        load_learner(SETTINGS.sac, dataclasses.replace(TINY, layers=2), path)
