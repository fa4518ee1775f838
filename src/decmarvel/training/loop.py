"""The training loop: fly missions, store transitions, update networks; all on the device."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.jax_setup import AXIS, mesh
from decmarvel.core.types import Key
from decmarvel.robot.policy.compute import Compute
from decmarvel.training.algorithms.base import Metrics
from decmarvel.training.batches import make_batch
from decmarvel.training.codec import Snapshot
from decmarvel.training.collect import Gathered, RunningMissions, decide_all, renew
from decmarvel.training.curriculum import target_m
from decmarvel.training.devices import own_key, total
from decmarvel.training.maps import Maps
from decmarvel.training.memory import Memory
from decmarvel.training.reward_normaliser import Spread
from decmarvel.training.settings import TrainSettings
from decmarvel.training.state import Training, device_specs, with_own


class Round(eqx.Module):
    """Results of one round, for the log."""

    gathered: Gathered
    """Sums over the decisions of the round."""
    metrics: Metrics
    """Means over the updates of the round; zero before learning begins."""
    learned: Int32[Array, ""]
    """Number of updates made."""
    target_m: Float32[Array, ""]
    remembered: Int32[Array, ""]


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=4)
def play_round(
    config: Config, settings: TrainSettings, compute: Compute, maps: Maps, training: Training
) -> tuple[Training, Round]:
    """Some decisions of every mission, then some updates, on all devices at once."""
    together = replace(compute, axis=AXIS)

    def one(maps: Maps, training: Training) -> tuple[Training, Round]:
        training, report = play_own_round(config, settings, together, maps, with_own(training, lambda leaf: leaf[0]))
        return with_own(training, lambda leaf: leaf[None]), report

    shares = device_specs(training)
    program = jax.shard_map(
        one,
        mesh=mesh(training.devices),
        in_specs=(PartitionSpec(), shares),
        out_specs=(shares, PartitionSpec()),
        check_vma=False,
    )
    return program(maps, training)


def play_own_round(
    config: Config, settings: TrainSettings, compute: Compute, maps: Maps, training: Training
) -> tuple[Training, Round]:
    """The part of one device: some decisions of its missions, then some updates. Arrays have no axis of devices."""
    training, gathered = fly(config, settings, compute, maps, training)
    memory, spread = training.memory, training.spread
    key = own_key(jax.random.fold_in(training.key, training.rounds), compute.axis)
    batch = settings.algorithm.batch // jax.lax.axis_size(compute.axis) if compute.axis else settings.algorithm.batch

    def improve(learner: Any, key: Key) -> tuple[Any, Metrics]:
        drawn = make_batch(config, settings, maps, memory, spread, key, batch)
        return settings.algorithm.update(learner, drawn, compute)

    def study(learner: Any) -> tuple[Any, Metrics]:
        learner, metrics = jax.lax.scan(improve, learner, jax.random.split(key, settings.updates))
        return learner, {name: values.mean() for name, values in metrics.items()}

    shapes = jax.eval_shape(study, training.learner)[1]
    remembered = total(memory.complete, compute.axis)
    ready = remembered >= settings.first_rows
    learner, metrics = jax.lax.cond(
        ready,
        study,
        lambda learner: (learner, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)),
        training.learner,
    )
    training = eqx.tree_at(lambda t: (t.learner, t.rounds), training, (learner, training.rounds + 1))
    return training, Round(
        gathered=gathered,
        metrics=metrics,
        learned=jnp.where(ready, settings.updates, 0).astype(jnp.int32),
        target_m=target_m(settings.curriculum, training.curriculum),
        remembered=remembered,
    )


def fly(
    config: Config, settings: TrainSettings, compute: Compute, maps: Maps, training: Training
) -> tuple[Training, Gathered]:
    """Store some decisions of every mission in the memory; then put new missions in the place of ended ones."""

    def decide(
        carry: tuple[RunningMissions, Memory[Snapshot], Spread], _: None
    ) -> tuple[tuple[RunningMissions, Memory[Snapshot], Spread], Gathered]:
        air, memory, spread, gathered = decide_all(config, settings, compute, training.learner.actor, maps, *carry)
        return (air, memory, spread), gathered

    start = (training.air, training.memory, training.spread)
    (air, memory, spread), gathered = jax.lax.scan(decide, start, None, length=settings.collect.renew_every)
    air, curriculum = renew(config, settings.collect, settings.curriculum, training.curriculum, maps, air, compute.axis)
    flown = eqx.tree_at(
        lambda t: (t.air, t.memory, t.spread, t.curriculum), training, (air, memory, spread, curriculum)
    )
    return flown, jax.tree.map(lambda leaf: leaf.sum(axis=0), gathered)
