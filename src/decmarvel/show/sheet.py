"""A drawing of a building: axes in metres of the map frame, floor and walls, a scale bar."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Integer
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from decmarvel.show.style import FAINT, FLOOR, GROUND, HATCH, INK, MISSED, WALL

_LONGER_SIDE_INCHES = 7.0
_LEGEND_INCHES = 2.4


@dataclass(frozen=True)
class Sheet:
    """A grid of cells, its place in the map frame, and the part of it that is shown, with a margin."""

    cell_m: float
    origin_m: tuple[float, float]
    shift: tuple[int, int]
    shown: Bool[np.ndarray, "rows columns"]

    @cached_property
    def window(self) -> tuple[slice, slice]:
        """Rows and columns of the shown cells."""
        room = max(1, round(1.2 / self.cell_m))
        bounds = []
        for axis in (1, 0):
            used: Int[np.ndarray, " used"] = np.flatnonzero(self.shown.any(axis=axis))
            bounds.append(slice(max(0, int(used[0]) - room), int(used[-1]) + 1 + room))
        return bounds[0], bounds[1]

    @cached_property
    def extent_m(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top edge."""
        rows, columns = (
            (s.start - min(s.start, 0), min(s.stop, n)) for s, n in zip(self.window, self.shown.shape, strict=True)
        )
        x_m, y_m = (
            [origin + (edge - shift) * self.cell_m for edge in edges]
            for origin, shift, edges in zip(self.origin_m, self.shift[::-1], (columns, rows), strict=True)
        )
        return x_m[0], x_m[1], y_m[0], y_m[1]

    def figure(self) -> tuple[Figure, Axes]:
        """A figure of the building's proportions, with room for a legend on the right."""
        left, right, bottom, top = self.extent_m
        width, height = right - left, top - bottom
        inches = _LONGER_SIDE_INCHES / max(width, height)
        size = (max(3.0, width * inches) + _LEGEND_INCHES + 0.8, max(3.0, height * inches) + 0.9)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel="x, m", ylabel="y, m")
        axes.tick_params(length=3, colors=FAINT, labelsize=8)
        axes.spines[:].set_color(FAINT)
        return figure, axes

    def paint(
        self, axes: Axes, floor: Bool[np.ndarray, "Y X"], wall: Bool[np.ndarray, "Y X"], missed: Bool[np.ndarray, "Y X"]
    ) -> None:
        """Colour the cells: floor, walls, missed floor (hatched), and ground elsewhere."""
        kind = np.zeros(self.shown.shape, np.uint8)
        kind[floor], kind[wall], kind[missed] = 1, 2, 3
        self.paint_kinds(axes, kind, [GROUND, FLOOR, WALL, MISSED])
        place: dict[str, Any] = {"origin": "lower", "extent": self.extent_m}
        if missed[self.window].any():
            inside = missed[self.window].astype(float)
            hatched = axes.contourf(inside, levels=[0.5, 1.5], colors="none", hatches=[HATCH], zorder=0.5, **place)
            hatched.set(edgecolor=FAINT, linewidth=0)

    def paint_kinds(self, axes: Axes, kind: Integer[np.ndarray, "Y X"], colours: list[str]) -> None:
        """Give each cell the colour of its kind."""
        axes.imshow(
            kind[self.window],
            cmap=ListedColormap(colours),
            vmin=-0.5,
            vmax=len(colours) - 0.5,
            interpolation="nearest",
            zorder=0,
            origin="lower",
            extent=self.extent_m,
        )

    def scale_bar(self, axes: Axes) -> None:
        """Draw a bar of a round length, at most a fifth of the width, beside the map and below the legend."""
        left, right, bottom, top = self.extent_m
        wanted = max((right - left) / 5, 0.1)
        length = max(n * 10**e for e in range(-1, 3) for n in (1, 2, 5) if n * 10**e <= wanted)
        unit = max(right - left, top - bottom) / 100
        bar = Rectangle((right + 2 * unit, bottom), length, 0.8 * unit, facecolor=INK, clip_on=False)
        axes.add_patch(bar)
        axes.text(
            right + 2 * unit + length / 2, bottom + 1.2 * unit, f"{length:g} m", ha="center", va="bottom", fontsize=9
        )
