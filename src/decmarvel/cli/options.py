"""Options that several commands share, and the complaints about their values."""

from collections.abc import Iterable
from inspect import cleandoc
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from decmarvel.core.errors import unknown_name
from decmarvel.core.limits import MAX_ROBOTS, MEMBER_LIMITS
from decmarvel.simulation.roster import PLANNERS
from decmarvel.simulation.sensors import SENSORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from decmarvel.simulation.team import Team
    from decmarvel.worlds import Building
    from decmarvel.worlds.fit import Fit

FAMILY_NAMES = "indoor, office, hall, floorplan, warehouse or mixed"
"""For texts. Importing them from `worlds` would make `--help` slow; a test compares."""
SPACING_LIMITS_M = (0.1, 12.0)
USUAL_BUDGET_M = 720.0
CAMERA = "Camera and body"
Spacing = Annotated[
    str,
    typer.Option(
        metavar="auto|M",
        help="Metres between viewpoints; auto is the widest from which 99% of the floor is seen.",
    ),
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
Sensor = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"A camera or lidar by name: {', '.join(SENSORS)}.", rich_help_panel=CAMERA),
]
Fov = Annotated[
    int | None,
    typer.Option(
        metavar="DEG", help="Horizontal field of view, 30 to 360 degrees. (default: 120)", rich_help_panel=CAMERA
    ),
]
Range = Annotated[
    float | None,
    typer.Option("--range", metavar="M", help="How far it sees. (default: 10)", rich_help_panel=CAMERA),
]
Speed = Annotated[
    float | None, typer.Option(metavar="M/S", help="Speed of the robots. (default: 1)", rich_help_panel=CAMERA)
]
YawRate = Annotated[
    int | None, typer.Option(metavar="DEG/S", help="How fast they turn. (default: 35)", rich_help_panel=CAMERA)
]
Radius = Annotated[
    float | None,
    typer.Option(
        metavar="M",
        help="Radius of a robot with its safety distance; walls are grown by it. "
        "(default: 0.25; 0 in the paper's buildings of blocks)",
        rich_help_panel=CAMERA,
    ),
]
TeamFile = Annotated[
    Path | None,
    typer.Option("--team", metavar="FILE", help="Robots that are not alike: docs/teams.md.", rich_help_panel=CAMERA),
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


def parse_spacing(text: str) -> float | None:
    """Metres, or None for auto."""
    if text == "auto":
        return None
    try:
        spacing_m = float(text)
    except ValueError:
        raise complain("--spacing", f"'{text}' is no spacing; write auto, or metres such as 2") from None
    check_range("--spacing", spacing_m, *SPACING_LIMITS_M, " m")
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


def robot_options(
    sensor: str | None,
    fov: int | None,
    range_m: float | None,
    speed: float | None,
    yaw_rate: int | None,
    radius: float | None,
    budget: float | None = None,
) -> dict[str, int | float]:
    """The fields of `Member` that were given on the command line, checked."""
    found: dict[str, int | float] = {}
    if sensor is not None:
        named = SENSORS[check_name("--sensor", sensor, SENSORS)]
        found |= {"fov_deg": named.fov_deg, "range_m": named.range_m}
    given = {
        "fov_deg": ("--fov", fov),
        "range_m": ("--range", range_m),
        "speed_m_s": ("--speed", speed),
        "yaw_rate_deg_s": ("--yaw-rate", yaw_rate),
        "radius_m": ("--radius", radius),
        "budget_m": ("--budget", budget),
    }
    for name, (option, value) in given.items():
        if value is not None:
            _, low, high = MEMBER_LIMITS[name]
            check_range(option, value, low, high, {"--budget": " m"}.get(option, ""))
            found[name] = value
    return found


def make_team(
    build: "Callable[[float], Building]",
    file: Path | None,
    robots: int | None,
    given: dict[str, int | float],
) -> "Team":
    """The team of a file, or of robots that are alike."""
    from decmarvel.simulation.team import Member, Team
    from decmarvel.simulation.team_file import read_team
    from decmarvel.worlds.fit import body_radius_m

    if file is not None:
        if robots is not None or given:
            raise complain("--team", "the file says how many robots there are and what they can do; leave out the rest")
        return read_team(file)
    radius_m = body_radius_m(build, given.get("radius_m"))
    return Team.alike(robots or 4, Member(**(given | {"radius_m": radius_m})))  # type: ignore[arg-type]


def sight_warning(found: "Fit") -> str | None:
    """What to say when robots cannot see all of a building, and what to do about it."""
    from decmarvel.worlds.reach import ENOUGH

    if found.seen >= ENOUGH:
        return None
    config = found.config
    seen = f"only {found.seen:.1%} of the floor can be seen from where robots can stand"
    if found.reached < ENOUGH:
        narrow = f"a robot of {config.radius_m:g} m radius reaches {found.reached:.1%} of it"
        return f"{seen}: {narrow}; a smaller --radius would see more, and 'decmarvel map check' draws the rest"
    return f"{seen}, {config.spacing_m:g} m apart; try --spacing auto"


def check_robots(robots: int | None) -> None:
    if robots is not None:
        check_range("--robots", robots, 1, MAX_ROBOTS)
