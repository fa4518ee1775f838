"""The MCAP file of a mission: two readers of others find in it what happened, where it happened and when."""

import dataclasses
import itertools
import math
import sys
from collections import defaultdict
from pathlib import Path

import jax
import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader

import decmarvel.show.mcap
import mixed
from decmarvel.cli import main
from decmarvel.core.config import Config
from decmarvel.core.types import FREE, OCCUPIED, UNKNOWN
from decmarvel.recording.format import Recording
from decmarvel.recording.knowledge import KnowledgeHistory, knowledge_history
from decmarvel.recording.recorder import Recorder
from decmarvel.show.mcap import MissionMessages, times_ns, write_mcap
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import decide, moment, take_off
from decmarvel.worlds import Building
from decmarvel.worlds.place import place, placement

pytestmark = pytest.mark.slow

CONFIG = Config()
ROBOTS = (0, 1, 2)
"""Of four places, one of which nobody takes."""


@dataclasses.dataclass(frozen=True)
class Told:
    """A mission as it was, and as mcap-ros2-support reads it from the file: by topic, its messages."""

    building: Building
    states: list
    history: KnowledgeHistory
    path: Path
    heard: dict[str, list]

    @property
    def recording(self) -> Recording:
        return self.history.recording

    def metres(self, site) -> np.ndarray:
        """(x, y) of a site, from where the building says that the start is."""
        start_m = (np.array(self.building.start[::-1]) + 0.5) * CONFIG.cell_m + self.building.origin_m
        return start_m + (np.asarray(site) - self.recording.start)[..., ::-1] * CONFIG.spacing_m


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Told:
    """Three robots, of which one breaks down, in two rooms that are no square and lie somewhere."""
    free = np.zeros((52, 80), bool)
    free[2:22, 2:78] = free[22:30, 30:48] = free[30:50, 2:78] = True
    building = Building(free, (15, 40), CONFIG.cell_m, "two-rooms", origin_m=(-3.0, 7.0))
    world, planner, healthy = place(building, CONFIG), roster.planner("nearest"), Fleet.of(3, 100.0, slots=4)
    fleet = Fleet(healthy.present, healthy.budget_mm, healthy.fail_step.at[1].set(6))
    go_on = jax.jit(lambda flight: decide(CONFIG, planner, flight))
    flight = jax.jit(lambda key: take_off(CONFIG, planner, key, world, fleet))(jax.random.key(3))
    states, first = [flight.state], jax.device_get(moment(flight.state))
    recorder = Recorder(CONFIG, building, world, fleet, planner="nearest", seed=3, first=first)
    while not recorder.landed:
        flight, *news = go_on(flight)
        recorder.add(*jax.device_get((*news, moment(flight.state))))
        states.append(flight.state)
    history = knowledge_history(recorder.recording(complete=True))
    path, steps, heard = tmp_path_factory.mktemp("mcap") / "mission.mcap", [], defaultdict(list)
    write_mcap(history, path, lambda: steps.append(1))
    assert len(steps) == len(states)
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        for _, channel, message, content in reader.iter_decoded_messages():
            heard[channel.topic].append((message, content))
    return Told(building, states, history, path, dict(heard))


def contents(told: Told, topic: str) -> list:
    return [content for _, content in told.heard[topic]]


def array(grid) -> np.ndarray:
    """As ROS has it: row by row, the first one at the origin."""
    return np.array(grid.data).reshape(grid.info.height, grid.info.width)


def seconds(stamp) -> float:
    return stamp.sec + stamp.nanosec / 1e9


def yaw(orientation) -> float:
    return math.degrees(2 * math.atan2(orientation.z, orientation.w)) % 360


def test_every_topic_is_there_with_its_type(told):
    own = {"map": "nav_msgs/msg/OccupancyGrid", "path": "nav_msgs/msg/Path", "budget_m": "std_msgs/msg/Float32"}
    own |= {"pose": "geometry_msgs/msg/PoseStamped"}
    wanted = {f"/robot_{robot + 1}/{name}": kind for robot in ROBOTS for name, kind in own.items()}
    wanted |= dict.fromkeys(("/map/truth", "/map/team"), "nav_msgs/msg/OccupancyGrid")
    wanted |= {"/coverage": "std_msgs/msg/Float32", "/tf": "tf2_msgs/msg/TFMessage"}
    wanted |= {"/markers": "visualization_msgs/msg/MarkerArray"}
    with told.path.open("rb") as file:
        reader = make_reader(file)
        summary = reader.get_summary()
        assert reader.get_header().profile == "ros2"
    found = {channel.topic: summary.schemas[channel.schema_id] for channel in summary.channels.values()}
    assert {topic: schema.name for topic, schema in found.items()} == wanted
    assert {schema.encoding for schema in found.values()} == {"ros2msg"}
    for topic, messages in told.heard.items():
        assert len(messages) == (1 if topic == "/map/truth" else len(told.states))
        assert [message.sequence for message, _ in messages] == list(range(len(messages)))


