"""`decmarvel replay`: write the HTML page, a film, figures or ROS messages of a recorded mission."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from decmarvel.cli.options import complain, make_folder

if TYPE_CHECKING:
    from rich.progress import Progress

    from decmarvel.recording.format import Recording
    from decmarvel.recording.knowledge import KnowledgeHistory


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
    from decmarvel.recording.knowledge import knowledge_history
    from decmarvel.show.html import write_page

    missions = [_mission(path) for path in (run, beside) if path is not None]
    recordings = _load(missions)
    options = {"--film": film, "--figures": figures, "--mcap": mcap}
    instead = [option for option, path in options.items() if path is not None]
    if instead and (beside is not None or out is not None):
        raise complain(instead[0], "is made of one mission, instead of a page; leave OTHER and --out away")
    page = None if instead else out or missions[0].parent / "replay.html"
    _prepare(page, film, figures, mcap)
    enable_compilation_cache()
    console = Console(highlight=False, soft_wrap=True)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("Knowledge of the robots", total=sum(recording.decisions + 1 for recording in recordings))
        histories = [knowledge_history(recording, lambda _: bar.advance(task)) for recording in recordings]
        written = _write_others(histories[0], film, figures, mcap, bar)
        if page is not None:
            write_page(histories, page)
            written.append(page)
    for path in written:
        console.print(f"[bold]{path}[/], {path.stat().st_size / 1e6:.1f} MB")
    if page is not None and browser:
        open_page(page.resolve().as_uri())


def _mission(path: Path) -> Path:
    return path / "mission.npz" if path.is_dir() else path


def _load(paths: list[Path]) -> "list[Recording]":
    """Read the recordings, which must be of one map."""
    from decmarvel.recording.format import load_recording

    recordings = [load_recording(path) for path in paths]
    first, last = recordings[0], recordings[-1]
    if first.map_id != last.map_id or first.free.shape != last.free.shape or (first.free != last.free).any():
        raise complain("OTHER", f"{last.map_id} is not the map of the first mission, {first.map_id}; choose another")
    return recordings


def _prepare(page: Path | None, film: Path | None, figures: Path | None, mcap: Path | None) -> None:
    """Check the names of the files to be written, and make their folders, before the computation begins."""
    if film is not None:
        from decmarvel.show.film import film_kind

        film_kind(film)
        make_folder("--film", film.parent)
    if figures is not None:
        make_folder("--figures", figures)
    if mcap is not None:
        if mcap.suffix.lower() != ".mcap":
            raise complain("--mcap", f"{mcap}: MCAP files end in .mcap; name the file so")
        try:
            import decmarvel.show.mcap  # noqa: F401
        except ImportError as error:
            raise complain("--mcap", str(error)) from None
        make_folder("--mcap", mcap.parent)
    if page is not None:
        make_folder("--out", page.parent)


def _write_others(
    history: "KnowledgeHistory", film: Path | None, figures: Path | None, mcap: Path | None, bar: "Progress"
) -> list[Path]:
    """Write what was asked for instead of a page. Returns the files."""
    written = []
    if film is not None:
        from decmarvel.show.film import count_frames, write_film

        pictures = bar.add_task("Pictures", total=count_frames(history, film))
        write_film(history, film, lambda: bar.advance(pictures))
        written.append(film)
    if figures is not None:
        from decmarvel.show.figures import draw_coverage, draw_mission
        from decmarvel.show.footprints import draw_footprints

        for kind in ("pdf", "svg"):
            draw_mission(history.recording, history.merged, figures / f"mission.{kind}")
            draw_coverage(history.recording, figures / f"coverage.{kind}")
            draw_footprints(history, figures / f"footprints.{kind}")
        written += sorted(figures.glob("*.*"))
    if mcap is not None:
        from decmarvel.show.mcap import write_mcap

        messages = bar.add_task("Messages", total=history.recording.decisions + 1)
        write_mcap(history, mcap, lambda: bar.advance(messages))
        written.append(mcap)
    return written
