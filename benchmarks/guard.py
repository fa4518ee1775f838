"""Hunt for a robot that does not come home: very many random missions, and not one may break the guard.

    python benchmarks/guard.py --missions 100000
    python benchmarks/guard.py --missions 10000 --maps 60 --batch 256    # on two cores
    python benchmarks/guard.py --again 5,50000017                        # one mission again: its plan and its seed

On the lattice: buildings of blocks, offices and halls, team sizes 1 to 16, budgets from nothing to 200 m, a fifth of
the robots failing at random steps, half of the batches with the noise model on; planners random, nearest and sector.
On roads: small buildings of all families (`caught.py`), teams of 1 to 8 whose robots have fields of view, ranges,
speeds, yaw rates and radii of their own, budgets from nothing to 80 m; failures, noise and planners as on the lattice.
Checked: every unfailed robot ends at its base with a budget that is not negative, no budget ever grows, and no two
active robots head for the same node (robots that wait on a shared start excepted).
"""

import argparse
import time
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from caught import FLOORPLANS, OTHERS, Setting, place_for

from decmarvel.core.config import Config, Noise
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.core.types import RETURNING, Key
from decmarvel.robot.planners.base import Planner
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import NEVER, Bodies, Fleet
from decmarvel.simulation.mission import InFlight, decide, outcome, take_off
from decmarvel.worlds import generate
from decmarvel.worlds.place import place_all
from decmarvel.worlds.world import World

NOISE = Noise(1.0, 10.0, 1.0, 20.0, 0.3, 0.1)
FAMILIES = ("indoor", "office", "hall")
SEEDS = 10_000_000
"""Missions of one plan have seeds in a row; those of the next plan begin so much later."""


class Plan(NamedTuple):
    """Missions that share a compiled program."""

    planner: str
    slots: int
    noisy: bool
    share: float
    """Of all missions."""
    setting: Setting | None = None
    """Small buildings, roads and robots that are not alike; None: the lattice of today, whole buildings."""


LATTICE_PLANS = (
    Plan("sector", 4, False, 0.18), Plan("nearest", 4, True, 0.18), Plan("random", 4, False, 0.33),
    Plan("random", 4, True, 0.25), Plan("random", 16, True, 0.06),
)  # fmt: skip
ROAD_PLANS = tuple(
    Plan(planner, slots, noisy, share, Setting(range_m, spacing_m, radius_m, slots, families))
    for planner, slots, noisy, share, range_m, spacing_m, radius_m, families in (
        ("random", 4, False, 0.3, 5.0, 2.0, 0.25, FLOORPLANS),
        ("random", 2, True, 0.2, 3.0, 1.0, 0.15, FLOORPLANS),
        ("nearest", 4, True, 0.2, 10.0, 4.0, 0.3, OTHERS),
        ("sector", 3, False, 0.2, 10.0, 3.0, 0.2, OTHERS),
        ("random", 8, True, 0.1, 10.0, 4.0, 0.3, OTHERS),
    )
)


