"""`decmarvel explore`: fly one mission, show it, and leave its record in a folder."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from decmarvel.cli.options import (
    BUDGET_LIMITS_M,
    MAX_ROBOTS,
    Resolution,
    Spacing,
    Start,
    Weights,
    builder,
    check_name,
    check_range,
    check_spacing,
    choose_planner,
    complain,
    make_folder,
    sight_warning,
)

if TYPE_CHECKING:
    from rich.console import Console

    from decmarvel.core.config import Config
    from decmarvel.recording.recorder import Recorder
    from decmarvel.robot.planners.base import Planner
    from decmarvel.show.live import Live
    from decmarvel.simulation.fleet import Fleet
    from decmarvel.simulation.types import State
    from decmarvel.worlds import Building
    from decmarvel.worlds.world import World


def explore(
    map: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own map: ROS .yaml, .png, .pgm or .npy.")
    ] = None,
    map_seed: Annotated[
        int | None, typer.Option(metavar="K", help="Number of a generated held-out map. (default: 0)")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of generated maps: indoor, office, hall or mixed. (default: indoor)"),
    ] = None,
    robots: Annotated[int, typer.Option(metavar="N", help="How many, 1 to 16.")] = 4,
    budget: Annotated[float, typer.Option(metavar="M", help="Travel budget of each robot, in metres.")] = 720.0,
    planner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="dec-marvel, nearest, smmr, nbvp, sector, random; shared-greedy needs a radio. (default: dec-marvel)",
        ),
    ] = None,
    weights: Weights = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the mission: bases, first headings, failures.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results. (default: runs/<map and options>)")
    ] = None,
    spacing: Spacing = 4.0,
    start: Start = None,
    resolution: Resolution = None,
    broken: Annotated[int, typer.Option(metavar="K", help="Robots that break down on the way.")] = 0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the mission in a browser while it flies, and write replay.html.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but the folder with the results.")] = False,
) -> None:
    """Explore a building with a team of robots that never talk to each other.

    Writes summary.json, mission.npz (the record, see docs/recording.md), mission.png and coverage.png.
    Ctrl-C ends the mission early and still writes them.

    With --watch the mission has a page, which only this machine can open; its address is printed.
    Nobody has to look: the mission does not wait.
    """
    with _until_interrupted() as interruption:
        if map is not None and (map_seed is not None or family is not None):
            raise complain("--map", "a map file and --map-seed or --family exclude each other; give one")
        if map is None and (start is not None or resolution is not None):
            raise complain("--start" if start is not None else "--resolution", "works with --map FILE only; add it")
        check_range("--map-seed", map_seed or 0, 0, 2**32 - 1)
        check_range("--robots", robots, 1, MAX_ROBOTS)
        check_range("--budget", budget, *BUDGET_LIMITS_M, " m")
        check_range("--seed", seed, 0, 2**32 - 1)
        check_range("--broken", broken, 0, robots)
        if watch and quiet:
            raise complain("--watch", "prints an address, and --quiet nothing; give one")
        spacing_m = check_spacing(spacing)

        from rich.console import Console
        from rich.markup import escape

        from decmarvel.cli.browser import invite, see_out
        from decmarvel.cli.results import FILES, print_summary, write_results
        from decmarvel.core.config import Config
        from decmarvel.core.jax_setup import enable_compilation_cache
        from decmarvel.show.html import write_page
        from decmarvel.show.live import Live
        from decmarvel.simulation.fleet import Fleet
        from decmarvel.simulation.roster import BEST_PLANNER, label
        from decmarvel.worlds import FAMILIES
        from decmarvel.worlds.place import place
        from decmarvel.worlds.reach import visible_share

        began = time.monotonic()
        name = planner or BEST_PLANNER
        pilot = choose_planner(name, weights)
        if family is not None:
            check_name("--family", family, FAMILIES)
        build = builder(map, family or "indoor", "heldout", map_seed or 0, resolution, start)
        config = Config(spacing_m=spacing_m)
        building = build(config.cell_m)
        enable_compilation_cache()
        world = place(building, config)
        folder = out or Path("runs") / _run_name(building.name, name, robots, budget, seed, spacing_m, broken)
        make_folder("--out", folder)

        console = Console(quiet=quiet, highlight=False, soft_wrap=True)
        warnings = Console(stderr=True, highlight=False, soft_wrap=True)
        area = f"{building.free.sum() * building.cell_m**2:,.0f} m² of floor"
        team = f"{robots} robot{'s' * (robots > 1)}, {budget:g} m each, planner {label(name)}"
        console.print(f"[bold]{escape(building.name)}[/]: {area}; {team}")
        console.print("Compiling; about 20 s the first time for maps and teams of this size, then a few.", style="dim")
        share = visible_share(config, world)
        console.print(f"{share:.1%} of the floor can be seen from the sites that robots can reach.")
        if warning := sight_warning(build, spacing_m, share):
            warnings.print(f"[yellow]Warning:[/] {warning}.")

        fleet = Fleet.failing(robots, budget, broken, [seed])
        mission = Mission(config, building, world, pilot, name, seed, fleet)
        live = Live() if watch else None
        if live:
            invite(console, live)
        recorder, state = mission.fly(console, quiet, budget, interruption, live)
        recording = recorder.recording(complete=recorder.landed or not interruption.signal)
        story = live.end(recording) if live else None
        summary = write_results(folder, recording, state, share)
        if story:
            write_page([story], folder / "replay.html")
        if quiet:
            print(folder)
        else:
            print_summary(console, summary, time.monotonic() - began)
            files = ", ".join([*FILES, "replay.html"] if story else FILES)
            console.print(f"Results in [bold]{escape(str(folder))}[/]: {files}")
    if live:
        see_out(console, live, patient=not interruption.signal)
    if interruption.signal:
        raise typer.Exit(128 + interruption.signal)


@dataclass
class Interruption:
    """Which signal asked the mission to end, 0 for none."""

    signal: int = 0


@contextmanager
def _until_interrupted() -> Iterator[Interruption]:
    """Ctrl-C asks the mission to end after the decision it is in; a second Ctrl-C ends the program."""
    interruption = Interruption()

    def stop(number: int, frame: FrameType | None) -> None:
        if interruption.signal:
            raise KeyboardInterrupt
        interruption.signal = number
        os.write(2, b"decmarvel: ending the mission; Ctrl-C again to leave at once\n")  # print is not safe in here

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Mission:
    """All that decides how a mission goes."""

    config: "Config"
    building: "Building"
    world: "World"
    planner: "Planner"
    planner_name: str
    seed: int
    fleet: "Fleet"

    def fly(
        self, console: "Console", quiet: bool, budget_m: float, interruption: Interruption, live: "Live | None" = None
    ) -> tuple["Recorder", "State"]:
        """Decision by decision, until everybody is home or somebody presses Ctrl-C."""
        import equinox as eqx
        import jax

        from decmarvel.cli.display import Display
        from decmarvel.core.types import CandidateProbabilities
        from decmarvel.recording.recorder import Recorder
        from decmarvel.simulation.mission import Flight, Moment, decide, moment, take_off
        from decmarvel.simulation.types import Move

        config, planner = self.config, self.planner

        @eqx.filter_jit
        def begin(planner: Any, key: Any, world: Any, fleet: Any) -> tuple[Flight, Moment]:
            flight = take_off(config, planner, key, world, fleet)
            return flight, moment(flight.state)

        @eqx.filter_jit
        def go_on(planner: Any, flight: Flight) -> tuple[Flight, Move, CandidateProbabilities, Moment]:
            flight, move, probabilities = decide(config, planner, flight)
            return flight, move, probabilities, moment(flight.state)

        flight, first = begin(planner, jax.random.key(self.seed), self.world, self.fleet)
        now = jax.device_get(first)
        about: dict[str, Any] = {"planner": self.planner_name, "seed": self.seed}
        recorder = Recorder(config, self.building, self.world, self.fleet, **about, first=now)
        with Display(console, int(self.world.free_count), quiet) as display:
            if live:
                live.show(recorder, flight.state)
            for decision in range(1, config.max_decisions(budget_m) + 1):
                display.show(decision - 1, now)
                if interruption.signal or recorder.landed:
                    break
                flight, *news = go_on(planner, flight)
                move, probabilities, now = jax.device_get(news)
                recorder.add(move, probabilities, now)
                if live:
                    live.show(recorder, flight.state)
            display.show(len(recorder.moments) - 1, now)
        return recorder, flight.state


def _run_name(map_id: str, planner: str, robots: int, budget_m: float, seed: int, spacing_m: float, broken: int) -> str:
    extras = [f"spacing{spacing_m:g}"] * (spacing_m != 4) + [f"broken{broken}"] * (broken > 0)
    return "_".join([map_id, planner, f"{robots}x{budget_m:g}m", f"seed{seed}", *extras])
