"""The command line. A command imports what it needs when it runs, so that `--help` answers at once.

May know and import everything. Here belong options, their checks and texts for the terminal, but no computation.
"""

import sys
from typing import Annotated, cast

import typer

from decmarvel import __version__
from decmarvel.cli import map as map_command
from decmarvel.cli.benchmark import benchmark
from decmarvel.cli.explore import explore
from decmarvel.cli.options import with_planners
from decmarvel.cli.replay import replay
from decmarvel.cli.report import report
from decmarvel.cli.train import train

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Exploration of unknown buildings by teams of robots that never talk to each other.",
)
app.command(help=with_planners(explore.__doc__))(explore)
app.command()(replay)
app.command(help=with_planners(benchmark.__doc__))(benchmark)
app.command()(report)
app.command()(train)
app.add_typer(map_command.app, name="map")

_UsageProblem = cast(type[Exception], typer.BadParameter.__mro__[2])
"""The base class of all complaints about arguments; it has no public name."""


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"decmarvel {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status. What the user got wrong is one line on stderr and status 2."""
    try:
        status = app(arguments, prog_name="decmarvel", standalone_mode=False)
    except _UsageProblem as problem:
        return _complain(str(getattr(problem, "format_message", problem.__str__)()))
    except (OSError, ValueError) as problem:
        from decmarvel.benchmark.cluster import ClusterError
        from decmarvel.benchmark.rows import RowsError
        from decmarvel.core.errors import TrainingError
        from decmarvel.recording.format import RecordingError
        from decmarvel.robot.policy.weights import WeightsError
        from decmarvel.show.film import FilmError
        from decmarvel.simulation.roster import PlannerError
        from decmarvel.simulation.team_file import TeamError
        from decmarvel.worlds import MapError

        ours = (MapError, RecordingError, RowsError, ClusterError, FilmError, TrainingError, WeightsError, PlannerError)
        if not isinstance(problem, (OSError, TeamError, *ours)):
            raise
        return _complain(str(problem))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    return status if isinstance(status, int) else 0


def _complain(text: str) -> int:
    line = " ".join(text.split())
    if line:
        print(f"decmarvel: {line}", file=sys.stderr)
    return 2
