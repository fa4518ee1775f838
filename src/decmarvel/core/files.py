"""Write files in one step: if the process is killed, the old file stays or the new one is complete."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def put_whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; afterwards sync it to the disk and rename it to `path`."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file in one step; `write` gets the open file."""
    with put_whole(path) as beside, beside.open("wb") as file:
        write(file)


def clean_up(folder: Path) -> None:
    """Remove the temporary files that killed processes have left in a folder."""
    for path in folder.glob(".*.*.*"):
        if path.suffix[1:].isdigit():
            path.unlink(missing_ok=True)
