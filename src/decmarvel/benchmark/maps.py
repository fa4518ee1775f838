"""The maps of a benchmark: where they come from, and how robots with each camera explore them."""

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
import yaml

from decmarvel.simulation.team import PAPER, Member, Team
from decmarvel.worlds import Building, MapError, generate, load
from decmarvel.worlds.fit import Fit, body_radius_m, fit
from decmarvel.worlds.generate import building_name

_MAP_SUFFIXES = (".yaml", ".yml", ".png", ".pgm", ".npy")


@dataclass(frozen=True)
class Map:
    """A building that is not made yet."""

    name: str
    """The map id in all results."""
    build: Callable[[float], Building]
    """Makes it with cells of a given size."""


@dataclass(frozen=True)
class Terms:
    """What all missions of a benchmark share. Cameras are an axis of its grid."""

    speed_m_s: float = PAPER.speed_m_s
    yaw_rate_deg_s: int = PAPER.yaw_rate_deg_s
    radius_m: float | None = None
    """Of the robots; None for what suits each map: 0 in buildings of blocks, 0.25 elsewhere."""
    spacing_m: float | None = None
    """Between viewpoints; None for the widest that suits each map and camera."""


Fits = dict[tuple[str, float], Fit]
"""By the map's name and the range of the camera, all arrays NumPy's."""


def heldout_maps(family: str, count: int) -> list[Map]:
    """The first generated maps of a family that no planner was trained on."""
    return [
        Map(building_name(family, "heldout", index), partial(generate, family, "heldout", index))
        for index in range(count)
    ]


def folder_maps(folder: Path, most: int) -> list[Map]:
    """The maps in a folder, at most so many, in the order of their names, numbers in them taken as numbers.

    A picture that a ROS .yaml points to is a part of that map, not one of its own.
    """
    if not folder.is_dir():
        raise MapError(f"{folder}: there is no such folder; give one with map files ({', '.join(_MAP_SUFFIXES)})")
    files = sorted((path for path in folder.iterdir() if path.suffix.lower() in _MAP_SUFFIXES), key=_natural)
    pictures = {picture for path in files for picture in _pictures(path)}
    files = [path for path in files if path.name not in pictures and not path.name.startswith(".")]
    if not files:
        raise MapError(f"{folder}: no map in this folder; put map files there ({', '.join(_MAP_SUFFIXES)})")
    for one, other in itertools.pairwise(sorted(files, key=lambda path: path.stem)):
        if one.stem == other.stem:
            raise MapError(f"{folder}: {one.name} and {other.name} would be one map id; rename one of them")
    return [Map(path.stem, partial(_load, path)) for path in files[:most]]


def _load(path: Path, cell_m: float) -> Building:
    return load(path, cell_m=cell_m)


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _pictures(path: Path) -> list[str]:
    """Names of the pictures that a map file points to. Errors in the file are reported when it is loaded."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return []
    try:
        return [Path(yaml.safe_load(path.read_text())["image"]).name]
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return []


def fit_all(maps: Iterable[Map], ranges_m: Iterable[float], terms: Terms) -> Fits:
    """Every map as robots with each range of sight explore it; where the field of view points makes no difference.

    A map that cannot be used is refused in one line that names it.
    """
    ranges_m = list(ranges_m)
    found: Fits = {}
    for each in maps:
        radius_m = body_radius_m(each.build, terms.radius_m)
        about = Member(speed_m_s=terms.speed_m_s, yaw_rate_deg_s=terms.yaw_rate_deg_s, radius_m=radius_m)
        for range_m in ranges_m:
            config = Team.alike(1, replace(about, range_m=range_m)).config()
            try:
                placed = fit(each.build, config, terms.spacing_m)
            except MapError:
                raise
            except ValueError as problem:  # a lattice that the model does not take
                raise MapError(f"{each.name}: {problem}; or choose --spacing auto") from None
            found[each.name, range_m] = placed._replace(world=jax.device_get(placed.world))
    return found


def content_digest(building: Building) -> str:
    """A fingerprint of all that a map contributes to a mission."""
    about = f"{building.free.shape} {building.start} {building.cell_m!r} "
    return hashlib.sha256(about.encode() + np.packbits(building.free).tobytes()).hexdigest()


def fit_digest(found: Fit) -> str:
    """A fingerprint of a map and of what was decided for it: viewpoints, cells, and the floor that counts."""
    config = found.config
    about = f"{config.spacing_m!r} {config.cell_m!r} {config.roads} {config.radius_m!r} "
    counted = np.packbits(np.asarray(found.world.counted)).tobytes()
    return hashlib.sha256(content_digest(found.building).encode() + about.encode() + counted).hexdigest()
