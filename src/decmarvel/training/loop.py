"""The training loop: fly, remember, learn, without leaving the device."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.errors import TrainingError
from decmarvel.core.jax_setup import AXIS, mesh
from decmarvel.core.types import Key
from decmarvel.robot.observation import observe
from decmarvel.robot.policy.blocks import Compute, NetworkConfig
from decmarvel.robot.policy.nodes import Advice
from decmarvel.simulation.environment import reset, views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.privileged import privileged_view
from decmarvel.training import sac
from decmarvel.training.codec import Inputs, Privilege, Snapshot, decode, encode
from decmarvel.training.collect import Airspace, CollectSettings, Gathered, Maps, decide_all, renew, take_off_all
from decmarvel.training.curriculum import Curriculum, CurriculumSettings, target_m
from decmarvel.training.devices import own_key, total
from decmarvel.training.memory import Replay, create, sample
from decmarvel.training.privileged_nodes import true_nodes
from decmarvel.training.reward_normaliser import Spread, scaled
from decmarvel.training.rewards import RewardSettings
from decmarvel.training.sac import Batch, Learner, Metrics, SacSettings
from decmarvel.worlds import generate
from decmarvel.worlds.place import place_all
from decmarvel.worlds.world import World


@dataclass(frozen=True)
class TrainSettings:
    """Everything that makes a training run what it is."""

    maps: int = 2048
    """Generated training buildings."""
    capacity: int = 400_000
    """Rows of the memory."""
    first_rows: int = 50_000
    """Learning begins when the memory holds this many transitions."""
    updates: int = 16
    """Each round, after `collect.renew_every` decisions of every mission."""
    privilege: Privilege = "own and team"
    """"none" (`no-top`): the critics see no more than the actor. "team": they are not told who has seen what."""
    collect: CollectSettings = field(default_factory=CollectSettings)
    rewards: RewardSettings = field(default_factory=RewardSettings)
    curriculum: CurriculumSettings = field(default_factory=CurriculumSettings)
    sac: SacSettings = field(default_factory=SacSettings)
    network: NetworkConfig = field(default_factory=NetworkConfig)


ACTOR_BUCKETS, CRITIC_BUCKETS = (128, 192), (256,)
"""Smaller than `collect.bucket`. Robots know 119 nodes on average, and whole buildings have 201 to 316."""

FAST = TrainSettings(sac=SacSettings(steps=5, post_share=0.2, polyak_rate=0.01))
"""The paper's method with critics that look far ahead within minutes: see docs/training-log.md."""
PAPER = replace(
    FAST,
    capacity=10_000,
    first_rows=2_000,
    collect=replace(FAST.collect, missions=32),
    sac=SacSettings(batch=256, actor_rate=1e-5, critic_rate=1e-5, alpha_rate=1e-4),
)
"""What the paper says; where it is silent, its predecessor's rates: four updates of 256 samples an episode, nearly."""
MARVEL = replace(
    FAST,
    privilege="team",
    rewards=RewardSettings(
        merged=0.0, align=1.0, trail=0.0, repeat=0.0, team=10.0, individual=0.0, removed=1 / 39, step=-0.5
    ),
    curriculum=replace(FAST.curriculum, adaptive=False),
    sac=replace(FAST.sac, discount=1.0, entropy_share=0.04, dual_head=False),
    network=replace(FAST.network, features=6, gated=False, budget=False, trajectories=False, clip=10.0, decoder=True),
)
"""The predecessor without communication: the paper's baseline. With our rates; its own are for slow simulators."""
ADVISED = replace(
    FAST,
    collect=replace(FAST.collect, team_sizes=(2, 4, 8), past_success=False),
    capacity=120_000,
    first_rows=40_000,
    updates=12,
    rewards=RewardSettings(
        fov=0.0, merged=0.0, align=0.0, trail=0.0, repeat=0.0, team=0.0, individual=0.0, hurry=-0.5, covered=1.0
    ),
    sac=replace(
        FAST.sac,
        batch=4096,
        discount=0.995,
        judging=200,
        clip=0.2,
        steps=16,
        post_share=0.05,
        first_log_alpha=-3.0,
        log_alpha_range=(-3.0, -3.0),
        actor_rate=3e-4,
        critic_rate=1e-3,
        hunch_rate=4e-3,
        polyak_rate=0.03,
        averaging=0.001,
    ),
    network=NetworkConfig(width=64, layers=2, feed=128, channels=4, decoder=True, identity=True, advice=True),
)
"""Ours: begin as a frontier planner, learn what teammates have seen by now, and take small steps towards what turned
out better than expected, with fresh experience only. Small networks, for much experience."""
PRESETS: dict[str, TrainSettings] = {
    "fast": FAST,
    "advised": ADVISED,
    "paper": PAPER,
    "marvel": MARVEL,
    "no-top": replace(FAST, privilege="none"),
    "no-curriculum": replace(FAST, curriculum=replace(FAST.curriculum, adaptive=False)),
    "no-dual-head": replace(FAST, sac=replace(FAST.sac, dual_head=False)),
}


