"""Options that several commands share, and the complaints about their values."""

from collections.abc import Iterable
from inspect import cleandoc
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from decmarvel.core.errors import unknown_name
from decmarvel.simulation.roster import PLANNERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from decmarvel.worlds import Building

FAMILY_NAMES = "indoor, office, hall, floorplan, warehouse or mixed"
"""For texts. Importing them from `worlds` would make `--help` slow; a test compares."""
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
    Path | None, typer.Option(metavar="FILE", help="Weights (.safetensors) for the planner options or dec-marvel.")
]


def with_planners(text: str | None) -> str:
    """The help of a command that flies planners, and what each of them does."""
    lines = [f"[bold]{name}[/]: {entry.about}" for name, entry in PLANNERS.items()]
    return "\n".join([cleandoc(text or ""), "", "Planners:", *lines])


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
    known = list(known)
    if name not in known:
        raise complain(option, unknown_name(name, known))
    return name


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
