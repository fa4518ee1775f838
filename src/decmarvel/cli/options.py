"""Options that several commands share, and the complaints about their values."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from decmarvel.robot.planners.base import Planner
    from decmarvel.worlds import Building

MAX_ROBOTS = 16
BUDGET_LIMITS_M = (1.0, 20_000.0)
SPACINGS_M = (4.0, 2.0, 1.0)
Spacing = Annotated[
    float, typer.Option(metavar="4|2|1", help="Metres between lattice sites: 4 for halls, 2 or 1 for ordinary doors.")
]
Start = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y", help="Where to start in the map file, in metres. (default: as noted there, else chosen)"
    ),
]
Resolution = Annotated[
    float | None, typer.Option(metavar="M", help="Metres a pixel of the map file. (default: as noted there)")
]
Weights = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Other weights (.safetensors) for the planner dec-marvel.")
]


def complain(option: str, what: str) -> typer.BadParameter:
    """One line that names the option and the fix."""
    return typer.BadParameter(what, param_hint=option)


def check_range(option: str, value: int | float, low: int | float, high: int | float, unit: str = "") -> None:
    if not low <= value <= high:
        raise complain(option, f"{value:.10g}{unit} is out of range; choose {low:.10g} to {high:.10g}{unit}")


def check_spacing(spacing_m: float) -> float:
    if spacing_m not in SPACINGS_M:
        raise complain("--spacing", f"{spacing_m:g} m is not offered; choose 4, 2 or 1")
    return spacing_m


def check_name(option: str, name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if name not in names:
        close = get_close_matches(name, names, n=1)
        meant = f"did you mean '{close[0]}'? " if close else ""
        raise complain(option, f"there is no '{name}'; {meant}Choose from: {', '.join(names)}")
    return name


def choose_planner(name: str, weights: Path | None, option: str = "--planner") -> "Planner":
    """A planner by name; the learned one with weights of one's own, or the package's."""
    from decmarvel.simulation.roster import LEARNED, PLANNERS

    check_name(option, name, [*PLANNERS, LEARNED])
    if name != LEARNED:
        return PLANNERS[name]
    from decmarvel.robot.policy.planner import LearnedPlanner, load_actor, published

    return LearnedPlanner(load_actor(weights or published("options") or "")[0])


def parse_point(option: str, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        x_m, y_m = (float(part) for part in text.split(","))
    except ValueError:
        raise complain(option, f"'{text}' is not a point; write X,Y in metres, such as 12.5,40") from None
    return x_m, y_m


def make_folder(option: str, folder: Path) -> None:
    """Before the mission, so that no mission is flown in vain."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise complain(option, f"cannot write to {folder} ({error.strerror}); choose another folder") from None


def builder(
    path: Path | None, family: str, split: str, index: int, resolution_m: float | None, start: str | None
) -> "Callable[[float], Building]":
    """A function that makes the chosen building with cells of a given size."""
    from decmarvel.worlds import generate, load

    start_m = parse_point("--start", start)
    if path is None:
        return lambda cell_m: generate(family, split, index, cell_m)
    return lambda cell_m: load(path, cell_m=cell_m, resolution_m=resolution_m, start_m=start_m)


def sight_warning(build: "Callable[[float], Building]", spacing_m: float, share: float) -> str | None:
    """What to say when robots cannot see all of a building, and what to do about it."""
    from decmarvel.worlds.reach import ENOUGH, advise_spacing

    if share >= ENOUGH:
        return None
    better_m = advise_spacing(build)
    seen = f"only {share:.1%} of the floor can be seen from the sites that robots reach at a spacing of {spacing_m:g} m"
    if better_m is None:
        return f"{seen}; no spacing of 4, 2 or 1 m reaches 99%: check for doors that are narrower than a metre"
    return f"{seen}; --spacing {better_m:g} would do"
