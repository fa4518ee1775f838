"""What a benchmark flies: settings, the maps and seeds of their trials, and the random choices of a mission."""

import hashlib
import itertools
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import yaml
from jaxtyping import Array, UInt32

from decmarvel.core.config import Config
from decmarvel.core.types import Key
from decmarvel.simulation.fleet import Fleet
from decmarvel.worlds import Building, MapError, generate, load

Identity = tuple[str, str | None, int, float, str, int, int, str]
"""The key of a row: planner, weights, robots, budget_m, map_id, seed, broken, noise."""

_MAP_SUFFIXES = (".yaml", ".yml", ".png", ".pgm", ".npy")


@dataclass(frozen=True)
class Setting:
    """A planner with a team under conditions: what is compared."""

    planner: str
    robots: int
    budget_m: float
    broken: int = 0
    """Robots that break down on the way."""
    noise: str = "off"
    """A name in `NOISE_LEVELS`."""
    weights: str | None = None
    """Digest of a learned planner's weights."""

    def __str__(self) -> str:
        extras = [f"{self.broken} broken"] * (self.broken > 0) + [f"{self.noise} noise"] * (self.noise != "off")
        return ", ".join([f"{self.planner} {self.robots} x {self.budget_m:g} m", *extras])


@dataclass(frozen=True)
class Trial:
    """One mission. Its random choices depend on the map and the seed alone, so that all planners, team sizes and
    budgets are compared on the same missions."""

    setting: Setting
    map_id: str
    seed: int
    recorded: bool = False
    """Whether the whole mission is kept, not only its row."""

    @property
    def identity(self) -> Identity:
        setting = self.setting
        return (
            setting.planner,
            setting.weights,
            setting.robots,
            setting.budget_m,
            self.map_id,
            self.seed,
            setting.broken,
            setting.noise,
        )

    @property
    def fleet(self) -> Fleet:
        """Which robots break down, and when, depends on the map, the seed, the team's size and how many break."""
        setting = self.setting
        return Fleet.failing(setting.robots, setting.budget_m, setting.broken, [self.seed, map_number(self.map_id)])

    @property
    def recording_name(self) -> str:
        setting = self.setting
        return f"{setting.planner}_{setting.robots}x{setting.budget_m:g}m_{self.map_id}_{self.seed}.npz"


def map_number(map_id: str) -> int:
    """A map's part of the random key."""
    return zlib.crc32(map_id.encode())


def mission_key(seed: UInt32[Array, ""], map_number: UInt32[Array, ""]) -> Key:
    """The key of a trial's mission, on every device and in every batch."""
    return jax.random.fold_in(jax.random.key(seed), map_number)


def settings(
    planners: dict[str, str | None],
    robots: Sequence[int],
    budgets_m: Sequence[float],
    broken: Sequence[int] = (0,),
    noise: Sequence[str] = ("off",),
) -> list[Setting]:
    """The grid. `planners` gives the digest of each planner's weights, None where it has none."""
    combinations = itertools.product(planners.items(), robots, noise, broken, budgets_m)
    return [
        Setting(name, size, float(budget_m), failures, level, weights)
        for (name, weights), size, level, failures, budget_m in combinations
    ]


def trials(grid: Iterable[Setting], maps: Sequence[Building], count: int) -> list[Trial]:
    """Trial t of every setting flies map t, and when the maps are used up the first again with the next seed.

    The first trial of a setting without failures and noise is recorded.
    """
    return [
        Trial(
            setting,
            maps[t % len(maps)].name,
            t // len(maps),
            recorded=t == 0 and setting.broken == 0 and setting.noise == "off",
        )
        for setting in grid
        for t in range(count)
    ]


def heldout_maps(count: int, config: Config) -> list[Building]:
    """The first generated maps that no planner was trained on."""
    return [generate("indoor", "heldout", index, config.cell_m) for index in range(count)]


def folder_maps(folder: Path, config: Config, most: int) -> list[Building]:
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
    return [load(path, cell_m=config.cell_m) for path in files[:most]]


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


def content_digest(building: Building) -> str:
    """A fingerprint of all that a map contributes to a mission."""
    about = f"{building.free.shape} {building.start} {building.cell_m!r} "
    return hashlib.sha256(about.encode() + np.packbits(building.free).tobytes()).hexdigest()
