"""Line of sight, footprints, poses along a move, private and merged belief: each against its oracle."""

import dataclasses
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles.camera
import oracles.lattice
from cases import DEFAULT, FINE, SMALL, Case, cases, draw_case, free_cell
from decmarvel.core.angles import scaled_step
from decmarvel.core.camera import footprint, limited_turn, scan, sensor_disc, surely_seen_bins
from decmarvel.core.config import Config
from decmarvel.core.types import Robot
from decmarvel.robot.belief import remember
from decmarvel.simulation.environment import reset, way
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.team_map import coverage, merge
from decmarvel.worlds import generate
from decmarvel.worlds.place import place

KEY = jax.random.key(0)
seeds = st.integers(0, 2**32 - 1)


@partial(jax.jit, static_argnums=0)
def sense(config, free, cell, heading, fov_deg=None, range_mm=None):
    fov_deg = jnp.asarray(config.fov_deg) if fov_deg is None else fov_deg
    range_mm = jnp.asarray(config.sensor_range_mm) if range_mm is None else range_mm
    return footprint(config, free, cell, heading, KEY, range_mm, fov_deg), scan(config, free, cell, range_mm)


def whole(value):
    return jnp.asarray(value, jnp.int32)


def patch_cells(patch: np.ndarray, cell: tuple[int, int]) -> set[tuple[int, int]]:
    reach = patch.shape[0] // 2
    return {(int(y) + cell[0] - reach, int(x) + cell[1] - reach) for y, x in np.argwhere(patch)}


def check_sensing(case: Case, seed: int) -> None:
    config, cell = case.config, free_cell(case, seed)
    heading = seed % 360
    seen, all_round = sense(config, jnp.asarray(case.free), jnp.asarray(cell), jnp.asarray(heading))
    assert patch_cells(np.asarray(seen), cell) == oracles.camera.footprint(config, case.free, *cell, heading)
    assert patch_cells(np.asarray(all_round), cell) == oracles.camera.full_scan(config, case.free, *cell)
    rng = np.random.default_rng([seed, 1])
    fov_deg, range_mm = int(rng.integers(1, 361)), int(rng.integers(round(1000 * config.sensor_range_m) + 1))
    seen, all_round = sense(
        config, jnp.asarray(case.free), jnp.asarray(cell), *(jnp.asarray(v) for v in (heading, fov_deg, range_mm))
    )
    own = oracles.camera.footprint(config, case.free, *cell, heading, fov_deg, range_mm)
    assert patch_cells(np.asarray(seen), cell) == own
    assert patch_cells(np.asarray(all_round), cell) == oracles.camera.full_scan(config, case.free, *cell, range_mm)


@given(cases(SMALL), seeds)
@settings(max_examples=200)
def test_footprint_equals_oracle(case, seed):
    check_sensing(case, seed)


@pytest.mark.parametrize("config", [DEFAULT, FINE])
@pytest.mark.parametrize("seed", range(20))
def test_footprint_equals_oracle_at_other_scales(config, seed):
    check_sensing(draw_case(config, seed), seed)


@given(cases(SMALL), seeds)
@settings(max_examples=200)
def test_nothing_is_seen_through_a_wall(case, seed):
    """What is seen and free can be walked to over free cells nearby; what is seen and solid stands beside one."""
    cell = free_cell(case, seed)
    _, patch = sense(case.config, jnp.asarray(case.free), jnp.asarray(cell), jnp.asarray(0))
    seen = patch_cells(np.asarray(patch), cell)
    reached, stack = {cell}, [cell]
    while stack:
        y, x = stack.pop()
        for near in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            # A free cell beside a diagonal step may itself lie outside the disc or hidden; walking through it is fair.
            if case.free[near] and near not in reached and max(abs(near[0] - cell[0]), abs(near[1] - cell[1])) <= 10:
                reached.add(near)
                stack.append(near)
    for y, x in seen:
        if case.free[y, x]:
            assert (y, x) in reached
        else:
            around = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)}
            assert around & reached


def test_a_diagonal_wall_hides_what_is_behind_it():
    free = np.ones((80, 80), bool)
    for k in range(80):
        free[k, 79 - k] = False  # cells that touch at corners only
    _, patch = sense(SMALL, jnp.asarray(free), jnp.asarray((35, 35)), jnp.asarray(0))
    assert all(y + x <= 79 for y, x in patch_cells(np.asarray(patch), (35, 35)))


def test_share_of_cells_that_differ_from_bresenham():
    """Stated in docs/model.md: the share of the free cells in sight on the maps of the default family."""
    differ = total = 0
    rng = np.random.default_rng(0)
    for index in range(12):
        free = np.asarray(place(generate("indoor", "heldout", index), DEFAULT).free)
        for y, x in rng.permutation(np.argwhere(free))[:8]:
            ours = {c for c in oracles.camera.visible_cells(free, int(y), int(x), 25.0) if free[c]}
            classical = {c for c in oracles.camera.bresenham_visible_cells(free, int(y), int(x), 25.0) if free[c]}
            differ += len(ours ^ classical)
            total += len(ours | classical)
    print(f"{differ / total:.2%} of {total} cells")
    assert differ / total < 0.01


