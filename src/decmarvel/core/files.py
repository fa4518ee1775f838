"""Files that are there whole or not at all, whenever the process is killed."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def put_whole(path: str | Path) -> Iterator[Path]:
    """A place beside the file to write it to; then it is made sure to be on the disk and put there in one step."""
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
    """Write a file through a function that is given it open."""
    with put_whole(path) as beside, beside.open("wb") as file:
        write(file)


def clean_up(folder: Path) -> None:
    """Remove what a process that was killed while writing has left in a folder."""
    for path in folder.glob(".*.*.*"):
        if path.suffix[1:].isdigit():
            path.unlink(missing_ok=True)
