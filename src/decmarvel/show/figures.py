"""Figures of missions and maps. They need no display and change no global state of matplotlib."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy import ndimage

from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS
from decmarvel.core.types import ABSENT, FAILED, FAR_MM, FREE, HOME, OCCUPIED
from decmarvel.recording.format import Recording
from decmarvel.robot.graph import whole_network
from decmarvel.robot.roads import Network
from decmarvel.show.robots import beside, carries, trail
from decmarvel.show.sheet import Sheet
from decmarvel.show.style import (
    FAINT,
    FLOOR,
    GROUND,
    HATCH,
    HIGHLIGHT,
    INK,
    MISSED,
    ROBOTS,
    WALL,
    legend,
    robot_colour,
    save,
    title,
)
from decmarvel.simulation.roster import label
from decmarvel.worlds.building import Building
from decmarvel.worlds.place import place, placement
from decmarvel.worlds.reach import reachable_sites, visible_cells
from decmarvel.worlds.survey import Survey
from decmarvel.worlds.world import World

_BASE: dict[str, Any] = {
    "marker": "o",
    "markersize": 11,
    "markeredgecolor": "white",
    "markeredgewidth": 1.0,
    "linestyle": "none",
}
_BROKEN: dict[str, Any] = {
    "marker": "X",
    "markersize": 11,
    "markeredgecolor": "white",
    "markeredgewidth": 1.2,
    "linestyle": "none",
}
_FLYING: dict[str, Any] = {
    "marker": "D",
    "markersize": 7,
    "markeredgecolor": "white",
    "markeredgewidth": 1.0,
    "linestyle": "none",
}


def draw_mission(recording: Recording, merged: UInt8[np.ndarray, "Y X"], path: str | Path) -> None:
    """Draw the explored building, all paths, and the floor never seen. `merged`: the team's belief at the end."""
    sheet = mission_sheet(recording, merged)
    figure, axes = sheet.figure()
    paint_mission(axes, sheet, recording, merged)
    robots, missed = _flown(recording), recording.counted & (merged != FREE)
    sheet.scale_bar(axes)
    reached = "" if recording.metres_to_99 is None else f", 99% after {recording.metres_to_99:.0f} m"
    stopped = "" if recording.complete else ", interrupted"
    budget = f"{recording.budget_mm[0, robots].max() / 1000:g} m each"
    title(
        axes,
        f"{_robots(len(robots))}, {_percent(recording.coverage[-1])} explored{reached}",
        f"{_where(recording)}, {budget}, seed {recording.seed}{stopped}",
    )
    kit = carries(recording)
    handles: list[Any] = [_path_key(recording, number, kit[number]) for number in robots]
    handles.append(Line2D([], [], color=FAINT, **_BASE, label="base, with robot number"))
    if (recording.mode[-1, robots] == FAILED).any():
        handles.append(Line2D([], [], color=FAINT, **_BROKEN, label="broke down here"))
    if (recording.mode[-1, robots] < HOME).any():
        handles.append(Line2D([], [], color=FAINT, **_FLYING, label="still flying"))
    handles += _ground_keys("explored floor", "wall seen", "floor never seen", missed.sum() / recording.counted.sum())
    legend(axes, handles)
    save(figure, path)


def mission_sheet(recording: Recording, merged: UInt8[np.ndarray, "Y X"]) -> Sheet:
    """The sheet of a mission: it shows the building and all cells that the team knows."""
    return Sheet(recording.config.cell_m, recording.origin_m, recording.shift, (merged != 0) | recording.free)


def paint_mission(axes: Axes, sheet: Sheet, recording: Recording, merged: UInt8[np.ndarray, "Y X"]) -> None:
    """Draw the team's map, all paths, and where robots began and ended."""
    sheet.paint(axes, merged == FREE, merged == OCCUPIED, recording.counted & (merged != FREE))
    for number in _flown(recording):
        _draw_path(axes, recording, number)
    for number in _flown(recording):
        _draw_marks(axes, recording, number)


