"""The footprint figure: how many robots sensed each place, and beside it what each robot sensed."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from decmarvel.core.types import ABSENT
from decmarvel.recording.format import Recording
from decmarvel.recording.knowledge import NOT_YET, KnowledgeHistory
from decmarvel.show.sheet import Sheet
from decmarvel.show.style import FAINT, FLOOR, FOOTPRINTS, GROUND, INK, WALL, robot_colour, save
from decmarvel.simulation.roster import label


def sensed(history: KnowledgeHistory, moment: int) -> Bool[np.ndarray, "N Y X"]:
    """Floor that each robot's own camera has found by a moment. The scan at the start is left out."""
    return (history.known_at > 0) & (history.known_at <= moment) & history.recording.free


def shown_moment(recording: Recording) -> int:
    """The moment at which the team succeeds, else the last."""
    reached = 100 * recording.covered >= recording.config.success_percent * recording.counted.sum()
    return int(reached.argmax()) if reached.any() else recording.decisions


def draw_footprints(history: KnowledgeHistory, path: str | Path) -> None:
    """Draw all footprints on one map, and one small map a robot: until the team succeeds, or to the end."""
    recording = history.recording
    robots = [number for number in range(recording.robots) if recording.mode[0, number] != ABSENT]
    moment = shown_moment(recording)
    prints = sensed(history, moment)[robots]
    walls = (history.known_at.min(axis=0) != NOT_YET) & ~recording.free
    sheet = Sheet(recording.config.cell_m, recording.origin_m, recording.shift, recording.free | walls)
    columns = math.ceil(len(robots) / (2 if len(robots) <= 8 else 4))
    rows = math.ceil(len(robots) / columns)
    figure = Figure(figsize=(5.6 + 2.3 * columns, 5.4), layout="constrained")
    panels: Any = figure.subfigures(1, 2, width_ratios=(5.6, 2.3 * columns))
    left, right = panels
    count = np.minimum(prints.sum(axis=0), len(FOOTPRINTS))
    axes = left.add_subplot()
    _paint(axes, sheet, count, walls, recording.free, ListedColormap([FLOOR, *FOOTPRINTS[: len(robots)]]))
    twice = (prints.sum(axis=0) > 1).sum() / max(1, (count > 0).sum())
    axes.set_title(
        f"{twice:.0%} by more than one robot; white: known from the start scan, or not yet",
        loc="left",
        fontsize=10,
        color=INK,
    )
    most = min(len(robots), len(FOOTPRINTS))
    norm = BoundaryNorm(np.arange(most + 1) + 0.5, most)
    bar = left.colorbar(ScalarMappable(norm, ListedColormap(FOOTPRINTS[:most])), ax=axes, shrink=0.6, pad=0.02)
    bar.set_ticks(range(1, most + 1))
    bar.minorticks_off()
    bar.set_label("robots that sensed a place", fontsize=9)
    small = np.atleast_1d(right.subplots(rows, columns, squeeze=False)).reshape(-1)
    for axes, number, own in zip(small, robots, prints, strict=False):
        _paint(axes, sheet, own.astype(int), walls, recording.free, ListedColormap([FLOOR, robot_colour(number)]))
        share = (own & recording.counted).sum() / recording.counted.sum()
        axes.set_title(f"robot {number + 1}: {share:.0%}", fontsize=9, color=INK)
    for axes in small[len(robots) :]:
        axes.set_axis_off()
    explored = f"{100 * recording.coverage[moment]:.1f}% of the floor, decision {moment}"
    headline = f"What {len(robots)} robots had sensed: {explored} ({label(recording.planner)}, {recording.map_id})"
    figure.suptitle(headline, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
    save(figure, path)


def _paint(
    axes: Axes, sheet: Sheet, count: np.ndarray, walls: np.ndarray, free: np.ndarray, colours: ListedColormap
) -> None:
    """Draw ground and walls, and the floor in the colour of its count."""
    ground = np.where(walls, 1, 0)
    place: dict[str, Any] = {"origin": "lower", "extent": sheet.extent_m, "interpolation": "nearest"}
    axes.imshow(ground[sheet.window], cmap=ListedColormap([GROUND, WALL]), vmin=-0.5, vmax=1.5, **place)
    shown = np.ma.masked_where(~free, count)[sheet.window]
    axes.imshow(shown, cmap=colours, vmin=-0.5, vmax=colours.N - 0.5, **place)
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_color(FAINT)
