"""How long is a robot without progress? Very many random missions in small buildings.

    python benchmarks/caught.py --missions 5000
    python benchmarks/caught.py --seed 0 --mission 123    # one of them again, alone

Buildings of all families, cut to a square around their start; spacings given and fitted; ranges of 3, 5 and 10 m; teams
of 1 to 8 robots that are alike or not (fields of view, ranges, speeds, yaw rates, radii, budgets); every planner of the
package but `random`. Settings are compiled once; all else is data, drawn from the seed and the mission's number.

A robot makes *progress* at a decision that changes its belief, or after which a view of its new node, open before, is
sensed (docs/model.md, "Never caught"). A *run* is a number of consecutive decisions of an exploring robot without
progress. Checked, decision by decision and not with the robot's own counters:

- A run is no longer than `most_visits * nodes + (pushed + 1) * (nodes + turns) + pushed + stays`: each node that the
  planner leads to as often as it may, then a way over each node at most once and the turns at its end (180 degrees by
  the limit of a hold), once more whenever a conflict has pushed the robot elsewhere. It stays for viewpoints that
  settle around it; each stay ages a waiting tile, so these are finitely many, too.
- While a robot is lost and nobody pushes it, what is left of its way falls, and at its end the turn does.
- A robot that is not lost is led by its planner to no node that it has stood at `most_visits` times in the run.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count, islice
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from decmarvel.core.angles import wrap_degrees
from decmarvel.core.config import Config
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.core.lattice import SLOT_OFFSETS, SLOTS, site_mask
from decmarvel.core.types import EXPLORING, FAR_MM, Key, LocalView, Proposal, Scalar
from decmarvel.robot.guard import intend
from decmarvel.robot.planners.base import Memory, Planner, by_slot
from decmarvel.robot.pursuit import open_views, pursue
from decmarvel.simulation import roster
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import NEVER, Bodies, Fleet
from decmarvel.simulation.mission import InFlight, decide, outcome, take_off
from decmarvel.simulation.radio import RadioPlanner, propose_all
from decmarvel.simulation.team import Member, Team
from decmarvel.worlds import generate
from decmarvel.worlds.building import Building, MapError
from decmarvel.worlds.fit import fit
from decmarvel.worlds.generate import reachable
from decmarvel.worlds.world import World

FLOORPLANS, OTHERS = ("floorplan",), ("warehouse", "mixed", "office", "hall", "indoor")
"""Floor plans need finer cells than the others, and so programs of their own."""
BANDS = ((0, 4), (5, 9), (10, 19), (20, 49), (50, 10**6))
LARGEST_M2 = 500
"""Floor of the buildings, at most."""


class Setting(NamedTuple):
    """What a compiled program is for. All else of a mission is data."""

    range_m: float
    """Range of the farthest-seeing camera."""
    spacing_m: float | None
    """None: what `worlds.fit` finds for most of the buildings."""
    radius_m: float
    """Radius of the largest body; 0: points that fly on straight lines."""
    places: int
    """Robots in the team, at most."""
    families: tuple[str, ...]
    planners: tuple[str, ...] = ("options", "sector", "nearest", "smmr", "nbvp")


SETTINGS = (
    Setting(5.0, 2.0, 0.25, 4, FLOORPLANS),
    Setting(10.0, 4.0, 0.3, 8, OTHERS),
    Setting(5.0, None, 0.25, 2, FLOORPLANS),
    Setting(3.0, 1.0, 0.2, 2, FLOORPLANS),
    Setting(10.0, 3.0, 0.25, 3, OTHERS),
    Setting(5.0, None, 0.2, 4, OTHERS),
    Setting(5.0, 1.4, 0.2, 1, FLOORPLANS),
    Setting(10.0, 4.0, 0.0, 4, OTHERS),
    Setting(3.0, None, 0.15, 1, OTHERS),
    Setting(5.0, 2.0, 0.25, 3, OTHERS, ("shared-greedy",)),
)


class Several(Planner):
    """One of several planners: which one is data, so that they share a compiled mission. Remembers what it proposed."""

    planners: tuple[Planner, ...]
    which: Scalar

    def start(self, config: Config, sites: int) -> Memory:
        nothing = by_slot(config, jnp.zeros(SLOTS), jnp.zeros(SLOTS, jnp.int32), jnp.array(0, jnp.int32))
        return tuple(planner.start(config, sites) for planner in self.planners), nothing

    def propose(self, config: Config, key: Key, view: LocalView, memory: Memory) -> tuple[Proposal, Memory]:
        def ask(number: int) -> tuple[Proposal, Memory]:
            proposal, own = self.planners[number].propose(config, key, view, memory[0][number])
            return proposal, (*memory[0][:number], own, *memory[0][number + 1 :])

        branches = [partial(ask, number) for number in range(len(self.planners))]
        proposal, memories = jax.lax.switch(self.which, branches)
        return proposal, (memories, proposal)


class OnRadio(RadioPlanner):
    """A planner with a radio that remembers what it proposed."""

    planner: RadioPlanner

    def start(self, config: Config, sites: int) -> Memory:
        return Several((self.planner,), jnp.array(0, jnp.int32)).start(config, sites)

    def propose_team(
        self, config: Config, keys: Array, views: LocalView, exploring: Bool[Array, "N"], memory: Memory
    ) -> tuple[Proposal, Memory]:
        proposals, own = propose_all(config, self.planner, keys, views, exploring, memory[0][0])
        return proposals, ((own,), proposals)


class Place(NamedTuple):
    """Small buildings for a setting, stacked."""

    config: Config
    worlds: World
    names: list[str]


def cut(family: str, index: int, side_m: float, cell_m: float) -> Building:
    """A square of a generated building around its start."""
    whole = generate(family, "train", index, cell_m)
    half = round(side_m / 2 / cell_m)
    low = [max(0, middle - half) for middle in whole.start]
    part = whole.free[low[0] : whole.start[0] + half, low[1] : whole.start[1] + half]
    start = (whole.start[0] - low[0] + 1, whole.start[1] - low[1] + 1)
    return Building(reachable(np.pad(part, 1), start), start, cell_m, whole.name, blocks=whole.blocks)


def side_m(setting: Setting) -> float:
    """Side of the squares that are cut."""
    return min(30.0, 12 + 2 * setting.range_m)


def small_buildings(families: tuple[str, ...], side: float) -> Iterator[tuple[str, Callable[[float], Building]]]:
    """Buildings of these families in turn, each a function of the cell size."""
    for number in count():
        family, index = families[number % len(families)], number // len(families)
        build = partial(cut, family, index, side)
        try:
            looked = build(0.2)
        except MapError:
            continue
        if 40 < looked.free.sum() * looked.cell_m**2 < LARGEST_M2:
            yield f"{looked.name} cut to {side:g} m", build


def padded(world: World, cells: int) -> World:
    """A world with walls beyond its last rows and columns."""
    more = cells - world.free.shape[0]
    wide = (jnp.pad(mask, (0, more)) for mask in (world.free, world.counted))
    return eqx.tree_at(lambda w: (w.free, w.counted), world, tuple(wide))


def place_for(setting: Setting, maps: int) -> Place:
    """The setting's buildings: those for which the same settings fit that fit most, so that they share a program."""
    base = Team.alike(1, Member(range_m=setting.range_m, radius_m=setting.radius_m)).config()
    fits = []
    for name, build in islice(small_buildings(setting.families, side_m(setting)), maps):
        try:
            fits.append((name, fit(build, base, setting.spacing_m)))
        except MapError:  # the robot does not fit at the start
            continue
    configs = [found.config for _, found in fits]
    config = max(configs, key=configs.count)
    chosen = [(name, found.world) for name, found in fits if found.config == config]
    cells = max(world.free.shape[0] for _, world in chosen)
    worlds = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(padded(world, cells) for _, world in chosen))
    return Place(config, worlds, [name for name, _ in chosen])


