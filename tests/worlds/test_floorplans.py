"""The families drawn at 0.1 m: floor plans and warehouses, against flood fills, erosions and stated ranges."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from decmarvel.worlds import Building, generate
from decmarvel.worlds.building import MapError
from decmarvel.worlds.canvas import Box, Canvas
from decmarvel.worlds.measures import RADII_M, measure, reached, reached_shares
from decmarvel.worlds.scan import wander
from decmarvel.worlds.statistics import betti_number

FINE = ("floorplan", "warehouse")
COUNT = 20

families = st.sampled_from(FINE)
splits = st.sampled_from(["train", "heldout"])
indices = st.integers(0, 10**9)


@cache
def buildings(family: str) -> list[Building]:
    return [generate(family, "heldout", index, 0.1) for index in range(COUNT)]


@cache
def shares(family: str) -> dict[float, float]:
    """Mean share of the floor that is reached, for each radius."""
    return dict(zip(RADII_M, np.mean([reached_shares(one) for one in buildings(family)], axis=0), strict=True))


def floors_m2(family: str) -> np.ndarray:
    return np.array([one.free.sum() * 0.01 for one in buildings(family)])


def disc(radius: float) -> np.ndarray:
    reach = int(radius)
    y, x = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    return y**2 + x**2 <= radius**2


@settings(max_examples=12)
@given(family=families, split=splits, index=indices, cell_m=st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.4, 0.5]))
def test_one_piece_with_walls_around_and_a_free_start(family: str, split: str, index: int, cell_m: float) -> None:
    building = generate(family, split, index, cell_m)
    free = building.free
    assert free[building.start]
    assert ndimage.label(free)[1] == 1
    assert not np.concatenate((free[0], free[-1], free[:, 0], free[:, -1])).any()
    assert building.name == f"{family}-{split}-{index:06d}"


@settings(max_examples=15)
@given(family=families, split=splits, index=indices)
def test_start_is_in_a_corridor_or_lobby_with_room_to_turn(family: str, split: str, index: int) -> None:
    building = generate(family, split, index, 0.1)
    row, column = building.start
    assert building.free[row - 6 : row + 7, column - 6 : column + 7][disc(6)].all()


@settings(max_examples=12)
@given(family=families, split=splits, index=indices)
def test_doors_let_a_robot_of_a_quarter_of_a_metre_pass(family: str, split: str, index: int) -> None:
    """From the start, at 0.1 m, through plain erosion and a flood; and cells of 0.2 m close no doors either."""
    building = generate(family, split, index, 0.1)
    padded = np.pad(building.free, 4)
    fits = ndimage.binary_erosion(padded, disc(2.4))
    parts, _ = ndimage.label(fits)
    row, column = building.start
    passed = ndimage.binary_dilation(parts == parts[row + 4, column + 4], disc(3.6)) & padded
    assert passed.sum() > 0.9 * padded.sum()
    assert generate(family, split, index, 0.2).free.sum() * 4 > 0.75 * building.free.sum()


@pytest.mark.parametrize("family", FINE)
def test_arrays_are_as_large_as_the_building(family: str) -> None:
    for index in range(5):
        building = generate(family, "train", index, 0.1)
        rows, columns = np.nonzero(building.free)
        for cells, side in ((rows, building.free.shape[0]), (columns, building.free.shape[1])):
            assert 5 <= cells.min() <= 8
            assert 5 <= side - 1 - cells.max() <= 8
        assert min(building.free.shape) >= 80, "maps below 8 m a side could not be loaded again"


@pytest.mark.parametrize("family", FINE)
def test_no_two_buildings_are_the_same(family: str) -> None:
    seen = [generate(family, split, index, 0.2).free for split in ("train", "heldout") for index in range(6)]
    assert len({free.tobytes() for free in seen}) == 12
    assert generate(family, "train", 3, 0.2).free.tobytes() == seen[3].tobytes()


def test_floor_plans_measure_like_real_buildings() -> None:
    """Ranges from plans of universities and an office map: docs/results.md."""
    floors = floors_m2("floorplan")
    assert floors.min() > 180
    assert floors.max() < 3000
    assert 600 < floors.mean() < 1500
    share = shares("floorplan")
    assert share[0.15] > 0.99
    assert share[0.25] > 0.96
    assert 0.9 < share[0.35] < 0.995
    assert 0.7 < share[0.45] < 0.97
    assert 0.45 < share[0.6] < 0.9
    assert 0.3 < share[0.8] < 0.7
    assert 0.2 < share[1.0] < 0.6
    some = [measure(one) for one in buildings("floorplan")[:4]]
    corridors = [width for one in some for width in one.corridors_m]
    assert 1.5 < np.median(corridors) < 5
    openings = [width for one in some for width in one.openings_m]
    assert 0.7 < np.median(openings) < 2.0


def test_warehouses_are_open_to_large_robots() -> None:
    share = shares("warehouse")
    assert share[0.25] > 0.97
    assert share[1.0] > 0.85
    floors = floors_m2("warehouse")
    assert 300 < floors.min() < floors.max() < 2500


def test_floor_plans_have_loops_of_corridors() -> None:
    """Furniture and walls between rooms make loops, too, so 3 m are closed first: what is left are courtyards."""
    loops = []
    for index in range(COUNT):
        free = np.pad(generate("floorplan", "heldout", index, 0.2).free, 20)
        closed = ndimage.minimum_filter(ndimage.maximum_filter(free, 15), 15)
        loops.append(betti_number(closed))
    assert max(loops) >= 1
    assert min(loops) == 0


def test_rays_through_glass_lead_no_robot_outside() -> None:
    """Some buildings have floor in streaks that even a small robot does not pass over."""
    streaks = []
    for building in buildings("floorplan")[:10]:
        streaks.append((building.free & ~reached(building, 0.15)).sum() * 0.01)
    assert max(streaks) > 2
    assert max(streaks) < 60


def test_mixed_draws_from_all_families() -> None:
    shapes = [generate("mixed", "train", index, 0.4).free.shape for index in range(40)]
    large = sum(shape == (250, 250) for shape in shapes)
    assert 14 < large < 34, "three of five families"


def test_measures_of_a_plain_building() -> None:
    """A corridor of 2 m by 20 m, and a room of 5 m x 4 m behind a door of 1 m."""
    canvas = Canvas.empty(90, 220)
    canvas.carve(Box(10, 10, 30, 210))
    canvas.carve(Box(32, 50, 72, 100))
    canvas.carve(Box(30, 70, 32, 80))
    found = measure(Building(canvas.free, (20, 20), 0.1, "plain"))
    assert found.size_m == pytest.approx((20.0, 6.2))
    assert found.floor_m2 == pytest.approx(40 + 20 + 0.2)
    assert found.openings_m == pytest.approx([1.0], abs=0.11)
    assert found.corridors_m == pytest.approx([2.0], abs=0.25)
    assert found.rooms_m2 == pytest.approx([20.0], abs=1.5)
    assert found.reached[2] > 0.97, "a robot of 0.35 m radius passes the door"
    assert found.reached[4] == pytest.approx(40 / 60, abs=0.05), "one of 0.6 m does not"


@given(slope=st.floats(0.001, 0.05), seed=st.integers(0, 10**6))
def test_walls_that_wander_stay_closed(slope: float, seed: int) -> None:
    free = np.zeros((60, 300), bool)
    free[5:25, 5:295] = free[26:50, 5:295] = True
    bent, again = wander(np.random.default_rng(seed), [free, free], slope)
    np.testing.assert_array_equal(bent, again)
    assert bent.sum() == free.sum()
    assert ndimage.label(bent)[1] == 2


def test_unknown_families_are_answered_with_all_names() -> None:
    with pytest.raises(MapError, match="floorplan, warehouse, mixed"):
        generate("castle")