def default_compute(batch: int = 1024) -> Compute:
    """Mixed precision and our kernels on an NVIDIA GPU, float32 elsewhere; small graphs in small buckets.

    The larger a group the better it uses a GPU, and the more groups a batch has the fewer places are empty.
    """
    group = max(256, batch // 8)
    plain = Compute(actor_buckets=ACTOR_BUCKETS, critic_buckets=CRITIC_BUCKETS, group=group, critic_group=group)
    return replace(plain, dtype="bfloat16", kernel="pallas", in_a_row=True) if jax.default_backend() == "gpu" else plain


class Training(eqx.Module):
    """The whole state of a run. Saved and loaded, it goes on as if nothing had happened."""

    air: Airspace
    """Of each device, as is the memory: an axis of D before all others."""
    replay: Replay[Snapshot]
    spread: Spread
    curriculum: Curriculum
    learner: Learner
    key: Key
    rounds: Int32[Array, ""]

    @property
    def devices(self) -> int:
        return self.air.map.shape[0]


class Round(eqx.Module):
    """What one round did, for the log."""

    gathered: Gathered
    """Sums over the decisions of the round."""
    metrics: Metrics
    """Means over its updates; zero before learning begins."""
    learned: Int32[Array, ""]
    """Updates made."""
    target_m: Float32[Array, ""]
    remembered: Int32[Array, ""]


def training_maps(config: Config, count: int, bucket: int) -> Maps:
    """Generated buildings of the training series."""
    buildings = [generate("indoor", "train", index, config.cell_m) for index in range(count)]
    return that_fit(config, place_all(buildings, config), bucket)


def that_fit(config: Config, worlds: World, bucket: int) -> Maps:
    """Buildings to train on: all but those with more nodes than the bucket has places."""
    truth, nodes = jax.lax.map(lambda world: true_nodes(config, world, bucket), worlds, batch_size=64)
    fits = np.flatnonzero(np.asarray(nodes) <= bucket)
    if 2 * len(fits) < len(nodes):
        raise TrainingError(f"most training maps have more than {bucket} nodes; raise collect.bucket")
    return jax.tree.map(lambda leaf: leaf[fits], Maps(worlds, truth))


def prepare(config: Config, settings: TrainSettings, maps: Maps, key: Key, devices: int = 1) -> Training:
    """A run before its first round, on so many devices."""
    shared = {"missions": settings.collect.missions, "batch": settings.sac.batch, "capacity": settings.capacity}
    for name, number in shared.items():
        if number % devices:
            raise TrainingError(f"{devices} devices cannot share {name} = {number} evenly; choose a multiple")
    key_learner, key_air, key_rounds = jax.random.split(key, 3)
    curriculum = Curriculum.begin(settings.curriculum)
    air = take_off_all(config, settings.collect, settings.curriculum, curriculum, maps, key_air)
    memory = create(
        settings.capacity // devices,
        settings.collect.missions // devices,
        settings.collect.robots,
        example(config, settings, maps),
    )
    return Training(
        air=jax.tree.map(lambda leaf: leaf.reshape(devices, -1, *leaf.shape[1:]), air),
        replay=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (devices, *leaf.shape)), memory),
        spread=Spread.none(),
        curriculum=curriculum,
        learner=sac.begin(settings.sac, settings.network, key_learner),
        key=key_rounds,
        rounds=jnp.array(0, jnp.int32),
    )


def example(config: Config, settings: TrainSettings, maps: Maps) -> Snapshot:
    """What one row of the memory looks like."""

    def first(maps: Maps) -> Snapshot:
        world, truth = jax.tree.map(lambda leaf: leaf[0], (maps.world, maps.truth))
        state = reset(config, jax.random.key(0), world, Fleet.of(settings.collect.robots, 1.0))
        observation = observe(config, jax.tree.map(lambda leaf: leaf[0], views(config, state)))
        number = jnp.array(0, jnp.int32)
        privileged = privileged_view(config, state, number)
        stale = jnp.zeros(observation.node_mask.shape, bool)
        return encode(config, truth, number, observation, Advice.none(), privileged, stale, jnp.zeros(()))

    shapes = jax.eval_shape(first, maps)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=4)
