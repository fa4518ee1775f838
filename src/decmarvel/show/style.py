"""The look of every picture and of the HTML page: colours, titles, legends, and how figures are saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from decmarvel.core import colours
from decmarvel.core.files import write_whole

ROBOTS, robot_colour = colours.ROBOTS, colours.robot_colour
GROUND, FLOOR, WALL, UNSEEN = colours.GROUND, colours.FLOOR, colours.WALL, colours.UNSEEN
MISSED, HATCH = "#F6E7A1", "////"
"""Floor that nobody had seen at the end: colour and hatching."""
INK, FAINT = "#22262B", "#7C828B"
"""Text and lines; secondary text and lines."""
HIGHLIGHT = "#C03D12"
"""The start of a map, and the mark of success."""
FOOTPRINTS = ("#DCEAF5", "#A9CCE8", "#6BA6D6", "#2F7CBF", "#0B559F", "#083A73", "#05264F", "#021330")
"""Floor that one robot sensed, two robots, and so on; the last colour stands for eight or more."""

PLANNER_LOOKS = {
    "nearest": ("#E69F00", "o"),
    "smmr": ("#56B4E9", "s"),
    "nbvp": ("#009E73", "^"),
    "marvel": ("#CC79A7", "D"),
    "dec-marvel": ("#882255", "<"),
    "options": ("#D55E00", "P"),
    "sector": ("#0072B2", "v"),
    "random": (FAINT, "X"),
}
"""Colour and marker of each known planner. The colours are those of Okabe and Ito, which colour-blind readers can tell
apart; the markers tell planners apart in grey print."""
RADIO_LOOKS = (("#000000", "h"), ("#5A4FCF", "H"))
"""Colours and markers of planners that use a radio."""
OTHER_LOOKS = (("#6F6F2E", ">"), ("#44AA99", "p"), ("#332288", "d"))
"""Colours and markers of planners that have none of their own above."""

PAGE_LIGHT = {
    "ground": GROUND, "floor": FLOOR, "wall": WALL, "unseen": UNSEEN, "frontier": "#C2410C", "outline": "#FFFFFF",
    "page": "#F4F5F7", "card": "#FFFFFF", "ink": INK, "faint": "#69707A", "line": "#D5D8DD", "accent": "#0B63B0",
    "live": "#D22F2F", "shadow": "#000000",
}  # fmt: skip
"""Colours of the HTML page, by the names that its style sheet and scripts use."""
PAGE_DARK = {
    "ground": "#14171C", "floor": "#3A424D", "wall": "#AAB3BF", "unseen": "#232830", "frontier": "#FFB27A",
    "page": "#0E1014", "card": "#191D23", "ink": "#ECEEF1", "faint": "#9AA3AE", "line": "#2C323A", "accent": "#7CC0FF",
}  # fmt: skip
"""The colours that are different on a dark page."""

_DPI = 160


def title(axes: Axes, headline: str, detail: str) -> None:
    """A bold line above the axes and a small one below it."""
    axes.set_title(headline, loc="left", fontsize=12, fontweight="bold", color=INK, pad=20)
    axes.text(0, 1.012, detail, transform=axes.transAxes, fontsize=9, color=FAINT, va="bottom")


def legend(axes: Axes, handles: Sequence[Artist]) -> None:
    """A legend beside the axes, where it covers nothing."""
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    axes.legend(handles=list(handles), frameon=False, fontsize=9, labelspacing=0.6, **place)


def save(figure: Figure, path: str | Path) -> None:
    """Write a PNG, PDF or SVG, by the suffix of the file. All text is plain: maps may have a "$" in their names."""
    FigureCanvasAgg(figure)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    tight: dict[str, Any] = {"dpi": _DPI, "bbox_inches": "tight", "pad_inches": 0.12}
    write_whole(path, lambda file: figure.savefig(file, format=Path(path).suffix.removeprefix("."), **tight))
