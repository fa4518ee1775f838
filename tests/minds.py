"""Robots somewhere in random maps, as the oracles know them and as the package does."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.goals
import oracles.graph
import oracles.lattice
from cases import DEFAULT, FINE, SMALL, draw_case
from decmarvel.core.config import Config
from decmarvel.core.types import FREE, Candidates, Graph, LocalView, Sightings
from decmarvel.robot.planners.goals import Goal
from decmarvel.robot.sight import empty_sight, look_again
from oracles.lattice import UNREACHABLE
from oracles.mind import Mind

ROBOTS = 3
"""Places in every team here; single robots leave the others empty."""
CLOSE = 1e-4
"""Where floats decide, two options whose values differ by less than this share may be taken for each other."""
CAMERAS = ((120, 1.0), (120, 1.0), (360, 0.62), (50, 0.75))
"""Fields of view of the robots, and their ranges relative to the configuration's."""
MOST_CLOSE_CALLS = 0.02
"""Share of the decisions at which that may happen."""


@cache
def draw_mind(config: Config, seed: int) -> Mind:
    """A robot somewhere in the largest part of a random map, with a random budget, some of it too tight."""
    rng = np.random.default_rng([seed, 7])
    belief, edge, part = draw_map(config, rng, smallest=1 if seed % 10 == 0 else 8)
    base, site = (part[rng.integers(len(part))] for _ in range(2))
    sensed = rng.random((*edge.shape[1:], config.heading_bins)) < rng.choice([0.0, 0.2, 0.6, 0.97])
    budget = int(rng.choice([3, 10, 30, 500]) * config.spacing_mm + rng.integers(1000))
    mind = Mind(config, belief, sensed, site, base, budget, int(rng.integers(ROBOTS)), ROBOTS)
    mind.fov_deg, share = CAMERAS[seed % len(CAMERAS)]
    mind.range_mm = round(share * 1000 * config.sensor_range_m)
    mind.edge = edge
    for _ in range(rng.integers(ROBOTS)):  # teammates, mostly near enough to repel
        dy, dx = rng.integers(-3 * config.stride, 3 * config.stride + 1, 2)
        mind.in_sight.append((mind.cell(site)[0] + int(dy), mind.cell(site)[1] + int(dx)))
    return mind


def draw_map(config: Config, rng, smallest: int) -> tuple[np.ndarray, np.ndarray, list[oracles.lattice.Site]]:
    """A random belief, its edges, and the sites of its largest part, which is not too small."""
    while True:
        case = draw_case(config, int(rng.integers(2**32)))
        belief = case.belief.copy()
        belief[oracles.lattice.site_cell(config, *case.start)] = FREE
        places = [oracles.lattice.site_cell(config, i, j) for i in range(case.sites) for j in range(case.sites)]
        if sum(belief[place] == FREE for place in places) < smallest:
            continue
        edge = oracles.graph.edges(config, belief)
        part = largest_part(config, edge)
        if len(part) >= smallest:
            return belief, edge, part


def largest_part(config: Config, edge: np.ndarray) -> list[oracles.lattice.Site]:
    """The sites of the largest connected part of a graph."""
    left = {(i, j) for i in range(edge.shape[1]) for j in range(edge.shape[2])}
    best: list[oracles.lattice.Site] = []
    while left:
        reached = oracles.graph.distances(config, edge, [min(left)]) < UNREACHABLE
        part = [(int(i), int(j)) for i, j in np.argwhere(reached)]
        best = max(best, part, key=len)
        left -= set(part)
    return best


def whole(value) -> jax.Array:
    return jnp.asarray(value, jnp.int32)


def site_cells(config: Config, sites: int) -> np.ndarray:
    """The cells of all sites of a plain lattice."""
    places = [[oracles.lattice.site_cell(config, i, j) for j in range(sites)] for i in range(sites)]
    return np.array(places, np.int32)


def middles(config: Config, sites: int) -> np.ndarray:
    """Sites so near to each other that the windows around them leave nothing out."""
    step = config.window_sites // 2
    return np.array([(y, x) for y in range(0, sites + step, step) for x in range(0, sites + step, step)], np.int32)


