"""What a benchmark flies: settings, the maps and seeds of their trials, and the random choices of a mission."""

import itertools
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax
from jaxtyping import Array, UInt32

from decmarvel.core.types import Key
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.team import PAPER

Identity = tuple[str, str | None, int, float, str, int, int, str, int, float]
"""The key of a row: planner, weights, robots, budget_m, map_id, seed, broken, noise, fov_deg, range_m."""


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
    fov_deg: int = PAPER.fov_deg
    range_m: float = PAPER.sensor_range_m
    """Of the camera."""

    def __str__(self) -> str:
        extras = [f"{self.broken} broken"] * (self.broken > 0) + [f"{self.noise} noise"] * (self.noise != "off")
        extras += [camera_text(self.fov_deg, self.range_m)] * (not is_usual_camera(self.fov_deg, self.range_m))
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
            setting.fov_deg,
            setting.range_m,
        )

    @property
    def fleet(self) -> Fleet:
        """Which robots break down, and when, depends on the map, the seed, the team's size and how many break."""
        setting = self.setting
        return Fleet.failing(setting.robots, setting.budget_m, setting.broken, [self.seed, map_number(self.map_id)])

    @property
    def recording_name(self) -> str:
        setting = self.setting
        usual = is_usual_camera(setting.fov_deg, setting.range_m)
        camera = "" if usual else f"_{setting.fov_deg}deg{setting.range_m:g}m"
        return f"{setting.planner}_{setting.robots}x{setting.budget_m:g}m{camera}_{self.map_id}_{self.seed}.npz"


def is_usual_camera(fov_deg: int, range_m: float) -> bool:
    """Whether it is the paper's camera, which is named nowhere but where others stand beside it."""
    return (fov_deg, range_m) == (PAPER.fov_deg, PAPER.sensor_range_m)


def camera_text(fov_deg: int, range_m: float) -> str:
    """In words."""
    return f"{fov_deg} deg {range_m:g} m camera"


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
    fovs_deg: Sequence[int] = (PAPER.fov_deg,),
    ranges_m: Sequence[float] = (PAPER.sensor_range_m,),
) -> list[Setting]:
    """The grid. `planners` gives the digest of each planner's weights, None where it has none."""
    combinations = itertools.product(planners.items(), robots, fovs_deg, ranges_m, noise, broken, budgets_m)
    return [
        Setting(name, size, float(budget_m), failures, level, weights, fov_deg, float(range_m))
        for (name, weights), size, fov_deg, range_m, level, failures, budget_m in combinations
    ]


def trials(grid: Iterable[Setting], families: Sequence[Sequence[str]], count: int) -> list[Trial]:
    """So many missions for each setting on each family of maps, which are given by their names.

    Trial t flies map t of the family, and when the maps are used up the first again with the next seed. The first trial
    of a setting without failures and noise is recorded.
    """
    return [
        Trial(
            setting,
            names[t % len(names)],
            t // len(names),
            recorded=t == 0 and setting.broken == 0 and setting.noise == "off",
        )
        for setting in grid
        for names in families
        for t in range(count)
    ]
