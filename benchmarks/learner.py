"""Speed of the learner and of collection with the actor in the loop, and where the time goes.

python benchmarks/learner.py                          # on a GPU
python benchmarks/learner.py --decision               # one robot's decision, as on board
python benchmarks/learner.py --tiny                   # anywhere: that it runs, not how fast
"""

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from decmarvel.core.config import Config
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.core.types import LocalView
from decmarvel.robot.policy.actor import Actor
from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.simulation import roster
from decmarvel.simulation.environment import step, views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import decide, take_off
from decmarvel.simulation.types import State
from decmarvel.training.algorithms.base import Batch
from decmarvel.training.algorithms.losses import next_policy
from decmarvel.training.algorithms.sac import SacLearner, actor_gradient
from decmarvel.training.algorithms.values import critic_gradient
from decmarvel.training.batches import make_batch
from decmarvel.training.collect import propose_all
from decmarvel.training.critic import GraphCriticConfig
from decmarvel.training.loop import fly
from decmarvel.training.machine import default_compute
from decmarvel.training.maps import Maps, training_maps
from decmarvel.training.memory import bytes_per_row
from decmarvel.training.methods.presets import PRESETS
from decmarvel.training.settings import TrainSettings
from decmarvel.training.state import Training, prepare, with_own
from decmarvel.worlds import generate
from decmarvel.worlds.place import place_all
from decmarvel.worlds.world import World

TINY: dict[str, Any] = {"width": 16, "heads": 2, "layers": 1, "feed": 16, "channels": 2}


def seconds(label: str, function: Callable[..., Any], *arguments: Any, repeats: int = 5) -> float:
    """Median wall time of a compiled call; says how long compiling took."""
    begin = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    compiled = time.perf_counter() - begin
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - begin)
    print(f"  {label}: {1e3 * np.median(times):.2f} ms (first call {compiled:.0f} s)", flush=True)
    return float(np.median(times))


