"""Exploration of unknown buildings by teams of robots that never talk to each other.

Names are loaded when they are asked for, so that `import decmarvel` and the command line's help take no time.
"""

from typing import TYPE_CHECKING

__version__ = "0.2.0.dev0"

__all__ = [
    "Building",
    "Config",
    "Fleet",
    "Flight",
    "LocalView",
    "MapError",
    "Member",
    "Mission",
    "Moment",
    "Outcome",
    "Planner",
    "PlannerError",
    "Proposal",
    "Recording",
    "RecordingError",
    "Team",
    "TeamError",
    "WeightsError",
    "fly",
    "generate",
    "load_map",
    "load_recording",
    "planner",
    "read_team",
    "record",
    "replay",
]

if TYPE_CHECKING:
    from decmarvel.core.config import Config
    from decmarvel.core.types import LocalView, Proposal
    from decmarvel.integrations.api import fly, record, replay
    from decmarvel.recording.format import Recording, RecordingError, load_recording
    from decmarvel.robot.planners.base import Planner
    from decmarvel.robot.policy.weights import WeightsError
    from decmarvel.simulation.fleet import Fleet
    from decmarvel.simulation.flight import Flight, Mission
    from decmarvel.simulation.mission import Moment, Outcome
    from decmarvel.simulation.roster import PlannerError, planner
    from decmarvel.simulation.team import Member, Team
    from decmarvel.simulation.team_file import TeamError, read_team
    from decmarvel.worlds.building import Building, MapError
    from decmarvel.worlds.generate import generate
    from decmarvel.worlds.mapfile import load as load_map
else:
    from importlib import import_module

    _HOME = {
        "integrations.api": ("fly", "record", "replay"),
        "core.config": ("Config",),
        "core.types": ("LocalView", "Proposal"),
        "recording.format": ("Recording", "RecordingError", "load_recording"),
        "robot.planners.base": ("Planner",),
        "robot.policy.weights": ("WeightsError",),
        "simulation.fleet": ("Fleet",),
        "simulation.flight": ("Flight", "Mission"),
        "simulation.mission": ("Moment", "Outcome"),
        "simulation.roster": ("PlannerError", "planner"),
        "simulation.team": ("Member", "Team"),
        "simulation.team_file": ("TeamError", "read_team"),
        "worlds.building": ("Building", "MapError"),
        "worlds.generate": ("generate",),
        "worlds.mapfile": ("load_map",),
    }
    _PLACE = {name: module for module, names in _HOME.items() for name in names}

    def __getattr__(name):
        if name not in _PLACE:
            raise AttributeError(f"module 'decmarvel' has no attribute '{name}'")
        found = getattr(import_module(f"decmarvel.{_PLACE[name]}"), {"load_map": "load"}.get(name, name))
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
