"""Builds a `Recording` while a mission flies."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Int16, Int32

from decmarvel import __version__
from decmarvel.core.config import Config
from decmarvel.core.types import RETURNING, CandidateProbabilities
from decmarvel.recording.format import ARRAYS, BODY, PROBABILITY_PARTS, Recording
from decmarvel.simulation.fleet import NEVER, Bodies, Fleet
from decmarvel.simulation.mission import MissionLog, Moment
from decmarvel.simulation.types import Move
from decmarvel.worlds.building import Building
from decmarvel.worlds.place import placement
from decmarvel.worlds.world import World


class Recorder:
    """Collects the moments and moves of one mission, as NumPy arrays, and makes a `Recording` of them."""

    def __init__(
        self, config: Config, building: Building, world: World, fleet: Fleet, *, planner: str, seed: int, first: Moment
    ) -> None:
        sites, bodies = config.lattice.sites(world.free.shape[0]), fleet.bodies or Bodies.alike(config, len(first.mode))
        self._fixed: dict[str, Any] = {
            "config": config,
            "planner": planner,
            "seed": seed,
            "map_id": building.name,
            "origin_m": building.origin_m,
            "shift": placement(building, config, sites).shift,
            "fail_steps": tuple(None if step >= NEVER else step for step in np.asarray(fleet.fail_step).tolist()),
            "version": __version__,
            "free": np.asarray(world.free),
            "counted": np.asarray(world.counted),
            "bodies": np.stack([np.asarray(getattr(bodies, name), np.int32) for name in BODY], axis=1),
            "start": np.asarray(world.start, np.int16),
            "base": np.asarray(first.site, np.int16),
        }
        self.moments = [first]
        self._moves: list[Move] = []
        self._probabilities: list[CandidateProbabilities] = []

    def add(self, move: Move, probabilities: CandidateProbabilities, now: Moment) -> None:
        """Add a decision: the moves, the most probable candidates, and the moment after it."""
        self._moves.append(move)
        self._probabilities.append(probabilities)
        self.moments.append(now)

    def add_all(self, log: MissionLog, decisions: int) -> None:
        """Add all decisions of a mission that was flown as one compiled program. The take-off is already there."""
        for t in range(decisions):
            self.add(_at(log.moves, t), _at(log.probabilities, t), _at(log.moments, t + 1))

    @property
    def landed(self) -> bool:
        """Whether no robot flies any more."""
        return bool((self.moments[-1].mode > RETURNING).all())

    def recording(self, complete: bool, first: int = 0) -> Recording:
        """The mission so far; with `first`, only its moments from there on and the moves that led to them."""
        moments, robots, done = self.moments[first:], len(self.moments[0].mode), max(0, first - 1)
        moves, probabilities = self._moves[done:], self._probabilities[done:]
        success_mm = int(moments[-1].success_mm)
        columns: dict[str, Any] = {
            name: np.stack([getattr(moment, name) for moment in moments]).astype(ARRAYS[name].dtype)
            for name in ("site", "cell", "heading", "mode", "budget_mm", "covered", "overlap")
        }
        for name in ("mode", "heading", "choice"):
            values = np.array([getattr(move, name) for move in moves], ARRAYS[f"move_{name}"].dtype)
            columns[f"move_{name}"] = values.reshape(len(moves), robots)
        path = np.array([move.path for move in moves], np.int16)
        columns["path"] = path.reshape(len(moves), robots, self._fixed["config"].substeps, 2)
        return Recording(
            **self._fixed,
            **columns,
            sightings=np.concatenate([_sightings(number, moment) for number, moment in enumerate(moments, first)]),
            probabilities=np.stack([_in_parts(each) for each in probabilities])
            if probabilities
            else np.zeros((0, robots, 0, 3), np.int16),
            metres_to_99=success_mm / 1000 if success_mm >= 0 else None,
            complete=complete,
        )


def _at(rows: Any, t: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[t], rows)


def _sightings(decision: int, moment: Moment) -> Int32[np.ndarray, "M 6"]:
    pairs = np.argwhere(np.asarray(moment.seen))
    observer, teammate = pairs.T
    when = np.full((len(pairs), 1), decision)
    cell, heading = (
        np.asarray(moment.seen_cell)[observer, teammate],
        np.asarray(moment.seen_heading)[observer, teammate],
    )
    return np.concatenate([when, pairs, cell, heading[:, None]], axis=1).astype(np.int32)


def _in_parts(probabilities: CandidateProbabilities) -> Int16[np.ndarray, "N C 3"]:
    parts = np.round(PROBABILITY_PARTS * np.asarray(probabilities.probability))
    return np.stack([probabilities.choice, probabilities.heading, parts], axis=-1).astype(np.int16)
