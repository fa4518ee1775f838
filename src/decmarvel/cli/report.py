"""`decmarvel report`: tables, plots and tests from the rows of a benchmark."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from decmarvel.cli.options import check_name, make_folder

if TYPE_CHECKING:
    from rich.console import Console

    from decmarvel.benchmark.report.conditions import Condition
    from decmarvel.benchmark.report.summary import Results


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of 'decmarvel benchmark', or a file with its rows.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the report. (default: DIR/report)")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Test every planner against this one only. (default: all pairs)"),
    ] = None,
) -> None:
    """Make tables, plots and tests from the rows of a benchmark.

    Works on a benchmark that is still running, too: it reports what is there and says what is not.
    """
    from rich.console import Console
    from rich.markup import escape

    from decmarvel.benchmark.rows import read_rows

    rows = read_rows(folder)
    place = folder if folder.is_dir() else folder.parent
    into = out or place / "report"

    from decmarvel.benchmark.report.page import write_report
    from decmarvel.benchmark.report.summary import Results
    from decmarvel.core.jax_setup import enable_compilation_cache

    if baseline is not None:
        check_name("--baseline", baseline, Results.of(rows).planners)
    make_folder("--out", into)
    enable_compilation_cache()
    console = Console(highlight=False, soft_wrap=True)
    with console.status("Reading") as status:
        results = write_report(rows, into, place / "missions", baseline, lambda text: status.update(f"Making {text}"))
    _print_summary(console, results)
    console.print(
        f"Report in [bold]{escape(str(into / 'report.md'))}[/], with tables, plots and rows.parquet beside it"
    )


def _print_summary(console: "Console", results: "Results") -> None:
    """Success and penalised metres without breakdowns and noise, for each camera."""
    undisturbed = [condition for condition in results.conditions if condition.undisturbed]
    if undisturbed:
        console.print("[bold]Success, and metres to 99%[/] (a mission that did not get there counts with its budget)")
    for camera in dict.fromkeys(condition.camera for condition in undisturbed):
        chosen = [condition for condition in undisturbed if condition.camera == camera]
        if not all(condition.usual_camera for condition in undisturbed):
            console.print(f"Camera: {camera}")
        _print_table(console, results, chosen)
    console.print(f"{results.missions:,} missions in {len(results.conditions)} settings")
    if results.missing:
        short = sum(wanted - there for _, _, there, wanted in results.missing)
        console.print(f"[yellow]Incomplete:[/] {short:,} missions that other planners have flown are not there yet")


def _print_table(console: "Console", results: "Results", conditions: "Sequence[Condition]") -> None:
    """Conditions that differ in budget and team size; the best planner without a radio in green."""
    from rich.table import Table
    from rich.text import Text

    budgets_m = sorted({condition.budget_m for condition in conditions})
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("robots")
    table.add_column("planner", no_wrap=True)
    for budget_m in budgets_m:
        table.add_column(f"{budget_m:g} m each", justify="right", no_wrap=True)
    for robots in sorted({condition.robots for condition in conditions}):
        team = str(robots)
        for planner in results.planners:
            cells = []
            for condition in (conditions[0]._replace(budget_m=budget_m, robots=robots) for budget_m in budgets_m):
                summary = results.summaries.get((planner, condition))
                best = planner in results.best(condition, "success")
                style = "bold green" if best else "dim" if results.communicates[planner] else ""
                text = "–"
                if summary is not None:
                    text = f"{100 * summary['success'].mean:.0f}%  {summary['penalised'].mean:4.0f} m"
                cells.append(Text(text, style=style))
            table.add_row(Text(team, style="bold"), results.label(planner), *cells)
            team = ""
    console.print(table)
