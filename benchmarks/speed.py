"""Robot-decisions per second, where the time of one decision goes, and how the cost grows with the work.

python benchmarks/speed.py                     # stages, and 1, 16, 256, 4096 missions
python benchmarks/speed.py --missions 1,4      # on a small machine
python benchmarks/speed.py --compare nearest,smmr,nbvp,sector,shared-greedy --stage-missions 0 --missions "" --sizes ""
"""

import argparse
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from decmarvel.core.camera import footprint, limited_turn
from decmarvel.core.config import Config
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.core.types import RETURNING, Robot, Sight
from decmarvel.robot.graph import from_sites, network, shortest_paths
from decmarvel.robot.guard import intend
from decmarvel.robot.roads import Network
from decmarvel.robot.sight import look_again
from decmarvel.simulation import roster
from decmarvel.simulation.environment import agree, arrive, travel, views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import InFlight, decide, take_off
from decmarvel.worlds import Building, generate
from decmarvel.worlds.place import place_all


def seconds_per_call(function: Callable[..., Any], *arguments: Any, repeats: int = 5) -> float:
    """Median wall time of a compiled call."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def mosaic(side: int, index: int) -> Building:
    """A large building: side x side generated ones, joined by corridors that are cut through their outer walls."""
    rows = [[generate("indoor", "train", index + side * y + x).free for x in range(side)] for y in range(side)]
    free = np.block(rows)
    first = generate("indoor", "train", index)
    for y in range(side):
        for x in range(side):
            row, column = 250 * y + 125, 250 * x + 125
            if x + 1 < side:
                free[row - 6 : row + 6, column : column + 250] = True
            if y + 1 < side:
                free[row : row + 250, column - 6 : column + 6] = True
    from decmarvel.worlds.generate import reachable

    free[first.start] = True
    return Building(reachable(free, first.start), first.start, first.cell_m, f"mosaic-{side}-{index}")


def flights(config: Config, name: str, buildings: list[Building], missions: int, robots: int, warm: int) -> InFlight:
    """Missions that have been under way for a while, so that maps, graphs and paths have their usual size."""
    worlds = place_all(buildings, config)
    index = jnp.arange(missions) % len(buildings)
    fleet, planner = Fleet.of(robots, 720.0), roster.planner(name)
    off = jax.jit(
        jax.vmap(lambda k, i: take_off(config, planner, jax.random.key(k), jax.tree.map(lambda w: w[i], worlds), fleet))
    )
    return advance(config, name)(off(jnp.arange(missions), index), warm)


@cache
def advance(config: Config, name: str) -> Callable[[InFlight, int], InFlight]:
    """So many decisions of many missions in one program."""
    planner = roster.planner(name)

    def one(_: int, flight: InFlight) -> InFlight:
        return jax.vmap(lambda f: decide(config, planner, f)[0])(flight)

    return jax.jit(lambda flight, decisions: jax.lax.fori_loop(0, decisions, one, flight))


def stages(config: Config, name: str, flight: InFlight, robots: int) -> None:
    """The parts of one decision, each compiled and timed alone on the same missions."""
    team = flight.state.robots
    count = team.mode.shape[0] * robots
    planner = roster.planner(name)

    def per_robot(function: Callable[..., Any]) -> Callable[..., Any]:
        return jax.jit(jax.vmap(jax.vmap(function)))

    state_views = jax.jit(jax.vmap(lambda s: views(config, s)))
    seen = state_views(flight.state)
    keys = jax.vmap(lambda k: jax.random.split(k, robots))(flight.key)
    propose = per_robot(lambda k, v, m: planner.propose(config, k, v, m))
    proposals, _ = propose(keys, seen, flight.memory)
    intents = per_robot(lambda robot, v, p: intend(config, robot, v, p))(team, seen, proposals)
    settle = jax.jit(jax.vmap(lambda k, r, i, v, p: agree(config, k, r, i, v, p)))
    move, lengths = settle(flight.key, team, intents, seen, proposals)
    turns = per_robot(lambda r, w, n: limited_turn(config, r, w, n))(team, move.heading, lengths)
    move_all = jax.jit(jax.vmap(lambda k, s, m, n, t: travel(config, k, s, s.robots, m, n, t, m.mode <= RETURNING)[:2]))
    beliefs, _ = move_all(flight.key, flight.state, move, lengths, turns)
    land = per_robot(lambda r, i, m, n, t, b: arrive(config, r, i, m, n, t, b))

    def look(free: jax.Array, robots: Robot, key: jax.Array) -> jax.Array:
        def one(r: Robot) -> jax.Array:
            cell = r.graph.cell[r.site[0], r.site[1]]
            return footprint(config, free, cell, r.heading, key, r.range_mm, r.fov_deg)

        return jax.vmap(one)(robots)

    def linked(robot: Robot, target: jax.Array, belief: jax.Array) -> Network:
        before = Network(robot.graph.cell, robot.graph.age, robot.graph.length_mm)
        return network(config, belief, before, (robot.site + target) // 2, robot.radius_mm)

    def utilities(robot: Robot, target: jax.Array, belief: jax.Array) -> Sight:
        graph, none, middle = robot.graph, jnp.zeros(robot.visits.shape, bool), (robot.site + target) // 2
        return look_again(config, graph.sight, robot.belief, belief, graph.cell, none, middle, robot.range_mm)

    paths = per_robot(lambda length, u: shortest_paths(length, from_sites(u > 0)))
    rows: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("views (candidates, guard)", state_views, (flight.state,)),
        (f"planner {name}", propose, (keys, seen, flight.memory)),
        ("conflicts", settle, (flight.key, team, intents, seen, proposals)),
        ("motion: six sensing substeps, team record", move_all, (flight.key, flight.state, move, lengths, turns)),
        ("arrival: graph and the rest", land, (team, intents, move, lengths, turns, beliefs)),
        ("- one camera footprint", jax.jit(jax.vmap(look)), (flight.state.world.free, team, flight.key)),
        ("- viewpoints and edges", per_robot(linked), (team, move.target, beliefs)),
        ("- utilities near changes", per_robot(utilities), (team, move.target, beliefs)),
        ("- one shortest-path field", paths, (team.graph.length_mm, team.graph.utility)),
    ]
    print(f"\nStages, {count} robots, planner {name}, {jax.devices()[0].device_kind}\n")
    print("| stage | ms | µs a robot |\n|---|---|---|")
    for label, function, arguments in rows:
        elapsed = seconds_per_call(function, *arguments)
        print(f"| {label} | {1e3 * elapsed:.2f} | {1e6 * elapsed / count:.1f} |", flush=True)


def whole(config: Config, name: str, flight: InFlight, robots: int, decisions: int) -> float:
    """Robot-decisions per second of the full step with a planner, many decisions in one program."""
    seconds = seconds_per_call(advance(config, name), flight, decisions, repeats=3)
    return flight.state.step.shape[0] * robots * decisions / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planner", default="sector")
    parser.add_argument("--compare", default="", help="planners to compare, such as nearest,sector")
    parser.add_argument("--compare-missions", type=int, default=1024)
    parser.add_argument("--robots", type=int, default=4)
    parser.add_argument("--missions", default="1,16,256,1024,4096")
    parser.add_argument("--stage-missions", type=int, default=1024)
    parser.add_argument("--sizes", default="1,2,4", help="buildings of this many times 100 m a side")
    parser.add_argument("--size-missions", type=int, default=64)
    parser.add_argument("--warm", type=int, default=40)
    parser.add_argument("--decisions", type=int, default=10)
    arguments = parser.parse_args()
    enable_compilation_cache()
    config, name, robots = Config(), arguments.planner, arguments.robots
    pool = [generate("indoor", "heldout", index) for index in range(64)]
    if arguments.stage_missions:
        stages(config, name, flights(config, name, pool, arguments.stage_missions, robots, arguments.warm), robots)
    print("\n| missions | robots | robot-decisions a second |\n|---|---|---|")
    for missions in numbers(arguments.missions):
        flight = flights(config, name, pool, missions, robots, arguments.warm)
        rate = whole(config, name, flight, robots, arguments.decisions)
        print(f"| {missions} | {missions * robots} | {rate:,.0f} |", flush=True)
    print("\n| building, m | sites a side | missions | robot-decisions a second |\n|---|---|---|---|")
    for side in numbers(arguments.sizes):
        flight = flights(config, name, [mosaic(side, 0)], arguments.size_missions, robots, arguments.warm)
        rate = whole(config, name, flight, robots, arguments.decisions)
        sites = flight.state.robots.visits.shape[-1]
        print(f"| {100 * side} | {sites} | {arguments.size_missions} | {rate:,.0f} |", flush=True)
    print("\n| planner | missions | robot-decisions a second |\n|---|---|---|")
    for other in filter(None, arguments.compare.split(",")):
        flight = flights(config, other, pool, arguments.compare_missions, robots, arguments.warm)
        rate = whole(config, other, flight, robots, arguments.decisions)
        print(f"| {other} | {arguments.compare_missions} | {rate:,.0f} |", flush=True)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


if __name__ == "__main__":
    main()
