"""The whole state of a training run, and which device holds which part of it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Int32

from decmarvel.core.config import Config
from decmarvel.core.errors import TrainingError
from decmarvel.core.jax_setup import AXIS, mesh
from decmarvel.core.types import Key
from decmarvel.simulation.environment import reset, views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.privileged import privileged_view
from decmarvel.training.codec import Snapshot, encode
from decmarvel.training.collect import RunningMissions, take_off_all
from decmarvel.training.critic import stacked_critics
from decmarvel.training.curriculum import Curriculum
from decmarvel.training.maps import Maps
from decmarvel.training.memory import Memory, create
from decmarvel.training.reward_normaliser import Spread
from decmarvel.training.settings import TrainSettings


class Training(eqx.Module):
    """The whole state of a run. A run that saves and loads it goes on with the same results."""

    air: RunningMissions
    """Missions of each device. Like the memory, they have a leading axis of D devices."""
    memory: Memory[Snapshot]
    spread: Spread
    curriculum: Curriculum
    learner: Any
    """The learner of the algorithm in the settings."""
    key: Key
    rounds: Int32[Array, ""]

    @property
    def devices(self) -> int:
        return self.air.map.shape[0]


def prepare(config: Config, settings: TrainSettings, maps: Maps, key: Key, devices: int = 1) -> Training:
    """The state of a run before its first round, on `devices` devices."""
    shared = {"missions": settings.collect.missions, "batch": settings.algorithm.batch, "capacity": settings.capacity}
    for name, number in shared.items():
        if number % devices:
            raise TrainingError(f"{devices} devices cannot share {name} = {number} evenly; choose a multiple")
    key_learner, key_air, key_rounds = jax.random.split(key, 3)
    curriculum = Curriculum.begin(settings.curriculum)
    air = take_off_all(config, settings.collect, settings.curriculum, curriculum, maps, key_air)
    rows = create(
        settings.capacity // devices,
        settings.collect.missions // devices,
        settings.collect.robots,
        example(config, settings, maps),
    )
    return Training(
        air=jax.tree.map(lambda leaf: leaf.reshape(devices, -1, *leaf.shape[1:]), air),
        memory=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (devices, *leaf.shape)), rows),
        spread=Spread.none(),
        curriculum=curriculum,
        learner=new_learner(settings, key_learner),
        key=key_rounds,
        rounds=jnp.array(0, jnp.int32),
    )


def new_learner(settings: TrainSettings, key: Key) -> Any:
    """A learner with fresh networks."""
    key_actor, key_critics = jax.random.split(key)
    algorithm = settings.algorithm
    critics = stacked_critics(settings.critic, key_critics, algorithm.critics)
    return algorithm.begin(settings.actor.build(key_actor), critics)


def example(config: Config, settings: TrainSettings, maps: Maps) -> Snapshot:
    """One row of the memory with zeros, to give its shapes."""

    def first(maps: Maps) -> Snapshot:
        world, truth = jax.tree.map(lambda leaf: leaf[0], (maps.world, maps.truth))
        state = reset(config, jax.random.key(0), world, Fleet.of(settings.collect.robots, 1.0))
        seen = views(config, state)
        labels = settings.algorithm.stale_labels(config, seen)
        view, stale = jax.tree.map(lambda leaf: leaf[0], (seen, labels))
        actor = settings.actor.build(jax.random.key(0))
        nodes, situation = actor.read(config, view, settings.collect.bucket)
        number = jnp.array(0, jnp.int32)
        privileged = privileged_view(config, state, number)
        return encode(config, truth, number, nodes, situation, privileged, view.graph.cell, stale, jnp.zeros(()))

    shapes = jax.eval_shape(first, maps)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def device_specs(training: Training) -> Any:
    """Which arrays of a run belong to one device each, and which all of them have."""
    everybody: Any = jax.tree.map(lambda _: PartitionSpec(), training)
    return with_own(everybody, lambda _: PartitionSpec(AXIS))


def put_in_place(maps: Maps, training: Training) -> tuple[Maps, Training]:
    """Put maps and run on the devices where `play_round` leaves them, so that it compiles once."""
    where = mesh(training.devices)
    shardings = jax.tree.map(lambda spec: NamedSharding(where, spec), device_specs(training))
    return jax.device_put(maps, NamedSharding(where, PartitionSpec())), jax.device_put(training, shardings)


def with_own(training: Training, change: Callable[[Any], Any]) -> Training:
    """Change what belongs to each device."""
    own = jax.tree.map(change, (training.air, training.memory))
    return eqx.tree_at(lambda t: (t.air, t.memory), training, own)
