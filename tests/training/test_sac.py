"""Soft actor-critic against loops, and the training round around it: it runs, learns, and can be repeated."""

import dataclasses
import json
import math
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import typer
from jax.sharding import PartitionSpec

from cases import SMALL, draw_case
from decmarvel.cli.train import with_setting
from decmarvel.core.errors import TrainingError
from decmarvel.core.jax_setup import AXIS, mesh
from decmarvel.robot.policy.actor import IMPOSSIBLE
from decmarvel.robot.policy.blocks import PLAIN, Compute, NetworkConfig
from decmarvel.robot.policy.planner import load_actor
from decmarvel.robot.policy.staleness import Hunch
from decmarvel.robot.policy.weights import Card, WeightsError
from decmarvel.training import sac
from decmarvel.training.checkpoint import CheckpointError, is_key, load_state, read_about, save_state
from decmarvel.training.collect import CollectSettings, Maps, succeeded
from decmarvel.training.curriculum import CurriculumSettings
from decmarvel.training.evaluate import EvaluationSettings
from decmarvel.training.loop import PRESETS, TrainSettings, fly, make_batch, play_round, prepare, put_in_place, with_own
from decmarvel.training.memory import sample
from decmarvel.training.privileged_nodes import true_nodes
from decmarvel.training.reward_normaliser import scaled
from decmarvel.training.run import RunSettings, TrainingRun, train
from decmarvel.training.sac import SacSettings
from decmarvel.training.warm_start import load_learner, save_networks

pytestmark = pytest.mark.usefixtures("quick_compilation")

BATCH, ACTIONS = 7, 12
update = jax.jit(sac.update, static_argnums=(0, 3))
fresh = jax.jit(sac.begin, static_argnums=(0, 1))
prepared = jax.jit(prepare, static_argnums=(0, 1, 4))
TINY = NetworkConfig(width=16, heads=2, layers=1, feed=16, channels=2, token_width=8, token_layers=1, token_feed=8)
ADVISED = dataclasses.replace(TINY, identity=True, advice=True)
SETTINGS = TrainSettings(
    capacity=600,
    first_rows=40,
    updates=2,
    collect=CollectSettings(missions=6, team_sizes=(2, 3), bucket=144, max_decisions=40, renew_every=4),
    curriculum=CurriculumSettings(largest_m=60.0, smallest_m=20.0, around_m=8.0, warm_up=3),
    sac=SacSettings(batch=32, critic_rate=3e-3),
    network=TINY,
)


