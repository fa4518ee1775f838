"""What a mission leaves behind: the record, a summary for scripts and one for people, two pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from decmarvel import __version__
from decmarvel.core.files import write_whole
from decmarvel.recording.format import Recording
from decmarvel.show.figures import draw_coverage, draw_mission
from decmarvel.simulation.flight import Flight
from decmarvel.simulation.mission import Outcome
from decmarvel.simulation.roster import needs_radio
from decmarvel.simulation.team_map import merge

FILES = ("summary.json", "mission.npz", "mission.png", "coverage.png")


def write_results(folder: Path, recording: Recording, flight: Flight, visible_share: float) -> dict[str, Any]:
    """The record and the summary first: should the pictures be interrupted, nothing is lost."""
    recording.save(folder / "mission.npz")
    summary = _summary(recording, flight.outcome(), visible_share)
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    write_whole(folder / "summary.json", lambda file: file.write(text.encode()))
    draw_mission(recording, np.asarray(merge(flight.state.robots.belief)), folder / "mission.png")
    draw_coverage(recording, folder / "coverage.png")
    return summary


def _summary(recording: Recording, result: Outcome, visible_share: float) -> dict[str, Any]:
    def metres(value: Any) -> float | None:
        return None if np.isnan(value) else round(float(value), 3)

    bases_m = recording.to_map_m(recording.cell[0]).round(3).tolist()
    return {
        "coverage": round(float(result.coverage), 6),
        "success": bool(result.success),
        "strict_success": bool(result.strict_success),
        "metres_to_99": metres(result.metres_to_99),
        "overlap": round(float(result.overlap), 6),
        "overlap_cumulative": round(float(result.overlap_cumulative), 6),
        "robots": [
            {
                "number": number + 1,
                "travelled_m": metres(result.travelled_m[number]),
                "remaining_m": metres(result.remaining_m[number]),
                "home": bool(result.home[number]),
                "failed": bool(result.failed[number]),
                "base": bases_m[number],
                "individual_99": metres(result.individual_99[number]),
            }
            for number in range(recording.robots)
        ],
        "decisions": int(result.decisions),
        "seed": recording.seed,
        "map_id": recording.map_id,
        "planner": recording.planner,
        "communicates": needs_radio(recording.planner),
        "version": __version__,
        "budget_m": float(recording.budget_mm[0].max()) / 1000,
        "spacing_m": recording.config.spacing_m,
        "visible_share": round(visible_share, 6),
        "complete": recording.complete,
    }


def print_summary(console: Console, summary: dict[str, Any], seconds: float) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column, side in (("robot", "left"), ("flown", "right"), ("left", "right"), ("end", "left")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    for robot in summary["robots"]:
        end = "[green]home[/]" if robot["home"] else "[red]broken[/]" if robot["failed"] else "[yellow]flying[/]"
        table.add_row(str(robot["number"]), f"{robot['travelled_m']:.0f} m", f"{robot['remaining_m']:.0f} m", end)
    at_m = summary["metres_to_99"]
    reached = "99% not reached" if at_m is None else f"99% after {at_m:.0f} m"
    ended = "" if summary["complete"] else "[yellow]Interrupted:[/] "
    console.print(
        f"{ended}[bold]{summary['coverage']:.1%} explored[/] in {summary['decisions']} decisions, {reached}, "
        f"overlap {summary['overlap']:.1%} ({summary['overlap_cumulative']:.1%} cumulative), {seconds:.0f} s"
    )
    console.print(table)
