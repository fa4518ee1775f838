"""A recorded mission as a class and as a file (docs/recording.md)."""

import dataclasses
import io
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
from jaxtyping import Bool, Float32, Int16, Int32, UInt8

from decmarvel import __version__
from decmarvel.core.config import Config, Noise
from decmarvel.core.files import write_whole
from decmarvel.simulation.fleet import Bodies

VERSION = 3
"""Version 1 had no candidate probabilities, version 2 no paths, cells and bodies: its robots flew from site to site."""
PROBABILITY_PARTS = 10_000
"""The file keeps probabilities as integers, in ten-thousandths."""
BODY = tuple(field.name for field in dataclasses.fields(Bodies))
"""The columns of the array `bodies`."""


class ArrayLayout(NamedTuple):
    """Type and shape of an array in the file. The header gives the named sizes; "any" may have every size."""

    dtype: type[np.generic]
    shape: tuple[str | int, ...]
    since: int = 1
    """The first version of the format that has the array."""


ARRAYS = {
    "free": ArrayLayout(np.uint8, ("packed",)),
    "counted": ArrayLayout(np.uint8, ("packed",), since=3),
    "bodies": ArrayLayout(np.int32, ("robots", len(BODY)), since=3),
    "start": ArrayLayout(np.int16, (2,)),
    "base": ArrayLayout(np.int16, ("robots", 2)),
    "site": ArrayLayout(np.int16, ("moments", "robots", 2)),
    "cell": ArrayLayout(np.int16, ("moments", "robots", 2), since=3),
    "heading": ArrayLayout(np.int16, ("moments", "robots")),
    "mode": ArrayLayout(np.uint8, ("moments", "robots")),
    "budget_mm": ArrayLayout(np.int32, ("moments", "robots")),
    "covered": ArrayLayout(np.int32, ("moments",)),
    "overlap": ArrayLayout(np.float32, ("moments",)),
    "move_mode": ArrayLayout(np.uint8, ("decisions", "robots")),
    "move_heading": ArrayLayout(np.int16, ("decisions", "robots")),
    "move_choice": ArrayLayout(np.int16, ("decisions", "robots")),
    "path": ArrayLayout(np.int16, ("decisions", "robots", "substeps", 2), since=3),
    "sightings": ArrayLayout(np.int32, ("any", 6)),
    "thoughts": ArrayLayout(np.int16, ("decisions", "robots", "any", 3), since=2),
}
"""The arrays in the file, by name."""
_FIELDS = {"thoughts": "probabilities"}
"""Fields of a `Recording` whose array has another name in the file."""
_FORMAT = "decmarvel-mission"
_PACKED = ("free", "counted")
"""Arrays of truth values, of which the file has one bit a cell."""
_FROM_HEADER = ("config", "planner", "seed", "map_id", "origin_m", "shift", "fail_steps", "metres_to_99", "complete")


class RecordingError(ValueError):
    """A recording that cannot be used. The message is one line that names the file and the fix."""


