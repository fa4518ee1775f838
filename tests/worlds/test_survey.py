"""A map file part by part, and the spacing, cells and radius that fit a building."""

import numpy as np
import pytest
from PIL import Image

from decmarvel.simulation.team import Member, Team
from decmarvel.worlds import Building, MapError, generate, load, save
from decmarvel.worlds.fit import FOUND, USUAL_RADIUS_M, body_radius_m, fit, reached_floor
from decmarvel.worlds.place import place
from decmarvel.worlds.reach import ENOUGH, visible_cells
from decmarvel.worlds.survey import count_speckles, survey

FREE, UNKNOWN, WALL = 254, 205, 0
PIXEL_M = 0.1


def write_map(folder, grey: np.ndarray):
    """A map_server file of a picture, y up."""
    Image.fromarray(grey[::-1].astype(np.uint8)).save(folder / "m.pgm")
    (folder / "m.yaml").write_text("image: m.pgm\nresolution: 0.1\norigin: [0, 0, 0]\n")
    return folder / "m.yaml"


def rooms() -> np.ndarray:
    """Two rooms with a door of 0.4 m, a shut room, unknown ground around, and two specks."""
    grey = np.full((100, 160), UNKNOWN)
    for left, right in ((10, 60), (61, 110), (120, 150)):
        grey[9:91, left - 1 : right + 1] = WALL
        grey[10:90, left:right] = FREE
    grey[40:44, 60] = FREE
    grey[30, 30] = WALL
    grey[60, 40] = UNKNOWN
    return grey


def test_all_parts_of_a_map_are_found(tmp_path):
    grey = rooms()
    found = survey(write_map(tmp_path, grey), radius_m=0.3, start_m=(2.0, 2.0))
    free = grey == FREE
    right, shut = np.zeros_like(free), np.zeros_like(free)
    right[:, 61:110] = True
    shut[:, 120:150] = True
    assert (found.building.free == (free & ~shut)).all()
    assert (found.islands == (free & shut)).all()
    assert found.island_sizes_m2 == pytest.approx((80 * 30 * 0.01,))
    assert found.speckles == 2
    assert (found.unknown == (grey == UNKNOWN)).all()
    right[:, 61:65] = False  # a robot in the door sweeps over some floor behind it
    assert found.narrow[right & free].all()  # the door is too narrow
    assert not found.narrow[20:80, 15:25].any()
    slim = survey(tmp_path / "m.yaml", radius_m=0.1, start_m=(2.0, 2.0))
    assert not slim.narrow[20:80, 70:100].any()
    parts = (found.reached, found.narrow, found.islands, found.unknown)
    assert sum(part.astype(int) for part in parts).max() == 1


def test_robots_start_on_what_is_surely_floor(tmp_path):
    """Around the building is a shade that the thresholds just take for free, as some programs leave it."""
    grey = np.full((200, 300), 206)
    grey[20:80, 20:90] = WALL
    grey[25:75, 25:85] = FREE
    grey[40:50, 80:95] = FREE  # the front door
    file = write_map(tmp_path, grey)
    building = load(file, cell_m=0.1)
    assert 25 <= building.start[0] < 75
    assert 25 <= building.start[1] < 85
    assert building.free[150, 200]
    found = survey(file, radius_m=0.1)
    assert found.area_m2(found.doubtful) == pytest.approx((building.free & (grey == 206)).sum() * 0.01)
    assert found.doubtful.any()
    grey[grey == 206] = UNKNOWN
    assert not survey(write_map(tmp_path, grey), radius_m=0.1).doubtful.any()


def test_speckles_are_small_groups_inside():
    free = np.ones((40, 40), bool)
    free[:, 0] = False
    free[5, 5] = free[10:12, 10] = False
    free[20:30, 20:30] = False
    assert count_speckles(free, 0.1) == 2


def test_reached_floor_is_what_a_disc_passes_over():
    free = np.zeros((30, 60), bool)
    free[2:28, 2:28] = free[2:28, 32:58] = free[13:17, 28:32] = True  # a door of 0.4 m
    building = Building(free, (15, 10), PIXEL_M, "two")
    assert not reached_floor(building, 0.3)[:, 32:].any()
    assert reached_floor(building, 0.1)[:, 32:].any()
    assert reached_floor(building, 0.1).sum() >= 0.97 * free.sum()


def test_blocks_stay_as_in_the_paper_and_others_get_bodies(tmp_path):
    blocks = generate("indoor", "heldout", 3)
    save(blocks, tmp_path / "plain.yaml")
    assert body_radius_m(lambda cell_m: generate("indoor", "heldout", 3, cell_m), None) == 0.0
    assert body_radius_m(lambda cell_m: generate("floorplan", "heldout", 3, cell_m), None) == USUAL_RADIUS_M
    assert body_radius_m(lambda cell_m: blocks, 0.4) == 0.4
    team = Team.alike(2)
    found = fit(lambda cell_m: generate("indoor", "heldout", 3, cell_m), team.config())
    assert found.config == team.config()
    world = place(blocks, found.config)
    assert (np.asarray(found.world.free) == np.asarray(world.free)).all()
    assert int(found.world.free_count) == int(world.free_count)


@pytest.mark.parametrize(("family", "index"), [("floorplan", 1), ("floorplan", 3), ("warehouse", 0)])
def test_a_fit_sees_what_the_finest_sees(family, index):
    team = Team.alike(2, Member(radius_m=0.25))

    def build(cell_m: float) -> Building:
        return generate(family, "heldout", index, cell_m)

    found = fit(build, team.config())
    finest = fit(build, team.config(), 1.0)
    assert found.seen >= ENOUGH * finest.seen
    assert found.seen >= found.walked >= FOUND * found.seen
    assert found.config.spacing_m >= 1.0
    counted = np.asarray(found.world.counted)
    assert int(found.world.free_count) == counted.sum()
    assert (counted == visible_cells(found.config, found.world)).all()


def test_small_arenas_work():
    """3.6 m a side, for robots of 0.09 m radius that see 1 m."""
    free = np.zeros((80, 80), bool)
    free[4:76, 4:76] = True
    free[38:42, 4:50] = False
    team = Team.alike(4, Member(range_m=1.0, radius_m=0.09))
    building = Building(free, (20, 20), 0.05, "arena")
    found = fit(lambda cell_m: building, team.config(), 0.4)
    assert found.config.cell_m == pytest.approx(0.05)
    assert found.seen >= ENOUGH


def test_a_start_where_the_robot_does_not_fit_is_refused():
    def build(cell_m: float) -> Building:
        free = np.pad(np.ones((round(6 / cell_m),) * 2, bool), 2)
        return Building(free, (2, 2), cell_m, "corner")

    with pytest.raises(MapError, match=r"corner: a robot of 0\.25 m radius does not fit at the start"):
        fit(build, Team((Member(range_m=4.0, radius_m=0.25),)).config())
