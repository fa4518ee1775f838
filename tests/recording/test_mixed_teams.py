"""Missions on roads, of robots that are not alike: what they knew follows from the file, and pictures show it."""

import numpy as np
import pytest

import mixed
from decmarvel.core.types import FREE
from decmarvel.recording.format import BODY, load_recording
from decmarvel.recording.playback import beliefs
from decmarvel.show.figures import draw_map, draw_mission
from decmarvel.show.film import ZOOM, FramePainter
from decmarvel.show.robots import camera_edge, camera_outline, carries, pose, trail
from recording.test_recording import rewrite, same

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def flown() -> mixed.Flown:
    return mixed.flown()


@pytest.fixture(scope="module")
def recording(flown):
    return flown.recording


def test_it_comes_back(flown, recording, tmp_path):
    path = tmp_path / "mission.npz"
    recording.save(path)
    assert path.stat().st_size < 12_000
    assert same(load_recording(path), recording)
    assert {name: tuple(recording.body(name)) for name in BODY} == mixed.BODIES
    np.testing.assert_array_equal(recording.counted, flown.states[0].world.counted)
    rewrite(path, lambda header: header["config"].update(substeps=5))
    with pytest.raises(ValueError, match=r"damaged.*path"):
        load_recording(path)


def test_robots_are_where_they_were(flown, recording):
    for moment, state in enumerate(flown.states):
        robots = state.robots
        cell = [robots.graph.cell[robot, *robots.site[robot]] for robot in range(4)]
        np.testing.assert_array_equal(recording.cell[moment], cell)
    np.testing.assert_array_equal(recording.path[:, :, -1], recording.cell[1:])
    tiles = mixed.CONFIG.lattice.site(recording.cell.astype(np.int32))
    np.testing.assert_array_equal(tiles, recording.site)
    assert (recording.cell != mixed.CONFIG.lattice.cell(recording.site.astype(np.int32))).any()
    moved = (recording.cell[1:] != recording.cell[:-1]).any(axis=-1)
    assert 3 < recording.bent.sum() < moved.sum()
    assert not recording.bent[~moved].any()


def test_beliefs_follow_from_the_paths(flown, recording):
    for known, state in zip(beliefs(recording), flown.states, strict=True):
        np.testing.assert_array_equal(known, state.robots.belief)
        team = (np.asarray(known)[:3] == FREE).any(axis=0)
        assert (team & recording.counted).sum() == state.progress.covered


def test_the_history_has_every_robots_own_viewpoints(flown):
    history, ever = mixed.history(), np.zeros_like(mixed.history().node_at, bool)
    for moment, state in enumerate(flown.states):
        graph, site = state.robots.graph, np.asarray(state.robots.site)
        node = np.asarray(graph.node)
        np.testing.assert_array_equal(history.node_at <= moment, node)
        np.testing.assert_array_equal(history.node_cell[node], np.asarray(graph.cell)[node])
        np.testing.assert_array_equal(history.edge_at <= moment, np.asarray(graph.edge)[:, :12] & node[:, None])
        home_mm = [graph.home_mm[robot, *site[robot]] for robot in range(4)]
        np.testing.assert_array_equal(history.home_mm[moment], home_mm)
        ever |= node
    assert (history.node_cell[~ever] == -1).all()
    both = ever[0] & ever[1]
    assert (history.node_cell[0][both] != history.node_cell[1][both]).any(), "bodies of different width"


def test_robots_are_drawn_on_their_paths(recording):
    """At the substeps, where the path is bent; evenly on a line, where it is straight; and never in a wall."""
    steps = mixed.CONFIG.substeps
    for move, robot in np.argwhere(recording.bent).tolist():
        for k in range(1, steps + 1):
            here, _ = pose(recording, move + k / steps, robot)
            np.testing.assert_allclose(here, recording.path[move, robot, k - 1], atol=1e-6)
    still_straight = ~recording.bent & (recording.cell[1:] != recording.cell[:-1]).any(axis=-1)
    for move, robot in np.argwhere(still_straight).tolist():
        here, _ = pose(recording, move + 0.25, robot)
        wanted = 0.75 * recording.cell[move, robot] + 0.25 * recording.cell[move + 1, robot]
        np.testing.assert_allclose(here, wanted)
    for robot in range(3):
        way = trail(recording, recording.decisions, robot)
        assert recording.free[tuple(way.astype(int).T)].all()
        first_half = trail(recording, 5.5, robot)
        np.testing.assert_array_equal(first_half[:-1], way[: len(first_half) - 1])
        np.testing.assert_array_equal(first_half[-1], pose(recording, 5.5, robot)[0])
        steps_m = np.linalg.norm(np.diff(way, axis=0), axis=1).sum() * mixed.CONFIG.cell_m
        assert 0.9 * recording.travelled_m[-1, robot] < steps_m <= recording.travelled_m[-1, robot]


def test_everybody_has_its_own_camera(recording):
    cell = recording.start_cell.astype(float)
    for robot in range(3):
        fov_deg, range_mm = mixed.BODIES["fov_deg"][robot], mixed.BODIES["range_mm"][robot]
        edge = camera_edge(recording, robot, cell, 30.0) - cell
        away = np.linalg.norm(edge, axis=1)
        assert 0.9 * range_mm < away.max() * 1000 * mixed.CONFIG.cell_m <= range_mm
        turned = np.degrees(np.unwrap(np.arctan2(edge[:, 0], edge[:, 1])))
        np.testing.assert_allclose(np.ptp(turned), fov_deg, atol=1e-6)
        outline = camera_outline(recording, robot, cell, 30.0)
        assert (outline[0] == cell).all() == (fov_deg < 360), "nothing but a lidar sees all around"
    kit = carries(recording)
    assert kit[0] == "sees 120° to 5 m, 1 m/s, turns 35°/s, 0.5 m wide"
    assert kit[1] == "sees 360° to 3.5 m, 0.5 m/s, turns 90°/s, 0.3 m wide"
    assert kit[2] == "sees 91° to 4.2 m, 1.5 m/s, turns 60°/s"


def test_figures_and_films(recording, tmp_path):
    history = mixed.history()
    draw_mission(recording, history.merged, tmp_path / "mission.png")
    draw_map(mixed.CONFIG, mixed.house(), tmp_path / "map.png")
    for name in ("mission.png", "map.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    painter = FramePainter(history, 300)
    for time in (0, 4.5, recording.decisions):
        picture = np.asarray(painter.draw(time))
        for robot in range(3):
            x, y = painter.points(pose(recording, time, robot)[0]) / ZOOM
            around = picture[round(y) - 6 : round(y) + 7, round(x) - 6 : round(x) + 7].reshape(-1, 3)
            assert (around == painter.colours[robot]).all(axis=-1).sum() > 20