@dataclass(frozen=True)
class Recording:
    """A mission. T: decisions. N: robots. moments: T + 1; row 0 is the take-off, row t the state after decision t."""

    config: Config
    planner: str
    seed: int
    map_id: str
    origin_m: tuple[float, float]
    """(x, y) of the lower left corner of the map's cell (0, 0), in the map frame."""
    shift: tuple[int, int]
    """(y, x): cell of the recorded grid minus cell of the map."""
    fail_steps: tuple[int | None, ...]
    """The decision at which each robot breaks down if it still flies; None for never."""
    metres_to_99: float | None
    complete: bool
    """False where the mission was interrupted."""
    version: str
    """Version of the package that wrote the file."""
    free: Bool[np.ndarray, "Y X"]
    counted: Bool[np.ndarray, "Y X"]
    """The floor that counts for coverage."""
    bodies: Int32[np.ndarray, "N 5"]
    """Camera and body of each robot: fov_deg, range_mm, speed_mm_s, yaw_rate_deg_s, radius_mm."""
    start: Int16[np.ndarray, "2"]
    base: Int16[np.ndarray, "N 2"]
    site: Int16[np.ndarray, "moments N 2"]
    cell: Int16[np.ndarray, "moments N 2"]
    """Where each robot is. With roads, robots at one site may be at different cells."""
    heading: Int16[np.ndarray, "moments N"]
    mode: UInt8[np.ndarray, "moments N"]
    budget_mm: Int32[np.ndarray, "moments N"]
    covered: Int32[np.ndarray, "moments"]
    """Number of cells that count for coverage and that the team together knows."""
    overlap: Float32[np.ndarray, "moments"]
    """Mean instantaneous overlap up to the moment."""
    move_mode: UInt8[np.ndarray, "T N"]
    move_heading: Int16[np.ndarray, "T N"]
    """The commanded heading, degrees; `heading` is what the yaw rate allowed."""
    move_choice: Int16[np.ndarray, "T N"]
    path: Int16[np.ndarray, "T N substeps 2"]
    """Cells after each substep of the move."""
    sightings: Int32[np.ndarray, "M 6"]
    """Decision (1 for the first), observer, teammate, cell y, cell x, heading."""
    probabilities: Int16[np.ndarray, "T N C 3"]
    """The most probable candidates, best first: slot * 3 + heading, degrees, probability in ten-thousandths."""

    @property
    def robots(self) -> int:
        return self.site.shape[1]

    @property
    def decisions(self) -> int:
        return len(self.move_mode)

    @property
    def coverage(self) -> Float32[np.ndarray, "moments"]:
        return (self.covered / self.counted.sum()).astype(np.float32)

    @property
    def travelled_m(self) -> Float32[np.ndarray, "moments N"]:
        return ((self.budget_mm[0] - self.budget_mm) / 1000).astype(np.float32)

    @property
    def start_cell(self) -> Int32[np.ndarray, "2"]:
        """The cell of the first scan."""
        return self.config.lattice.cell(self.start.astype(np.int32))

    @cached_property
    def bent(self) -> Bool[np.ndarray, "T N"]:
        """Which moves are no straight lines."""
        return (self.path != straight_paths(self.cell, self.config.substeps)).any(axis=(-2, -1))

    def body(self, name: str) -> Int32[np.ndarray, "N"]:
        """One column of `bodies`, such as "fov_deg"."""
        return self.bodies[:, BODY.index(name)]

    def to_map_m(self, cell: np.ndarray) -> np.ndarray:
        """Centres of grid cells (..., y x) as (..., x y) in metres of the map frame."""
        inside: np.ndarray = (cell - np.array(self.shift) + 0.5) * self.config.cell_m
        return inside[..., ::-1] + np.array(self.origin_m)

    def save(self, path: str | Path) -> None:
        """Write the file in one step: a reader finds the old file or the new one, never a part."""
        header = {
            "format": _FORMAT,
            "format_version": VERSION,
            "package_version": self.version,
            "config": dataclasses.asdict(self.config),
            "planner": self.planner,
            "seed": self.seed,
            "map_id": self.map_id,
            "cell_m": self.config.cell_m,
            "origin_m": self.origin_m,
            "shift": self.shift,
            "grid_cells": len(self.free),
            "robots": self.robots,
            "decisions": self.decisions,
            "initial_budget_mm": self.budget_mm[0].tolist(),
            "fail_steps": self.fail_steps,
            "metres_to_99": self.metres_to_99,
            "complete": self.complete,
        }
        arrays = {name: getattr(self, _FIELDS.get(name, name)) for name in ARRAYS}
        arrays |= {name: np.packbits(arrays[name]) for name in _PACKED}
        text = np.array(json.dumps(header))
        write_whole(path, lambda file: np.savez_compressed(file, header=text, **arrays))


