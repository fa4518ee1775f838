"""`decmarvel map`: generate, import, check and draw maps."""

from pathlib import Path
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
    Start,
    builder,
    check_name,
    complain,
    make_team,
    parse_point,
    parse_spacing,
    robot_options,
    sight_warning,
)

if TYPE_CHECKING:
    from decmarvel.worlds.survey import Survey

app = typer.Typer(no_args_is_help=True, help="Generate, convert, check and draw maps.")

MapFile = Annotated[Path, typer.Argument(metavar="FILE", help="A map: ROS .yaml, .png, .pgm or .npy.")]
MapOut = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Where to write: .yaml (with a .pgm), .png or .npy.")
]
Cell = Annotated[float, typer.Option(metavar="M", help="Metres a cell of the written map.")]


@app.command()
def generate(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write: .yaml, .png or .npy. (default: <name>.yaml)")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="K", help="Number of the map; the same number is the same map.")] = 0,
    family: Annotated[str, typer.Option(metavar="NAME", help=f"{FAMILY_NAMES}.")] = "indoor",
    split: Annotated[
        str, typer.Option(metavar="heldout|train", help="Maps to test on, or maps to train on; never the same.")
    ] = "heldout",
    cell: Cell = 0.4,
) -> None:
    """Write a generated building to a map file.

    Example: decmarvel map generate --family office --seed 7 --out office.yaml
    """
    from decmarvel.worlds import FAMILIES, save
    from decmarvel.worlds import generate as generate_building
    from decmarvel.worlds.generate import SPLITS

    check_name("--family", family, FAMILIES)
    check_name("--split", split, SPLITS)
    if seed < 0:
        raise complain("--seed", f"{seed} is negative; count from 0")
    building = generate_building(family, split, seed, cell)
    path = out or Path(f"{building.name}.yaml")
    save(building, path)
    print(f"wrote {building.name} to {path}")


@app.command()
def convert(
    file: MapFile,
    out: MapOut,
    cell: Cell = 0.4,
    start: Start = None,
    resolution: Resolution = None,
) -> None:
    """Import a map and write it in another format, all walls kept. (.npy keeps neither start nor origin.)

    Example: decmarvel map convert scan.yaml --start 3.5,12 --out lab.png
    """
    from decmarvel.worlds import save

    building = builder(file, "", "", 0, resolution, start)(cell)
    save(building, out)
    rows, columns = building.free.shape
    print(f"wrote {rows * cell:.1f} m x {columns * cell:.1f} m in cells of {cell:g} m to {out}")


@app.command()
def check(
    file: MapFile,
    radius: Radius = None,
    sensor: Sensor = None,
    fov: Fov = None,
    range_: Range = None,
    spacing: Spacing = "auto",
    start: Start = None,
    resolution: Resolution = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PNG", help="A picture of what was found. (default: <name>-check.png)")
    ] = None,
) -> None:
    """Say what a map holds, what a robot can reach and see of it and why not the rest, and draw it.

    Example: decmarvel map check lab.yaml --radius 0.3 --sensor realsense-d455
    """
    from decmarvel.core.jax_setup import enable_compilation_cache
    from decmarvel.show.figures import draw_survey
    from decmarvel.worlds.fit import fit
    from decmarvel.worlds.reach import reachable_sites
    from decmarvel.worlds.survey import survey

    build = builder(file, "", "", 0, resolution, start)
    team = make_team(build, None, None, robot_options(sensor, fov, range_, None, None, radius))
    spacing_m = parse_spacing(spacing)
    found_file = survey(file, team.radius_m, resolution, parse_point("--start", start))
    path = _picture(out, f"{found_file.building.name}-check.png")
    enable_compilation_cache()
    found = fit(build, team.config(), spacing_m, team.shortest_range_m)
    building, config = found.building, found.config
    x_m, y_m = (
        origin + (cell + 0.5) * config.cell_m
        for origin, cell in zip(building.origin_m, building.start[::-1], strict=True)
    )
    whole, narrow = found_file.building, found_file.area_m2(found_file.narrow)
    print(f"map      {building.name}")
    rows, columns = whole.free.shape
    print(f"size     {columns * whole.cell_m:.1f} m x {rows * whole.cell_m:.1f} m")
    print(f"floor    {found_file.area_m2(whole.free):,.0f} m2 connected to the start")
    print(f"start    {x_m:.2f},{y_m:.2f}")
    for line in _oddities(found_file):
        print(line)
    if narrow >= 0.01 * found_file.area_m2(whole.free):
        print(
            f"narrow   {narrow:,.0f} m2 are too narrow for a robot of {team.radius_m:g} m radius, or behind such places"
        )
    places = "viewpoints" if config.roads else "sites"
    count = int(reachable_sites(config, found.world).sum())
    print(f"roads    {count} {places} within reach, {config.spacing_m:g} m apart; cells of {config.cell_m:g} m")
    print(f"visible  {found.seen:.1%} of the floor")
    warning = sight_warning(found)
    print(f"advice   {warning}" if warning else "advice   ready to explore")
    draw_survey(found_file, path, team.radius_m)
    print(f"picture  {path}")


def _oddities(found: "Survey") -> list[str]:
    """What else is in the file, and what is made of it."""
    lines = []
    if unknown := found.area_m2(found.unknown):
        lines.append(f"unknown  {unknown:,.0f} m2 are unknown in the file; they count as wall")
    if sizes := found.island_sizes_m2:
        total = found.area_m2(found.islands)
        lines.append(f"islands  {total:,.0f} m2 in {len(sizes)} pieces are cut off from the start; they are left out")
    floor_m2, doubtful_m2 = found.area_m2(found.building.free), found.area_m2(found.doubtful)
    if doubtful_m2 > 0.1 * floor_m2:
        lines.append(
            f"doubtful {doubtful_m2:,.0f} m2 are hardly bright enough for floor; if they are unknown, lower free_thresh"
        )
    if found.speckles:
        lines.append(f"speckles {found.speckles} specks in the middle of the floor; they are kept as obstacles")
    return lines


def _picture(out: Path | None, otherwise: str) -> Path:
    path = out or Path(otherwise)
    if path.suffix.lower() != ".png":
        raise complain("--out", f"'{path}' is not a .png; pictures are written as PNG")
    return path


@app.command()
def draw(
    file: MapFile,
    out: Annotated[Path | None, typer.Option(metavar="PNG", help="The picture. (default: <name>-drawn.png)")] = None,
    spacing: Spacing = "auto",
    graph: Annotated[bool, typer.Option(help="Draw the viewpoints that robots can reach, and their edges.")] = True,
    radius: Radius = None,
    sensor: Sensor = None,
    range_: Range = None,
    start: Start = None,
    resolution: Resolution = None,
) -> None:
    """Draw a map: floor, walls, start, viewpoints, and the floor that stays out of sight.

    Example: decmarvel map draw lab.yaml --spacing 2 --out lab-drawn.png
    """
    from decmarvel.core.jax_setup import enable_compilation_cache
    from decmarvel.show.figures import draw_map
    from decmarvel.worlds.fit import fit

    build = builder(file, "", "", 0, resolution, start)
    team = make_team(build, None, None, robot_options(sensor, None, range_, None, None, radius))
    spacing_m = parse_spacing(spacing)
    path = _picture(out, f"{file.stem}-drawn.png")
    enable_compilation_cache()
    found = fit(build, team.config(), spacing_m, team.shortest_range_m)
    draw_map(found.config, found.building, path, graph)
    print(f"drew {found.building.name} to {path}")