def compile_together(*calls: tuple[Any, ...]) -> None:
    """Compile several calls side by side; the compilation cache has them from now on."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(lambda call: call[0].lower(*call[1:]).compile(), calls))
    print(f"  compiled in {time.perf_counter() - begin:.0f} s", flush=True)


def warmed(
    config: Config, settings: TrainSettings, compute: Compute, maps: Maps, rounds: int
) -> tuple[Training, float]:
    """A memory of missions of all ages: flown so far by the sector planner, so that graphs have real sizes.

    And the robot-decisions a second with which the policy flew on, from observation to memory.
    """
    training = jax.jit(prepare, static_argnums=(0, 1))(config, settings, maps, jax.random.key(0))
    training = with_own(training, lambda leaf: leaf[0])
    planner, number = roster.planner("sector"), settings.collect.missions
    age = jnp.linspace(0, 110, number).astype(jnp.int32)
    fleet = Fleet.of(settings.collect.robots, 1024.0)

    def one(worlds: World, index: jax.Array, age: jax.Array) -> State:
        world = jax.tree.map(lambda leaf: leaf[index], worlds)
        flight = take_off(config, planner, jax.random.key(index), world, fleet)
        return jax.lax.fori_loop(0, age, lambda _, flight: decide(config, planner, flight)[0], flight).state

    begin = time.perf_counter()
    state = jax.block_until_ready(jax.jit(jax.vmap(one, in_axes=(None, 0, 0)))(maps.world, training.air.map, age))
    print(f"  missions of all ages: {time.perf_counter() - begin:.0f} s", flush=True)
    training = eqx.tree_at(lambda t: t.air.state, training, state)
    collect = jax.jit(lambda maps, t: fly(config, settings, compute, maps, t)[0], donate_argnums=1)
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        training = jax.block_until_ready(collect(maps, training))
        times.append(time.perf_counter() - begin)
    whole = float(np.median(times[1:]))
    rate = number * settings.collect.robots * settings.collect.renew_every / whole
    print(f"  compiled in {times[0] - whole:.0f} s")
    print(f"\nCollection: {rate:,.0f} robot-decisions a second ({number} missions of {settings.collect.robots})\n")
    return training, rate


def collection(config: Config, settings: TrainSettings, compute: Compute, training: Training, rate: float) -> None:
    """The parts of a decision, which are made at this rate."""
    collect, actor, air = settings.collect, training.learner.actor, training.air
    look = jax.jit(jax.vmap(lambda state: views(config, state)))
    seen = look(air.state)
    choose = jax.jit(lambda actor, keys, seen: propose_all(config, collect, compute, actor, keys, seen)[0])
    proposals = choose(actor, air.key, seen)
    move_on = jax.jit(jax.vmap(lambda key, state, seen, proposed: step(config, key, state, seen, proposed)))
    after, move = move_on(air.key, air.state, seen, proposals)
    earn = jax.jit(jax.vmap(lambda s, m, a, low: settings.reward(config, s, m, a, low)))
    parts = [
        ("views", look, (air.state,)),
        ("observation and actor", choose, (actor, air.key, seen)),
        ("environment step", move_on, (air.key, air.state, seen, proposals)),
        ("reward", earn, (air.state, move, after, air.low_gains)),
    ]
    each = collect.missions * collect.robots / rate
    print(f"| part of a decision | ms | share |\n|---|---|---|\n| all | {1e3 * each:.2f} | 100% |")
    rest = each
    for label, function, arguments in parts:
        elapsed = seconds(label, function, *arguments)
        rest -= elapsed
        print(f"| {label} | {1e3 * elapsed:.2f} | {elapsed / each:.0%} |", flush=True)
    print(f"| the rest (memory, bookkeeping) | {1e3 * rest:.2f} | {rest / each:.0%} |\n")


def learning(
    config: Config, settings: TrainSettings, computes: list[Compute], maps: Maps, training: Training
) -> dict[str, float]:
    """Samples a second of the whole update, batch included, and its parts."""
    batch, updates, rates = settings.algorithm.batch, 4, {}
    draw = jax.jit(lambda maps, t, key: make_batch(config, settings, maps, t.memory, t.spread, key, batch))
    drawn: Batch = draw(maps, training, jax.random.key(1))
    own, whole_map = (float(nodes.mask.sum(axis=-1).mean()) for nodes in (drawn.state.nodes, drawn.state.critic_nodes))
    print(f"\nA batch of {batch}: {own:.0f} nodes a robot, {whole_map:.0f} nodes a critic, on average")
    ours = computes[0]
    look_ahead = jax.jit(lambda actor, batch: next_policy(actor, batch, ours))
    of_critics = jax.jit(partial(gradient_of_critics, compute=ours))
    of_actor = jax.jit(lambda learner, batch, rows: actor_gradient(learner.actor, batch, rows, learner.alpha, ours))
    learner, key = training.learner, jax.random.key(1)
    next_shape = jax.eval_shape(look_ahead, learner.actor, drawn)
    rows_shape = jax.eval_shape(of_critics, learner, drawn, next_shape)[2]
    programs = []
    for compute in computes:

        def improve(maps: Maps, training: Training, compute: Compute = compute) -> Any:
            def one(learner: SacLearner, key: Any) -> tuple[SacLearner, Any]:
                taken = make_batch(config, settings, maps, training.memory, training.spread, key, batch)
                return settings.algorithm.update(learner, taken, compute)

            return jax.lax.scan(one, training.learner, jax.random.split(jax.random.key(2), updates))

        programs.append(jax.jit(improve))
    compile_together(
        *((program, maps, training) for program in programs),
        (look_ahead, learner.actor, drawn),
        (of_critics, learner, drawn, next_shape),
        (of_actor, learner, drawn, rows_shape),
    )
    for compute, program in zip(computes, programs, strict=True):
        elapsed = seconds(f"whole update, {compute.kernel}", program, maps, training, repeats=3)
        rates[name(compute)] = batch * updates / elapsed
        print(f"| {name(compute)} | {rates[name(compute)]:,.0f} samples a second |", flush=True)
    times = {"drawing and decoding": seconds("drawing", draw, maps, training, key)}
    times["policy in the next states"] = seconds("policy", look_ahead, learner.actor, drawn)
    next_log = look_ahead(learner.actor, drawn)
    times["critics, their targets and gradient"] = seconds("critics", of_critics, learner, drawn, next_log)
    rows = of_critics(learner, drawn, next_log)[2]
    times["actor and gradient"] = seconds("actor", of_actor, learner, drawn, rows)
    own_loss, own_gradient, _ = of_critics(learner, drawn, next_log)
    for compute in computes[1:]:
        loss, gradient, _ = jax.jit(partial(gradient_of_critics, compute=compute))(learner, drawn, next_log)
        alike = f"gradients at a cosine of {cosine(own_gradient, gradient):.5f}"
        print(f"  {computes[0].kernel} loss {own_loss:.4f}, {compute.kernel} loss {loss:.4f}, {alike}", flush=True)
    each = batch / rates[name(computes[0])]
    print(f"\n| part of an update | ms | share |\n|---|---|---|\n| all | {1e3 * each:.1f} | 100% |")
    for label, elapsed in times.items():
        print(f"| {label} | {1e3 * elapsed:.2f} | {elapsed / each:.0%} |", flush=True)
    return rates


def gradient_of_critics(learner: SacLearner, batch: Batch, next_log: jax.Array, compute: Compute) -> Any:
    """The critics' loss, its gradient, and what they found sample by sample."""
    return critic_gradient(learner.critics, learner.targets, batch, next_log, learner.alpha, compute)