def random_bodies(config: Config, key: Key, slots: int) -> Bodies:
    """Cameras and bodies of all kinds that the configuration allows."""

    def draw(number: int, low: int, high: int) -> jax.Array:
        return jax.random.randint(jax.random.fold_in(key, number), (slots,), low, high + 1, jnp.int32)

    return Bodies(
        fov_deg=draw(0, 30, 360),
        range_mm=draw(1, config.sensor_range_mm // 2, config.sensor_range_mm),
        speed_mm_s=draw(2, 50, 5000),
        yaw_rate_deg_s=draw(3, 5, 360),
        radius_mm=draw(4, 0, config.radius_mm),
    )


def random_fleet(config: Config, key: Key, slots: int, max_budget_m: float) -> Fleet:
    """A team of 1 to `slots` robots with budgets and failures of their own; on roads also bodies and cameras."""
    key_size, key_budget, key_fails, key_when = jax.random.split(key, 4)
    size = jax.random.randint(key_size, (), 1, slots + 1)
    fails = jax.random.bernoulli(key_fails, 0.2, (slots,))
    when = jax.random.randint(key_when, (slots,), 0, 60, jnp.int32)
    return Fleet(
        present=jnp.arange(slots) < size,
        budget_mm=jax.random.randint(key_budget, (slots,), 0, round(1000 * max_budget_m), jnp.int32),
        fail_step=jnp.where(fails, when, NEVER).astype(jnp.int32),
        bodies=random_bodies(config, jax.random.fold_in(key, 4), slots) if config.roads else None,
    )


def hunt(
    config: Config, planner: Planner, slots: int, max_budget_m: float, worlds: World, seed: jax.Array
) -> jax.Array:
    """One mission; returns [stranded, shared targets, budget that grew, robots, failed, decisions]."""
    key_world, key_fleet, key_mission = jax.random.split(jax.random.key(seed), 3)
    index = jax.random.randint(key_world, (), 0, worlds.start.shape[0])
    world = jax.tree.map(lambda leaf: leaf[index], worlds)
    flight = take_off(config, planner, key_mission, world, random_fleet(config, key_fleet, slots, max_budget_m))
    zero = jnp.zeros((), jnp.int32)

    def advance(carry: tuple[InFlight, jax.Array, jax.Array]) -> tuple[InFlight, jax.Array, jax.Array]:
        flight, shared, grew = carry
        before = flight.state.robots
        flight, move, _ = decide(config, planner, flight)
        active = move.mode <= RETURNING
        same = (
            (move.target[:, None] == move.target[None]).all(-1)
            & active[:, None]
            & active[None]
            & ~jnp.eye(slots, dtype=bool)
        )
        waits = (move.target == before.site).all(-1)
        started_together = (before.site[:, None] == before.site[None]).all(-1) & waits[:, None] & waits[None]
        shared += (same & ~started_together).sum().astype(jnp.int32)
        grew += (flight.state.robots.budget_mm > before.budget_mm).sum().astype(jnp.int32)
        return flight, shared, grew

    def going(carry: tuple[InFlight, jax.Array, jax.Array]) -> jax.Array:
        return ~carry[0].state.done & (carry[0].state.step < config.max_decisions(max_budget_m))

    flight, shared, grew = jax.lax.while_loop(going, advance, (flight, zero, zero))
    result = outcome(config, flight.state)
    robots = flight.state.robots.present.sum()
    return jnp.stack([result.stranded, shared, grew, robots, result.failed.sum(), result.decisions]).astype(jnp.int32)


def prepare(plan: Plan, maps: int) -> tuple[Config, World]:
    """A plan's settings without noise, and its buildings."""
    if plan.setting is None:
        return Config(), place_all([generate(FAMILIES[k % 3], "train", k // 3) for k in range(maps)], Config())
    config, worlds, _ = place_for(plan.setting, max(6, maps // 10))
    return config, worlds


def broken(row: np.ndarray) -> bool:
    """Whether a mission breaks the guard."""
    return bool(row[:3].any())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missions", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=2048, help="missions side by side on the lattice")
    parser.add_argument("--road-batch", type=int, default=1, help="the same on roads; many on a GPU")
    parser.add_argument("--roads", type=float, default=0.3, help="share of the missions that are on roads")
    parser.add_argument("--maps", type=int, default=300, help="generated maps to draw from, all families")
    parser.add_argument("--max-budget", type=float, default=200.0)
    parser.add_argument("--road-budget", type=float, default=80.0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long")
    parser.add_argument("--seed", type=int, default=0, help="0 to 9: other missions")
    parser.add_argument("--again", help="PLAN,SEED of one mission, as printed; the other options as then")
    arguments = parser.parse_args()
    enable_compilation_cache()
    again = [int(part) for part in arguments.again.split(",")] if arguments.again else None
    parts = [(plan, 1 - arguments.roads) for plan in LATTICE_PLANS] + [(plan, arguments.roads) for plan in ROAD_PLANS]
    begin, total = time.perf_counter(), np.zeros(6, np.int64)
    missions = 0
    prepared: dict[Setting | None, tuple[Config, World]] = {}
    for number, (plan, part) in enumerate(parts):
        rounds_of = arguments.batch * 4 // plan.slots if plan.setting is None else arguments.road_batch
        batch = 1 if again else max(1, rounds_of)
        rounds = max(1, round(plan.share * part * arguments.missions / batch)) if part else 0
        if not rounds or (again and again[0] != number):
            continue
        if plan.setting not in prepared:
            prepared = {plan.setting: prepare(plan, arguments.maps)}  # one at a time: hundreds of maps are large
        config, worlds = prepared[plan.setting]
        config = replace(config, noise=NOISE) if plan.noisy else config
        budget_m = arguments.max_budget if plan.setting is None else arguments.road_budget
        fly = partial(hunt, config, roster.planner(plan.planner), plan.slots, budget_m)
        run = jax.jit(jax.vmap(fly, in_axes=(None, 0)))
        for round_ in range(1 if again else rounds):
            first = again[1] if again else SEEDS * (number + len(parts) * arguments.seed) + batch * round_
            rows = np.asarray(run(worlds, jnp.arange(batch) + first))
            for k in np.flatnonzero([broken(row) for row in rows]):
                print(f"BROKEN by --again {number},{first + k} --maps {arguments.maps}: {rows[k].tolist()}", flush=True)
            total += rows.sum(axis=0)
            missions += batch
            seconds = time.perf_counter() - begin
            if seconds > arguments.seconds:
                break
        print(
            f"{missions} missions, {total[3]} robots ({total[4]} failed) after {seconds:.0f} s: "
            f"{total[0]} stranded, {total[1]} shared targets, {total[2]} budgets that grew  "
            f"[{plan.planner}, up to {plan.slots}, noise {plan.noisy}, {'roads' if plan.setting else 'lattice'}]",
            flush=True,
        )
    print("no counter-example" if not total[:3].any() else "THE GUARD FAILED")
    raise SystemExit(bool(total[:3].any()))


if __name__ == "__main__":
    main()
