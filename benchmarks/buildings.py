"""Which planner explores real-looking buildings with fewest metres? Missions end with the team's success.

    python benchmarks/buildings.py --family floorplan --maps 60 --robots 2,4,8
    python benchmarks/buildings.py --family floorplan --maps 12 --fov 87 --range 5
    python benchmarks/buildings.py --folder ../shared/maps/real --seeds 5 --budget 300 --planners options,sector

Quicker than `decmarvel benchmark`, whose missions go on until everybody is home. Of many generated buildings only those
are flown that share one of the most common lattices (`--lattices`), since each costs a minute of compiling for every
planner and team size; how many were left out is printed. Penalised metres are those to 99%, or the budget where a team
did not get there. Differences are paired by building and seed (Wilcoxon).
"""

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool
from scipy.stats import wilcoxon

from decmarvel.benchmark.maps import Map, Terms, fit_all, folder_maps, heldout_maps
from decmarvel.benchmark.trials import map_number, mission_key
from decmarvel.core.config import Config
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.core.types import Key
from decmarvel.robot.planners.base import Planner
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import InFlight, Outcome, decide, outcome, take_off
from decmarvel.worlds.fit import Fit
from decmarvel.worlds.world import World


@eqx.filter_jit
def until_success(config: Config, planner: Planner, key: Key, world: World, fleet: Fleet, most: Array) -> Outcome:
    """A mission until the team has seen 99%, or everybody is home."""

    def going(flight: InFlight) -> Bool[Array, ""]:
        unseen = flight.state.progress.metres_to_success_mm < 0
        return ~flight.state.done & unseen & (flight.state.step < most)

    flight = take_off(config, planner, key, world, fleet)
    flight = jax.lax.while_loop(going, lambda flight: decide(config, planner, flight)[0], flight)
    return outcome(config, flight.state)


def program(fit: Fit) -> tuple[object, ...]:
    """What decides whether two buildings share a compiled program."""
    return fit.config, fit.world.free.shape[0]


def fitted(maps: list[Map], range_m: float, terms: Terms, lattices: int) -> dict[str, Fit]:
    """The maps that share one of the most common lattices, as robots explore them."""
    fits = {name: found for (name, _), found in fit_all(maps, [range_m], terms).items()}
    common = [lattice for lattice, _ in Counter(map(program, fits.values())).most_common(lattices)]
    kept = {name: found for name, found in fits.items() if program(found) in common}
    spacings = sorted({found.config.spacing_m for found in kept.values()})
    print(f"{len(kept)} of {len(fits)} buildings, spacing {', '.join(f'{s:g}' for s in spacings)} m", flush=True)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="floorplan", help="of generated, held-out buildings")
    parser.add_argument("--folder", type=Path, help="of map files, in place of generated buildings")
    parser.add_argument("--only", help="names of maps in the folder, separated by commas")
    parser.add_argument("--maps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--robots", default="4")
    parser.add_argument("--budget", type=float, default=600.0)
    parser.add_argument("--planners", default="options,sector,nearest", help="the first is compared with the others")
    parser.add_argument("--fov", type=int, default=120)
    parser.add_argument("--range", type=float, default=10.0)
    parser.add_argument("--radius", type=float)
    parser.add_argument("--spacing", type=float)
    parser.add_argument("--lattices", type=int, default=2)
    arguments = parser.parse_args()
    enable_compilation_cache()
    terms = Terms(radius_m=arguments.radius, spacing_m=arguments.spacing)
    maps = heldout_maps(arguments.family, arguments.maps)
    if arguments.folder:
        maps = folder_maps(arguments.folder, arguments.maps)
        maps = [each for each in maps if not arguments.only or each.name in arguments.only.split(",")]
    lattices = len(maps) if arguments.folder else arguments.lattices
    fits = fitted(maps, arguments.range, terms, lattices)
    for size in map(int, arguments.robots.split(",")):
        metres: dict[str, np.ndarray] = {}
        for name in arguments.planners.split(","):
            pilot, begin, decisions = roster.planner(name), time.perf_counter(), 0
            found, covered = [], []
            for map_name, fit in fits.items():
                config = replace(fit.config, fov_deg=arguments.fov)
                for seed in range(arguments.seeds):
                    fleet = Fleet.of(size, arguments.budget, slots=size)
                    key = mission_key(jnp.uint32(seed), jnp.uint32(map_number(map_name)))
                    most = jnp.int32(config.max_decisions(arguments.budget))
                    result = jax.device_get(until_success(config, pilot, key, fit.world, fleet, most))
                    found.append(float(result.metres_to_99) if result.success else arguments.budget)
                    covered.append(float(result.coverage))
                    decisions += size * int(result.decisions)
            metres[name] = np.array(found)
            success = np.mean(np.array(covered) >= 0.99)
            print(
                f"N = {size} {name:14s} {success:4.0%} succeed, {metres[name].mean():5.1f} m (penalised), "
                f"least {min(covered):.1%}, {len(found)} missions, {decisions} robot-decisions, "
                f"{time.perf_counter() - begin:.0f} s",
                flush=True,
            )
        first, *others = metres
        for other in others:
            less = 1 - metres[first].mean() / metres[other].mean()
            p = wilcoxon(metres[first], metres[other]).pvalue if (metres[first] != metres[other]).any() else 1.0
            print(f"N = {size} {first} against {other}: {less:+.1%} fewer metres, p = {p:.2g}", flush=True)


if __name__ == "__main__":
    main()