@cache
def policies(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-probabilities with some actions impossible, values of two critics, and which actions are valid."""
    rng = np.random.default_rng(seed)
    valid = rng.random((BATCH, ACTIONS)) < 0.5
    valid[:, 0] = True
    valid[0, 1:] = False
    logits = np.where(valid, rng.normal(size=valid.shape), -np.inf)
    log_probability = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return np.where(valid, log_probability, IMPOSSIBLE), rng.normal(size=(2, BATCH, ACTIONS)), valid


def single(values) -> jax.Array:
    return jnp.asarray(values, jnp.float32)


@pytest.mark.parametrize("seed", range(5))
def test_losses_equal_loops(seed):
    log_probability, value, valid = policies(seed)
    rng = np.random.default_rng(100 + seed)
    alpha, target, action = 0.3, rng.normal(size=BATCH), [int(rng.choice(np.flatnonzero(row))) for row in valid]
    ahead, critic, temperature = [], 0.0, 0.0
    for i in range(BATCH):
        total, entropy = 0.0, 0.0
        for a in range(ACTIONS):
            if valid[i, a]:
                p = math.exp(log_probability[i, a])
                total += p * (min(value[0, i, a], value[1, i, a]) - alpha * log_probability[i, a])
                entropy -= p * log_probability[i, a]
        ahead.append(total)
        critic += sum((value[j, i, action[i]] - target[i]) ** 2 for j in range(2)) / BATCH
        temperature += alpha * (entropy - 0.5 * math.log(valid[i].sum())) / BATCH
    logs, values = single(log_probability), single(value)
    np.testing.assert_allclose(sac.soft_value(logs, values, single(alpha)), ahead, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        sum(sac.critic_loss(value, jnp.asarray(action, jnp.int32), single(target)) for value in values),
        critic,
        rtol=1e-4,
    )
    np.testing.assert_allclose(sac.actor_loss(logs, values, single(alpha)), -np.mean(ahead), rtol=1e-4, atol=1e-5)
    count = jnp.asarray(valid.sum(axis=1), jnp.int32)
    got = sac.temperature_loss(SacSettings(), single(math.log(alpha)), logs, count)
    np.testing.assert_allclose(got, temperature, rtol=1e-4, atol=1e-5)


@cache
def drawn():
    """A batch from one device's memory of a short run."""
    draw = jax.jit(lambda t: make_batch(SMALL, SETTINGS, maps(), t.replay, t.spread, jax.random.key(1), 32))
    return draw(jax.device_get(with_own(run(12)[0], lambda leaf: leaf[0])))


TO_SUCCESS = dataclasses.replace(
    SETTINGS, network=ADVISED, collect=dataclasses.replace(SETTINGS.collect, past_success=False)
)


@cache
def flown_to_success():
    """Without learning: missions of a network with an adviser that end at 99%, and all that was gathered."""
    training = with_own(prepared(SMALL, TO_SUCCESS, maps(), jax.random.key(3), 1), lambda leaf: leaf[0])
    go_on = jax.jit(lambda training: fly(SMALL, TO_SUCCESS, PLAIN, maps(), training))
    gathered = []
    for _ in range(8):
        training, found = go_on(training)
        gathered.append(jax.device_get(found))
    return training, gathered


@cache
def drawn_with_advice():
    """A batch of theirs."""
    draw = jax.jit(lambda t: make_batch(SMALL, TO_SUCCESS, maps(), t.replay, t.spread, jax.random.key(1), 32))
    return draw(flown_to_success()[0])


def test_missions_can_end_at_success():
    """Nothing is remembered of what would come after, and the curriculum hears of it, though nobody is home."""
    training, gathered = flown_to_success()
    won = sum(int(each.success) for each in gathered)
    assert won > 0
    assert not training.replay.post.any()
    assert not succeeded(training.air.state).any(), "others have taken off in their place"
    assert training.curriculum.episodes == sum(int(each.finished) for each in gathered)
    assert training.curriculum.recent.sum() > 0
    assert run(12)[0].replay.post.any(), "others go on"


def test_advice_and_news_are_remembered_for_who_has_an_adviser():
    """Options from the cheapest to the dearest, that the robot can do; and which of its nodes are stale."""
    one, none = drawn_with_advice().state, drawn().state
    there = one.situation.advice.action >= 0
    assert there.sum() > 20
    assert (there[:, :-1] >= there[:, 1:]).all()
    assert (jnp.diff(one.situation.advice.cost_m, axis=1)[there[:, 1:]] >= 0).all()
    assert (one.situation.advice.shows[there] > 0).mean() > 0.5
    assert not one.situation.advice.shows[~there].any()
    assert 0.05 < one.stale[one.nodes.mask].mean() < 0.95
    assert not one.stale[~one.nodes.mask].any()
    assert not (none.situation.advice.action >= 0).any()
    assert not none.stale.any()


def test_rewards_of_several_steps_are_discounted():
    settings = dataclasses.replace(SETTINGS, sac=dataclasses.replace(SETTINGS.sac, steps=3, discount=0.5))
    training = jax.device_get(with_own(run(12)[0], lambda leaf: leaf[0]))
    key = jax.random.key(1)
    read = jax.jit(lambda t: make_batch(SMALL, settings, maps(), t.replay, t.spread, key, 64))
    batch, raw = read(training), jax.jit(lambda t: sample(t.replay, key, 64, 3))(training)
    assert set(np.asarray(raw.steps).tolist()) == {1, 2, 3}
    for index in range(64):
        earned = [float(scaled(training.spread, reward)) for reward in raw.reward[index][: raw.steps[index]]]
        assert batch.reward[index] == pytest.approx(sum(0.5**age * each for age, each in enumerate(earned)), rel=1e-4)
        assert batch.discount[index] == (0.0 if raw.done[index] else 0.5 ** len(earned))


def test_groups_change_nothing_but_the_time():
    """An update in groups of like size, each in the smallest bucket that holds it, and an update at once."""
    batch, buckets = drawn(), []
    for nodes in (batch.state.nodes, batch.state.critic_nodes):
        sizes = np.sort(np.asarray(nodes.mask.sum(axis=-1)))
        assert sizes[0] < sizes[-1]
        buckets.append((int(sizes[7]), int(sizes[20])))
    grouped = Compute(actor_buckets=buckets[0], critic_buckets=buckets[1], group=8, critic_group=8)
    learner = jax.device_get(run(12)[0].learner)
    (one, figures), (two, others) = (update(SETTINGS.sac, learner, batch, compute) for compute in (PLAIN, grouped))
    for name, value in figures.items():
        np.testing.assert_allclose(others[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    state = one.actor_optimiser, one.critic_optimiser, one.log_alpha  # Adam's first moment is the gradient, scaled
    other = two.actor_optimiser, two.critic_optimiser, two.log_alpha
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-2, atol=1e-5)


def test_devices_take_the_step_of_one():
    """Eq. 13 and the rest: half of a batch on each of two devices, and the whole of it on one."""
    learner, batch = jax.device_get(run(12)[0].learner), drawn()
    together = jax.jit(
        jax.shard_map(
            lambda learner, batch: sac.update(SETTINGS.sac, learner, batch, Compute(axis=AXIS)),
            mesh=mesh(2),
            in_specs=(PartitionSpec(), PartitionSpec(AXIS)),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
    )
    (one, figures), (two, others) = update(SETTINGS.sac, learner, batch, PLAIN), together(learner, batch)
    for name in ("loss/critic", "loss/actor", "loss/temperature", "policy/entropy", "gradient/critic"):
        np.testing.assert_allclose(others[name], figures[name], rtol=1e-3, atol=1e-5, err_msg=name)
    for a, b in zip(
        *(jax.tree.leaves((each.actor_optimiser, each.critic_optimiser)) for each in (one, two)), strict=True
    ):
        np.testing.assert_allclose(b, a, rtol=1e-2, atol=1e-5)


def test_each_device_has_missions_of_its_own_and_all_have_the_same_networks():
    training, reports = run(12)
    assert training.air.map.shape == (2, 3)
    assert (training.replay.reward[0] != training.replay.reward[1]).any()
    assert reports[-1].remembered == training.replay.count.sum()
    for leaf in jax.tree.leaves(training.learner):
        first, second = (np.asarray(shard.data) for shard in leaf.addressable_shards)
        np.testing.assert_array_equal(first, second)
    with pytest.raises(TrainingError, match="4 devices cannot share missions = 6"):
        prepare(SMALL, SETTINGS, maps(), jax.random.key(5), 4)


def test_impossible_actions_have_no_part_in_the_gradient():
    log_probability, value, valid = policies(0)
    slope = jax.grad(lambda logs: sac.actor_loss(logs, single(value), single(0.3)))(single(log_probability))
    assert np.isfinite(slope).all()
    assert not np.asarray(slope)[~valid].any()


@cache
def maps() -> Maps:
    worlds = [draw_case(SMALL, seed).world for seed in (1, 2, 8, 9)]
    world = jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)
    nodes = jax.jit(jax.vmap(lambda world: true_nodes(SMALL, world, SETTINGS.collect.bucket)[0]))
    return Maps(world, nodes(world))


@cache
def run(rounds: int):
    """Training after some rounds, and what each of them reported."""
    everywhere, training = begun()
    reports = []
    for _ in range(rounds):
        training, report = play_round(SMALL, SETTINGS, PLAIN, everywhere, training)
        reports.append(jax.device_get(report))
    return training, reports


def begun():
    """A run on two devices, before its first round."""
    return put_in_place(maps(), prepared(SMALL, SETTINGS, maps(), jax.random.key(5), 2))


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


@pytest.mark.parametrize("seed", range(3))
def test_proximal_loss_equals_loops(seed):
    log_probability, _, valid = policies(seed)
    rng = np.random.default_rng(200 + seed)
    usual = np.where(valid, np.log(rng.random(valid.shape)), IMPOSSIBLE)
    action = [int(rng.choice(np.flatnonzero(row))) for row in valid]
    advantage, moved = rng.normal(size=BATCH), rng.normal(scale=rng.choice([0.3, 2.0], BATCH))
    before = [log_probability[i, action[i]] - moved[i] for i in range(BATCH)]
    total = 0.0
    for i in range(BATCH):
        ratio = min(math.exp(log_probability[i, action[i]] - before[i]), 3.0)
        gain = advantage[i] * (min(ratio, 1.2) if advantage[i] > 0 else max(ratio, 0.8))
        apart = sum(
            math.exp(log_probability[i, a]) * (log_probability[i, a] - usual[i, a]) for a in np.flatnonzero(valid[i])
        )
        total -= (gain - 0.3 * apart) / BATCH
    got = sac.proximal_loss(
        SacSettings(clip=0.2),
        single(log_probability),
        single(before),
        jnp.asarray(action, jnp.int32),
        single(advantage),
        single(usual),
        single(0.3),
    )
    np.testing.assert_allclose(got, total, rtol=1e-4, atol=1e-5)


def test_the_memory_knows_how_likely_actions_were():
    """In the first round the policy is the one that the run began with."""
    training = jax.device_get(with_own(run(1)[0], lambda leaf: leaf[0]))
    batch = jax.jit(lambda t: make_batch(SMALL, SETTINGS, maps(), t.replay, t.spread, jax.random.key(1), 32))(training)
    actor = jax.device_get(run(0)[0].learner.actor)
    log = jax.jit(lambda actor, batch: sac.log_policy(actor, batch.state.nodes, batch.state.situation, PLAIN))(
        actor, batch
    )
    likely = np.take_along_axis(np.asarray(log), np.asarray(batch.action)[:, None], axis=-1)[:, 0]
    np.testing.assert_allclose(batch.state.log_probability, likely, atol=1e-4)
    assert likely.std() > 0.01


def critics_of(learner):
    """Without their post heads, which are copies at first."""
    return [jax.tree.map(lambda leaf: leaf[n], (learner.critics.graph, learner.critics.pre)) for n in (0, 1)]  # noqa: B023


def test_advantages_count_in_units_of_the_usual_surprise():
    """So it does not matter in which units rewards come."""
    rows = sac.CriticRows(single(np.arange(24.0).reshape(4, 1, 6)), single([1.0, 2.0, 3.0, 4.0]))
    action = jnp.array([1, 0, 5, 2], jnp.int32)
    expected = np.mean([(1 - 1) ** 2, (2 - 6) ** 2, (3 - 17) ** 2, (4 - 20) ** 2])
    assert float(sac.surprise(rows, action)) == pytest.approx(expected, rel=1e-5)


def test_refining_follows_the_advantage():
    """Where an action earned more than the critics expect, it becomes more probable; the critics may speak first."""
    batch = dataclasses.replace(drawn(), discount=jnp.zeros(32), reward=jnp.where(jnp.arange(32) % 2 == 0, 3.0, -3.0))
    settings = dataclasses.replace(SETTINGS.sac, clip=0.2, judging=2, actor_rate=1e-3, averaging=0.25)
    learner = fresh(settings, SETTINGS.network, jax.random.key(2))
    average = np.asarray(learner.actor.pointer.query.weight)
    read = jax.jit(lambda learner: sac.log_policy(learner.actor, batch.state.nodes, batch.state.situation, PLAIN))

    def likely(learner):
        return np.take_along_axis(np.asarray(read(learner)), np.asarray(batch.action)[:, None], axis=-1)[:, 0]

    first, (_, second) = likely(learner), critics_of(learner)
    batch = eqx.tree_at(lambda b: b.state.log_probability, batch, jnp.asarray(first))
    for updates in range(12):
        learner, _ = update(settings, learner, batch, PLAIN)
        average = 0.75 * average + 0.25 * np.asarray(learner.actor.pointer.query.weight)
        if updates == 1:
            np.testing.assert_array_equal(likely(learner), first)
    np.testing.assert_allclose(learner.steady.pointer.query.weight, average, rtol=1e-4, atol=1e-6)
    change = likely(learner) - first
    assert change[::2].mean() > 0.01
    assert change[1::2].mean() < -0.01
    assert eqx.tree_equal(critics_of(learner)[1], second), "one critic is enough"
    assert not eqx.tree_equal(*critics_of(learner))


def test_an_actor_does_not_listen_while_the_critics_judge():
    batch, learner = drawn(), fresh(SETTINGS.sac, SETTINGS.network, jax.random.key(2))
    judged = sac.CriticRows(jax.random.normal(jax.random.key(3), (32, 2, 75)), jnp.zeros(32))
    deaf = dataclasses.replace(SETTINGS.sac, judging=5)
    slope = jax.jit(lambda learner: sac.slope_of_actor(deaf, learner, batch, judged, PLAIN)[1])
    late = dataclasses.replace(learner, updates=jnp.array(5, jnp.int32))
    silent, heard = (jax.tree.leaves(slope(each)) for each in (learner, late))
    assert not any(np.asarray(leaf).any() for leaf in silent)
    assert any(np.asarray(leaf).any() for leaf in heard)


def test_who_weighs_options_needs_a_reason_to_deviate():
    """Without any advantage a new actor stays as it is, and one that deviates comes back."""
    batch, settings = drawn_with_advice(), dataclasses.replace(SETTINGS.sac, clip=0.2, first_log_alpha=0.0)
    learner = fresh(settings, ADVISED, jax.random.key(2))
    judged = sac.CriticRows(jnp.zeros((32, 1, 75)), jnp.zeros(32))
    slope = jax.jit(lambda learner: sac.slope_of_actor(settings, learner, batch, judged, PLAIN)[:2])
    moved = eqx.tree_at(lambda each: each.actor.trust.per_m, learner, jnp.full(1, 0.6))
    (none, still), (apart, back) = slope(learner), slope(moved)
    assert float(none) == pytest.approx(0, abs=1e-6)
    assert float(optax.tree.norm(still)) < 1e-5
    assert float(apart) > 1e-4
    assert float(back.trust.per_m[0]) > 1e-4


def test_hunch_loss_equals_loops():
    """Only goals count, all of them alike, before the team's success."""
    state, hunch, post = drawn_with_advice().state, Hunch(jax.random.key(0)), np.arange(32) % 3 == 0
    hunch = jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), hunch)
    logits = np.asarray(jax.jit(jax.vmap(hunch))(state.nodes, state.situation), float)
    total = errors = count = 0
    for i, place in np.argwhere(np.asarray(state.nodes.mask & (state.nodes.ways.open_cm < 65535) & ~post[:, None])):
        probability, stale = 1 / (1 + math.exp(-logits[i, place])), bool(state.stale[i, place])
        total -= math.log(probability if stale else 1 - probability)
        errors += (probability > 0.5) != stale
        count += 1
    loss, share = jax.jit(sac.hunch_loss)(hunch, state, post)
    assert count > 30
    np.testing.assert_allclose([loss, share], [total / count, errors / count], rtol=1e-4)