def test_a_decision_lasts_until_the_last_robot_has_arrived(told):
    """So nobody is faster than it can be, and somebody is as fast."""
    wanted = [0.0]
    for before, after in itertools.pairwise(told.states):
        mode, length_m = np.asarray(after.robots.mode), []
        for robot in ROBOTS:
            moved_m = math.dist(told.metres(before.robots.site[robot]), told.metres(after.robots.site[robot]))
            if moved_m > 0 or mode[robot] <= 1:
                length_m.append(moved_m or CONFIG.hold_turn_m)
        wanted.append(wanted[-1] + max(length_m) / CONFIG.speed_m_s)
    assert (np.diff(wanted) > 0).all()
    np.testing.assert_allclose(times_ns(told.recording) / 1e9, wanted, atol=0.001 * len(wanted))
    for robot in ROBOTS:
        messages = told.heard[f"/robot_{robot + 1}/pose"]
        for (message, pose), time in zip(messages, wanted, strict=True):
            assert message.log_time == message.publish_time
            assert message.log_time / 1e9 == pytest.approx(seconds(pose.header.stamp), abs=1e-9)
            assert message.log_time / 1e9 == pytest.approx(time, abs=0.1)


def test_poses_paths_and_frames(told):
    for robot in ROBOTS:
        poses = contents(told, f"/robot_{robot + 1}/pose")
        for number, state in enumerate(told.states):
            pose, frame = poses[number], contents(told, "/tf")[number].transforms[robot]
            assert pose.header.frame_id == frame.header.frame_id == "map"
            assert frame.child_frame_id == f"robot_{robot + 1}"
            for place_, turn in (
                (pose.pose.position, pose.pose.orientation),
                (frame.transform.translation, frame.transform.rotation),
            ):
                np.testing.assert_allclose((place_.x, place_.y), told.metres(state.robots.site[robot]), atol=1e-9)
                assert place_.z == turn.x == turn.y == 0
                assert yaw(turn) == pytest.approx(int(state.robots.heading[robot]) % 360)
            path = contents(told, f"/robot_{robot + 1}/path")[number]
            assert list(map(str, path.poses)) == list(map(str, poses[: number + 1]))
    assert len(contents(told, "/tf")[0].transforms) == len(ROBOTS)


def test_maps_lie_where_the_building_is(told):
    """Whoever looks a cell of a map up by its metres finds what the building has there, and what was known of it."""
    building, shift = told.building, placement(told.building, CONFIG).shift
    (truth,) = contents(told, "/map/truth")
    assert (truth.info.height, truth.info.width) == told.recording.free[told.history.window].shape
    assert truth.info.height != truth.info.width
    assert truth.info.resolution == pytest.approx(CONFIG.cell_m)
    assert yaw(truth.info.origin.orientation) == 0
    row, column = np.mgrid[: truth.info.height, : truth.info.width]
    x_m = truth.info.origin.position.x + (column + 0.5) * CONFIG.cell_m
    y_m = truth.info.origin.position.y + (row + 0.5) * CONFIG.cell_m
    iy = np.floor((y_m - building.origin_m[1]) / CONFIG.cell_m).astype(int)
    ix = np.floor((x_m - building.origin_m[0]) / CONFIG.cell_m).astype(int)
    inside = (iy >= 0) & (iy < building.free.shape[0]) & (ix >= 0) & (ix < building.free.shape[1])
    free = inside & building.free[np.where(inside, iy, 0), np.where(inside, ix, 0)]
    assert free.sum() == building.free.sum()
    np.testing.assert_array_equal(array(truth), np.where(free, 0, 100))
    values = np.array([-1, 0, 100])
    assert (UNKNOWN, FREE, OCCUPIED) == (0, 1, 2)
    for number, state in enumerate(told.states):
        belief = np.asarray(state.robots.belief)[:, iy + shift[0], ix + shift[1]]
        np.testing.assert_array_equal(array(contents(told, "/map/team")[number]), values[belief.max(axis=0)])
        for robot in ROBOTS:
            grid = contents(told, f"/robot_{robot + 1}/map")[number]
            np.testing.assert_array_equal(array(grid), values[belief[robot]])
            assert grid.info == truth.info
            assert grid.header.frame_id == "map"


