"""`decmarvel map`: generate, import, check and draw maps."""

from pathlib import Path
from typing import Annotated

import typer

from decmarvel.cli.options import (
    FAMILY_NAMES,
    Resolution,
    Spacing,
    Start,
    builder,
    check_name,
    check_spacing,
    complain,
    sight_warning,
)

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
def check(file: MapFile, spacing: Spacing = 4.0, start: Start = None, resolution: Resolution = None) -> None:
    """Say how large a map is, where robots start, and how much of it they can see.

    Example: decmarvel map check lab.yaml --spacing 2
    """
    from decmarvel.core.config import Config
    from decmarvel.core.jax_setup import enable_compilation_cache
    from decmarvel.worlds.place import place
    from decmarvel.worlds.reach import reachable_sites, visible_share

    config = Config(spacing_m=check_spacing(spacing))
    build = builder(file, "", "", 0, resolution, start)
    building = build(config.cell_m)
    enable_compilation_cache()
    world = place(building, config)
    share = visible_share(config, world)
    rows, columns = building.free.shape
    x_m, y_m = (
        origin + (cell + 0.5) * config.cell_m
        for origin, cell in zip(building.origin_m, building.start[::-1], strict=True)
    )
    print(f"map      {building.name}")
    print(f"size     {columns * config.cell_m:.1f} m x {rows * config.cell_m:.1f} m")
    print(f"floor    {building.free.sum() * config.cell_m**2:,.0f} m2 connected to the start")
    print(f"start    {x_m:.2f},{y_m:.2f}")
    print(f"sites    {int(reachable_sites(config, world).sum())} within reach, {spacing:g} m apart")
    print(f"visible  {share:.1%} of the floor")
    warning = sight_warning(build, spacing, share)
    print(f"advice   {warning}" if warning else "advice   ready to explore")


@app.command()
def draw(
    file: MapFile,
    out: Annotated[Path | None, typer.Option(metavar="PNG", help="The picture. (default: <name>-drawn.png)")] = None,
    spacing: Spacing = 4.0,
    graph: Annotated[bool, typer.Option(help="Draw the sites that robots can reach, and their edges.")] = True,
    start: Start = None,
    resolution: Resolution = None,
) -> None:
    """Draw a map: floor, walls, start, lattice, and the floor that stays out of sight.

    Example: decmarvel map draw lab.yaml --spacing 2 --out lab-drawn.png
    """
    from decmarvel.core.config import Config
    from decmarvel.core.jax_setup import enable_compilation_cache
    from decmarvel.show.figures import draw_map

    config = Config(spacing_m=check_spacing(spacing))
    building = builder(file, "", "", 0, resolution, start)(config.cell_m)
    path = out or Path(f"{building.name}-drawn.png")
    if path.suffix.lower() != ".png":
        raise complain("--out", f"'{path}' is not a .png; pictures are written as PNG")
    enable_compilation_cache()
    draw_map(config, building, path, graph)
    print(f"drew {building.name} to {path}")
