"""The folder of a benchmark: its rows, the terms they were made under, what is missing. One process at a time."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout

from decmarvel import __version__
from decmarvel.benchmark.maps import Fits, Terms, fit_digest
from decmarvel.benchmark.rows import FOLDER, RowsError, identities, read_rows, shards, write_shard
from decmarvel.benchmark.trials import Trial
from decmarvel.core.config import NOISE_LEVELS
from decmarvel.core.files import clean_up, write_whole
from decmarvel.recording.format import Recording
from decmarvel.simulation.team import PAPER

FORMAT = "decmarvel-benchmark"
TERMS = "benchmark.json"
MISSIONS = "missions"
AUTO = "auto"
"""An option that follows from each map."""


@dataclasses.dataclass(frozen=True)
class Store:
    """A benchmark's folder, open for writing."""

    folder: Path

    def missing(self, wanted: Iterable[Trial]) -> list[Trial]:
        """The trials that have no row yet."""
        there = set(identities(self.rows())) if shards(self.folder / FOLDER) else set()
        return [trial for trial in wanted if trial.identity not in there]

    def rows(self) -> pa.Table:
        return read_rows(self.folder / FOLDER)

    def add(self, rows: pa.Table, recordings: dict[str, Recording]) -> None:
        """Recordings first: a row that is there has its recording, whatever happens in between."""
        for name, recording in recordings.items():
            recording.save(self.folder / MISSIONS / name)
        write_shard(self.folder / FOLDER, rows)


@contextmanager
def open_store(folder: Path, terms: Terms, fits: Fits) -> Iterator[Store]:
    """Begin or continue a benchmark. One that was made under other terms, or is being written, is refused."""
    for each in (folder, folder / FOLDER, folder / MISSIONS):
        each.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(folder / ".lock").acquire(blocking=False)  # ends with the process, however that ends
    except Timeout:
        busy = "another run is writing to this folder; wait for it or choose another --out"
        raise RowsError(f"{folder}: {busy}") from None
    with lock:
        for each in (folder, folder / FOLDER, folder / MISSIONS):
            clean_up(each)
        _agree_on_terms(folder, terms, fits)
        yield Store(folder)


def _agree_on_terms(folder: Path, terms: Terms, fits: Fits) -> None:
    """Compare with what the folder was begun with, and note the maps that are new."""
    path = folder / TERMS
    old = _read_terms(path)
    if old is None and shards(folder / FOLDER):
        raise RowsError(f"{folder}: there are rows but no {TERMS}; put it back or choose another --out")
    new: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "config": {name: value for name, value in dataclasses.asdict(PAPER).items() if name != "noise"},
        "options": {name: AUTO if value is None else value for name, value in dataclasses.asdict(terms).items()},
        "noise": {name: dataclasses.asdict(level) for name, level in NOISE_LEVELS.items()},
        "maps": {f"{name}, {range_m:g} m": fit_digest(found) for (name, range_m), found in fits.items()},
    }
    if old is not None:
        if difference := _difference(old, new):
            raise RowsError(f"{folder}: made with {difference}; choose another --out, or move the old folder away")
        new["maps"] = old["maps"] | new["maps"]
        new["noise"] = old["noise"] | new["noise"]
    if new != old:
        text = json.dumps(new, indent=2) + "\n"
        write_whole(path, lambda file: file.write(text.encode()))


def _read_terms(path: Path) -> dict[str, Any] | None:
    try:
        terms = json.loads(path.read_text())
        if terms["format"] != FORMAT or not all(isinstance(terms[name], dict) for name in ("config", "noise", "maps")):
            raise ValueError
        return {"options": {}} | terms  # folders from before robots had options
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise RowsError(f"{path}: not the {TERMS} of a benchmark; choose another --out") from None


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """The first difference between two terms, in words."""
    if old.get("version") != new["version"]:
        return f"decmarvel {old.get('version')}, this is {new['version']}"
    for part in ("config", "options"):
        for name in sorted(old[part].keys() | new[part].keys()):
            before, now = old[part].get(name, "not noted"), new[part].get(name, "not noted")
            if before != now:
                return f"{name} = {before}, now it is {now}"
    for name in sorted(old["noise"].keys() & new["noise"].keys()):
        if old["noise"][name] != new["noise"][name]:
            return f"another meaning of the noise level '{name}'"
    for name in sorted(old["maps"].keys() & new["maps"].keys()):
        if old["maps"][name] != new["maps"][name]:
            return f"another content of the map '{name}', or other viewpoints in it"
    return None