def test_a_hunch_learns_from_what_the_team_has_seen():
    """Nothing else of the actor is moved by it."""
    settings = dataclasses.replace(SETTINGS.sac, clip=0.2, judging=100)
    first = fresh(settings, ADVISED, jax.random.key(2))
    batch = drawn_with_advice()
    study = jax.jit(lambda learner: sac.ponder(settings, learner, batch, PLAIN))
    learner, begin = study(first)
    for _ in range(200):
        learner, metrics = study(learner)
    assert float(begin["hunch/loss"]) == pytest.approx(math.log(2), rel=1e-5)
    assert float(metrics["hunch/loss"]) < 0.8 * math.log(2)
    rest = [eqx.tree_at(lambda each: each.actor.adviser.hunch, each, None).actor for each in (first, learner)]
    assert eqx.tree_equal(*rest)
    assert sac.ponder(settings, fresh(settings, TINY, jax.random.key(2)), batch, PLAIN)[1] == {}


def test_critics_fit_a_fixed_batch():
    """With the target networks at rest and no future, the values become the rewards."""
    batch = drawn()
    batch = dataclasses.replace(batch, discount=jnp.zeros_like(batch.discount))
    learner = fresh(SETTINGS.sac, TINY, jax.random.key(2))
    losses = []
    for _ in range(80):
        learner, metrics = update(SETTINGS.sac, learner, batch, PLAIN)
        losses.append(float(metrics["loss/critic"]))
    assert losses[-1] < 0.2 * losses[0]
    assert -4 <= float(learner.log_alpha) <= 2


