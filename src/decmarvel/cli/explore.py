"""`decmarvel explore`: fly one mission, show it, and leave its record in a folder."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from decmarvel.cli.options import (
    FAMILY_NAMES,
    Fov,
    Radius,
    Range,
    Resolution,
    Sensor,
    Spacing,
    Speed,
    Start,
    TeamFile,
    Weights,
    YawRate,
    builder,
    check_name,
    check_range,
    check_robots,
    complain,
    make_folder,
    make_team,
    parse_spacing,
    robot_options,
    sight_warning,
)
from decmarvel.core.limits import MAX_SEED
from decmarvel.simulation import roster

if TYPE_CHECKING:
    from rich.console import Console

    from decmarvel.recording.format import Recording
    from decmarvel.recording.recorder import Recorder
    from decmarvel.show.live import Live
    from decmarvel.simulation.flight import Flight, Mission
    from decmarvel.simulation.team import Team
    from decmarvel.worlds.fit import Fit


def explore(
    map: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own map: ROS .yaml, .png, .pgm or .npy.")
    ] = None,
    map_seed: Annotated[
        int | None, typer.Option(metavar="K", help="Number of a generated held-out map. (default: 0)")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Of generated maps: {FAMILY_NAMES}. (default: indoor)"),
    ] = None,
    robots: Annotated[int | None, typer.Option(metavar="N", help="How many, 1 to 16. (default: 4)")] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="M", help="Travel budget of each robot, in metres. (default: 720)")
    ] = None,
    planner: Annotated[
        str, typer.Option(metavar="NAME", help="How the robots decide: a planner of the list above.")
    ] = roster.BEST_PLANNER,
    weights: Weights = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the mission: bases, first headings, failures.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results. (default: runs/<map and options>)")
    ] = None,
    start: Start = None,
    resolution: Resolution = None,
    spacing: Spacing = "auto",
    sensor: Sensor = None,
    fov: Fov = None,
    range_: Range = None,
    speed: Speed = None,
    yaw_rate: YawRate = None,
    radius: Radius = None,
    team: TeamFile = None,
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
        _check_map_options(map, map_seed, family, start, resolution)
        check_robots(robots)
        given = robot_options(sensor, fov, range_, speed, yaw_rate, radius, budget)
        check_range("--seed", seed, 0, MAX_SEED)
        if watch and quiet:
            raise complain("--watch", "prints an address, and --quiet nothing; give one")
        check_name("--planner", planner, roster.PLANNERS)
        spacing_m = parse_spacing(spacing)

        from rich.console import Console

        from decmarvel.cli.browser import invite, see_out
        from decmarvel.core.jax_setup import enable_compilation_cache
        from decmarvel.show.live import Live
        from decmarvel.simulation.flight import Mission
        from decmarvel.worlds.fit import fit

        began = time.monotonic()
        pilot = roster.planner(planner, weights)
        build = builder(map, family or "indoor", "heldout", map_seed or 0, resolution, start)
        crew = make_team(build, team, robots, given)
        check_range("--broken", broken, 0, len(crew.members))
        enable_compilation_cache()
        found = fit(build, crew.config(), spacing_m, crew.shortest_range_m)
        fleet = crew.fleet(broken, [seed])
        mission = Mission(found.building, pilot, seed=seed, config=found.config, fleet=fleet, world=found.world)
        folder = out or Path("runs") / _run_name(found, planner, crew, seed, spacing_m, team, broken)
        make_folder("--out", folder)
        console = Console(quiet=quiet, highlight=False, soft_wrap=True)
        _announce(console, mission, crew, found)
        live = Live() if watch else None
        if live:
            invite(console, live)
        flight, recorder = fly_and_show(mission, console, quiet, interruption, live)
        recording = recorder.recording(complete=flight.landed or not interruption.signal)
        _write(console, folder, recording, flight, found.seen, live, began)
        if quiet:
            print(folder)
    if live:
        see_out(console, live, patient=not interruption.signal)
    if interruption.signal:
        raise typer.Exit(128 + interruption.signal)


def _check_map_options(
    map: Path | None, map_seed: int | None, family: str | None, start: str | None, resolution: float | None
) -> None:
    if map is not None and (map_seed is not None or family is not None):
        raise complain("--map", "a map file and --map-seed or --family exclude each other; give one")
    if map is None and (start is not None or resolution is not None):
        raise complain("--start" if start is not None else "--resolution", "works with --map FILE only; add it")
    check_range("--map-seed", map_seed or 0, 0, MAX_SEED)
    if family is not None:
        from decmarvel.worlds import FAMILIES

        check_name("--family", family, FAMILIES)


def _announce(console: "Console", mission: "Mission", team: "Team", found: "Fit") -> None:
    """Say what is going to be flown, and how much of the floor can be seen at all."""
    from rich.console import Console
    from rich.markup import escape

    building, config = mission.building, mission.config
    area = f"{building.free.sum() * building.cell_m**2:,.0f} m² of floor"
    planner = f"planner {roster.label(mission.planner_name)}"
    console.print(f"[bold]{escape(building.name)}[/]: {area}; {team.described}; {planner}")
    console.print("Compiling; about 20 s the first time for maps and teams of this size, then a few.", style="dim")
    places = "viewpoints" if config.roads else "sites"
    console.print(
        f"{found.seen:.1%} of the floor can be seen from {places} {config.spacing_m:g} m apart that robots can reach."
    )
    if warning := sight_warning(found):
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[yellow]Warning:[/] {warning}.")


def fly_and_show(
    mission: "Mission", console: "Console", quiet: bool, interruption: "Interruption", live: "Live | None"
) -> tuple["Flight", "Recorder"]:
    """Decision by decision, until everybody is home or somebody presses Ctrl-C."""
    from decmarvel.cli.display import MissionDisplay
    from decmarvel.integrations.api import begin_record

    flight = mission.take_off()
    recorder = begin_record(flight)
    with MissionDisplay(console, int(mission.world.free_count), quiet) as display:
        while True:
            if live:
                live.show(recorder, flight.state)
            display.show(flight.decisions, flight.moment)
            if flight.done or interruption.signal:
                return flight, recorder
            recorder.add(*flight.step())


def _write(
    console: "Console",
    folder: Path,
    recording: "Recording",
    flight: "Flight",
    share: float,
    live: "Live | None",
    began: float,
) -> None:
    """Leave the results in the folder, and say what they are."""
    from rich.markup import escape

    from decmarvel.cli.results import FILES, print_summary, write_results
    from decmarvel.show.html import write_page

    story = live.end(recording) if live else None
    summary = write_results(folder, recording, flight, share)
    if story:
        write_page([story], folder / "replay.html")
    print_summary(console, summary, time.monotonic() - began)
    files = ", ".join([*FILES, "replay.html"] if story else FILES)
    console.print(f"Results in [bold]{escape(str(folder))}[/]: {files}")


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


def _run_name(
    found: "Fit", planner: str, team: "Team", seed: int, spacing_m: float | None, file: Path | None, broken: int
) -> str:
    """A name that tells missions apart which differ in more than their cameras."""
    count, budget_m = len(team.members), max(member.budget_m for member in team.members)
    extras = [f"spacing{spacing_m:g}"] * (spacing_m is not None) + [f"broken{broken}"] * (broken > 0)
    extras += [file.stem] if file else []
    return "_".join([found.building.name, planner, f"{count}x{budget_m:g}m", f"seed{seed}", *extras])