@partial(jax.jit, static_argnums=0)
def whole_sight(config: Config, belief, range_mm=None):
    """What is seen from all sites, window by window."""
    sites = oracles.lattice.sites_a_side(config, belief.shape[0])
    cell, fresh = jnp.asarray(site_cells(config, sites)), jnp.ones((sites, sites), bool)
    range_mm = whole(config.sensor_range_mm) if range_mm is None else range_mm

    def look(sight, middle):
        return look_again(config, sight, belief, belief, cell, fresh, middle, range_mm), None

    return jax.lax.scan(look, empty_sight(config, sites), jnp.asarray(middles(config, sites)))[0]


def edges_of(graph: Graph) -> np.ndarray:
    """The edges of a graph that is kept as NumPy arrays."""
    return np.asarray(graph.length_mm) < UNREACHABLE


def lengths_mm(config: Config, edge: np.ndarray) -> jax.Array:
    """The edges of a plain lattice as a robot keeps them."""
    lengths = np.array([oracles.lattice.slot_length_mm(config, slot) for slot in range(oracles.lattice.SLOTS)])
    return jnp.where(edge, whole(lengths)[:, None, None], UNREACHABLE)


@cache
def draw_view(config: Config, seed: int) -> LocalView:
    return view_of(draw_mind(config, seed))


def view_of(mind: Mind) -> LocalView:
    config, zeros = mind.config, np.zeros((mind.size, mind.size))
    belief = jnp.asarray(mind.belief)
    seen, cell = np.zeros((ROBOTS, config.history), bool), np.zeros((ROBOTS, config.history, 2))
    for number, mate in enumerate(mind.in_sight):
        seen[number, 0], cell[number, 0] = True, mate
    seen[:, 1], cell[:, 1] = True, mind.cell(mind.site)  # sightings before the last decision are no matter
    return LocalView(
        belief=belief,
        graph=Graph(
            cell=jnp.asarray(site_cells(config, mind.size)),
            age=whole(zeros),
            length_mm=lengths_mm(config, mind.edge),
            home_mm=whole(mind.home),
            useful_mm=whole(zeros),
            sight=whole_sight(config, belief, whole(mind.camera[1])),
        ),
        candidates=Candidates(whole(np.zeros((25, config.headings_per_node))), jnp.asarray(mind.feasible)),
        site=whole(mind.site),
        heading=whole(0),
        base=whole(mind.base),
        budget_mm=whole(mind.budget_mm),
        initial_budget_mm=whole(mind.budget_mm),
        visits=whole(zeros),
        sensed=jnp.asarray(mind.sensed),
        sightings=Sightings(jnp.asarray(seen), whole(cell), whole(np.zeros((ROBOTS, config.history)))),
        number=whole(mind.number),
        team_size=whole(mind.team_size),
        fov_deg=whole(mind.camera[0]),
        range_mm=whole(mind.camera[1]),
        speed_mm_s=whole(1000),
        yaw_rate_deg_s=whole(35),
        radius_mm=whole(0),
        spacing_mm=whole(config.spacing_mm),
        cell_mm=whole(round(1000 * config.spacing_m / config.stride)),
    )


def draw_cells(mind: Mind, seed: int, count: int) -> list[oracles.lattice.Cell]:
    """Some cells to look at: mostly grouped frontiers, sometimes any known-free cell."""
    rng = np.random.default_rng([seed, 8])
    options = np.argwhere(mind.frontier)
    if not len(options) or rng.random() < 0.2:
        options = np.argwhere(mind.belief == FREE)
    return [(int(y), int(x)) for y, x in options[rng.integers(len(options), size=count)]]


def to_goal(found: oracles.goals.Goal | None) -> Goal:
    return Goal.none() if found is None else Goal(whole(found.viewpoint), whole(found.cell))


def from_goal(found: Goal) -> oracles.goals.Goal | None:
    cell = pair(found.cell)
    return None if cell[0] < 0 else oracles.goals.Goal(pair(found.site), cell)


def pair(values) -> tuple[int, int]:
    y, x = np.asarray(values).tolist()
    return y, x


worlds = pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(120)), (FINE, range(15)), (DEFAULT, range(5))])
fewer = pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(100)), (FINE, range(15)), (DEFAULT, range(5))])


def of(tree, number: int):
    return jax.tree.map(lambda leaf: leaf[number], tree)