def random_bodies(rng: np.random.Generator, setting: Setting, alike: bool) -> Bodies:
    """Cameras and bodies of a team: any that the setting allows. All can turn by some degrees while they hold."""
    places = 1 if alike else setting.places
    farthest_mm, widest_mm = round(1000 * setting.range_m), round(1000 * setting.radius_m)
    columns = (
        rng.choice([30, 60, 87, 120, 180, 270, 360, int(rng.integers(30, 361))], places),
        (farthest_mm * rng.choice([1.0, 1.0, 0.75, 0.5], places)).astype(int),
        rng.integers(250, 2001, places),
        rng.integers(10, 121, places),
        (widest_mm * rng.choice([1.0, 1.0, 0.5, 0.0], places)).astype(int),
    )
    return Bodies(*(jnp.asarray(np.resize(column, setting.places), jnp.int32) for column in columns))


def random_team(rng: np.random.Generator, setting: Setting) -> Fleet:
    """1 to `places` robots with equal or different budgets from 10 to 300 m."""
    alike = bool(rng.random() < 0.5)
    budgets_mm = 10_000 * 30 ** rng.random(1 if alike else setting.places)
    return Fleet(
        present=jnp.arange(setting.places) < rng.integers(1, setting.places + 1),
        budget_mm=jnp.asarray(np.resize(budgets_mm, setting.places), jnp.int32),
        fail_step=jnp.full(setting.places, NEVER, jnp.int32),
        bodies=random_bodies(rng, setting, alike),
    )


