"""What most people want of the package: fly a mission, record one, watch one."""

from pathlib import Path

from decmarvel.core.config import Config
from decmarvel.core.jax_setup import keep_compiled
from decmarvel.recording.format import Recording, load_recording
from decmarvel.recording.knowledge import knowledge_history
from decmarvel.recording.recorder import Recorder
from decmarvel.robot.planners.base import Planner
from decmarvel.show.html import write_page
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.flight import Flight, Mission
from decmarvel.simulation.mission import Outcome
from decmarvel.simulation.roster import BEST_PLANNER
from decmarvel.worlds.building import Building


def fly(
    building: Building,
    planner: str | Planner = BEST_PLANNER,
    robots: int = 4,
    budget_m: float = 720.0,
    *,
    seed: int = 0,
    config: Config | None = None,
    broken: int = 0,
    fleet: Fleet | None = None,
) -> Outcome:
    """Fly one whole mission, with the arguments of `Mission`, and return its metrics.

    The first call with a planner and a size of team and building compiles for half a minute; compiled programs are kept
    on disk.
    """
    return Mission(building, planner, robots, budget_m, seed=seed, config=config, broken=broken, fleet=fleet).fly()


def record(
    building: Building,
    planner: str | Planner = BEST_PLANNER,
    robots: int = 4,
    budget_m: float = 720.0,
    *,
    seed: int = 0,
    config: Config | None = None,
    broken: int = 0,
    fleet: Fleet | None = None,
) -> Recording:
    """Fly the same mission as `fly`, and return the record of every move: `.save(path)` keeps it."""
    mission = Mission(building, planner, robots, budget_m, seed=seed, config=config, broken=broken, fleet=fleet)
    flight = mission.take_off()
    recorder = begin_record(flight)
    while not flight.done:
        recorder.add(*flight.step())
    return recorder.recording(complete=True)


def begin_record(flight: Flight) -> Recorder:
    """A recorder that has the take-off. Give it the result of every step."""
    mission = flight.mission
    return Recorder(
        mission.config,
        mission.building,
        mission.world,
        mission.fleet,
        planner=mission.planner_name,
        seed=mission.seed,
        first=flight.moment,
    )


def replay(mission: Recording | str | Path, out: str | Path | None = None) -> Path:
    """Write the page on which a recorded mission can be watched, one HTML file that needs no network; return its path.

    `mission` is a recording, its file, or the folder of `decmarvel explore`. Without `out` the page is `replay.html`
    beside the file; of a recording without a file, in the working directory.
    """
    if isinstance(mission, Recording):
        recording, folder = mission, Path()
    else:
        path = Path(mission) / "mission.npz" if Path(mission).is_dir() else Path(mission)
        recording, folder = load_recording(path), path.parent
    page = folder / "replay.html" if out is None else Path(out)
    page.parent.mkdir(parents=True, exist_ok=True)
    keep_compiled()
    write_page([knowledge_history(recording)], page)
    return page
