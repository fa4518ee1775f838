"""Does one robot with budget to spare see all that counts, and come home by itself? Many missions in small buildings.

    python benchmarks/complete.py --missions 2000
    python benchmarks/complete.py --seed 0 --mission 123    # one of them again; where is what it missed, and why?

The buildings are those of `caught.py`, the robot has a setting's range and radius and a field of view of 30 to 360
degrees; planners `options`, `sector` and `nearest`. A mission is complete if the robot has seen 99% of the cells that
count (`World.counted`), has landed because it was done and not for lack of budget, and had decisions left. Incomplete
ones are printed with all that makes them again. What was missed is taken apart into pieces that hang together, each
with one reason, and a mission has the reason of most of its missed cells:

- `decisions`: it had no more. `budget`: Eq. 3 turned it home.
- `open view`: a frontier of the piece is in an open view at the end (it gave up, or was kept from moving).
- `taken view`: a frontier of the piece is the nearest in a view that it has taken, and still the piece was not seen.
- `small group`: the piece has frontiers, but only in groups of less than 3 cells.
- `viewpoint`: no node sees the piece's frontiers, though a body can stand near them: the viewpoints of the tiles around
  lie elsewhere, for good. `no stand`: the same where it cannot stand near.
- `no frontier`: the piece does not touch the floor that the robot knows.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from caught import FLOORPLANS, OTHERS, Place, Setting, Several, place_for
from jaxtyping import Array, Bool, Int
from scipy import ndimage

from decmarvel.core.config import Config
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.core.types import HOME, UNKNOWN, Robot, Scalar
from decmarvel.robot.pursuit import open_views
from decmarvel.robot.roads import body_reach, passable_cells
from decmarvel.robot.sight import frontiers, grouped, has_frontier, nearest_frontiers
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import Bodies, Fleet
from decmarvel.simulation.mission import fly, take_off
from decmarvel.worlds.world import World

PLANNERS = ("options", "sector", "nearest")
SETTINGS = tuple(
    Setting(range_m, spacing_m, radius_m, 1, families, PLANNERS)
    for range_m, spacing_m, radius_m, families in (
        (5.0, 2.0, 0.25, FLOORPLANS),
        (5.0, 2.0, 0.3, OTHERS),
        (5.0, 1.4, 0.3, FLOORPLANS),
        (3.0, 1.0, 0.2, FLOORPLANS),
        (5.0, None, 0.25, FLOORPLANS),
        (10.0, 3.0, 0.25, OTHERS),
        (5.0, None, 0.2, OTHERS),
        (10.0, 4.0, 0.25, OTHERS),
        (10.0, 4.0, 0.0, OTHERS),
        (3.0, None, 0.15, OTHERS),
    )
)
BUDGET_M = 3000.0
ENOUGH_PERCENT = 99
NEAR_M = 0.5
"""A body that can stand this near to a frontier could have looked into it."""


class Flown(eqx.Module):
    """A mission at its end."""

    decisions: Scalar
    done: Bool[Array, ""]
    missed: Bool[Array, "Y X"]
    robot: Robot


@cache
def program(config: Config) -> Callable[..., Flown]:
    """A compiled mission of one robot. Its planner is data: the place of its name among PLANNERS."""
    planners = tuple(roster.planner(name) for name in PLANNERS)

    @eqx.filter_jit
    def run(planners, which, seed, worlds, index, fleet):  # type: ignore[no-untyped-def]
        world: World = jax.tree.map(lambda leaf: leaf[index], worlds)
        planner = Several(planners, which)
        flight = take_off(config, planner, jax.random.key(seed), world, fleet)
        state = fly(config, planner, flight, config.max_decisions(BUDGET_M)).state
        robot = jax.tree.map(lambda leaf: leaf[0], state.robots)
        return Flown(state.step, state.done, world.counted & (robot.belief == UNKNOWN), robot)

    return partial(run, planners)


def random_robot(rng: np.random.Generator, setting: Setting) -> Fleet:
    """One robot with the setting's range and body, and any field of view, speed and yaw rate."""
    fov_deg = int(rng.choice([30, 60, 87, 120, 180, 270, 360, int(rng.integers(30, 361))]))
    lengths_mm = round(1000 * setting.range_m), round(1000 * setting.radius_m)
    facts = fov_deg, lengths_mm[0], int(rng.integers(250, 2001)), int(rng.integers(10, 121)), lengths_mm[1]
    bodies = Bodies(*(jnp.array([value], jnp.int32) for value in facts))
    healthy = Fleet.of(1, BUDGET_M)
    return Fleet(healthy.present, healthy.budget_mm, healthy.fail_step, bodies)