class Watch(eqx.Module):
    """What a robot has done since its last progress, and the longest that it has been without."""

    run: Int32[Array, "*N"]
    pushed: Int32[Array, "*N"]
    """Decisions in the run after which it was elsewhere than it intended, because of a conflict."""
    stays: Int32[Array, "*N"]
    stood: Int32[Array, "*N I J"]
    follows: Bool[Array, "*N"]
    """Whether it was lost at the last decision, nobody pushed it, and it made no progress."""
    way_mm: Int32[Array, "*N"]
    turn: Int32[Array, "*N"]
    """What was left to the view that it pursues."""
    longest: Int32[Array, "*N"]
    runs: Int32[Array, "*N bands"]
    """Number of runs by length."""
    lost: Int32[Array, "*N"]
    """Decisions while it was lost."""
    too_long: Int32[Array, "*N"]
    did_not_fall: Int32[Array, "*N"]
    led_again: Int32[Array, "*N"]

    @staticmethod
    def begin(sites: Int32[Array, "N 2"], side: int) -> "Watch":
        number = sites.shape[0]
        none = jnp.zeros(number, jnp.int32)
        stood = jax.vmap(lambda site: site_mask(side, site).astype(jnp.int32))(sites)
        runs = jnp.zeros((number, len(BANDS)), jnp.int32)
        return Watch(none, none, none, stood, none > 0, none, none, none, runs, none, none, none, none)