@given(cases(SMALL), seeds)
@settings(max_examples=100)
def test_belief_update_equals_oracle(case, seed):
    cell, config = free_cell(case, seed), case.config
    seen, _ = sense(config, jnp.asarray(case.free), jnp.asarray(cell), jnp.asarray(seed % 360))
    (y, x), reach = cell, seen.shape[0] // 2
    around = case.free[y - reach : y + reach + 1, x - reach : x + reach + 1]
    new = jax.jit(remember)(jnp.asarray(case.belief), jnp.asarray(around), seen, jnp.asarray(cell))
    expected = oracles.camera.update_belief(
        case.belief, case.free, oracles.camera.footprint(config, case.free, *cell, seed % 360)
    )
    np.testing.assert_array_equal(new, expected)


@given(seeds)
def test_merged_belief_and_coverage(seed):
    """Eq. 4 and C_t."""
    rng = np.random.default_rng(seed)
    free = rng.random((9, 9)) < 0.6
    free[4, 4] = True
    truth = np.where(free, 1, 2)
    beliefs = np.where(rng.random((3, 9, 9)) < 0.4, truth, 0).astype(np.uint8)
    merged = merge(jnp.asarray(beliefs))
    np.testing.assert_array_equal(merged, oracles.camera.merged_belief(beliefs))
    covered, total = oracles.camera.coverage(np.asarray(merged), free)
    assert float(coverage(merged, jnp.asarray(total))) == pytest.approx(covered / total)


def test_merged_belief_prefers_occupied():
    """Eq. 4 lists occupied first: where robots disagree the wall wins."""
    beliefs = np.array([[[1, 0], [1, 1]], [[2, 0], [0, 1]]], np.uint8)
    assert merge(jnp.asarray(beliefs)).tolist() == [[2, 0], [1, 1]]


sites = st.tuples(st.integers(2, 9), st.integers(2, 9))


@jax.jit
def move(robot: Robot, target, wanted):
    """The cells and headings of a move on the plain lattice, its turn and its length."""
    path, length = way(SMALL, robot, target)
    turn = limited_turn(SMALL, robot, wanted, length)
    number = jnp.arange(1, SMALL.substeps + 1, dtype=jnp.int32)
    return path, (robot.heading + scaled_step(turn, number, SMALL.substeps)) % 360, turn, length


@cache
def somebody() -> Robot:
    """Some robot of SMALL."""
    case = draw_case(SMALL, 1)
    state = jax.jit(reset, static_argnums=0)(SMALL, KEY, case.world, Fleet.of(1, 10.0))
    return jax.tree.map(lambda leaf: leaf[0], state.robots)


@given(
    sites,
    st.tuples(st.integers(-2, 2), st.integers(-2, 2)),
    st.integers(0, 359),
    st.integers(0, 359),
    st.sampled_from([(35, 1000), (90, 500), (10, 2500)]),
)
def test_poses_along_a_move(start, offset, heading, wanted, speeds):
    """Substep by substep; how far a robot turns depends on its own speeds."""
    config: Config = SMALL
    target = (start[0] + offset[0], start[1] + offset[1])
    slot = 5 * (offset[0] + 2) + offset[1] + 2
    length = oracles.lattice.slot_length_mm(config, slot) if slot != 12 else 0
    robot = dataclasses.replace(
        somebody(),
        site=whole(start),
        heading=whole(heading),
        yaw_rate_deg_s=whole(speeds[0]),
        speed_mm_s=whole(speeds[1]),
    )
    path, headings, turn, flown = move(robot, whole(target), whole(wanted))
    assert int(flown) == length
    assert int(turn) == oracles.camera.limited_turn(config, heading, wanted, length, *speeds)
    poses = oracles.camera.substep_poses(config, start, target, heading, int(turn))
    assert [(tuple(cell), now) for cell, now in zip(path.tolist(), headings.tolist(), strict=True)] == poses


@pytest.mark.parametrize("bins", [36, 24])
def test_bins_that_are_surely_seen(bins):
    """For every field of view: the heading's own bin, and those that lie wholly in view."""
    config = Config(heading_bins=bins)
    for fov_deg in range(1, 361):
        reach = int(surely_seen_bins(config, whole(fov_deg)))
        got = {bin_ % bins for bin_ in range(-reach, reach + 1)}
        assert got == oracles.camera.surely_seen_bins(config, 0, fov_deg)


def test_a_camera_of_ten_metres_reaches_25_cells():
    assert sensor_disc(DEFAULT).reach == 25
    assert int(sensor_disc(DEFAULT).inside.sum()) + 1 == sum(
        dy * dy + dx * dx <= 625 for dy in range(-25, 26) for dx in range(-25, 26)
    )
