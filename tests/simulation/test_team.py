"""Teams as data: files that people write, the settings that follow from cameras, whole missions of mixed teams."""

from dataclasses import asdict
from pathlib import Path

import jax.numpy as jnp
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from decmarvel.core.config import Config
from decmarvel.core.limits import MAX_ROBOTS, MEMBER_LIMITS
from decmarvel.simulation.flight import Mission
from decmarvel.simulation.sensors import SENSORS
from decmarvel.simulation.team import Member, Team
from decmarvel.simulation.team_file import LARGEST_BYTES, TeamError, read_team
from decmarvel.worlds import generate

MIXED = """
robots:
  - {count: 2, sensor: zed-2, range_m: 10, radius_m: 0.25, budget_m: 300}
  - {sensor: rplidar-a1, speed_m_s: 0.5, yaw_rate_deg_s: 90}
"""


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "team.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_gives_the_robots_that_it_describes(tmp_path):
    team = read_team(write(tmp_path, MIXED))
    flyer = Member(fov_deg=110, range_m=10.0, radius_m=0.25, budget_m=300.0)
    rover = Member(fov_deg=360, range_m=12.0, speed_m_s=0.5, yaw_rate_deg_s=90)
    assert team.members == (flyer, flyer, rover)
    assert (team.radius_m, team.shortest_range_m) == (0.25, 10.0)


def values() -> st.SearchStrategy[dict]:
    numbers = {
        name: st.integers(low, high) if kind is int else st.floats(low, high)
        for name, (kind, low, high) in MEMBER_LIMITS.items()
    }
    return st.fixed_dictionaries({}, optional=numbers)


@given(entries=st.lists(st.tuples(st.integers(1, 5), values()), min_size=1, max_size=3))
def test_whatever_a_file_may_say_is_read_as_it_is(tmp_path_factory, entries):
    listed = [{"count": count, **fields} for count, fields in entries]
    team = read_team(write(tmp_path_factory.mktemp("team"), yaml.safe_dump({"robots": listed})))
    wanted = [Member(**fields) for count, fields in entries for _ in range(count)]
    assert [asdict(member) for member in team.members] == [asdict(member) for member in wanted]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begins with 'robots:'"),
        ("robots: 4", "begins with 'robots:'"),
        ("robots: []", "no robots"),
        ("robots: [4]", "entry 1"),
        ("robots: [{cuont: 2}]", "did you mean 'count'"),
        ("robots: [{sensor: realsense}]", "sensor: there is no 'realsense'"),
        ("robots: [{sensor: [a]}]", "sensor"),
        ("robots: [{fov_deg: 20}]", "fov_deg is 20; choose 30 to 360"),
        ("robots: [{fov_deg: 90.5}]", "whole number"),
        ("robots: [{range_m: .nan}]", "not a number"),
        ("robots: [{range_m: far}]", "'far'"),
        ("robots: [{radius_m: true}]", "not a number"),
        ("robots: [{count: 17}]", "choose 1 to 16"),
        ("robots: [{count: 9}, {count: 8}]", f"more than {MAX_ROBOTS}"),
        ("robot: []", "begins with 'robots:'"),
        ("robots: [{}]\nspeed: 2", "there is no 'speed'"),
        ("a: &a [1]\nrobots: *a", "aliases"),
        ("robots: [", "not readable as yaml"),
        ('robots: [!!float ""]', "not readable as yaml"),
        (b"\xff\xfe\x00", "cannot be read"),
        ("#" * (LARGEST_BYTES + 1), "a team takes a few lines"),
    ],
)
def test_a_file_that_is_no_team_is_refused_in_one_line(tmp_path, text, words):
    path = write(tmp_path, text)
    with pytest.raises(TeamError) as refusal:
        read_team(path)
    message = str(refusal.value)
    assert words in message
    assert str(path) in message
    assert "\n" not in message


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(TeamError, match="no such file"):
        read_team(tmp_path / "nowhere.yaml")


def test_the_paper_s_team_has_the_paper_s_settings():
    assert Team.alike(4).config() == Config()


def test_lengths_of_the_model_grow_with_the_camera():
    config = Team.alike(2, Member(range_m=5.0, radius_m=0.2)).config()
    assert (config.spacing_m, config.cell_m, config.utility_range_m, config.safety_margin_m) == (2.0, 0.2, 4.5, 2.0)
    assert config.roads


def test_sensors_are_within_the_limits():
    for sensor in SENSORS.values():
        for name in ("fov_deg", "range_m"):
            _, low, high = MEMBER_LIMITS[name]
            assert low <= getattr(sensor, name) <= high


@pytest.mark.slow
def test_a_mixed_team_explores_a_floor_plan_and_comes_home():
    camera = Member(fov_deg=87, range_m=6.0, radius_m=0.3, budget_m=60.0)
    lidar = Member(fov_deg=360, range_m=8.0, speed_m_s=0.5, radius_m=0.2, budget_m=50.0)
    mission = Mission.on(lambda cell_m: generate("floorplan", index=1, cell_m=cell_m), Team((camera, lidar)), "nearest")
    outcome = mission.fly()
    assert outcome.home.all()
    assert outcome.stranded == 0
    assert (outcome.travelled_m <= jnp.array([60.0, 50.0])).all()
    assert outcome.coverage > 0.5