def load_recording(path: str | Path) -> Recording:
    """Read a recorded mission. Raises `RecordingError`, one line, if the file cannot be used."""
    path = Path(path)
    if not path.is_file():
        raise RecordingError(f"{path}: there is no such file; record a mission with 'decmarvel explore'")
    arrays: dict[str, np.ndarray] = {}
    content = io.BytesIO(path.read_bytes())
    if content.getvalue().startswith(b"PK"):  # an archive
        try:
            with ZipFile(content) as archive:  # NumPy does not check checksums
                if (name := archive.testzip()) is not None:
                    raise ValueError(f"{name} is not as it was written")
            content.seek(0)
            with np.load(content, allow_pickle=False) as file:
                arrays = dict(file)
        except Exception as error:  # damaged archives raise errors of many kinds
            raise _damaged(path, error) from None
    header = _header(path, arrays)
    cells, robots, decisions = header["grid_cells"], header["robots"], header["decisions"]
    sizes = {"robots": robots, "decisions": decisions, "moments": decisions + 1, "packed": -(-cells * cells // 8)}
    sizes["substeps"] = header["config"].substeps
    for name, (dtype, shape, since) in ARRAYS.items():
        if since > header["format_version"]:
            continue
        if name not in arrays:
            raise _damaged(path, f"no array '{name}'")
        array = arrays[name]
        pairs = zip(array.shape, shape, strict=False)
        wanted = tuple(has if size == "any" else sizes.get(str(size), size) for has, size in pairs)
        if array.dtype != dtype or array.ndim != len(shape) or array.shape != wanted:
            raise _damaged(path, f"array '{name}' is {array.dtype} {array.shape}")
    arrays = _as_before(header["config"], arrays) | arrays
    for name in _PACKED:
        arrays[name] = np.unpackbits(arrays[name], count=cells * cells).reshape(cells, cells).astype(bool)
    fields = {name: header[name] for name in _FROM_HEADER}
    fields |= {_FIELDS.get(name, name): arrays[name] for name in ARRAYS}
    return Recording(**fields, version=header["package_version"])


def straight_paths(cell: Int16[np.ndarray, "moments N 2"], substeps: int) -> Int16[np.ndarray, "T N substeps 2"]:
    """The cells after each substep where all robots move on straight lines."""
    cell = cell.astype(np.int32)
    way, number = cell[1:, :, None] - cell[:-1, :, None], np.arange(1, substeps + 1)[:, None]
    gone = np.sign(way) * ((2 * np.abs(way) * number + substeps) // (2 * substeps))
    return (cell[:-1, :, None] + gone).astype(np.int16)


def _as_before(config: Config, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that earlier versions had not, as they were by then: equal robots that flew from site to site."""
    cell = config.lattice.cell(arrays["site"].astype(np.int32)).astype(np.int16)
    (decisions, robots), bodies = arrays["move_mode"].shape, Bodies.alike(config, cell.shape[1])
    return {
        "thoughts": np.zeros((decisions, robots, 0, 3), np.int16),
        "counted": arrays["free"],
        "bodies": np.stack([np.asarray(getattr(bodies, name)) for name in BODY], axis=1),
        "cell": cell,
        "path": straight_paths(cell, config.substeps),
    }


def _header(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    try:
        header = json.loads(str(arrays["header"]))
        if header["format"] != _FORMAT:
            raise ValueError
        version = int(header["format_version"])
    except (KeyError, ValueError, TypeError):
        raise RecordingError(f"{path}: not a recorded mission; give the mission.npz of 'decmarvel explore'") from None
    if version < 1:
        raise RecordingError(f"{path}: written in format {version}, which is read no more; record the mission again")
    if version > VERSION:
        news = f"written in format {version} by decmarvel {header.get('package_version')}"
        raise RecordingError(f"{path}: {news}, this is {__version__} and reads up to {VERSION}; update decmarvel")
    try:
        fields = header["config"]
        header["config"] = Config(**{**fields, "noise": Noise(**fields["noise"])})
        for name in ("origin_m", "shift", "fail_steps"):
            header[name] = tuple(header[name])
        for name in ("robots", "decisions", "grid_cells", "seed"):
            header[name] = int(header[name])
        missing = [name for name in (*_FROM_HEADER, "package_version") if name not in header]
        if missing or len(header["origin_m"]) != 2 or len(header["shift"]) != 2:
            raise ValueError("its header is not whole")
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(path, error) from None
    return dict(header)


def _damaged(path: Path, reason: object) -> RecordingError:
    return RecordingError(f"{path}: the recording is damaged ({' '.join(str(reason).split())}); fly the mission again")
