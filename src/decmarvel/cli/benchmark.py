"""`decmarvel benchmark`: fly a grid of settings on many maps, and keep a row of every mission."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from decmarvel.cli.options import (
    CAMERA,
    FAMILY_NAMES,
    Radius,
    Spacing,
    Speed,
    Weights,
    YawRate,
    check_name,
    check_range,
    complain,
    make_folder,
    parse_spacing,
    robot_options,
)
from decmarvel.core.limits import BUDGET_LIMITS_M, MAX_ROBOTS
from decmarvel.simulation.roster import PLANNERS, planner

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from decmarvel.benchmark.maps import Map, Terms

MOST_TRIALS = 1_000_000
T = TypeVar("T")


def benchmark(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the rows. One that is there already goes on.")],
    planners: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Names of planners. (default: all but random, and dec-marvel)"),
    ] = None,
    robots: Annotated[str, typer.Option(metavar="N,N", help="Team sizes, 1 to 16.")] = "2,4,8",
    budgets: Annotated[str, typer.Option(metavar="M,M", help="Travel budgets in metres.")] = "720,800,1024",
    trials: Annotated[int, typer.Option(metavar="T", help="Missions for each setting and family of maps.")] = 100,
    maps: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of maps. (default: generated held-out maps)")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help=f"Of generated maps: {FAMILY_NAMES}. (default: indoor)"),
    ] = None,
    broken: Annotated[str, typer.Option(metavar="K,K", help="How many robots break down on the way.")] = "0",
    noise: Annotated[str, typer.Option(metavar="NAME,NAME", help="Perception: off, mild or harsh.")] = "off",
    weights: Weights = None,
    spacing: Spacing = "auto",
    fov: Annotated[
        str,
        typer.Option(metavar="DEG,DEG", help="Horizontal fields of view, 30 to 360.", rich_help_panel=CAMERA),
    ] = "120",
    range_: Annotated[
        str, typer.Option("--range", metavar="M,M", help="How far cameras see.", rich_help_panel=CAMERA)
    ] = "10",
    speed: Speed = None,
    yaw_rate: YawRate = None,
    radius: Radius = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="auto|ADDRESS", help="Fly on a Ray cluster; auto joins one or starts one here."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="M", help="Missions at once. (default: 300 a GPU, 2 a core)")
    ] = None,
) -> None:
    """Compare planners: every planner with every team size and budget, on the same missions.

    The defaults are the paper's grid. Run the same command again after an interruption, or a wider one: only what is
    missing is flown. docs/benchmark.md explains the rows.
    """
    grid = _Grid(
        planners=_list("--planners", planners, str, "names such as nearest,sector") if planners is not None else None,
        robots=_list("--robots", robots, int, "whole numbers such as 2,4,8"),
        budgets_m=_list("--budgets", budgets, float, "metres such as 720,800"),
        broken=_list("--broken", broken, int, "whole numbers such as 0,1,2"),
        noise=_list("--noise", noise, str, "names such as off,mild"),
        fovs_deg=_list("--fov", fov, int, "whole degrees such as 87,120"),
        ranges_m=_list("--range", range_, float, "metres such as 5,10"),
        families=_list("--family", family, str, "names such as indoor,floorplan") if family is not None else None,
        maps=maps,
        trials=trials,
    )
    grid.check()
    if batch is not None:
        check_range("--batch", batch, 1, 100_000)
    terms = robot_options(None, None, None, speed, yaw_rate, radius) | {"spacing_m": parse_spacing(spacing)}

    from rich.console import Console
    from rich.markup import escape

    from decmarvel.benchmark.maps import Terms
    from decmarvel.benchmark.rows import stranded

    console = Console(highlight=False, soft_wrap=True)
    rows = _fly(console, out, grid, Terms(**terms), weights, cluster, batch)  # type: ignore[arg-type]
    _print_summary(console, rows)
    if left := stranded(rows):
        line = f"[bold red]{left} robots were left behind. This must never happen: please report it.[/]"
        Console(stderr=True, highlight=False, soft_wrap=True).print(line)
        raise typer.Exit(1)
    console.print(f"Rows in [bold]{escape(str(out))}[/]. Tables and figures: decmarvel report {escape(str(out))}")


@dataclass(frozen=True)
class _Grid:
    """What is compared with what."""

    planners: list[str] | None
    robots: list[int]
    budgets_m: list[float]
    broken: list[int]
    noise: list[str]
    fovs_deg: list[int]
    ranges_m: list[float]
    families: list[str] | None
    maps: Path | None
    trials: int

    def check(self) -> None:
        for size in self.robots:
            check_range("--robots", size, 1, MAX_ROBOTS)
        for budget_m in self.budgets_m:
            check_range("--budgets", budget_m, *BUDGET_LIMITS_M, " m")
        check_range("--trials", self.trials, 1, MOST_TRIALS)
        for fov_deg in self.fovs_deg:
            robot_options(None, fov_deg, None, None, None, None)
        for range_m in self.ranges_m:
            robot_options(None, None, range_m, None, None, None)
        for count in self.broken:
            least = min(self.robots)
            if not 0 <= count <= least:
                raise complain("--broken", f"{count} of {least} robots cannot break; choose 0 to {least}")
        if self.maps is not None and self.families is not None:
            raise complain("--family", "is about generated maps, and --maps takes those of a folder; give one of them")

    def sources(self) -> "list[list[Map]]":
        """The maps that are flown, a list for each family."""
        from decmarvel.benchmark.maps import folder_maps, heldout_maps
        from decmarvel.worlds import FAMILIES

        if self.maps is not None:
            return [folder_maps(self.maps, self.trials)]
        families = self.families or ["indoor"]
        for family in families:
            check_name("--family", family, FAMILIES)
        return [heldout_maps(family, self.trials) for family in families]


def _fly(
    console: "Console",
    out: Path,
    grid: _Grid,
    terms: "Terms",
    weights: Path | None,
    cluster: str | None,
    batch: int | None,
) -> "pa.Table":
    """Fly what is missing in the folder; all its rows."""
    from decmarvel.benchmark import trials as plan
    from decmarvel.benchmark.batches import make_batches
    from decmarvel.benchmark.executors import executor
    from decmarvel.benchmark.maps import fit_all
    from decmarvel.benchmark.store import open_store
    from decmarvel.cli.progress import BatchProgress
    from decmarvel.core.config import NOISE_LEVELS
    from decmarvel.robot.policy.weights import fingerprint

    for level in grid.noise:
        check_name("--noise", level, NOISE_LEVELS)
    flights = executor(cluster, batch)  # before the planners: JAX starts with the first weights
    names = grid.planners or [name for name, entry in PLANNERS.items() if name != "random" and entry.packaged]
    planners = {
        name: planner(name, weights if PLANNERS[check_name("--planners", name, PLANNERS)].learned else None)
        for name in names
    }
    digests = {name: fingerprint(pilot) if PLANNERS[name].learned else None for name, pilot in planners.items()}
    families = grid.sources()
    with console.status("Fitting viewpoints to the maps"):
        fits = fit_all((each for maps in families for each in maps), grid.ranges_m, terms)
    settings = plan.settings(
        digests, grid.robots, grid.budgets_m, grid.broken, grid.noise, grid.fovs_deg, grid.ranges_m
    )
    wanted = plan.trials(settings, [[each.name for each in maps] for maps in families], grid.trials)
    make_folder("--out", out)
    with flights, open_store(out, terms, fits) as store:
        missing = store.missing(wanted)
        there = len(wanted) - len(missing)
        already = f"; {there} are there already" if there else ""
        each = f"{len(settings)} settings, {grid.trials} trials each" + " on each family" * (len(families) > 1)
        console.print(f"[bold]{len(wanted)} missions[/]: {each}{already}")
        if missing:
            console.print(f"Devices: {flights.description}")
        batches = make_batches(missing, planners, fits, flights.batch, flights.mix_budgets)
        try:
            with BatchProgress(console, batches, there) as progress, closing(flights.fly(batches)) as flown_batches:
                for done, flown in flown_batches:
                    store.add(flown.rows, flown.recordings)
                    progress.show(done)
        except KeyboardInterrupt:
            console.print("[yellow]Stopped.[/] What is flown is kept; the same command goes on from there.")
            raise
        return store.rows()


def _list(option: str, text: str, kind: Callable[[str], T], what: str) -> list[T]:
    """Values separated by commas, each once."""
    try:
        values = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        raise complain(option, f"'{text}' is not a list; write {what}") from None
    if not values:
        raise complain(option, f"the list is empty; write {what}")
    return list(dict.fromkeys(values))


def _print_summary(console: "Console", rows: "pa.Table") -> None:
    """Means by setting."""
    from rich.table import Table

    by = ["planner", "robots", "budget_m", "broken", "noise", "fov_deg", "range_m"]
    means = [("coverage", "mean"), ("success", "mean"), ("metres_to_99", "mean"), ("coverage", "count")]
    groups = rows.group_by(by).aggregate(means).sort_by([(name, "ascending") for name in by]).to_pylist()
    extras: dict[str, tuple[str, Callable[[Any], str]]] = {
        "broken": ("broken", str),
        "noise": ("noise", str),
        "fov_deg": ("view", "{} deg".format),
        "range_m": ("sight", "{:g} m".format),
    }
    shown = {name: extra for name, extra in extras.items() if len({group[name] for group in groups}) > 1}
    table = Table(box=None, pad_edge=False, header_style="dim")
    heads = ["planner", "robots", "budget", *(head for head, _ in shown.values())]
    for head in [*heads, "missions", "coverage", "success", "metres to 99%"]:
        table.add_column(head, justify="left" if head in ("planner", "noise") else "right")
    for group in groups:
        metres = group["metres_to_99_mean"]
        table.add_row(
            group["planner"],
            str(group["robots"]),
            f"{group['budget_m']:g} m",
            *(text(group[name]) for name, (_, text) in shown.items()),
            str(group["coverage_count"]),
            f"{group['coverage_mean']:.1%}",
            f"{group['success_mean']:.0%}",
            "-" if metres is None else f"{metres:.0f} m",
        )
    console.print(table)
