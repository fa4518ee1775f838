"""`decmarvel replay`: watch a recorded mission in a browser, or two of them side by side."""

from pathlib import Path
from typing import Annotated

import typer

from decmarvel.cli.options import complain, make_folder


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of 'decmarvel explore', or its mission.npz.")],
    beside: Annotated[
        Path | None, typer.Argument(metavar="[OTHER]", help="Another mission of the same map, to show beside it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the page goes. (default: RUN/replay.html)")
    ] = None,
    film: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Make a film instead: .mp4 (needs decmarvel\\[film]) or .gif.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw figures for a paper instead, as PDF and SVG.")
    ] = None,
    mcap: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write ROS 2 messages instead, for Foxglove: .mcap (decmarvel\\[mcap])."),
    ] = None,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page, where there is a browser.")] = True,
) -> None:
    """Write a page to watch a mission on: one HTML file that needs no network, and opens from disk.

    Space plays, arrow keys step, 1 to 9 pick a robot, and O shows what that robot knew. With two missions both run in
    step.
    """
    from rich.console import Console
    from rich.progress import Progress

    from decmarvel.cli.browser import open_page
    from decmarvel.core.jax_setup import enable_compilation_cache
    from decmarvel.recording.format import load_recording
    from decmarvel.recording.knowledge import tell
    from decmarvel.show.figures import draw_coverage, draw_mission
    from decmarvel.show.film import count_frames, film_kind, write_film
    from decmarvel.show.footprints import draw_footprints
    from decmarvel.show.html import write_page

    paths = [_mission(path) for path in (run, beside) if path is not None]
    recordings = [load_recording(path) for path in paths]
    first, last = recordings[0], recordings[-1]
    if first.map_id != last.map_id or first.free.shape != last.free.shape or (first.free != last.free).any():
        raise complain("OTHER", f"{last.map_id} is not the map of the first mission, {first.map_id}; choose another")
    options = {"--film": film, "--figures": figures, "--mcap": mcap}
    instead = [option for option, path in options.items() if path is not None]
    if instead and (beside is not None or out is not None):
        raise complain(instead[0], "is made of one mission, instead of a page; leave OTHER and --out away")
    page = None if instead else out or paths[0].parent / "replay.html"
    if film is not None:
        film_kind(film)
        make_folder("--film", film.parent)
    if figures is not None:
        make_folder("--figures", figures)
    if mcap is not None:
        if mcap.suffix.lower() != ".mcap":
            raise complain("--mcap", f"{mcap}: MCAP files end in .mcap; name the file so")
        try:
            from decmarvel.show.mcap import write_mcap
        except ImportError as error:
            raise complain("--mcap", str(error)) from None
        make_folder("--mcap", mcap.parent)
    if page is not None:
        make_folder("--out", page.parent)
    enable_compilation_cache()
    console = Console(highlight=False, soft_wrap=True)
    written = []
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("What everybody knew", total=sum(recording.decisions + 1 for recording in recordings))
        stories = [tell(recording, lambda _: bar.advance(task)) for recording in recordings]
        if film is not None:
            shot = bar.add_task("Pictures", total=count_frames(stories[0], film))
            write_film(stories[0], film, lambda: bar.advance(shot))
            written.append(film)
        if figures is not None:
            for kind in ("pdf", "svg"):
                draw_mission(first, stories[0].merged, figures / f"mission.{kind}")
                draw_coverage(first, figures / f"coverage.{kind}")
                draw_footprints(stories[0], figures / f"footprints.{kind}")
            written += sorted(figures.glob("*.*"))
        if mcap is not None:
            told = bar.add_task("Messages", total=first.decisions + 1)
            write_mcap(stories[0], mcap, lambda: bar.advance(told))
            written.append(mcap)
        if page is not None:
            write_page(stories, page)
            written.append(page)
    for path in written:
        console.print(f"[bold]{path}[/], {path.stat().st_size / 1e6:.1f} MB")
    if page is not None and browser:
        open_page(page.resolve().as_uri())


def _mission(path: Path) -> Path:
    return path / "mission.npz" if path.is_dir() else path
