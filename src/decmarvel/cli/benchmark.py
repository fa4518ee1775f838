"""`decmarvel benchmark`: fly a grid of settings on many maps, and keep a row of every mission."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from decmarvel.cli.options import (
    Spacing,
    Weights,
    check_name,
    check_range,
    complain,
    make_folder,
    parse_spacing,
)
from decmarvel.core.limits import BUDGET_LIMITS_M, MAX_ROBOTS
from decmarvel.simulation.roster import PLANNERS, planner

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from decmarvel.benchmark.batches import Batch

MOST_TRIALS = 1_000_000
_LINE_EVERY_S = 10.0
T = TypeVar("T")


def benchmark(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the rows. One that is there already goes on.")],
    planners: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Names of planners. (default: all but random, and dec-marvel)"),
    ] = None,
    robots: Annotated[str, typer.Option(metavar="N,N", help="Team sizes, 1 to 16.")] = "2,4,8",
    budgets: Annotated[str, typer.Option(metavar="M,M", help="Travel budgets in metres.")] = "720,800,1024",
    trials: Annotated[int, typer.Option(metavar="T", help="Missions for each setting.")] = 100,
    maps: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of maps. (default: generated held-out maps)")
    ] = None,
    broken: Annotated[str, typer.Option(metavar="K,K", help="How many robots break down on the way.")] = "0",
    noise: Annotated[str, typer.Option(metavar="NAME,NAME", help="Perception: off, mild or harsh.")] = "off",
    weights: Weights = None,
    spacing: Spacing = "4",
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
        trials=trials,
    )
    grid.check()
    if batch is not None:
        check_range("--batch", batch, 1, 100_000)
    spacing_m = parse_spacing(spacing) or 4.0

    from rich.console import Console
    from rich.markup import escape

    from decmarvel.benchmark.rows import stranded

    console = Console(highlight=False, soft_wrap=True)
    rows = _fly(console, out, grid, maps, weights, spacing_m, cluster, batch)
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
    trials: int

    def check(self) -> None:
        for size in self.robots:
            check_range("--robots", size, 1, MAX_ROBOTS)
        for budget_m in self.budgets_m:
            check_range("--budgets", budget_m, *BUDGET_LIMITS_M, " m")
        check_range("--trials", self.trials, 1, MOST_TRIALS)
        for count in self.broken:
            least = min(self.robots)
            if not 0 <= count <= least:
                raise complain("--broken", f"{count} of {least} robots cannot break; choose 0 to {least}")


def _fly(
    console: "Console",
    out: Path,
    grid: _Grid,
    maps: Path | None,
    weights: Path | None,
    spacing_m: float,
    cluster: str | None,
    batch: int | None,
) -> "pa.Table":
    """Fly what is missing in the folder; all its rows."""
    from decmarvel.benchmark import trials as plan
    from decmarvel.benchmark.batches import make_batches
    from decmarvel.benchmark.executors import executor
    from decmarvel.benchmark.store import open_store
    from decmarvel.core.config import NOISE_LEVELS, Config
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
    config = Config(spacing_m=spacing_m)
    buildings = plan.folder_maps(maps, config, grid.trials) if maps else plan.heldout_maps(grid.trials, config)
    settings = plan.settings(digests, grid.robots, grid.budgets_m, grid.broken, grid.noise)
    wanted = plan.trials(settings, buildings, grid.trials)
    make_folder("--out", out)
    with flights, open_store(out, config, buildings) as store:
        missing = store.missing(wanted)
        there = len(wanted) - len(missing)
        already = f"; {there} are there already" if there else ""
        console.print(f"[bold]{len(wanted)} missions[/]: {len(settings)} settings, {grid.trials} trials each{already}")
        if missing:
            console.print(f"Devices: {flights.description}")
        batches = make_batches(missing, config, planners, buildings, flights.batch, flights.mix_budgets)
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


class BatchProgress:
    """How far the benchmark is: a bar in a terminal, a line now and then elsewhere."""

    def __init__(self, console: "Console", batches: "Sequence[Batch]", there: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console = console
        self._waiting = list(batches)
        self._done = there
        self._total = there + sum(len(batch.trials) for batch in batches)
        self._time = TimeLeft(sum((batch.cost for batch in batches), 0.0))
        self._last_line = time.monotonic()
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[setting]}"),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=self._total, completed=there, setting=self._setting(), left="")

    def __enter__(self) -> "BatchProgress":
        self._bar.start()
        if self._waiting and not self._console.is_terminal:
            self._console.print("Compiling; half a minute the first time for a planner and a team, then a few seconds.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, flown: "Batch") -> None:
        """A batch is stored."""
        self._waiting.remove(flown)
        self._done += len(flown.trials)
        left = self._time.left(flown.cost)
        self._bar.update(self._task, completed=self._done, setting=self._setting(), left=left)
        if self._console.is_terminal:
            return
        if time.monotonic() - self._last_line >= _LINE_EVERY_S or not self._waiting:
            self._last_line = time.monotonic()
            words = ", ".join(part for part in (self._setting(), left) if part)
            self._console.print(f"{self._done} of {self._total} missions{'; ' * bool(words)}{words}")

    def _setting(self) -> str:
        return str(self._waiting[0].trials[0].setting) if self._waiting else ""


class TimeLeft:
    """Estimates the time left. The first batch counts only until there is a second: it waits for the compiler."""

    def __init__(self, cost: float) -> None:
        self._todo = cost
        self._done = 0.0
        self._since = time.monotonic()
        self._batches = 0

    def left(self, cost: float) -> str:
        """In words, after another batch of this cost."""
        self._todo -= cost
        self._done += cost
        self._batches += 1
        seconds = (time.monotonic() - self._since) / self._done * self._todo
        if self._batches == 1:
            self._done, self._since = 0.0, time.monotonic()
        if self._todo <= 0:
            return ""
        hours, minutes = int(seconds // 3600), int(seconds % 3600 // 60)
        return (
            f"about {hours} h {minutes:02d} min left" if hours else f"about {minutes} min {seconds % 60:02.0f} s left"
        )


def _print_summary(console: "Console", rows: "pa.Table") -> None:
    """Means by setting."""
    from rich.table import Table

    by = ["planner", "robots", "budget_m", "broken", "noise"]
    means = [("coverage", "mean"), ("success", "mean"), ("metres_to_99", "mean"), ("coverage", "count")]
    groups = rows.group_by(by).aggregate(means).sort_by([(name, "ascending") for name in by]).to_pylist()
    show_broken, show_noise = (len({group[name] for group in groups}) > 1 for name in ("broken", "noise"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    heads = ["planner", "robots", "budget", *["broken"] * show_broken, *["noise"] * show_noise]
    for head in [*heads, "missions", "coverage", "success", "metres to 99%"]:
        table.add_column(head, justify="left" if head in ("planner", "noise") else "right")
    for group in groups:
        metres = group["metres_to_99_mean"]
        table.add_row(
            group["planner"],
            str(group["robots"]),
            f"{group['budget_m']:g} m",
            *[str(group["broken"])] * show_broken,
            *[group["noise"]] * show_noise,
            str(group["coverage_count"]),
            f"{group['coverage_mean']:.1%}",
            f"{group['success_mean']:.0%}",
            "-" if metres is None else f"{metres:.0f} m",
        )
    console.print(table)
