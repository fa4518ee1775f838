"""How far a benchmark is, while it flies: a bar in a terminal, a line now and then elsewhere."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from decmarvel.benchmark.batches import Batch

_LINE_EVERY_S = 10.0


class BatchProgress:
    """How far the benchmark is: a bar in a terminal, a line now and then elsewhere."""

    def __init__(self, console: "Console", batches: "Sequence[Batch]", there: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console = console
        self._waiting = list(batches)
        self._done = there
        self._total = there + sum(len(batch.trials) for batch in batches)
        self._time = TimeLeft(sum((batch.cost for batch in batches), 0.0))
        self._last_line = time.monotonic()
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[setting]}"),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=self._total, completed=there, setting=self._setting(), left="")

    def __enter__(self) -> "BatchProgress":
        self._bar.start()
        if self._waiting and not self._console.is_terminal:
            self._console.print("Compiling; half a minute the first time for a planner and a team, then a few seconds.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, flown: "Batch") -> None:
        """A batch is stored."""
        self._waiting.remove(flown)
        self._done += len(flown.trials)
        left = self._time.left(flown.cost)
        self._bar.update(self._task, completed=self._done, setting=self._setting(), left=left)
        if self._console.is_terminal:
            return
        if time.monotonic() - self._last_line >= _LINE_EVERY_S or not self._waiting:
            self._last_line = time.monotonic()
            words = ", ".join(part for part in (self._setting(), left) if part)
            self._console.print(f"{self._done} of {self._total} missions{'; ' * bool(words)}{words}")

    def _setting(self) -> str:
        return str(self._waiting[0].trials[0].setting) if self._waiting else ""


class TimeLeft:
    """Estimates the time left. The first batch counts only until there is a second: it waits for the compiler."""

    def __init__(self, cost: float) -> None:
        self._todo = cost
        self._done = 0.0
        self._since = time.monotonic()
        self._batches = 0

    def left(self, cost: float) -> str:
        """In words, after another batch of this cost."""
        self._todo -= cost
        self._done += cost
        self._batches += 1
        seconds = (time.monotonic() - self._since) / self._done * self._todo
        if self._batches == 1:
            self._done, self._since = 0.0, time.monotonic()
        if self._todo <= 0:
            return ""
        hours, minutes = int(seconds // 3600), int(seconds % 3600 // 60)
        return (
            f"about {hours} h {minutes:02d} min left" if hours else f"about {minutes} min {seconds % 60:02.0f} s left"
        )
