"""A short training run with tiny networks, and batches from its memory."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from decmarvel.training.sac import SacSettings

from cases import SMALL, draw_case
from decmarvel.robot.policy.actor import IMPOSSIBLE
from decmarvel.robot.policy.blocks import PLAIN, NetworkConfig
from decmarvel.training import sac
from decmarvel.training.collect import CollectSettings, Maps
from decmarvel.training.curriculum import CurriculumSettings
from decmarvel.training.loop import TrainSettings, fly, make_batch, play_round, prepare, put_in_place, with_own
from decmarvel.training.privileged_nodes import true_nodes

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