def test_numbers(told):
    for number, state in enumerate(told.states):
        share = float(state.progress.covered) / told.building.free.sum()
        assert contents(told, "/coverage")[number].data == pytest.approx(share)
        for robot in ROBOTS:
            budget_m = float(state.robots.budget_mm[robot]) / 1000
            assert contents(told, f"/robot_{robot + 1}/budget_m")[number].data == pytest.approx(budget_m)


def test_markers(told):
    """Bases, bodies, cameras of those who fly, a cross on who has failed, and a line for each sighting."""
    seen = 0
    for number, (array_, state) in enumerate(zip(contents(told, "/markers"), told.states, strict=True)):
        first, *markers = array_.markers
        assert first.action == 3, "delete all that came before"
        assert {marker.header.frame_id for marker in markers} == {"map"}
        assert len({(marker.ns, marker.id) for marker in markers}) == len(markers)
        found = {name: {m.id: m for m in markers if m.ns == name} for name in ("base", "robot", "camera", "failed")}
        mode = np.asarray(state.robots.mode)
        assert set(found["base"]) == set(found["robot"]) == {robot + 1 for robot in ROBOTS}
        assert set(found["camera"]) == {robot + 1 for robot in ROBOTS if mode[robot] <= 1}
        assert set(found["failed"]) == {robot + 1 for robot in ROBOTS if mode[robot] == 3}
        for robot in ROBOTS:
            for name, site in (("robot", state.robots.site), ("base", told.states[0].robots.site)):
                at = found[name][robot + 1].pose.position
                np.testing.assert_allclose((at.x, at.y), told.metres(site[robot]), atol=1e-9)
        for name, reach_m in (("camera", CONFIG.sensor_range_m), ("failed", CONFIG.spacing_m)):
            for label, marker in found[name].items():
                points = np.array([(point.x, point.y) for point in marker.points])
                away = points - told.metres(state.robots.site[label - 1])
                assert np.linalg.norm(away, axis=1).max() <= reach_m
                if name == "camera":
                    np.testing.assert_allclose(away[::3], 0, atol=1e-9)
                    away = away[np.linalg.norm(away, axis=1) > 0.01]
                    bearing = np.degrees(np.arctan2(away[:, 1], away[:, 0])) - int(state.robots.heading[label - 1])
                    assert np.abs((bearing + 180) % 360 - 180).max() <= CONFIG.fov_deg / 2 + 1e-6
        lines = [marker.points for marker in markers if marker.ns == "sighting"]
        who, whom = np.nonzero(np.asarray(state.robots.sightings.seen[:, :, 0]))
        cell = np.asarray(state.robots.sightings.cell[who, whom, 0]) - placement(told.building, CONFIG).shift
        there_m = (cell[:, ::-1] + 0.5) * CONFIG.cell_m + told.building.origin_m
        wanted = np.stack([told.metres(state.robots.site[who]), there_m], axis=1)
        ends = np.array([[(end.x, end.y) for end in line] for line in lines]).reshape(-1, 2, 2)
        np.testing.assert_allclose(ends, wanted, atol=1e-9)
        seen += len(lines)
        assert number or not found["failed"]
    assert found["failed"]
    assert seen > 0