def draw_coverage(recording: Recording, path: str | Path) -> None:
    """Draw merged coverage and each robot's remaining budget over the largest distance travelled by a robot, m."""
    figure = Figure(figsize=(7.2, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    distance_m = recording.travelled_m.max(axis=1)
    goal = recording.config.success_percent
    upper.plot(distance_m, 100 * recording.coverage, color=INK, linewidth=2, zorder=3)
    upper.axhline(goal, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
    upper.text(0.006, goal - 1.5, f"{goal}%", color=FAINT, fontsize=9, va="top", transform=upper.get_yaxis_transform())
    if recording.metres_to_99 is not None:
        at_m = recording.metres_to_99
        upper.plot([at_m], [goal], marker="o", color=HIGHLIGHT, markersize=7, zorder=4)
        upper.plot([at_m, at_m], [0, goal], color=HIGHLIGHT, linewidth=1, linestyle=":")
        late = at_m > 0.6 * distance_m[-1]
        note = f"{goal}% after {at_m:.0f} m"
        side: dict[str, Any] = {"xytext": (-8 if late else 8, 12), "ha": "right" if late else "left"}
        upper.annotate(note, (at_m, 0), textcoords="offset points", fontsize=10, color=HIGHLIGHT, **side)
    upper.set(ylim=(0, 103), ylabel="merged coverage, %")
    stopped = "" if recording.complete else ", interrupted"
    title(
        upper,
        f"{_robots(recording.robots)}, {_percent(recording.coverage[-1])} explored{stopped}",
        f"{_where(recording)}, {recording.decisions} decisions, seed {recording.seed}",
    )
    for number in range(recording.robots):
        lower.plot(distance_m, recording.budget_mm[:, number] / 1000, **_line(number), label=f"robot {number + 1}")
    lower.set(ylim=(0, None), xlim=(0, max(1.0, float(distance_m[-1]) * 1.02)))
    lower.set(ylabel="budget left, m", xlabel="largest distance travelled by a robot, m")
    beside: dict[str, Any] = {
        "loc": "upper left",
        "bbox_to_anchor": (1.0, 1.05),
        "ncols": 1 if recording.robots <= 8 else 2,
    }
    lower.legend(frameon=False, fontsize=8, handlelength=1.6, labelspacing=0.3, **beside)
    for axes in (upper, lower):
        axes.grid(color=GROUND, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=3, labelsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    figure.align_ylabels()
    save(figure, path)


def draw_map(config: Config, building: Building, path: str | Path, graph: bool = True) -> None:
    """Draw a building, its start, the sites that robots can reach, and the floor that cannot be seen from them."""
    world = place(building, config)
    free, seen, reachable = np.asarray(world.free), visible_cells(config, world), reachable_sites(config, world)
    near = ndimage.binary_dilation(free, np.ones((3, 3)), iterations=max(1, round(0.4 / config.cell_m)))
    sheet = Sheet(config.cell_m, building.origin_m, placement(building, config).shift, near)
    figure, axes = sheet.figure()
    missed = free & ~seen
    sheet.paint(axes, seen, near & ~free, missed)
    handles: list[Any] = []
    if graph:
        _draw_graph(axes, sheet, _true_network(config, world), reachable)
        name = "viewpoints and edges" if config.roads else "sites and edges"
        handles.append(Line2D([], [], color=ROBOTS[0], marker="o", markersize=3, lw=0.6, label=name))
    start = _metres(sheet, np.array(building.start) + sheet.shift)
    star: dict[str, Any] = {
        "marker": "*",
        "markersize": 14,
        "color": HIGHLIGHT,
        "markeredgecolor": "white",
        "ls": "none",
    }
    axes.plot(*start, zorder=6, **star)
    handles.append(Line2D([], [], **star, label=f"start ({start[0]:.1f}, {start[1]:.1f})"))
    share = missed.sum() / free.sum()
    handles += _ground_keys("floor", "wall", "floor out of sight", share)
    sheet.scale_bar(axes)
    area = f"{free.sum() * config.cell_m**2:,.0f} m² of floor"
    places = "viewpoints about" if config.roads else "sites"
    nodes = f"{int(reachable.sum()):,} {places} {config.spacing_m:g} m apart see {_percent(1 - share)} of it"
    title(axes, building.name, f"{area}; {nodes}")
    legend(axes, handles)
    save(figure, path)


def draw_survey(found: Survey, path: str | Path, radius_m: float) -> None:
    """Draw what a map file holds: floor that a robot reaches, floor that it does not, islands, unknown, walls."""
    building = found.building
    parts = {
        "floor that robots reach": (found.reached, FLOOR),
        f"too narrow for {radius_m:g} m radius": (found.narrow, MISSED),
        "cut off from the start": (found.islands, ROBOTS[1]),
        "unknown in the file": (found.unknown, GROUND),
    }
    known = building.free | found.islands
    near = ndimage.binary_dilation(known, np.ones((3, 3)), iterations=max(1, round(0.4 / building.cell_m)))
    sheet = Sheet(building.cell_m, building.origin_m, (0, 0), near)
    kind = np.where(near & ~found.unknown, 1, 0)
    colours = [GROUND, WALL]
    handles: list[Any] = []
    for number, (name, (mask, colour)) in enumerate(parts.items(), start=2):
        kind[mask] = number
        colours.append(colour)
        if mask.any():
            handles.append(Patch(facecolor=colour, edgecolor=FAINT, label=f"{name}, {found.area_m2(mask):,.0f} m²"))
    figure, axes = sheet.figure()
    sheet.paint_kinds(axes, kind, colours)
    start = _metres(sheet, np.array(building.start))
    axes.plot(*start, marker="*", markersize=14, color=HIGHLIGHT, markeredgecolor="white", ls="none", zorder=6)
    handles.append(Line2D([], [], marker="*", markersize=14, color=HIGHLIGHT, ls="none", label="start"))
    sheet.scale_bar(axes)
    title(axes, building.name, f"{found.area_m2(building.free):,.0f} m² of floor hang together with the start")
    legend(axes, handles)
    save(figure, path)


def _flown(recording: Recording) -> list[int]:
    return [number for number in range(recording.robots) if recording.mode[0, number] != ABSENT]


def _true_network(config: Config, world: World) -> Network:
    """The network of a robot that knows everything."""
    belief = jnp.where(world.free, FREE, OCCUPIED).astype(jnp.uint8)
    return jax.jit(whole_network, static_argnums=0)(config, belief, jnp.array(config.radius_mm, jnp.int32))


def _draw_graph(axes: Axes, sheet: Sheet, network: Network, reachable: np.ndarray) -> None:
    segments, edge, cell = [], np.asarray(network.length_mm) < FAR_MM, np.asarray(network.cell)
    for slot in range(SELF_SLOT):  # the other half are the same edges from their other ends
        begin = np.argwhere(edge[slot] & reachable)
        ends = np.stack([begin, begin + SLOT_OFFSETS[slot]], axis=1)
        segments.append(_metres(sheet, cell[ends[..., 0], ends[..., 1]]))
    lines = LineCollection(list(np.concatenate(segments)), colors=ROBOTS[0], linewidths=0.35, alpha=0.45, zorder=3)
    axes.add_collection(lines, autolim=False)
    nodes = _metres(sheet, cell[reachable])
    axes.plot(*nodes.T, linestyle="none", marker="o", markersize=2.2, color=ROBOTS[0], zorder=4)


def _draw_path(axes: Axes, recording: Recording, number: int) -> None:
    """Draw a robot's path. Each has its own small offset, so that paths do not hide each other."""
    x_m, y_m = _path_m(recording, number).T
    axes.plot(x_m, y_m, **_line(number), alpha=0.9, zorder=3, solid_joinstyle="round")


def _draw_marks(axes: Axes, recording: Recording, number: int) -> None:
    path_m, colour = _path_m(recording, number), robot_colour(number)
    sharing = int((recording.base[:number] == recording.base[number]).all(axis=1).sum())
    base_m = recording.to_map_m(recording.cell[0, number]) + 0.4 * sharing * recording.config.spacing_m
    axes.plot(*base_m, color=colour, zorder=5, **_BASE)
    label: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 7, "fontweight": "bold", "zorder": 6}
    axes.text(base_m[0], base_m[1], str(number + 1), color="white", **label)
    if recording.mode[-1, number] != HOME:
        mark = _BROKEN if recording.mode[-1, number] == FAILED else _FLYING
        axes.plot(*path_m[-1], color=colour, zorder=7, **mark)


def _path_m(recording: Recording, number: int) -> np.ndarray:
    return recording.to_map_m(trail(recording, recording.decisions, number) + beside(recording, number))


def _path_key(recording: Recording, number: int, kit: str) -> Line2D:
    mode, travelled_m = recording.mode[-1, number], recording.travelled_m[-1, number]
    end = {HOME: "home", FAILED: "broken"}.get(int(mode), "flying")
    words = f"robot {number + 1}: {travelled_m:.0f} m, {end}"
    return Line2D([], [], **_line(number), label=f"{words}\n{kit}" if kit else words)


def _line(number: int) -> dict[str, Any]:
    count = len(ROBOTS)
    return {
        "color": robot_colour(number),
        "linewidth": 1.7,
        "linestyle": "-" if number < count else (0, (3, 1.2)),
    }


def _ground_keys(floor: str, wall: str, missed: str, missed_share: float | np.floating) -> list[Patch]:
    keys = [Patch(facecolor=FLOOR, edgecolor=FAINT, linewidth=0.6, label=floor), Patch(facecolor=WALL, label=wall)]
    if missed_share > 0:
        label = f"{missed} ({_percent(missed_share)})"
        keys.append(Patch(facecolor=MISSED, edgecolor=FAINT, linewidth=0, hatch=HATCH, label=label))
    return keys


def _metres(sheet: Sheet, cell: np.ndarray) -> np.ndarray:
    centre: np.ndarray = (cell - np.array(sheet.shift) + 0.5) * sheet.cell_m
    return centre[..., ::-1] + np.array(sheet.origin_m)


def _percent(share: float | np.floating) -> str:
    """With one decimal. Only 1 is written as 100%; a small share that is not 0 is "<0.1%"."""
    tenths = 1000 * float(share)
    if 0 < tenths < 1:
        return "<0.1%"
    return "100%" if tenths >= 1000 else f"{min(round(tenths), 999) / 10:.1f}%"


def _where(recording: Recording) -> str:
    return f"{recording.map_id}, planner {label(recording.planner)}"


def _robots(count: int) -> str:
    return "1 robot" if count == 1 else f"{count} robots"
