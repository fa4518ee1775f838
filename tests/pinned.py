"""Short missions of every planner, and what came of them, bit for bit: behaviour that a change of structure must keep.

Pinned is, of every planner that the package can make without a file of weights: teams of 2, 3 and 4 on a map of three
families, the team of 3 with a robot that breaks down; of one planner each, a mission with noise and one with a team of
8, as each takes a compilation of its own. The budgets are small: robots fly out, meet, turn back and land.

`python tests/pinned.py` prints the file that `test_pinned.py` compares with. Renew it only with a change that is meant
to change what robots do, and say so.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from decmarvel.benchmark.trials import map_number, mission_key
from decmarvel.core.config import NOISE_LEVELS, Config
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import NEVER, Fleet
from decmarvel.simulation.mission import fly_logged, outcome, take_off
from decmarvel.worlds import generate
from decmarvel.worlds.place import place

PLANNERS = tuple(name for name, entry in roster.PLANNERS.items() if entry.packaged)
TRIALS = (
    # family, robots, decision at which the last one breaks down, noise
    ("indoor", 4, NEVER, "off"),
    ("office", 2, NEVER, "off"),
    ("hall", 3, 4, "off"),
    ("indoor", 3, 6, "mild"),
    ("indoor", 8, NEVER, "off"),
)
NOISY = ("sector",)
"""Planners that are flown with noise, too."""
CROWDED = ("nearest",)
"""Planners of which teams with more robots than `PLACES` are flown, too."""
PLACES, SITES, BUDGET_M, DECISIONS = 4, 48, 60.0, 24


def digest(tree: Any) -> str:
    """Of all arrays, bit for bit."""
    found = hashlib.sha256()
    for leaf in map(np.ascontiguousarray, jax.tree.leaves(tree)):
        found.update(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
    return found.hexdigest()[:16]


@cache
def flight(name: str):
    """The compiled missions of a planner, whatever team and map."""
    pilot = roster.planner(name)

    def fly(config, key, world, fleet):
        after, log = fly_logged(config, pilot, take_off(config, pilot, key, world, fleet), DECISIONS)
        return outcome(config, after.state), log.moments, log.moves

    return jax.jit(fly, static_argnums=0)


def rows(name: str) -> Iterator[dict[str, Any]]:
    """What came of each trial of a planner."""
    for number, (family, robots, breaks, noise) in enumerate(TRIALS):
        if (noise != "off" and name not in NOISY) or (robots > PLACES and name not in CROWDED):
            continue
        config = replace(Config(), noise=NOISE_LEVELS[noise])
        building = generate(family, "heldout", number, config.cell_m)
        places = max(PLACES, robots)
        steps = jnp.full(places, NEVER, jnp.int32).at[robots - 1].set(breaks)
        healthy = Fleet.of(robots, BUDGET_M, slots=places)
        fleet = Fleet(healthy.present, healthy.budget_mm, steps)
        key = mission_key(jnp.uint32(number), jnp.uint32(map_number(building.name)))
        result, moments, moves = jax.device_get(flight(name)(config, key, place(building, config, SITES), fleet))
        moments = [values for name, values in vars(moments).items() if name != "cell"]  # it follows from the sites
        yield {
            "trial": [family, robots, noise],
            "decisions": int(result.decisions),
            "coverage": float(result.coverage).hex(),
            "moments": digest(moments),
            "moves": digest((moves.target, moves.heading, moves.mode, moves.choice)),
        }


if __name__ == "__main__":
    print(json.dumps({name: list(rows(name)) for name in PLANNERS}, indent=1))
