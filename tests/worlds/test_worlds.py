"""Generated buildings and resampling, against plain flood fills and counts made here."""

import hashlib
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decmarvel.worlds import FAMILIES, Building, MapError, generate
from decmarvel.worlds.resample import resample
from decmarvel.worlds.statistics import betti_number, block_statistics, blocks_of

indices = st.integers(0, 10**9)
splits = st.sampled_from(["train", "heldout"])
families = st.sampled_from(FAMILIES)
square_families = st.sampled_from(["indoor", "office", "hall"])

PINNED = {
    "indoor": "aca3fa4e0ff95253",
    "office": "810c17afa4e77753",
    "hall": "b77150d3eee5f8ee",
    "floorplan": "32fefc3c2472fc89",
    "warehouse": "dca86423e8430296",
    "mixed": "6116614b616d266d",
}
"""The first digits of the hash of each family's held-out building 0."""


def flood_fill(free: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """The cells 4-connected to the start, one by one."""
    reached = np.zeros_like(free)
    reached[start] = True
    queue = deque([start])
    while queue:
        row, column = queue.popleft()
        for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            inside = 0 <= near[0] < free.shape[0] and 0 <= near[1] < free.shape[1]
            if inside and free[near] and not reached[near]:
                reached[near] = True
                queue.append(near)
    return reached


def piece_of(free: np.ndarray) -> np.ndarray:
    """A number for each cell's 4-connected piece, 0 for walls."""
    pieces = np.zeros(free.shape, int)
    for start in map(tuple, np.argwhere(free).tolist()):
        if not pieces[start]:
            pieces[flood_fill(free, start)] = pieces.max() + 1
    return pieces


def walls_around(blocks: np.ndarray) -> int:
    """Loops counted the other way: 8-connected pieces of wall, less the outer one."""
    padded = np.pad(~blocks, 1, constant_values=True)
    pieces = 0
    left = set(map(tuple, np.argwhere(padded).tolist()))
    while left:
        pieces += 1
        queue = [left.pop()]
        while queue:
            row, column = queue.pop()
            near = {(row + dy, column + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            queue.extend(near)
    return pieces - 1


def digest(building: Building) -> str:
    return hashlib.sha256(building.free.tobytes() + repr(building.start).encode()).hexdigest()


@settings(max_examples=40)
@given(split=splits, index=indices)
def test_indoor_is_made_of_blocks_with_exactly_one_loop(split: str, index: int) -> None:
    building = generate("indoor", split, index)
    blocks = blocks_of(building)
    assert building.free.shape == (250, 250)
    assert blocks.shape == (20, 20)
    pixels = np.kron(blocks, np.ones((25, 25), bool))
    np.testing.assert_array_equal(building.free, pixels.reshape(250, 2, 250, 2).all(axis=(1, 3)))
    assert not np.concatenate((blocks[0], blocks[-1], blocks[:, 0], blocks[:, -1])).any()
    start_block = (int((building.start[0] + 0.5) * 0.4 // 5), int((building.start[1] + 0.5) * 0.4 // 5))
    np.testing.assert_array_equal(flood_fill(blocks, start_block), blocks)
    assert walls_around(blocks) == 1

    statistics = block_statistics(building)
    assert statistics.loops == statistics.components == 1
    assert sum(statistics.room_degrees) == 2 * statistics.rooms, "a tree and one door more: as many doors as rooms"
    assert set(statistics.room_sides) <= {2, 3, 4}
    assert statistics.rooms_on_loops >= 2
    assert 3000 < statistics.free_area_m2 < 5300


@settings(max_examples=25)
@given(split=splits, index=indices)
def test_indoor_start_is_in_the_middle_of_a_room(split: str, index: int) -> None:
    building = generate("indoor", split, index)
    row, column = building.start
    assert building.free[row - 12 : row + 13, column - 12 : column + 13].all(), "at least a 5 m step to each side"
    y_m, x_m = (row + 0.5) * 0.4, (column + 0.5) * 0.4
    assert (52.0 if split == "heldout" else 32.0) < x_m < 68.0
    assert 32.0 < y_m < (48.0 if split == "heldout" else 68.0), "to the right of and below the centre, y pointing up"


def test_indoor_training_starts_lie_in_all_quadrants() -> None:
    starts = np.array([generate("indoor", "train", index).start for index in range(60)])
    quadrants = {tuple(quadrant) for quadrant in (starts > 125).tolist()}
    assert len(quadrants) == 4


@pytest.mark.slow
def test_indoor_matches_the_statistics_it_is_modelled_on() -> None:
    """Means measured on 100 test maps and 300 training maps of the kind; the margins are about four standard errors."""
    for split, area_m2, rooms, leaves in (("heldout", 4174, 17.4, 5.4), ("train", 4091, 18.9, 5.8)):
        statistics = [block_statistics(generate("indoor", split, index)) for index in range(150)]
        assert np.mean([s.free_area_m2 for s in statistics]) == pytest.approx(area_m2, abs=100)
        assert np.mean([s.rooms for s in statistics]) == pytest.approx(rooms, abs=0.9)
        assert np.mean([s.leaf_rooms for s in statistics]) == pytest.approx(leaves, abs=0.7)
        loops = np.array([s.rooms_on_loops for s in statistics])
        for low, high in ((2, 2), (3, 4), (5, 8), (9, 400)):
            assert 0.12 < ((loops >= low) & (loops <= high)).mean() < 0.40


@settings(max_examples=30)
@given(family=square_families, split=splits, index=indices, cell_m=st.sampled_from([0.2, 1 / 3, 0.4, 0.5]))
def test_every_building_is_one_piece_with_its_start_in_the_open(
    family: str, split: str, index: int, cell_m: float
) -> None:
    building = generate(family, split, index, cell_m)
    assert building.free[building.start]
    assert building.free.shape == (round(100 / cell_m),) * 2
    np.testing.assert_array_equal(flood_fill(building.free, building.start), building.free)
    assert 1500 < building.free.sum() * cell_m**2 < 5300
    row, column = building.start
    reach = int(0.8 / cell_m)
    assert building.free[row - reach : row + reach + 1, column].all()
    assert building.free[row, column - reach : column + reach + 1].all()


@settings(max_examples=15)
@given(family=families, split=splits, index=indices)
def test_the_same_number_gives_the_same_building(family: str, split: str, index: int) -> None:
    first, second = generate(family, split, index), generate(family, split, index)
    assert digest(first) == digest(second)
    assert first.name == second.name == f"{family}-{split}-{index:06d}"


def test_generation_does_not_change_between_versions() -> None:
    """Results name maps by their number, so a number must keep its building. Change this only with the changelog."""
    seen = {family: digest(generate(family, "heldout", 0))[:16] for family in FAMILIES}
    assert seen == PINNED


@pytest.mark.slow
@pytest.mark.parametrize("family", ["indoor", "office", "hall"])
def test_splits_never_share_a_building(family: str) -> None:
    count = 200 if family == "indoor" else 60
    seen = [digest(generate(family, split, index)) for split in ("train", "heldout") for index in range(count)]
    assert len(set(seen)) == 2 * count


def test_office_has_many_loops_and_thin_walls() -> None:
    for index in range(10):
        free = generate("office", "train", index).free
        assert betti_number(free) >= 5
        thin = ~free[1:-1] & free[:-2] & free[2:]
        thick = ~free[1:-2] & ~free[2:-1] & free[:-3] & free[3:]
        assert thin.sum() > 100 or thick.sum() > 100


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("castle", "train", 0), "indoor, office, hall, floorplan, warehouse, mixed"),
        (("indoor", "test", 0), "train, heldout"),
        (("indoor", "train", -1), "count from 0"),
        (("indoor", "train", 0, 3.0), "0.05"),
    ],
)
def test_wrong_wishes_are_answered_with_the_choices(arguments: tuple, says: str) -> None:
    with pytest.raises(MapError, match=says):
        generate(*arguments)


@given(st.data())
def test_betti_number_counts_enclosed_walls(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    free = np.array(data.draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns)))
    free = free.reshape(rows, columns)
    assert betti_number(free) == walls_around(free)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(4, 24), st.integers(4, 24)),
    wall_share=st.floats(0.05, 0.6),
    pixel_m=st.sampled_from([0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0]),
    cell_m=st.sampled_from([0.1, 0.2, 1 / 3, 0.4, 0.45]),
)
def test_resampling_never_joins_what_walls_separate(
    seed: int, shape: tuple[int, int], wall_share: float, pixel_m: float, cell_m: float
) -> None:
    free = np.random.default_rng(seed).random(shape) > wall_share
    cells = resample(free, pixel_m, cell_m)
    before, after = piece_of(free), piece_of(cells)
    origins: dict[int, set[int]] = {}
    for row, column in np.argwhere(cells).tolist():
        pixel = (int((row + 0.5) * cell_m / pixel_m + 1e-9), int((column + 0.5) * cell_m / pixel_m + 1e-9))
        origins.setdefault(int(after[row, column]), set()).add(int(before[pixel]))
    assert all(len(pieces) == 1 and 0 not in pieces for pieces in origins.values())


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    pixel_m=st.sampled_from([0.05, 0.1, 0.3, 0.4, 0.7]),
    cell_m=st.sampled_from([0.1, 0.3, 0.4]),
)
def test_resampling_follows_its_rule_cell_by_cell(
    seed: int, shape: tuple[int, int], pixel_m: float, cell_m: float
) -> None:
    free = np.random.default_rng(seed).random(shape) > 0.3
    pixel, cell = round(pixel_m * 20), round(cell_m * 20)  # in units of 0.05 m, where everything is whole
    rows, columns = (-(-side * pixel // cell) for side in shape)
    expected = np.zeros((rows, columns), bool)
    for row in range(rows):
        for column in range(columns):
            centre = ((2 * row + 1) * cell // (2 * pixel), (2 * column + 1) * cell // (2 * pixel))
            expected[row, column] = centre[0] < shape[0] and centre[1] < shape[1] and free[centre]
    for row, column in np.argwhere(~free).tolist():
        expected[(2 * row + 1) * pixel // (2 * cell), (2 * column + 1) * pixel // (2 * cell)] = False
    np.testing.assert_array_equal(resample(free, pixel_m, cell_m), expected)


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 20), columns=st.integers(1, 20))
def test_halving_is_the_2x2_minimum_and_equal_sizes_change_nothing(seed: int, rows: int, columns: int) -> None:
    free = np.random.default_rng(seed).random((2 * rows, 2 * columns)) > 0.2
    np.testing.assert_array_equal(resample(free, 0.2, 0.4), free.reshape(rows, 2, columns, 2).all(axis=(1, 3)))
    np.testing.assert_array_equal(resample(free, 1 / 3, 1 / 3), free)


def test_the_start_room_has_a_single_door() -> None:
    """Every map of the data set is like that, and it decides how easily a team spreads out."""
    for index in range(40):
        building = generate("indoor", "train" if index % 2 else "heldout", index)
        free = blocks_of(building)
        low = np.array([int(value * building.cell_m // 5) for value in building.start])
        high = low + 1
        while True:  # grow the rectangle around the start by one block on each side where a whole row is free
            room = (slice(low[0], high[0]), slice(low[1], high[1]))
            walls = [
                free[low[0] - 1, room[1]],
                free[room[0], low[1] - 1],
                free[high[0], room[1]],
                free[room[0], high[1]],
            ]
            grown = [wall.all() for wall in walls]
            if not any(grown):
                break
            low, high = low - grown[:2], high + grown[2:]
        assert sum(int(wall.sum()) for wall in walls) == 1
