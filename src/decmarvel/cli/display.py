"""What a flying mission looks like on the screen: live bars in a terminal, a line now and then elsewhere."""

import time
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from decmarvel.simulation.mission import Moment

_MODE_STYLES = ("cyan", "yellow", "green", "red", "dim")
_LINE_EVERY_DECISIONS = 20
_LINE_EVERY_S = 10.0
_BAR_WIDTH = 32


class MissionDisplay:
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

    def __enter__(self) -> "MissionDisplay":
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
    from decmarvel.core.types import MODE_NAMES

    return MODE_NAMES


def _count_modes(modes: np.ndarray) -> str:
    counts = ((name, int((modes == mode).sum())) for mode, name in enumerate(_mode_names()))
    return ", ".join(f"{count} {name}" for name, count in counts if count)


class TrainingDisplay:
    """A bar of the time with the latest figures in a terminal; elsewhere a line now and then."""

    def __init__(self, console: Console, seconds: float) -> None:
        self._console, self._seconds, self._last_line = console, seconds, -_LINE_EVERY_S
        self._progress = Progress(
            BarColumn(_BAR_WIDTH), TimeRemainingColumn(), TextColumn("{task.description}"), console=console
        )
        self._task = self._progress.add_task("compiling", total=seconds)

    def __enter__(self) -> "TrainingDisplay":
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, seconds: float, figures: dict[str, float]) -> None:
        words = training_words(figures)
        self._progress.update(self._task, completed=min(seconds, self._seconds), description=words)
        if not self._console.is_terminal and seconds - self._last_line >= _LINE_EVERY_S:
            self._last_line = seconds
            self._console.print(f"{seconds / 60:5.1f} min  {words}")


def training_words(figures: dict[str, float]) -> str:
    """How good the policy is on held-out maps, how training missions end, and how fast it goes."""
    words = []
    for name, success in figures.items():
        if name.startswith("evaluation/success "):
            setting = name.removeprefix("evaluation/success ")
            metres = figures[f"evaluation/penalised metres {setting}"]
            words.append(f"held-out {setting}: {success:.0%} {metres:.0f} m")
    if "episode/success" in figures:
        words.append(f"training: {figures['episode/success']:.0%}")
    words.append(f"{figures.get('speed/samples a second', 0):,.0f} samples/s")
    words.append(f"{figures.get('speed/decisions a second', 0):,.0f} decisions/s")
    return ", ".join(words)