def play_round(
    config: Config, settings: TrainSettings, compute: Compute, maps: Maps, training: Training
) -> tuple[Training, Round]:
    """Some decisions of every mission, then some updates, on all devices at once."""
    together = replace(compute, axis=AXIS)

    def one(maps: Maps, training: Training) -> tuple[Training, Round]:
        training, report = play_own_round(config, settings, together, maps, with_own(training, lambda leaf: leaf[0]))
        return with_own(training, lambda leaf: leaf[None]), report

    shares = whose(training)
    program = jax.shard_map(
        one,
        mesh=mesh(training.devices),
        in_specs=(PartitionSpec(), shares),
        out_specs=(shares, PartitionSpec()),
        check_vma=False,
    )
    return program(maps, training)


def whose(training: Training) -> Any:
    """Which arrays of a run belong to one device each, and which all of them have."""
    everybody: Any = jax.tree.map(lambda _: PartitionSpec(), training)
    return with_own(everybody, lambda _: PartitionSpec(AXIS))


def put_in_place(maps: Maps, training: Training) -> tuple[Maps, Training]:
    """Maps and run where `play_round` leaves them, so that it is compiled once."""
    where = mesh(training.devices)
    shardings = jax.tree.map(lambda spec: NamedSharding(where, spec), whose(training))
    return jax.device_put(maps, NamedSharding(where, PartitionSpec())), jax.device_put(training, shardings)


def with_own(training: Training, change: Callable[[Any], Any]) -> Training:
    """Change what belongs to each device."""
    own = jax.tree.map(change, (training.air, training.replay))
    return eqx.tree_at(lambda t: (t.air, t.replay), training, own)


def play_own_round(
    config: Config, settings: TrainSettings, compute: Compute, maps: Maps, training: Training
) -> tuple[Training, Round]:
    """The part of one device: some decisions of its missions, then some updates. No axis of devices here."""
    training, gathered = fly(config, settings, compute, maps, training)
    replay, spread = training.replay, training.spread
    key = own_key(jax.random.fold_in(training.key, training.rounds), compute.axis)
    batch = settings.sac.batch // jax.lax.axis_size(compute.axis) if compute.axis else settings.sac.batch

    def improve(learner: Learner, key: Key) -> tuple[Learner, Metrics]:
        return sac.update(
            settings.sac, learner, make_batch(config, settings, maps, replay, spread, key, batch), compute
        )

    def study(learner: Learner) -> tuple[Learner, Metrics]:
        learner, metrics = jax.lax.scan(improve, learner, jax.random.split(key, settings.updates))
        return learner, {name: values.mean() for name, values in metrics.items()}

    shapes = jax.eval_shape(study, training.learner)[1]
    remembered = total(replay.complete, compute.axis)
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
    """Some decisions of every mission, into the memory; then new missions in the place of those that have ended."""

    def decide(
        carry: tuple[Airspace, Replay[Snapshot], Spread], _: None
    ) -> tuple[tuple[Airspace, Replay[Snapshot], Spread], Gathered]:
        air, replay, spread, gathered = decide_all(
            config, settings.collect, settings.rewards, compute, training.learner.actor, maps, *carry
        )
        return (air, replay, spread), gathered

    start = (training.air, training.replay, training.spread)
    (air, replay, spread), gathered = jax.lax.scan(decide, start, None, length=settings.collect.renew_every)
    air, curriculum = renew(config, settings.collect, settings.curriculum, training.curriculum, maps, air, compute.axis)
    flown = eqx.tree_at(
        lambda t: (t.air, t.replay, t.spread, t.curriculum), training, (air, replay, spread, curriculum)
    )
    return flown, jax.tree.map(lambda leaf: leaf.sum(axis=0), gathered)


def make_batch(
    config: Config, settings: TrainSettings, maps: Maps, replay: Replay[Snapshot], spread: Spread, key: Key, batch: int
) -> Batch:
    """Transitions drawn from the memory, as the networks read them."""
    drawn = sample(replay, key, batch, settings.sac.steps, settings.sac.post_share)
    fading = settings.sac.discount ** jnp.arange(settings.sac.steps + 1, dtype=jnp.float32)
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
