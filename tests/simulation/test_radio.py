"""What a radio shares: one map, and graphs that follow from all of it."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.camera
import oracles.goals
import oracles.graph
import oracles.lattice
import oracles.nbvp
import oracles.shared_greedy
from cases import FINE, SMALL, connected
from decmarvel.core.config import Config
from decmarvel.core.types import ABSENT, EXPLORING, FAR_MM, FREE, LocalView
from decmarvel.robot.planners import nbvp
from decmarvel.robot.sight import nearest_frontiers
from decmarvel.simulation import roster
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.radio import share
from decmarvel.simulation.types import Move, State
from decmarvel.worlds.world import World
from minds import ROBOTS, edges_of, of, pair, site_cells, whole, whole_sight
from missions import jitted_reset, mission
from oracles.lattice import OCCUPIED, UNKNOWN
from oracles.mind import Mind
from robot.planners.checks import check_gains, whole_gain

pytestmark = pytest.mark.slow


def learned(config: Config, world, robots, move) -> tuple[np.ndarray, np.ndarray]:
    """Everybody's own belief and sensed headings after a decision, before they are shared."""
    beliefs, sensed = robots.belief.copy(), robots.sensed.copy()
    for number in range(ROBOTS):
        if int(move.mode[number]) > 1:
            continue
        here, there, heading = pair(robots.site[number]), pair(move.target[number]), int(robots.heading[number])
        camera = int(robots.fov_deg[number]), int(robots.range_mm[number])
        slot = oracles.nbvp.slot_between(here, there)
        length = 0 if slot is None else oracles.lattice.slot_length_mm(config, slot)
        turn = oracles.camera.limited_turn(config, heading, int(move.heading[number]), length)
        for cell, now in oracles.camera.substep_poses(config, here, there, heading, turn):
            seen = oracles.camera.footprint(config, world.free, *cell, now, *camera)
            beliefs[number] = oracles.camera.update_belief(beliefs[number], world.free, seen)
        for bin_ in oracles.camera.surely_seen_bins(config, (heading + turn) % 360, camera[0]):
            sensed[number, there[0], there[1], bin_] = True
    return beliefs, sensed


def check_radio(config: Config, before, after, move) -> None:
    """One map for all, and graphs that follow from all of it although only parts were worked out again."""
    robots = after.robots
    belief, sensed = oracles.shared_greedy.shared_map(*learned(config, before.world, before.robots, move))
    edge = oracles.graph.edges(config, belief)
    mm, cell = jax.device_get(nearest_frontiers(config, of(jax.tree.map(jnp.asarray, robots.graph), 0)))
    for number in range(ROBOTS):
        graph, base = of(robots.graph, number), pair(robots.base[number])
        np.testing.assert_array_equal(robots.belief[number], belief)
        np.testing.assert_array_equal(robots.sensed[number], sensed)
        for leaf, first in zip(jax.tree.leaves(graph.sight), jax.tree.leaves(of(robots.graph.sight, 0)), strict=True):
            np.testing.assert_array_equal(leaf, first)
        home = oracles.graph.distances(config, edge, [base])
        np.testing.assert_array_equal(edges_of(graph), edge)
        np.testing.assert_array_equal(graph.home_mm, home)
        if number:  # all nodes are connected, so the rest is the same for everybody
            continue
        node = home < FAR_MM
        utility, histogram = oracles.graph.utilities(config, belief, node)
        useful = [pair(site) for site in np.argwhere(utility > 0)]
        np.testing.assert_array_equal(np.where(node, graph.sight.utility, 0), utility)
        np.testing.assert_array_equal(graph.sight.histogram * node[..., None], histogram)
        np.testing.assert_array_equal(graph.useful_mm, oracles.graph.distances(config, edge, useful))
        mind = Mind(config, belief, np.zeros_like(sensed), base, base, FAR_MM)
        for site in np.argwhere(node):
            expected = oracles.goals.nearest_by_bin(mind, pair(site))
            for towards in range(config.heading_bins):
                place = (*pair(site), towards)
                assert (int(mm[place]), pair(cell[place])) == expected.get(towards, (FAR_MM, pair(cell[place])))


def test_radio_equals_a_full_recomputation():
    """Along missions: one map, and everything that follows from it, for all robots after every decision."""
    learned_more = 0
    for seed in range(6):
        for before, after, move in mission(SMALL, "shared-greedy", seed, 12):
            before, after, move = jax.device_get((before.state, after.state, move))
            check_radio(SMALL, before, after, move)
            known = (after.robots.belief[0] == FREE).sum()
            assert (after.progress.own_covered == np.where(after.robots.mode != ABSENT, known, 0)).all()
            learned_more += (before.robots.belief[0] != after.robots.belief[0]).any()
    assert learned_more > 20


def test_without_a_radio_maps_differ():
    """What the test above would say of a planner that does not communicate."""
    (_, after, _), *_ = mission(SMALL, "nearest", 0, 1)
    beliefs = np.asarray(after.state.robots.belief)
    assert (beliefs[0] != beliefs[1]).any()


