"""What a flying mission looks like on the screen: live bars in a terminal, a line now and then elsewhere."""

import time
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from decmarvel.mission import Moment

_MODE_STYLES = ("cyan", "yellow", "green", "red", "dim")
_LINE_EVERY_DECISIONS = 20
_LINE_EVERY_S = 10.0
_BAR_WIDTH = 32


class Display:
    """Shows one moment after another. A context manager, so that the terminal is always left in order."""

    def __init__(self, console: Console, free_cells: int, quiet: bool) -> None:
        self._console = console
        self._free_cells = free_cells
        self._quiet = quiet
        self._first: Moment | None = None
        self._now: Moment | None = None
        self._decision = 0
        self._last_line = (0, time.monotonic())
        live = console.is_terminal and not quiet
        self._live = Live(console=console, refresh_per_second=10, get_renderable=self._picture) if live else None

    def __enter__(self) -> "Display":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, decision: int, now: "Moment") -> None:
        self._first = self._first or now
        self._now, self._decision = now, decision
        if self._live or self._quiet:
            return
        since, at = self._last_line
        if decision - since >= _LINE_EVERY_DECISIONS or time.monotonic() - at >= _LINE_EVERY_S:
            self._last_line = (decision, time.monotonic())
            self._console.print(self._line(), highlight=False)

    def _line(self) -> str:
        assert self._now is not None
        assert self._first is not None
        travelled_m = (self._first.budget_mm - self._now.budget_mm).max() / 1000
        modes = _count_modes(np.asarray(self._now.mode))
        coverage = self._now.covered / self._free_cells
        return f"decision {self._decision}: {coverage:.1%} explored, {travelled_m:.0f} m, {modes}"

    def _picture(self) -> RenderableType:
        if self._now is None or self._first is None:
            return Text("")
        share = float(self._now.covered) / self._free_cells
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=1.0, completed=share, width=_BAR_WIDTH)
        table.add_row(
            Text("explored", style="bold"), bar, Text(f"{share:6.1%}", style="bold"), f"decision {self._decision}"
        )
        for number, mode in enumerate(np.asarray(self._now.mode).tolist()):
            full_m, left_m = self._first.budget_mm[number] / 1000, self._now.budget_mm[number] / 1000
            bar = ProgressBar(total=float(full_m), completed=float(left_m), width=_BAR_WIDTH, complete_style="blue")
            words = f"{full_m - left_m:.0f} m flown, {left_m:.0f} m left"
            table.add_row(f"robot {number + 1}", bar, Text(_mode_names()[mode], style=_MODE_STYLES[mode]), words)
        return Group(table)


def _mode_names() -> tuple[str, ...]:
    from decmarvel.types import MODE_NAMES

    return MODE_NAMES


def _count_modes(modes: np.ndarray) -> str:
    counts = ((name, int((modes == mode).sum())) for mode, name in enumerate(_mode_names()))
    return ", ".join(f"{count} {name}" for name, count in counts if count)