def standing(config: Config, robot: Robot) -> Bool[np.ndarray, "Y X"]:
    """Where the robot's body can get to on the floor that it knows."""
    wide = body_reach(config)
    known = jnp.pad(jnp.asarray(robot.belief), wide)
    passable = np.asarray(passable_cells(config, known, jnp.asarray(robot.radius_mm)))
    parts, _ = ndimage.label(passable)
    base = tuple(np.asarray(robot.graph.cell)[tuple(robot.base)])
    return np.asarray(parts == parts[base]) & passable


def reason(config: Config, flown: Flown) -> str:
    """Why the whole mission ended too early, if it did."""
    robot = flown.robot
    if not flown.done:
        return "decisions"
    return "budget" if int(robot.budget_mm) <= 2 * config.safety_margin_mm else ""


def pieces(config: Config, world_free: Bool[np.ndarray, "Y X"], flown: Flown) -> Iterator[tuple[str, int, list[int]]]:
    """Each piece of what was missed: the reason, its cells that count, and a cell in it."""
    robot = flown.robot
    belief = jnp.asarray(robot.belief)
    frontier = np.asarray(frontiers(belief))
    group = np.asarray(grouped(jnp.asarray(frontier)))
    node = np.asarray(robot.graph.node)[..., None]
    views = np.asarray(has_frontier(config, robot.graph.sight)) & node
    untaken = np.asarray(open_views(config, robot.graph, robot.sensed))
    nearest = np.asarray(nearest_frontiers(config, jax.tree.map(jnp.asarray, robot.graph))[1])
    stand_m = ndimage.distance_transform_edt(~standing(config, robot)) * config.cell_m
    parts, count = ndimage.label(world_free & (robot.belief == UNKNOWN), np.ones((3, 3)))
    for number in range(1, count + 1):
        piece = parts == number
        cells = int((piece & flown.missed).sum())
        if not cells:
            continue
        rim = ndimage.binary_dilation(piece, np.ones((3, 3))) & frontier
        if not rim.any():
            why = "no frontier"
        elif touches(nearest[untaken], rim):
            why = "open view"
        elif touches(nearest[views], rim):
            why = "taken view"
        elif not (rim & group).any():
            why = "small group"
        else:
            why = "viewpoint" if stand_m[rim & group].min() <= NEAR_M else "no stand"
        yield why, cells, np.argwhere(piece)[0].tolist()


def touches(cells: Int[np.ndarray, "n 2"], mask: Bool[np.ndarray, "Y X"]) -> bool:
    return bool(len(cells) and mask[cells[:, 0], cells[:, 1]].any())


def place_in_words(config: Config, flown: Flown, cell: list[int]) -> str:
    """The tile of a cell, its viewpoint, and how far that is from the cell."""
    tile = np.array(config.lattice.site(np.array(cell)))
    view = np.asarray(flown.robot.graph.cell)[tuple(tile)]
    if view[0] < 0:
        return f"cell {cell} in tile {tile.tolist()} without a viewpoint"
    node = "a node" if bool(flown.robot.graph.node[tuple(tile)]) else "no node"
    return f"cell {cell} in tile {tile.tolist()}, whose viewpoint {view.tolist()} is {node}"


