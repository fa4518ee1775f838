"""Planners by name. Importing the names does not load JAX, which takes seconds: `--help` lists them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decmarvel.core.errors import unknown_name

if TYPE_CHECKING:
    from decmarvel.robot.planners.base import Planner

BEST_PLANNER = "options"
"""Name of the default planner."""


class PlannerError(ValueError):
    """A planner that is not available. The message is one line that names the fix."""


@dataclass(frozen=True)
class Entry:
    """The roster's entry of one planner."""

    about: str
    """One line that describes the planner."""
    make: Callable[[], Any] | None = None
    """Makes the planner. None for a learned planner: it is made from weights."""
    radio: bool = False
    packaged: bool = True
    """Whether the package has everything that the planner needs. False: weights must be given."""
    preset: str = ""
    """The preset of `decmarvel train` that makes such weights."""

    @property
    def learned(self) -> bool:
        return self.make is None


@cache
def _sector() -> "Planner":
    from decmarvel.robot.planners.frontier import FrontierPlanner

    return FrontierPlanner(sector_m=30.0, far_sighted=True)


@cache
def _nearest() -> "Planner":
    from decmarvel.robot.planners.frontier import FrontierPlanner

    return FrontierPlanner()


@cache
def _smmr() -> "Planner":
    from decmarvel.robot.planners.smmr import PotentialPlanner

    return PotentialPlanner()


@cache
def _nbvp() -> "Planner":
    from decmarvel.robot.planners.nbvp import NextBestViewPlanner

    return NextBestViewPlanner()


@cache
def _shared_greedy() -> "Planner":
    from decmarvel.simulation.shared_greedy import SharedGreedyPlanner

    return SharedGreedyPlanner()


@cache
def _random() -> "Planner":
    from decmarvel.robot.planners.random import RandomPlanner

    return RandomPlanner()


PLANNERS = {
    "options": Entry("the learned planner: weighs frontiers by what teammates have probably seen"),
    "dec-marvel": Entry(
        "the paper's learned actor; needs a weights file, the package has none", packaged=False, preset="fast"
    ),
    "marvel": Entry(
        "the paper's predecessor; needs a weights file, the package has none", packaged=False, preset="marvel"
    ),
    "sector": Entry("the near frontier in the sector that the robot's number gives it", _sector),
    "nearest": Entry("the nearest frontier (Yamauchi 1998)", _nearest),
    "smmr": Entry("frontiers attract, teammates in sight repel (SMMR-Explore, Yu 2021)", _smmr),
    "nbvp": Entry("the branch of a random tree that shows most (Bircher 2016)", _nbvp),
    "shared-greedy": Entry("one shared map, goals kept apart; needs a radio", _shared_greedy, radio=True),
    "random": Entry("any move that the budget allows", _random),
}


def planner(name: str = BEST_PLANNER, weights: str | Path | None = None) -> "Planner":
    """The planner with this name, one of those in the README; `decmarvel explore --help` lists them, too.

    `weights` is a file of `decmarvel train`, for learned planners only. Without it they fly with the weights in the
    package, if there are any. An unknown name, or weights that are missing or do not fit, raise a `PlannerError` or a
    `WeightsError` of one line.
    """
    if name not in PLANNERS:
        raise PlannerError(f"planner: {unknown_name(name, PLANNERS)}")
    entry = PLANNERS[name]
    if entry.make is None:
        return _learned(name, weights)
    if weights is not None:
        raise PlannerError(f"{weights}: the planner {name} has no weights; leave them out, or choose a learned one")
    return entry.make()


def _learned(name: str, weights: str | Path | None) -> "Planner":
    if weights is None and not PLANNERS[name].packaged:
        raise PlannerError(
            f"the package has no weights for the planner {name} yet; give a file (--weights FILE), "
            f"train one (decmarvel train --preset {PLANNERS[name].preset}), or choose the planner {BEST_PLANNER}"
        )
    from decmarvel.robot.policy.planner import LearnedPlanner, load_actor, published
    from decmarvel.robot.policy.weights import WeightsError

    path = weights or published(name)
    actor, _ = load_actor(path)
    if actor.name != name:
        fits = actor.name
        raise WeightsError(f"{path}: weights for the planner {fits}, not for {name}; choose {fits}, or another file")
    return LearnedPlanner(actor)


def name_of(planner: "Planner") -> str:
    """A planner's name in the roster; the name of its class if it is not there."""
    from decmarvel.robot.policy.planner import LearnedPlanner

    if isinstance(planner, LearnedPlanner):
        return planner.actor.name
    made = (name for name, entry in PLANNERS.items() if entry.make is not None and entry.make() == planner)
    return next(made, type(planner).__name__)


def needs_radio(name: str) -> bool:
    return name in PLANNERS and PLANNERS[name].radio


def label(name: str) -> str:
    """A planner's name for readers, with a mark if it needs a radio."""
    return f"{name} (radio)" if needs_radio(name) else name
