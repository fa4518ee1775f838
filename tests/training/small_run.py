"""A short training run with tiny networks, and batches from its memory."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from cases import SMALL, draw_case
from decmarvel.robot.policy.actor import IMPOSSIBLE
from decmarvel.robot.policy.compute import PLAIN
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.robot.policy.option_actor import OptionActorConfig
from decmarvel.training.algorithms.proximal import Proximal
from decmarvel.training.algorithms.sac import Sac
from decmarvel.training.batches import make_batch
from decmarvel.training.critic import GraphCriticConfig
from decmarvel.training.curriculum import CurriculumSettings
from decmarvel.training.loop import fly, play_round
from decmarvel.training.maps import Maps
from decmarvel.training.methods.options import OptionCriticConfig, OptionReward
from decmarvel.training.methods.paper import PaperReward
from decmarvel.training.privileged_nodes import true_nodes
from decmarvel.training.settings import CollectSettings, TrainSettings
from decmarvel.training.state import new_learner, prepare, put_in_place, with_own

BATCH, ACTIONS = 7, 12
update = jax.jit(
    lambda algorithm, learner, batch, compute: algorithm.update(learner, batch, compute), static_argnums=(0, 3)
)
fresh = jax.jit(new_learner, static_argnums=0)
prepared = jax.jit(prepare, static_argnums=(0, 1, 4))
SIZES = {"width": 16, "heads": 2, "layers": 1, "feed": 16, "channels": 2}
SETTINGS = TrainSettings(
    capacity=600,
    first_rows=40,
    updates=2,
    collect=CollectSettings(missions=6, team_sizes=(2, 3), bucket=144, max_decisions=40, renew_every=4),
    curriculum=CurriculumSettings(largest_m=60.0, smallest_m=20.0, around_m=8.0, warm_up=3),
    reward=PaperReward(),
    algorithm=Sac(batch=32, critic_rate=3e-3),
    actor=GraphActorConfig(**SIZES, token_width=8, token_layers=1, token_feed=8),
    critic=GraphCriticConfig(**SIZES),
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


@cache
def drawn():
    """A batch from one device's memory of a short run."""
    draw = jax.jit(lambda t: make_batch(SMALL, SETTINGS, maps(), t.memory, t.spread, jax.random.key(1), 32))
    return draw(jax.device_get(with_own(run(12)[0], lambda leaf: leaf[0])))


OPTIONS = dataclasses.replace(
    SETTINGS,
    collect=dataclasses.replace(SETTINGS.collect, past_success=False),
    reward=OptionReward(),
    algorithm=Proximal(batch=32, critic_rate=3e-3),
    actor=OptionActorConfig(),
    critic=OptionCriticConfig(**SIZES),
)
"""Missions of robots that weigh options, which end at success."""


@cache
def flown_to_success():
    """Their missions without learning, and all that was gathered."""
    training = with_own(prepared(SMALL, OPTIONS, maps(), jax.random.key(3), 1), lambda leaf: leaf[0])
    go_on = jax.jit(lambda training: fly(SMALL, OPTIONS, PLAIN, maps(), training))
    gathered = []
    for _ in range(8):
        training, found = go_on(training)
        gathered.append(jax.device_get(found))
    return training, gathered


@cache
def drawn_with_options():
    """A batch of theirs."""
    draw = jax.jit(lambda t: make_batch(SMALL, OPTIONS, maps(), t.memory, t.spread, jax.random.key(1), 32))
    return draw(flown_to_success()[0])


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
