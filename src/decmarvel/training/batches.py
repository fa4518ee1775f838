"""Batches for an algorithm, drawn from the memory."""

import jax
import jax.numpy as jnp

from decmarvel.core.config import Config
from decmarvel.core.types import Key
from decmarvel.training.algorithms.base import Batch
from decmarvel.training.codec import Inputs, Snapshot, decode
from decmarvel.training.maps import Maps
from decmarvel.training.memory import Memory, sample
from decmarvel.training.reward_normaliser import Spread, scaled
from decmarvel.training.settings import TrainSettings


def make_batch(
    config: Config, settings: TrainSettings, maps: Maps, memory: Memory[Snapshot], spread: Spread, key: Key, batch: int
) -> Batch:
    """Transitions drawn from the memory, as the networks read them."""
    drawn = sample(memory, key, batch, settings.algorithm.steps, settings.algorithm.post_share)
    fading = settings.algorithm.discount ** jnp.arange(settings.algorithm.steps + 1, dtype=jnp.float32)
    return Batch(
        state=read(config, settings, maps, drawn.state),
        action=drawn.action,
        reward=scaled(spread, drawn.reward) @ fading[:-1],
        discount=jnp.where(drawn.done, 0.0, fading[drawn.steps]),
        post=drawn.post,
        following=read(config, settings, maps, drawn.following),
        following_post=drawn.following_post,
    )


def read(config: Config, settings: TrainSettings, maps: Maps, snapshots: Snapshot) -> Inputs:
    return jax.vmap(lambda snapshot: decode(config, maps.truth, snapshot, settings.privilege))(snapshots)