jitted_share = jax.jit(share, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def first_view(config: Config, state: State, belief) -> LocalView:
    """What the first robot knows, should it hold this belief."""
    return dataclasses.replace(of(views(config, state), 0), belief=belief)


@partial(jax.jit, static_argnums=0)
def refresh(config: Config, view: LocalView, plan: nbvp.Plan) -> nbvp.Plan:
    """The gains after a decision."""
    return nbvp.Plan(*nbvp.refresh(config, view, plan), plan.branch, view.site)


def on_floor(config: Config, belief: np.ndarray) -> np.ndarray:
    """The sites on known floor: only there can a node be."""
    cell = site_cells(config, oracles.lattice.sites_a_side(config, belief.shape[0]))
    return belief[cell[..., 0], cell[..., 1]] == FREE


def rough_field(config: Config, sites: int, rng) -> World:
    """Open ground with clutter, much wider than what a decision can change."""
    size, margin = config.lattice.grid_cells(sites), config.margin_cells
    free = np.zeros((size, size), bool)
    free[margin:-margin, margin:-margin] = rng.random((size - 2 * margin,) * 2) > 0.02
    y, x = oracles.lattice.site_cell(config, sites // 2, sites // 2)
    free[y - 1 : y + 2, x - 1 : x + 2] = True
    free = connected(free, (y, x))
    floor = jnp.asarray(free)
    return World(floor, whole([sites // 2] * 2), floor, whole(free.sum()))


def with_patches(state: State, config: Config, rng) -> State:
    """Everybody knows the same patches all over the field, so that nodes and the unknown are everywhere."""
    belief, size = np.array(state.robots.belief[0]), state.world.free.shape[0]
    truth = np.where(state.world.free, FREE, OCCUPIED)
    for _ in range(60):
        y, x = rng.integers(config.margin_cells, size - config.margin_cells, 2)
        part = np.s_[y : y + rng.integers(size // 4), x : x + rng.integers(size // 4)]
        belief[part] = truth[part]
    belief[-config.margin_cells :] = belief[:, -config.margin_cells :] = UNKNOWN
    holes = rng.random(belief.shape) < 0.02
    belief = jnp.asarray(np.where(holes & (np.array(state.robots.belief[0]) == 0), 0, belief), jnp.uint8)
    sight = whole_sight(config, belief)
    team = jax.tree.map(lambda leaf: jnp.stack([leaf] * ROBOTS), (belief, sight))
    return eqx.tree_at(lambda s: (s.robots.belief, s.robots.graph.sight), state, team)


def scatter(config: Config, robots, rng) -> Move:
    """Each robot takes an edge, mostly away from its base, and looks somewhere."""
    target, heading = robots.site.copy(), rng.integers(0, 360, ROBOTS)
    for number in range(ROBOTS):
        here, base = pair(robots.site[number]), robots.base[number]
        slots = np.flatnonzero(edges_of(robots.graph)[number, :, here[0], here[1]])
        ends = [oracles.lattice.neighbour(here, int(slot)) for slot in rng.permutation(slots)]
        if ends:
            far = max(ends, key=lambda end: np.abs(end - base).sum())
            target[number] = far if rng.random() < 0.5 else ends[0]
    nothing = whole([0] * ROBOTS)
    return Move(whole(target), whole(heading), whole([EXPLORING] * ROBOTS), nothing, path_of(config, robots, target))


def path_of(config: Config, robots, target) -> jax.Array:
    """The cells of the moves after each substep."""
    paths = []
    for start, end in zip(robots.site, target, strict=True):
        poses = oracles.camera.substep_poses(config, pair(start), pair(end), 0, 0)
        paths.append([cell for cell, _ in poses])
    return whole(paths)


@pytest.mark.parametrize(("config", "sites", "steps"), [(SMALL, 24, 6), (FINE, 30, 4)])
def test_what_is_updated_in_parts_is_right_everywhere(config, sites, steps):
    """A team in a wide field: its shared map, and the gains of its first robot as if that were alone."""
    assert config.window_sites < 0.55 * sites
    rng = np.random.default_rng(5)
    state = jitted_reset(config, jax.random.key(5), rough_field(config, sites, rng), Fleet.of(ROBOTS, 500.0))
    state = with_patches(state, config, rng)
    state = jitted_share(config, state.robots, state)
    alone = np.array(state.robots.belief[0])
    start = roster.planner("nbvp").start(config, sites)
    view = first_view(config, state, jnp.asarray(alone))
    plan = nbvp.Plan(*whole_gain(config, view), start.branch, start.site)
    for _ in range(steps):
        before = jax.device_get(state)
        move = scatter(config, before.robots, rng)

        plan = refresh(config, first_view(config, state, jnp.asarray(alone)), plan)
        check_gains(config, alone, on_floor(config, alone), np.asarray(plan.gain), np.asarray(plan.heading_bin))
        own = eqx.tree_at(lambda robots: robots.belief, before.robots, np.stack([alone] * ROBOTS))
        alone = learned(config, before.world, own, move)[0][0]

        beliefs, sensed = learned(config, before.world, before.robots, move)
        news = (jnp.asarray(beliefs), jnp.asarray(sensed), whole(move.target))
        moved = eqx.tree_at(lambda s: (s.robots.belief, s.robots.sensed, s.robots.site), state, news)
        state = jitted_share(config, state.robots, moved)
        check_radio(config, before, jax.device_get(state), move)
