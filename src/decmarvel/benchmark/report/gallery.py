"""Pictures of the recorded missions of a benchmark: what the teams knew at the end, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from decmarvel.benchmark.report.charts import heading, key
from decmarvel.benchmark.report.summary import Results
from decmarvel.benchmark.trials import is_usual_camera
from decmarvel.recording.format import Recording, load_recording
from decmarvel.recording.playback import beliefs_after
from decmarvel.show.figures import mission_sheet, paint_mission
from decmarvel.show.style import FAINT, FLOOR, HATCH, INK, MISSED, ROBOTS, WALL, save
from decmarvel.simulation.team_map import merge

USUAL_TEAM = 4
"""The team size that is shown where there is room for one only."""
_COLUMNS = 3
_PANEL_INCHES = 4.1


@dataclass(frozen=True)
class FinalMap:
    """A recorded mission and the team's map at its end."""

    recording: Recording
    merged: UInt8[np.ndarray, "Y X"]

    @property
    def result(self) -> str:
        at_m, share = self.recording.metres_to_99, float(self.recording.coverage[-1])
        explored = f"{min(share, 0.999) if share < 1 else 1:.1%} explored"
        return f"{explored}, 99% not reached" if at_m is None else f"{explored}, 99% after {at_m:.0f} m"


def load_missions(folder: Path) -> list[Recording]:
    """The recordings in a folder that can be drawn: without noise, for beliefs are rebuilt from the moves."""
    recordings = [load_recording(path) for path in sorted(folder.glob("*.npz")) if not path.name.startswith(".")]
    return [recording for recording in recordings if recording.config.noise.off]


def draw_galleries(results: Results, recordings: Sequence[Recording], folder: Path) -> list[tuple[str, str]]:
    """All planners on one mission, then each planner by budget. Returns the names of the files and what they show."""
    recordings = with_one_camera(recordings)
    sizes = [recording.robots for recording in recordings]
    robots = USUAL_TEAM if USUAL_TEAM in sizes else max(sorted(set(sizes)), key=sizes.count)
    chosen = pick(recordings, robots)
    order = [name for name in results.planners if name in chosen] + sorted(set(chosen) - set(results.planners))
    labels = {name: results.label(name) if name in results.communicates else name for name in order}
    shown = {name: [final_map(recording) for recording in chosen[name]] for name in order}
    made = []
    same = same_mission([mission for name in order for mission in shown[name]])
    if len(same) > 1:
        one = same[0].recording
        about = f"{robots} robots, {budget_m(one):g} m each, on {one.map_id}, seed {one.seed}"
        titles = [labels[mission.recording.planner] for mission in same]
        draw_gallery(same, titles, f"The same mission, planner by planner: {about}", folder / "missions.png")
        made.append(("missions", f"The same mission, planner by planner: {about}"))
    for name in order:
        titles = [f"{budget_m(mission.recording):g} m, {mission.recording.map_id}" for mission in shown[name]]
        stem = "missions_" + "".join(sign if sign.isalnum() or sign in "-." else "_" for sign in name)
        draw_gallery(shown[name], titles, f"{labels[name]}: {robots} robots, budget by budget", folder / f"{stem}.png")
        made.append((stem, f"Final maps of {labels[name]}, {robots} robots"))
    return made


def budget_m(recording: Recording) -> float:
    return float(recording.budget_mm[0].max()) / 1000


def with_one_camera(recordings: Sequence[Recording]) -> list[Recording]:
    """The missions with the paper's camera, or where there are none those with the widest and farthest."""
    cameras = {(each.config.fov_deg, each.config.sensor_range_m) for each in recordings}
    chosen = max(cameras, key=lambda camera: (is_usual_camera(*camera), camera))
    return [each for each in recordings if (each.config.fov_deg, each.config.sensor_range_m) == chosen]


def pick(recordings: Sequence[Recording], robots: int) -> dict[str, list[Recording]]:
    """Each planner's missions with a team of this size and no breakdowns: one per budget."""
    found: dict[str, dict[float, Recording]] = {}
    for recording in recordings:
        healthy = all(step is None for step in recording.fail_steps)
        if recording.robots == robots and healthy:
            found.setdefault(recording.planner, {}).setdefault(budget_m(recording), recording)
    return {planner: [by[budget] for budget in sorted(by)] for planner, by in found.items()}


def same_mission(missions: Sequence[FinalMap]) -> list[FinalMap]:
    """One mission that most planners have flown; of several, that with the smallest budget: there they differ most."""
    by_mission: dict[tuple[float, str, int], list[FinalMap]] = {}
    for shown in missions:
        one = shown.recording
        by_mission.setdefault((budget_m(one), one.map_id, one.seed), []).append(shown)
    return by_mission[min(by_mission, key=lambda mission: (-len(by_mission[mission]), mission))] if missions else []


def final_map(recording: Recording) -> FinalMap:
    """Work out from the recorded poses what the team had seen at the end."""
    return FinalMap(recording, np.asarray(merge(beliefs_after(recording, recording.decisions))))


def draw_gallery(missions: Sequence[FinalMap], titles: Sequence[str], headline: str, path: Path) -> None:
    """Final maps beside each other, at one scale, with one legend."""
    sheets = [mission_sheet(shown.recording, shown.merged) for shown in missions]
    boxes = [sheet.extent_m for sheet in sheets]
    wide, high = max(b[1] - b[0] for b in boxes), max(b[3] - b[2] for b in boxes)
    columns = min(_COLUMNS, len(missions))
    rows = -(-len(missions) // columns)
    size = (max(6.5, _PANEL_INCHES * columns), (_PANEL_INCHES * high / wide + 0.5) * rows + 0.95)
    figure = Figure(figsize=size, layout="constrained")
    panels = [panel for row in figure.subplots(rows, columns, squeeze=False) for panel in row]
    for number, panel in enumerate(panels):
        panel.set_axis_off()
        if number >= len(missions):
            continue
        shown, sheet, (left, right, bottom, top) = missions[number], sheets[number], boxes[number]
        paint_mission(panel, sheet, shown.recording, shown.merged)
        centre = (left + right) / 2, (bottom + top) / 2
        panel.set(xlim=(centre[0] - wide / 2, centre[0] + wide / 2), aspect="equal")
        panel.set(ylim=(centre[1] - high / 2, centre[1] + high / 2))
        panel.set_title(titles[number], loc="left", fontsize=11, fontweight="bold", color=INK, pad=17)
        panel.text(0, 1.01, shown.result, transform=panel.transAxes, fontsize=9, color=FAINT, va="bottom")
    heading(
        figure, headline, "What the team knows at the end, and the robots' paths. Floor that nobody saw is hatched."
    )
    key(figure, _keys(max(shown.recording.robots for shown in missions)))
    save(figure, path)


def _keys(robots: int) -> list[Any]:
    base: dict[str, Any] = {"marker": "o", "markersize": 9, "markeredgecolor": "white", "linestyle": "none"}
    shown = min(robots, len(ROBOTS))
    keys: list[Any] = [
        Line2D([], [], color=colour, linewidth=1.7, label=f"robot {number + 1}")
        for number, colour in enumerate(ROBOTS[:shown])
    ]
    keys.append(Line2D([], [], color=FAINT, **base, label="its base"))
    keys.append(Patch(facecolor=FLOOR, edgecolor=FAINT, linewidth=0.6, label="explored floor"))
    keys.append(Patch(facecolor=WALL, label="wall seen"))
    keys.append(Patch(facecolor=MISSED, edgecolor=FAINT, linewidth=0, hatch=HATCH, label="floor never seen"))
    return keys