def test_a_mixed_team_on_roads():
    """Each robot with its own camera, width and speed; bent ways have a pose after each substep."""
    history = mixed.history()
    recording, messages = history.recording, MissionMessages(history)
    travelled_s = np.diff(recording.budget_mm[::-1], axis=0)[::-1] / np.array(mixed.BODIES["speed_mm_s"])
    lasts_s = np.diff(messages.times_ns / 1e9)
    assert (lasts_s >= travelled_s.max(axis=1) - 1e-6).all()
    assert (np.abs(lasts_s - travelled_s[:, 1]) < 1e-6).sum() > 5, "mostly the slow one is waited for"
    last = recording.decisions
    for robot in ROBOTS:
        (path,) = (fields for topic, _, fields in messages.at(last) if topic == f"/robot_{robot + 1}/path")
        places = [(p["pose"]["position"]["x"], p["pose"]["position"]["y"]) for p in path["poses"]]
        wanted = [recording.cell[0, robot]]
        for move in range(last):
            bent = recording.bent[move, robot]
            wanted += list(recording.path[move, robot]) if bent else [recording.cell[move + 1, robot]]
        np.testing.assert_allclose(places, recording.to_map_m(np.array(wanted)), atol=1e-6)
        stamps = [p["header"]["stamp"] for p in path["poses"]]
        times = [stamp["sec"] + stamp["nanosec"] / 1e9 for stamp in stamps]
        assert times == sorted(times)
    markers = next(fields["markers"] for topic, _, fields in messages.at(3) if topic == "/markers")
    for robot in ROBOTS:
        own = {marker["ns"]: marker for marker in markers[1:] if marker["id"] == robot + 1}
        radius_m, range_m = (mixed.BODIES[name][robot] / 1000 for name in ("radius_mm", "range_mm"))
        assert own["robot"]["scale"]["x"] == pytest.approx(2 * radius_m or 0.3 * mixed.CONFIG.spacing_m)
        here = np.array(recording.to_map_m(recording.cell[3, robot]))
        away = np.array([(point["x"], point["y"]) for point in own["camera"]["points"]]) - here
        assert np.linalg.norm(away, axis=1).max() <= range_m
        corners = -(-mixed.BODIES["fov_deg"][robot] // 2)
        assert len(away) == 3 * corners


def test_another_reader_agrees(told):
    """Rosbags reads the file by itself, with its own idea of the format."""
    compared = 0
    with AnyReader([told.path]) as reader:
        for connection in reader.connections:
            mine = iter(told.heard[connection.topic])
            for _, time_ns, data in reader.messages([connection]):
                message, content = next(mine)
                theirs = reader.deserialize(data, connection.msgtype)
                assert time_ns == message.log_time
                if connection.msgtype == "nav_msgs/msg/OccupancyGrid":
                    assert theirs.data.tolist() == list(content.data)
                    assert theirs.info.origin.position.x == content.info.origin.position.x
                if connection.msgtype == "geometry_msgs/msg/PoseStamped":
                    assert theirs.pose.position.y == content.pose.position.y
                    assert theirs.header.frame_id == "map"
                compared += 1
    assert compared == sum(map(len, told.heard.values()))


def test_long_missions_have_fewer_maps(told, monkeypatch):
    monkeypatch.setattr(decmarvel.show.mcap, "MOST_MAPS", 5)
    messages, last = MissionMessages(told.history), told.recording.decisions
    topics = [[topic for topic, *_ in messages.at(number)] for number in range(last + 1)]
    with_map = [number for number, names in enumerate(topics) if "/map/team" in names]
    assert with_map[0] == 0
    assert with_map[-1] == last
    assert 4 <= len(with_map) <= 6
    assert all(("/robot_3/path" in names) == (number in with_map) for number, names in enumerate(topics))
    assert all("/robot_1/pose" in names for names in topics)


def test_the_command(told, tmp_path, capsys, monkeypatch):
    run, file = tmp_path / "mission.npz", tmp_path / "new" / "mission.mcap"
    told.recording.save(run)
    assert main(["replay", str(run), "--mcap", str(file)]) == 0
    assert file.read_bytes() == told.path.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == ["mission.mcap"]
    assert "mission.mcap" in capsys.readouterr().out

    def refused(*arguments: object) -> str:
        assert main(["replay", str(run), *map(str, arguments)]) == 2
        complaint = capsys.readouterr().err
        assert complaint.count("\n") == 1
        return complaint

    assert "MCAP files end in .mcap; name the file so" in refused("--mcap", tmp_path / "mission.bag")
    assert "--mcap: is made of one mission" in refused(run, "--mcap", file)
    monkeypatch.delitem(sys.modules, "decmarvel.show.mcap")
    monkeypatch.setitem(sys.modules, "rosbags.typesys", None)
    assert "pip install 'decmarvel[mcap]'" in refused("--mcap", tmp_path / "other.mcap")
    assert not (tmp_path / "other.mcap").exists()