def examine(setting: Setting, place: Place, seed: int, mission: int) -> tuple[float, str, str, list[str]]:
    """Fly a mission: the share of the counted cells that was seen, why it is incomplete, what it was, and details."""
    rng = np.random.default_rng([seed, mission])
    which, index = int(rng.integers(len(PLANNERS))), int(rng.integers(len(place.names)))
    fleet, whole = random_robot(rng, setting), partial(jnp.asarray, dtype=jnp.int32)
    key = whole(rng.integers(2**31))
    flown = jax.device_get(program(place.config)(whole(which), key, place.worlds, whole(index), fleet))
    config, robot = place.config, flown.robot
    counted = int(place.worlds.free_count[index])
    seen = 1 - int(flown.missed.sum()) / counted
    words = (
        f"{PLANNERS[which]} on {place.names[index]}, {config.spacing_m:g} m apart, cells of {config.cell_m:g} m, "
        f"{int(robot.fov_deg)} degrees, {setting.range_m:g} m, radius {setting.radius_m:g} m"
    )
    ended = reason(config, flown)
    if 100 * seen >= ENOUGH_PERCENT and not ended and int(robot.mode) == HOME:
        return seen, "", words, []
    reasons: Counter[str] = Counter()
    details = []
    for why, cells, cell in sorted(pieces(config, np.asarray(place.worlds.free[index]), flown), key=lambda p: -p[1]):
        reasons[why] += cells
        details.append(f"  {cells} cells, {why}: {place_in_words(config, flown, cell)}")
    most = ended or (reasons.most_common(1)[0][0] if reasons else "not home")
    return seen, most, words, details


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missions", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mission", type=int, help="fly only the mission of this number, and say more")
    parser.add_argument("--maps", type=int, default=24, help="buildings for each setting")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="only the first so many: a quick look")
    arguments = parser.parse_args()
    enable_compilation_cache()
    begin, settings = time.perf_counter(), SETTINGS[: arguments.settings]
    share = -(-arguments.missions // len(settings))
    why_all: Counter[str] = Counter()
    by_planner: Counter[tuple[str, bool]] = Counter()
    missions = 0
    for part, setting in enumerate(settings):
        numbers = [part + len(SETTINGS) * k for k in range(share)]
        if arguments.mission is not None:
            numbers = [n for n in [arguments.mission] if n % len(SETTINGS) == part]
        now = time.perf_counter()
        until = now + (begin + arguments.seconds - now) / (len(settings) - part)
        if not numbers or until < now:
            continue
        place = place_for(setting, arguments.maps)
        flown, incomplete = 0, 0
        for number in numbers:
            seen, why, words, details = examine(setting, place, arguments.seed, number)
            flown, by_planner[words.split()[0], not why] = flown + 1, by_planner[words.split()[0], not why] + 1
            if why:
                incomplete, why_all[why] = incomplete + 1, why_all[why] + 1
                print(
                    f"{100 * seen:.1f}%, {why}: --seed {arguments.seed} --maps {arguments.maps} --mission {number}: "
                    f"{words}",
                    flush=True,
                )
            if arguments.mission is not None:
                print(f"{100 * seen:.2f}% seen: {words}", *details, sep="\n")
            if time.perf_counter() > until:
                break
        missions += flown
        print(
            f"{missions} missions after {time.perf_counter() - begin:.0f} s; {incomplete} of {flown} incomplete  "
            f"[{setting.range_m:g} m, spacing {setting.spacing_m or 'fitted'}, radius {setting.radius_m:g} m, "
            f"{len(place.names)} buildings, {place.config.spacing_m:g} m apart]",
            flush=True,
        )
    for name in PLANNERS:
        print(f"{name}: {by_planner[name, False]} of {by_planner[name, False] + by_planner[name, True]} incomplete")
    print("incomplete, by reason:", ", ".join(f"{why} {n}" for why, n in why_all.most_common()) or "none")
    print(f"{missions - why_all.total()} of {missions} missions complete")


if __name__ == "__main__":
    main()
