"""Do two devices fly the same missions? Decision by decision: who decided otherwise first, or whose world differs.

    python benchmarks/devices.py --planner options --robots 2 --missions 100

Flies on the CPU and on JAX's first device, side by side, on held-out maps with the seeds of `decmarvel benchmark`. As
long as two missions are in the same state, a difference in what is decided is the planner's, and a difference in what
comes of the same decision is the simulator's; integers must be equal, other numbers to a thousandth. A mission that
differs is told of once, with the arrays that do.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from decmarvel.benchmark.trials import map_number, mission_key
from decmarvel.core.config import Config
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.core.types import CandidateProbabilities
from decmarvel.robot.planners.base import Planner
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import InFlight, decide, take_off
from decmarvel.simulation.types import Move
from decmarvel.worlds import generate
from decmarvel.worlds.place import place_all
from decmarvel.worlds.world import World

CLOSE = 1e-3


@partial(jax.jit, static_argnums=(0, 4))
def begin(config: Config, planner: Planner, numbers: jax.Array, worlds: World, team: tuple[int, float]) -> InFlight:
    seed = jnp.array(0, jnp.uint32)
    return jax.vmap(lambda number, world: take_off(config, planner, mission_key(seed, number), world, Fleet.of(*team)))(
        numbers, worlds
    )


@partial(jax.jit, static_argnums=0)
def advance(config: Config, planner: Planner, flight: InFlight) -> tuple[InFlight, Move, CandidateProbabilities]:
    return jax.vmap(lambda flight: decide(config, planner, flight))(flight)


def differing(trees: Sequence[Any], mission: int) -> list[str]:
    """The arrays of two trees that differ in a mission."""
    (one, other), found = trees, []
    for (path, left), right in zip(jax.tree.leaves_with_path(one), jax.tree.leaves(other), strict=True):
        if jnp.issubdtype(left.dtype, jax.dtypes.prng_key):
            continue
        a, b = np.asarray(left[mission]), np.asarray(right[mission])
        close = np.isclose(a, b, atol=CLOSE, equal_nan=True) if a.dtype.kind == "f" else a == b
        if not close.all():
            found.append(f"{jax.tree_util.keystr(path)} ({(~close).sum()} of {close.size})")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planner", default=roster.BEST_PLANNER)
    parser.add_argument("--robots", type=int, default=2)
    parser.add_argument("--budget", type=float, default=720.0, help="metres")
    parser.add_argument("--missions", type=int, default=100)
    parser.add_argument("--decisions", type=int, default=200, help="to fly at most")
    options = parser.parse_args()
    enable_compilation_cache()
    config, planner = Config(), roster.planner(options.planner)
    maps = [generate("indoor", "heldout", index) for index in range(options.missions)]
    numbers = jnp.array([map_number(building.name) for building in maps], jnp.uint32)
    devices = [jax.devices("cpu")[0], jax.devices()[0]]
    print(f"{devices[0]} and {devices[1]}: {options.missions} missions of {options.robots} robots, {options.planner}")
    given = [jax.device_put((planner, numbers, place_all(maps, config)), device) for device in devices]
    flights = [begin(config, *each, (options.robots, options.budget)) for each in given]
    same, reasons = set(range(options.missions)), Counter[str]()
    for decision in range(options.decisions):
        after = [advance(config, each[0], flight) for each, flight in zip(given, flights, strict=True)]
        flights = [each[0] for each in after]
        kept, decided = (jax.device_get([part(each) for each in after]) for part in (state_of, move_of))
        for mission in sorted(same):
            told = [("planner", what) for what in differing(decided, mission)]
            told = told or [("simulator", what) for what in differing(kept, mission)]
            if told:
                same.remove(mission)
                reasons[told[0][0]] += 1
                print(
                    f"decision {decision}, {maps[mission].name}: {told[0][0]}: " + ", ".join(what for _, what in told)
                )
        if all(bool(flight.state.done.all()) for flight in flights) or not same:
            break
    print(f"{len(same)} of {options.missions} missions are the same; " + (str(dict(reasons)) if reasons else "all"))


def state_of(flown: tuple[InFlight, Move, CandidateProbabilities]) -> Any:
    """What the simulator made of a decision; maps and bits included."""
    return flown[0].state.robots, flown[0].state.progress


def move_of(flown: tuple[InFlight, Move, CandidateProbabilities]) -> Any:
    return flown[1]


if __name__ == "__main__":
    main()