def cosine(one: Any, other: Any) -> float:
    """How alike two gradients are."""
    a, b = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]) for tree in (one, other))
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def decision(config: Config) -> None:
    """One decision of one robot by the greedy actor, observation included, with so many places for nodes."""
    flight = take_off(config, roster.planner("sector"), jax.random.key(0), generate_world(config), Fleet.of(4, 720.0))
    view = jax.tree.map(lambda leaf: leaf[0], views(config, flight.state))
    actor = GraphActorConfig().build(jax.random.key(0))

    def choose(actor: Actor, view: LocalView, places: int) -> jax.Array:
        return jnp.argmax(actor(*actor.read(config, view, places)))

    for places in (128, 256, 384):
        seconds(f"one decision, {places} places", jax.jit(partial(choose, places=places)), actor, view, repeats=20)


def generate_world(config: Config) -> World:
    return jax.tree.map(lambda leaf: leaf[0], place_all([generate("indoor", "heldout", 0, config.cell_m)], config))


def name(compute: Compute) -> str:
    sizes = f"{compute.actor_buckets} and {compute.critic_buckets}"
    return f"{compute.dtype}, {compute.kernel}, groups of {compute.group} and {compute.critic_group}, buckets {sizes}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decision", action="store_true", help="only the time of one robot's decision")
    parser.add_argument("--tiny", action="store_true", help="small networks, few missions")
    parser.add_argument("--warm-rounds", type=int, default=4, help="of flying, before and while collection is timed")
    parser.add_argument("--missions", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--maps", type=int, default=256)
    parser.add_argument("--kernels", default="", help="others to compare, such as xla")
    parser.add_argument("--groups", type=int, nargs=2, metavar=("ACTOR", "CRITIC"), help="graphs computed together")
    parser.add_argument("--out", type=Path, help="figures as JSON")
    arguments = parser.parse_args()
    enable_compilation_cache()
    config, settings, compute = Config(), replace(PRESETS["fast"], maps=arguments.maps), default_compute()
    if arguments.decision:
        decision(config)
        return
    if arguments.tiny:
        compute = replace(compute, group=8, critic_group=8)
        settings = replace(
            settings,
            maps=4,
            capacity=2000,
            first_rows=100,
            updates=1,
            collect=replace(settings.collect, missions=4, renew_every=4),
            algorithm=replace(settings.algorithm, batch=16),
            actor=GraphActorConfig(**TINY, token_width=8, token_layers=1, token_feed=8),
            critic=GraphCriticConfig(**TINY),
        )
    if arguments.groups:
        compute = replace(compute, group=arguments.groups[0], critic_group=arguments.groups[1])
    if arguments.missions:
        settings = replace(settings, collect=replace(settings.collect, missions=arguments.missions))
    if arguments.batch:
        settings = replace(settings, algorithm=replace(settings.algorithm, batch=arguments.batch))
    print(f"{jax.devices()[0].device_kind}, {name(compute)}", flush=True)
    maps = training_maps(config, settings.maps, settings.collect.bucket)
    training, rate = warmed(config, settings, compute, maps, arguments.warm_rounds)
    figures: dict[str, Any] = {"bytes a transition": bytes_per_row(training.memory), "decisions a second": rate}
    print(f"Memory: {bytes_per_row(training.memory):,.0f} bytes a transition")
    others = [replace(compute, kernel=kernel) for kernel in filter(None, arguments.kernels.split(","))]
    figures["samples a second"] = learning(config, settings, [compute, *others], maps, training)
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2))
    collection(config, settings, compute, training, rate)


if __name__ == "__main__":
    main()