def watch_robot(config: Config, shared: bool, was: Watch, before, view, proposal, move, after) -> Watch:  # type: ignore[no-untyped-def]
    """What one more decision adds. Nothing here reads `Robot.circling` but through `intend`."""
    intent, pursuit = intend(config, before, view, proposal), pursue(config, view)
    y, x = move.target[0], move.target[1]
    exploring = move.mode == EXPLORING
    took = (open_views(config, before.graph, before.sensed)[y, x] & after.sensed[y, x]).any()
    progress = (after.belief != before.belief).any() | took
    if shared:  # what others have looked at is taken, too
        progress |= (after.sensed != before.sensed).any()
    pushed = (move.target != before.site + jnp.asarray(SLOT_OFFSETS)[intent.slot]).any()
    stays = (intent.choice < 0) & ~intent.lost
    stuck = exploring & ~progress

    # The last decision was one of a lost robot that nobody pushed: has its way, or its turn, fallen?
    turn = jnp.abs(wrap_degrees(pursuit.heading - before.heading))
    fell = pursuit.found & jnp.where(was.way_mm > 0, pursuit.way_mm < was.way_mm, turn < was.turn)
    did_not_fall = was.follows & exploring & ~fell
    led = exploring & ~intent.lost & ~stays & ~pushed
    led_again = led & (was.stood[y, x] >= config.most_visits)

    run = jnp.where(stuck, was.run + 1, 0)
    pushes = jnp.where(stuck, was.pushed + pushed.astype(jnp.int32), 0)
    stayed = jnp.where(stuck, was.stays + stays.astype(jnp.int32), 0)
    nodes = (after.graph.home_mm < FAR_MM).sum(dtype=jnp.int32)
    hold_turn = jnp.maximum(before.yaw_rate_deg_s * round(1000 * config.hold_turn_m) // before.speed_mm_s, 1)
    turns = (180 + hold_turn - 1) // hold_turn
    bound = config.most_visits * nodes + (pushes + 1) * (nodes + turns) + pushes + stayed
    ended = jnp.where(run == 0, was.run, 0)
    band = sum((ended > high).astype(jnp.int32) for _, high in BANDS[:-1])
    here = site_mask(was.stood.shape[0], move.target).astype(jnp.int32)
    return Watch(
        run=run,
        pushed=pushes,
        stays=stayed,
        stood=jnp.where(progress, 0, was.stood) + here,
        follows=stuck & intent.lost & ~pushed,
        way_mm=pursuit.way_mm,
        turn=turn,
        longest=jnp.maximum(was.longest, run),
        runs=was.runs.at[band].add((ended > 0).astype(jnp.int32)),
        lost=was.lost + (exploring & intent.lost).astype(jnp.int32),
        too_long=was.too_long + (run > bound).astype(jnp.int32),
        did_not_fall=was.did_not_fall + did_not_fall.astype(jnp.int32),
        led_again=was.led_again + led_again.astype(jnp.int32),
    )


class Found(eqx.Module):
    """One mission, watched."""

    watch: Watch
    decisions: Scalar
    stranded: Scalar
    robots: Scalar
    at_cap: Bool[Array, ""]
    """Whether it ended because it had no more decisions."""


def watched(config: Config, planner: Planner, key: Key, world: World, fleet: Fleet, cap: Scalar) -> Found:
    """A whole mission; every robot is watched."""
    flight = take_off(config, planner, key, world, fleet)
    robots = flight.state.robots
    watch = Watch.begin(robots.site, robots.visits.shape[-1])
    look = jax.vmap(partial(watch_robot, config, planner.communicates))

    def go_on(carry: tuple[InFlight, Watch]) -> tuple[InFlight, Watch]:
        flight, watch = carry
        before = flight.state.robots
        seen = views(config, flight.state)
        flight, move, _ = decide(config, planner, flight)
        return flight, look(watch, before, seen, flight.memory[1], move, flight.state.robots)

    def going(carry: tuple[InFlight, Watch]) -> Bool[Array, ""]:
        return ~carry[0].state.done & (carry[0].state.step < cap)

    flight, watch = jax.lax.while_loop(going, go_on, (flight, watch))
    ends = outcome(config, flight.state)
    return Found(watch, ends.decisions, ends.stranded, fleet.present.sum(), ~flight.state.done)


@cache
def program(config: Config, names: tuple[str, ...]) -> Callable[..., Found]:
    """A compiled mission. Its planner is data: the place of one of these names among them."""
    planners = tuple(roster.planner(name) for name in names)

    @eqx.filter_jit
    def run(planners, which, seed, worlds, index, fleet, cap):  # type: ignore[no-untyped-def]
        world = jax.tree.map(lambda leaf: leaf[index], worlds)
        planner = OnRadio(planners[0]) if planners[0].communicates else Several(planners, which)
        return watched(config, planner, jax.random.key(seed), world, fleet, cap)

    return partial(run, planners)


def fly(setting: Setting, place: Place, seed: int, mission: int) -> tuple[Found, str]:
    """One mission by its number, and what it was in words."""
    rng = np.random.default_rng([seed, mission])
    which, index = int(rng.integers(len(setting.planners))), int(rng.integers(len(place.names)))
    fleet = random_team(rng, setting)
    cap = place.config.max_decisions(int(fleet.budget_mm.max()) / 1000)
    whole = partial(jnp.asarray, dtype=jnp.int32)
    fly_it = program(place.config, setting.planners)
    found = fly_it(whole(which), whole(rng.integers(2**31)), place.worlds, whole(index), fleet, whole(cap))
    spacing = f"{place.config.spacing_m:g} m apart, cells of {place.config.cell_m:g} m"
    words = f"{setting.planners[which]} on {place.names[index]}, {spacing}, {int(fleet.present.sum())} robots"
    return jax.device_get(found), words


def problem(found: Found) -> str:
    """What is wrong with a mission, or nothing."""
    watch = found.watch
    counts = {
        "runs beyond the bound": watch.too_long.sum(),
        "ways that did not fall": watch.did_not_fall.sum(),
        "nodes led to again": watch.led_again.sum(),
        "stranded": found.stranded,
        "out of decisions": found.at_cap,
    }
    return ", ".join(f"{int(number)} {what}" for what, number in counts.items() if number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missions", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mission", type=int, help="fly only the mission of this number")
    parser.add_argument("--maps", type=int, default=12, help="buildings for each setting")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="only the first so many: a quick look")
    arguments = parser.parse_args()
    enable_compilation_cache()
    begin, settings = time.perf_counter(), SETTINGS[: arguments.settings]
    share = -(-arguments.missions // len(settings))
    runs, longest, lost, robots, missions, failures = np.zeros(len(BANDS), int), (0, ""), 0, 0, 0, 0
    for part, setting in enumerate(settings):
        # Numbers do not depend on how many missions there are; one setting after the other keeps few programs in use.
        numbers = [part + len(SETTINGS) * k for k in range(share)]
        if arguments.mission is not None:
            numbers = [n for n in [arguments.mission] if n % len(SETTINGS) == part]
        now = time.perf_counter()
        until = now + (begin + arguments.seconds - now) / (len(settings) - part)
        if not numbers or until < now:
            continue
        place = place_for(setting, arguments.maps)
        for number in numbers:
            found, words = fly(setting, place, arguments.seed, number)
            here = f"--seed {arguments.seed} --maps {arguments.maps} --mission {number}: {words}"
            runs += found.watch.runs.sum(axis=0)
            lost, robots, missions = lost + int(found.watch.lost.sum()), robots + int(found.robots), missions + 1
            longest = max(longest, (int(found.watch.longest.max()), here))
            if wrong := problem(found):
                failures += 1
                print(f"FAILED {here}: {wrong}", flush=True)
            if time.perf_counter() > until:
                break
        print(
            f"{missions} missions, {robots} robots after {time.perf_counter() - begin:.0f} s: longest run "
            f"{longest[0]}, {lost} decisions while lost, {failures} missions failed  "
            f"[{setting}, {len(place.names)} buildings, {place.config.spacing_m:g} m apart]",
            flush=True,
        )
    bands = ", ".join(
        f"{low}-{high}: {number}" if high < 10**6 else f"{low} and more: {number}"
        for (low, high), number in zip(BANDS, runs, strict=True)
    )
    print(f"runs without progress that ended, by length: {bands}")
    print(f"the longest, of {longest[0]} decisions: {longest[1]}")
    print("no counter-example" if not failures else f"CAUGHT: {failures} missions")
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
