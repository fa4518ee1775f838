"""Batches of trials: which go together, how all missions of one fly at once, and their rows."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Int32, UInt32

from decmarvel import __version__
from decmarvel.benchmark.maps import Fits
from decmarvel.benchmark.metrics import COLUMNS, Landed
from decmarvel.benchmark.rows import CURVE_STEP_M, table
from decmarvel.benchmark.trials import Trial, map_number, mission_key
from decmarvel.core.config import NOISE_LEVELS, Config
from decmarvel.core.jax_setup import AXIS, mesh
from decmarvel.recording.format import Recording
from decmarvel.recording.recorder import Recorder
from decmarvel.robot.planners.base import Planner
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import MissionLog, Outcome, fly_logged, outcome, take_off
from decmarvel.worlds.fit import Fit
from decmarvel.worlds.world import World

_POLL_S = 0.01


@dataclass(frozen=True, eq=False)
class Batch:
    """Trials that one compiled program flies together, with all that is needed to do so anywhere."""

    config: Config
    planner: Planner
    trials: tuple[Trial, ...]
    fits: dict[str, Fit]
    """The maps of the trials, by name."""
    size: int
    """Missions that the program takes; a smaller batch is filled up."""

    @property
    def cost(self) -> float:
        """A rough measure of the time it takes."""
        return sum(trial.setting.robots * trial.setting.budget_m for trial in self.trials)


@dataclass(frozen=True, eq=False)
class Flown:
    """The result of a batch."""

    rows: pa.Table
    recordings: dict[str, Recording]


def make_batches(
    missing: Iterable[Trial], planners: dict[str, Planner], fits: Fits, size: int, mix_budgets: bool
) -> list[Batch]:
    """Trials of the same program together: planner, team size, configuration, size of the map, cap on decisions.

    Budgets and failures are data. On an accelerator they share a batch; on a CPU each budget has its own, because
    every mission of a batch costs until the last one has landed.
    """

    def program(trial: Trial) -> tuple[Any, ...]:
        setting, found = trial.setting, fits[trial.map_id, trial.setting.range_m]
        config = found.config
        lattice = (config.roads, config.radius_m, config.spacing_m, config.coarsest_cell_m, found.world.free.shape[0])
        common = (
            *(list(planners).index(setting.planner), setting.robots, setting.fov_deg, setting.range_m, setting.noise),
            *(*lattice, config.max_decisions(setting.budget_m)),
        )
        return common if mix_budgets else (*common, setting.budget_m, setting.broken)

    batches = []
    for _, group in groupby(sorted(missing, key=program), program):
        members = list(group)
        for begin in range(0, len(members), size):
            some = tuple(members[begin : begin + size])
            setting = some[0].setting
            there = {trial.map_id: fits[trial.map_id, setting.range_m] for trial in some}
            config = there[some[0].map_id].config
            batches.append(
                Batch(
                    config=replace(config, fov_deg=setting.fov_deg, noise=NOISE_LEVELS[setting.noise]),
                    planner=planners[setting.planner],
                    trials=some,
                    fits=there,
                    size=size,
                )
            )
    return batches


def fly_batch(batch: Batch) -> Flown:
    """All missions of a batch at once, on all devices."""
    devices = len(jax.devices())
    size = math.ceil(batch.size / devices) * devices
    first = batch.trials[0].setting
    worlds = {name: found.world for name, found in batch.fits.items()}
    fleets = [jax.device_get(trial.fleet) for trial in batch.trials]
    filler = replace(batch.trials[-1], setting=replace(first, budget_m=0.0, broken=0))  # ends at the first decision
    trials = [*batch.trials, *[filler] * (size - len(batch.trials))]
    fleets += [jax.device_get(filler.fleet)] * (size - len(batch.trials))
    missions = Missions(
        seed=jnp.array([trial.seed for trial in trials], jnp.uint32),
        map_number=jnp.array([map_number(trial.map_id) for trial in trials], jnp.uint32),
        world=_stack([worlds[trial.map_id] for trial in trials]),
        fleet=_stack(fleets),
    )
    arrays, static = eqx.partition(batch.planner, eqx.is_array)
    sharding = NamedSharding(mesh(jax.device_count()), PartitionSpec(AXIS))
    program = _program(batch.config, static, batch.config.max_decisions(first.budget_m))
    outcomes, log = program(arrays, jax.device_put(missions, sharding))
    while not outcomes.coverage.is_ready():
        time.sleep(_POLL_S)  # in Python, so that Ctrl-C is heard
    outcomes, covered, budget_mm = jax.device_get((outcomes, log.moments.covered, log.moments.budget_mm))
    rows, recordings = [], {}
    for number, trial in enumerate(batch.trials):
        result = jax.tree.map(lambda leaf: leaf[number], outcomes)  # noqa: B023
        world, moments = worlds[trial.map_id], int(result.decisions) + 1
        mission = Landed(result, int(covered[number, moments - 1]), int(world.free_count))
        travelled_mm = (budget_mm[number, 0] - budget_mm[number, :moments]).max(axis=1)
        curve = coverage_curve(
            covered[number, :moments], travelled_mm, mission.free_cells, round(1000 * trial.setting.budget_m)
        )
        rows.append(_row(batch, trial, mission, curve))
        if trial.recorded:
            kept = jax.device_get(_pick(log, np.int32(number)))
            recordings[trial.recording_name] = _recording(batch, trial, world, fleets[number], kept, moments - 1)
    return Flown(table(rows), recordings)


class Missions(eqx.Module):
    """What the program of a batch is given, one entry a mission."""

    seed: UInt32[Array, "*batch"]
    map_number: UInt32[Array, "*batch"]
    world: World
    fleet: Fleet


@cache
def _program(config: Config, static: Planner, length: int) -> Any:
    """A compiled function for batches of missions. Every device has a loop of its own and waits for no other."""

    def fly(arrays: Any, mission: Missions) -> tuple[Outcome, MissionLog]:
        planner = eqx.combine(arrays, static)
        key = mission_key(mission.seed, mission.map_number)
        flight = take_off(config, planner, key, mission.world, mission.fleet)
        flight, log = fly_logged(config, planner, flight, length)
        return outcome(config, flight.state), log

    each, one = PartitionSpec(AXIS), PartitionSpec()
    together = jax.vmap(fly, in_axes=(None, 0))
    return jax.jit(
        jax.shard_map(together, mesh=mesh(jax.device_count()), in_specs=(one, each), out_specs=each, check_vma=False)
    )


@jax.jit
def _pick(log: MissionLog, number: Int32[Array, ""]) -> MissionLog:
    """One mission's log, so that only this one leaves the device."""
    return jax.tree.map(lambda leaf: leaf[number], log)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def coverage_curve(
    covered: Int32[np.ndarray, "moments"], travelled_mm: Int32[np.ndarray, "moments"], free_cells: int, budget_mm: int
) -> list[int]:
    """Merged coverage over the way flown, in parts of 10,000, rounded down.

    There is a value for 0, 16, 32 ... metres and one for the budget. It is the coverage after the first decision with
    which a robot has flown that far or farther; where nobody has, the coverage at the end.
    """
    step_mm = round(1000 * CURVE_STEP_M)
    marks_mm = np.minimum(np.arange(math.ceil(budget_mm / step_mm) + 1) * step_mm, budget_mm)
    when = np.minimum(np.searchsorted(travelled_mm, marks_mm), len(covered) - 1)
    parts: list[int] = (10_000 * covered[when].astype(np.int64) // free_cells).tolist()
    return parts


def _row(batch: Batch, trial: Trial, mission: Landed, curve: list[int]) -> dict[str, Any]:
    setting = trial.setting
    return {
        "planner": setting.planner,
        "communicates": batch.planner.communicates,
        "robots": setting.robots,
        "budget_m": setting.budget_m,
        "map_id": trial.map_id,
        "seed": trial.seed,
        "broken": setting.broken,
        "noise": setting.noise,
        "fov_deg": setting.fov_deg,
        "range_m": setting.range_m,
        "radius_m": batch.config.radius_m,
        "spacing_m": batch.config.spacing_m,
        **{column.name: column.read(mission) for _, column in COLUMNS},
        "curve": curve,
        "weights": setting.weights,
        "version": __version__,
    }


def _recording(batch: Batch, trial: Trial, world: World, fleet: Fleet, log: MissionLog, decisions: int) -> Recording:
    first = jax.tree.map(lambda leaf: leaf[0], log.moments)
    building, setting = batch.fits[trial.map_id].building, trial.setting
    recorder = Recorder(batch.config, building, world, fleet, planner=setting.planner, seed=trial.seed, first=first)
    recorder.add_all(log, decisions)
    return recorder.recording(complete=True)
