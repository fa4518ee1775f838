"""Hunt for a robot that does not come home: very many random missions, and not one may break the guard.

    python benchmarks/guard.py --missions 100000

Maps of all families, team sizes 1 to 16, budgets from nothing to 200 m, a fifth of the robots failing at random steps,
half of the batches with the noise model on; planners random, nearest and sector. Checked: every unfailed robot ends at
its base with a budget that is not negative, no budget ever grows, and no two active robots head for the same node
(robots that wait on a shared start excepted).
"""

import argparse
import time
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from decmarvel.core.config import Config, Noise
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.core.types import RETURNING, Key
from decmarvel.robot.planners.base import Planner
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import NEVER, Fleet
from decmarvel.simulation.mission import InFlight, decide, outcome, take_off
from decmarvel.worlds import generate
from decmarvel.worlds.place import place_all
from decmarvel.worlds.world import World

NOISE = Noise(1.0, 10.0, 1.0, 20.0, 0.3, 0.1)
FAMILIES = ("indoor", "office", "hall")


def random_fleet(key: Key, slots: int, max_budget_m: float) -> Fleet:
    """A team of 1 to `slots` robots with budgets and failures of their own."""
    key_size, key_budget, key_fails, key_when = jax.random.split(key, 4)
    size = jax.random.randint(key_size, (), 1, slots + 1)
    fails = jax.random.bernoulli(key_fails, 0.2, (slots,))
    when = jax.random.randint(key_when, (slots,), 0, 60, jnp.int32)
    return Fleet(
        present=jnp.arange(slots) < size,
        budget_mm=jax.random.randint(key_budget, (slots,), 0, round(1000 * max_budget_m), jnp.int32),
        fail_step=jnp.where(fails, when, NEVER).astype(jnp.int32),
    )


def hunt(
    config: Config, planner: Planner, slots: int, max_budget_m: float, worlds: World, seed: jax.Array
) -> jax.Array:
    """One mission; returns [stranded, shared targets, budget that grew, robots, failed, decisions]."""
    key_world, key_fleet, key_mission = jax.random.split(jax.random.key(seed), 3)
    index = jax.random.randint(key_world, (), 0, worlds.start.shape[0])
    world = jax.tree.map(lambda leaf: leaf[index], worlds)
    flight = take_off(config, planner, key_mission, world, random_fleet(key_fleet, slots, max_budget_m))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missions", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--maps", type=int, default=300, help="generated maps to draw from, all families")
    parser.add_argument("--max-budget", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long")
    arguments = parser.parse_args()
    enable_compilation_cache()
    quiet = Config()
    worlds = place_all([generate(FAMILIES[k % 3], "train", k // 3) for k in range(arguments.maps)], quiet)
    # (planner, places in the team array, noise, share of the missions)
    plans = [
        ("sector", 4, False, 0.18), ("nearest", 4, True, 0.18), ("random", 4, False, 0.33), ("random", 4, True, 0.25),
        ("random", 16, True, 0.06),
    ]  # fmt: skip
    begin, total = time.perf_counter(), np.zeros(6, np.int64)
    missions = 0
    for number, (name, slots, noisy, share) in enumerate(plans):
        config = replace(quiet, noise=NOISE) if noisy else quiet
        batch = max(1, arguments.batch * 4 // slots)
        run = jax.jit(
            jax.vmap(partial(hunt, config, roster.planner(name), slots, arguments.max_budget), in_axes=(None, 0))
        )
        for round_ in range(max(1, round(share * arguments.missions / batch))):
            seeds = jnp.arange(batch) + 10_000_000 * number + batch * round_
            total += np.asarray(run(worlds, seeds)).sum(axis=0)
            missions += batch
            seconds = time.perf_counter() - begin
            if seconds > arguments.seconds:
                break
        print(
            f"{missions} missions, {total[3]} robots ({total[4]} failed) after {seconds:.0f} s: "
            f"{total[0]} stranded, {total[1]} shared targets, {total[2]} budgets that grew  "
            f"[{name}, up to {slots}, noise {noisy}]",
            flush=True,
        )
    print("no counter-example" if not total[:3].any() else "THE GUARD FAILED")
    raise SystemExit(bool(total[:3].any()))


if __name__ == "__main__":
    main()
