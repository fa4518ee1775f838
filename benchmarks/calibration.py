"""Calibrate the simulator: planners on a folder of maps and on generated ones, beside the paper's own figures.

python benchmarks/calibration.py --maps DIR            # nearest and sector, the paper's nine settings
python benchmarks/calibration.py --generated 100       # the same on held-out generated maps
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from decmarvel.config import Config
from decmarvel.environment import Fleet
from decmarvel.mission import Outcome, run_mission
from decmarvel.planners import PLANNERS, Planner
from decmarvel.runtime import enable_compilation_cache
from decmarvel.types import Key, World
from decmarvel.worlds import Building, generate, load
from decmarvel.worlds.place import place_all

PAPER = {  # Table I, column Nearest: coverage, success %, metres to 99%
    ("nearest", 2, 720): (0.762, 4, 509),
    ("nearest", 4, 720): (0.862, 16, 533),
    ("nearest", 8, 720): (0.950, 42, 477),
    ("nearest", 2, 800): (0.826, 10, 591),
    ("nearest", 4, 800): (0.896, 26, 574),
    ("nearest", 8, 800): (0.962, 58, 544),
    ("nearest", 2, 1024): (0.902, 41, 826),
    ("nearest", 4, 1024): (0.972, 70, 738),
    ("nearest", 8, 1024): (0.991, 84, 641),
}


@partial(jax.jit, static_argnums=(0, 1))
def fly_all(
    config: Config, planner: Planner, keys: Key, worlds: World, fleet: Fleet, max_decisions: jax.Array
) -> Outcome:
    return jax.vmap(lambda key, world: run_mission(config, planner, key, world, fleet, max_decisions))(keys, worlds)


def missions(config: Config, name: str, worlds: World, robots: int, budget_m: float, seeds: int, chunk: int) -> Outcome:
    """Every world with every seed, `chunk` missions at a time."""
    fleet, cap = Fleet.of(robots, budget_m), jnp.asarray(config.max_decisions(budget_m))
    count = worlds.start.shape[0]
    index, seed = np.tile(np.arange(count), seeds), np.repeat(np.arange(seeds), count)
    keys = jax.vmap(lambda seed, index: jax.random.fold_in(jax.random.key(seed), index))(
        jnp.asarray(seed), jnp.asarray(index)
    )
    parts = []
    for begin in range(0, len(index), chunk):
        some = np.arange(begin, begin + chunk) % len(
            index
        )  # the last chunk is filled up, so that it needs no new program
        picked = jax.tree.map(lambda leaf: leaf[index[some]], worlds)  # noqa: B023
        parts.append(jax.tree.map(np.asarray, fly_all(config, PLANNERS[name], keys[some], picked, fleet, cap)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(index)], *parts)


def interval(values: np.ndarray) -> str:
    """Mean and its standard error."""
    return f"{values.mean():.3f} ± {values.std() / max(len(values), 1) ** 0.5:.3f}" if len(values) else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=Path, help="folder of PNG maps")
    parser.add_argument("--generated", type=int, default=0, help="this many held-out generated maps instead")
    parser.add_argument("--planners", default="nearest,sector")
    parser.add_argument("--robots", default="2,4,8")
    parser.add_argument("--budgets", default="720,800,1024")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=100)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    enable_compilation_cache()
    config = Config()
    buildings: list[Building] = []
    if arguments.maps:
        files = sorted(arguments.maps.glob("*.png"), key=lambda path: (len(path.stem), path.stem))
        buildings = [load(path, cell_m=config.cell_m) for path in files]
    buildings += [generate("indoor", "heldout", index) for index in range(arguments.generated)]
    worlds = place_all(buildings, config)
    rows = []
    print("| planner | N | budget | missions | coverage (paper) | success % (paper) | metres to 99% (paper)", end="")
    print(" | overlap | cumulative | s |\n" + "|---" * 10 + "|")
    for name in arguments.planners.split(","):
        for budget in map(int, arguments.budgets.split(",")):
            for robots in map(int, arguments.robots.split(",")):
                begin = time.perf_counter()
                result = missions(config, name, worlds, robots, budget, arguments.seeds, arguments.chunk)
                if result.stranded.any():
                    raise SystemExit(f"{result.stranded.sum()} robots were left behind")
                print(row(name, robots, budget, result, time.perf_counter() - begin), flush=True)
                fields = ("coverage", "success", "metres_to_99", "overlap", "overlap_cumulative")
                values = {field: np.asarray(getattr(result, field)).tolist() for field in fields}
                rows.append({"planner": name, "robots": robots, "budget_m": budget} | values)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows))


def row(name: str, robots: int, budget: int, result: Outcome, seconds: float) -> str:
    """One line of the table, with the paper's figures in brackets."""
    coverage, success, metres = PAPER.get((name, robots, budget), ("-", "-", "-"))
    reached = result.metres_to_99[result.success]
    mean = f"{reached.mean():.0f}" if len(reached) else "-"
    return (
        f"| {name} | {robots} | {budget} | {len(result.success)} | {interval(result.coverage)} ({coverage}) "
        f"| {100 * result.success.mean():.0f} ({success}) | {mean} ({metres}) "
        f"| {result.overlap.mean():.3f} | {result.overlap_cumulative.mean():.2f} | {seconds:.0f} |"
    )


if __name__ == "__main__":
    main()