def test_the_post_head_begins_as_a_copy_of_the_pre_head():
    learner = fresh(SacSettings(), TINY, jax.random.key(0))
    waiting = sac.begin_phase(SacSettings(), learner, jnp.array(False))
    begun = sac.begin_phase(SacSettings(), waiting, jnp.array(True))
    assert not waiting.post_begun
    assert begun.post_begun
    for critic in (begun.critics, begun.targets):
        for pre, post in zip(jax.tree.leaves(critic.pre), jax.tree.leaves(critic.post), strict=True):
            np.testing.assert_array_equal(pre, post)
    changed = eqx.tree_at(lambda new: new.critics.pre.value.bias, begun, begun.critics.pre.value.bias + 1)
    later = sac.begin_phase(SacSettings(), changed, jnp.array(True))
    assert not np.array_equal(later.critics.pre.value.bias, later.critics.post.value.bias), "only once"


def test_every_ablation_changes_one_thing():
    fast = dataclasses.asdict(PRESETS["fast"])

    def differences(one, other, path=""):
        for name in one:
            if isinstance(one[name], dict):
                yield from differences(one[name], other[name], f"{path}{name}.")
            elif one[name] != other[name]:
                yield path + name

    changed = {name: list(differences(fast, dataclasses.asdict(preset))) for name, preset in PRESETS.items()}
    assert changed.pop("paper") == [
        "capacity",
        "first_rows",
        "collect.missions",
        "sac.batch",
        "sac.steps",
        "sac.post_share",
        "sac.actor_rate",
        "sac.critic_rate",
        "sac.alpha_rate",
        "sac.polyak_rate",
    ]
    paper = PRESETS["paper"].sac
    assert (paper.steps, paper.post_share, paper.polyak_rate, paper.entropy_share) == (1, 0.5, 0.003, 0.5)
    ours = changed.pop("advised")
    assert not any(name.startswith("curriculum") or name == "privilege" for name in ours)
    assert {name for name in ours if name.startswith("collect")} == {"collect.team_sizes", "collect.past_success"}
    assert {"network.identity", "network.advice", "sac.clip", "rewards.hurry", "rewards.covered"} <= set(ours)
    predecessor = {name.split(".")[0] for name in changed.pop("marvel")}
    assert predecessor == {"privilege", "rewards", "curriculum", "sac", "network"}
    assert changed == {
        "fast": [],
        "no-top": ["privilege"],
        "no-curriculum": ["curriculum.adaptive"],
        "no-dual-head": ["sac.dual_head"],
    }


def test_every_setting_can_be_changed_from_the_command_line():
    fast = PRESETS["fast"]
    assert with_setting(fast, "updates", "3", "") == dataclasses.replace(fast, updates=3)
    assert with_setting(fast, "privilege", "none", "").privilege == "none"
    assert with_setting(fast, "sac.dual_head", "False", "").sac.dual_head is False
    assert with_setting(fast, "sac.discount", "0.5", "").sac == dataclasses.replace(fast.sac, discount=0.5)
    assert with_setting(fast, "collect.team_sizes", "2,8", "").collect.team_sizes == (2, 8)
    assert with_setting(RunSettings(), "evaluation.budgets_m", "720", "").evaluation.budgets_m == (720.0,)
    for name, text in (
        ("sac.batsh", "1"),
        ("nothing", "1"),
        ("updates", "x"),
        ("updates.more", "1"),
        ("privilege", "x"),
    ):
        with pytest.raises(typer.BadParameter, match=f"{name}={text}"):
            with_setting(fast, name, text, f"{name}={text}")
    with pytest.raises(TrainingError, match="heads must divide"):
        with_setting(fast, "network.heads", "3", "")
