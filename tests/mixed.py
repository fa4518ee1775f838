"""A small mission on roads of three robots that are not alike, of which one breaks down; a fourth place is empty."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from decmarvel.core.config import Config
from decmarvel.recording.format import Recording
from decmarvel.recording.knowledge import KnowledgeHistory, knowledge_history
from decmarvel.recording.recorder import Recorder
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import Bodies, Fleet
from decmarvel.simulation.mission import decide, moment, take_off
from decmarvel.worlds import Building
from decmarvel.worlds.place import place

CONFIG = Config(
    spacing_m=2.0,
    coarsest_cell_m=0.2,
    sensor_range_m=5.0,
    utility_range_m=4.5,
    safety_margin_m=2.0,
    hold_turn_m=2.0,
    roads=True,
    radius_m=0.25,
)
BODIES = {
    "fov_deg": (120, 360, 91, 120),
    "range_mm": (5000, 3500, 4200, 1000),
    "speed_mm_s": (1000, 500, 1500, 1000),
    "yaw_rate_deg_s": (35, 90, 60, 35),
    "radius_mm": (250, 150, 0, 250),
}
BUDGET_M = 60.0


def house() -> Building:
    """20 m x 15 m: four rooms with doors of a metre, none of them in line with the sites."""
    free = np.zeros((75, 100), bool)
    free[3:72, 3:97] = True
    free[36:38] = free[:, 48:50] = False
    free[36:38, 20:25] = free[36:38, 70:75] = free[15:20, 48:50] = free[52:57, 48:50] = True
    return Building(free, (18, 20), CONFIG.cell_m, "house", origin_m=(-3.0, 7.0))


def team() -> Fleet:
    healthy = Fleet.of(3, BUDGET_M, slots=4)
    bodies = Bodies(**{name: jnp.array(values, jnp.int32) for name, values in BODIES.items()})
    return Fleet(healthy.present, healthy.budget_mm, healthy.fail_step.at[2].set(9), bodies)


@dataclasses.dataclass(frozen=True)
class Flown:
    """A mission that was recorded, and the states that it really had."""

    recorder: Recorder
    states: list

    @property
    def recording(self) -> Recording:
        return self.recorder.recording(complete=True)


@cache
def flown() -> Flown:
    building, fleet, planner = house(), team(), roster.planner("nearest")
    world = place(building, CONFIG)
    go_on = jax.jit(lambda flight: decide(CONFIG, planner, flight))
    flight = jax.jit(lambda key: take_off(CONFIG, planner, key, world, fleet))(jax.random.key(3))
    states, first = [flight.state], jax.device_get(moment(flight.state))
    recorder = Recorder(CONFIG, building, world, fleet, planner="nearest", seed=3, first=first)
    while not recorder.landed:
        flight, *news = go_on(flight)
        recorder.add(*jax.device_get((*news, moment(flight.state))))
        states.append(flight.state)
    return Flown(recorder, states)


@cache
def history() -> KnowledgeHistory:
    return knowledge_history(flown().recording)
