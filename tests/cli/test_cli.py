"""The command line as people use it: files, numbers, complaints, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from decmarvel import __version__
from decmarvel.cli import main
from decmarvel.cli.options import FAMILY_NAMES
from decmarvel.core.config import Config
from decmarvel.recording.format import load_recording
from decmarvel.worlds import FAMILIES, Building, generate, load
from decmarvel.worlds.place import place
from decmarvel.worlds.reach import visible_cells, visible_share

KEYS = {
    *("coverage", "success", "strict_success", "metres_to_99", "overlap", "overlap_cumulative", "robots", "decisions"),
    *("seed", "map_id", "planner", "version", "budget_m", "visible_share", "complete"),
}
ROBOT_KEYS = {"number", "travelled_m", "remaining_m", "home", "failed", "base", "individual_99"}


@pytest.fixture
def small_map(tmp_path) -> Path:
    """Two rooms of a 30 m x 30 m building, joined by a wide door."""
    free = np.zeros((75, 75), bool)
    free[2:73, 2:73] = True
    free[35:38] = False
    free[35:38, 30:45] = True
    path = tmp_path / "two rooms.npy"
    np.save(path, free)
    return path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def refused(capsys, *arguments: object) -> str:
    """The one line of complaint."""
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


@pytest.mark.slow
def test_explore(capsys, small_map, tmp_path):
    folder = tmp_path / "out"
    status, out, err = run(
        capsys, "explore", "--map", small_map, "--robots", 2, "--budget", 90, "--seed", 5, "--out", folder
    )
    assert status == 0
    assert err == ""
    assert "explored" in out
    assert str(folder) in out.replace("\n", "")
    assert sorted(path.name for path in folder.iterdir()) == [
        "coverage.png",
        "mission.npz",
        "mission.png",
        "summary.json",
    ]
    for name in ("coverage.png", "mission.png"):
        with Image.open(folder / name) as picture:
            assert min(picture.size) > 400

    summary = json.loads((folder / "summary.json").read_text())
    assert summary.keys() >= KEYS
    assert summary["complete"]
    assert 0.5 < summary["coverage"] <= 1
    assert (summary["map_id"], summary["seed"], summary["planner"]) == ("two rooms", 5, "options")
    assert (summary["version"], summary["budget_m"]) == (__version__, 90.0)
    assert [robot["number"] for robot in summary["robots"]] == [1, 2]
    for robot in summary["robots"]:
        assert robot.keys() >= ROBOT_KEYS
        assert robot["home"]
        assert not robot["failed"]
        assert robot["travelled_m"] + robot["remaining_m"] == pytest.approx(90)
        assert all(0 < place_m < 30 for place_m in robot["base"])

    recording = load_recording(folder / "mission.npz")
    assert recording.complete
    assert recording.decisions == summary["decisions"]
    assert recording.coverage[-1] == pytest.approx(summary["coverage"], abs=1e-5)
    assert recording.metres_to_99 == summary["metres_to_99"]

    status, out, _ = run(
        capsys,
        *("explore", "--map", small_map, "--robots", 2, "--budget", 90, "--seed", 5, "--out", tmp_path / "again"),
        "--quiet",
    )
    assert status == 0
    assert out.strip() == str(tmp_path / "again")
    for name in ("mission.npz", "summary.json"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--robots", 0], ["--robots", "1 to 16"]),
        (["--robots", 17], ["--robots", "1 to 16"]),
        (["--robots", "many"], ["--robots"]),
        (["--budget", 0], ["--budget"]),
        (["--budget", -5], ["--budget"]),
        (["--budget", "1e9"], ["--budget", "20000"]),
        (["--budget", "nan"], ["--budget"]),
        (["--planner", "sectr"], ["--planner", "did you mean 'sector'", "nearest"]),
        (["--planner", "xyz"], ["--planner", "nearest"]),
        (["--family", "castle"], ["--family", "office"]),
        (["--map", "a.png", "--map-seed", 3], ["--map", "--map-seed"]),
        (["--map", "nowhere.png"], ["nowhere.png", "no such file"]),
        (["--map-seed", -1], ["--map-seed"]),
        (["--seed", -1], ["--seed"]),
        (["--broken", 5], ["--broken"]),
        (["--spacing", "wide"], ["--spacing", "auto"]),
        (["--spacing", 0.05], ["--spacing", "0.1 to 12"]),
        (["--fov", 20], ["--fov", "30 to 360"]),
        (["--range", 50], ["--range", "0.5 to 20"]),
        (["--radius", -1], ["--radius", "0 to 1"]),
        (["--speed", "nan"], ["--speed"]),
        (["--yaw-rate", 0], ["--yaw-rate", "5 to 360"]),
        (["--sensor", "realsense-d43"], ["--sensor", "did you mean 'realsense-d435'"]),
        (["--team", "nowhere.yaml"], ["nowhere.yaml", "no such file"]),
        (["--team", "nowhere.yaml", "--robots", 3], ["--team", "leave out the rest"]),
        (["--start", "3,4"], ["--start", "--map"]),
        (["--map", "a.png", "--start", "here"], ["--start", "X,Y"]),
        (["--no-such-option"], ["--no-such-option"]),
    ],
)
def test_explore_refuses(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    complaint = refused(capsys, "explore", *arguments)
    for word in words:
        assert word in complaint
    assert list(tmp_path.iterdir()) == []


def test_explore_refuses_bad_maps_and_places(capsys, small_map, tmp_path):
    assert "inside a wall" in refused(capsys, "explore", "--map", small_map, "--start", "0.5,0.5")
    assert "absurd" in refused(capsys, "explore", "--map", small_map, "--resolution", 1000)
    (tmp_path / "file").touch()
    complaint = refused(capsys, "explore", "--map", small_map, "--out", tmp_path / "file")
    assert "--out" in complaint
    assert str(tmp_path / "file") in complaint


def interrupted(arguments: list[str], after: str) -> tuple[int, str, str]:
    """Press Ctrl-C once a line of output holds the given words."""
    process = subprocess.Popen(
        [sys.executable, "-m", "decmarvel", "explore", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if after in line:
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=120)
    return process.returncode, "".join(lines) + out, err


@pytest.mark.slow
def test_explore_with_a_mixed_team(capsys, small_map, tmp_path):
    team = tmp_path / "two.yaml"
    team.write_text(
        "robots:\n  - {sensor: realsense-d455, radius_m: 0.3, budget_m: 60}\n  - {sensor: rplidar-a1, budget_m: 50}"
    )
    folder = tmp_path / "out"
    status, out, err = run(
        capsys, "explore", "--map", small_map, "--team", team, "--planner", "nearest", "--out", folder
    )
    assert (status, err) == (0, "")
    assert "87 degrees" in out
    assert "360 degrees" in out
    recording = load_recording(folder / "mission.npz")
    assert recording.config.roads
    robots = json.loads((folder / "summary.json").read_text())["robots"]
    assert [robot["travelled_m"] + robot["remaining_m"] for robot in robots] == pytest.approx([60, 50])
    assert all(robot["home"] for robot in robots)


@pytest.mark.slow
@pytest.mark.parametrize(("after", "least"), [("Compiling", 0), ("decision ", 1)])
def test_interrupt_leaves_a_valid_record(tmp_path, small_map, after, least):
    folder = tmp_path / "out"
    mission = [
        "--map",
        str(small_map),
        "--robots",
        "2",
        "--planner",
        "random",
        "--budget",
        "4000",
        "--out",
        str(folder),
    ]
    status, out, err = interrupted(mission, after)
    assert status == 130, err
    assert "Traceback" not in err
    assert "Interrupted" in out
    recording = load_recording(folder / "mission.npz")
    summary = json.loads((folder / "summary.json").read_text())
    assert not recording.complete
    assert not summary["complete"]
    assert summary["decisions"] == recording.decisions >= least
    assert not all(robot["home"] for robot in summary["robots"])
    assert (folder / "mission.png").is_file()


def test_map_generate_convert_check_draw(capsys, tmp_path):
    made = tmp_path / "office.yaml"
    status, out, _ = run(capsys, "map", "generate", "--family", "office", "--seed", 2, "--out", made)
    assert status == 0
    assert "office-heldout-000002" in out
    assert load(made).free.sum() == generate("office", "heldout", 2).free.sum()

    status, out, _ = run(capsys, "map", "convert", made, "--out", tmp_path / "office.png")
    assert status == 0
    np.testing.assert_array_equal(load(tmp_path / "office.png").free, load(made).free)

    status, out, _ = run(capsys, "map", "check", made, "--out", tmp_path / "office-check.png")
    assert status == 0
    for word in ("size", "100.0 m x 100.0 m", "floor", "start", "viewpoints", "ready to explore"):
        assert word in out
    with Image.open(tmp_path / "office-check.png") as picture:
        assert min(picture.size) > 400
    assert "try --spacing auto" in run(capsys, "map", "check", made, "--spacing", 12, "--out", tmp_path / "c.png")[1]

    status, out, _ = run(capsys, "map", "draw", made, "--out", tmp_path / "drawn.png")
    assert status == 0
    with Image.open(tmp_path / "drawn.png") as picture:
        assert min(picture.size) > 400


def test_map_refuses(capsys, tmp_path, small_map):
    assert "nowhere.yaml" in refused(capsys, "map", "check", tmp_path / "nowhere.yaml")
    assert ".jpg" in refused(capsys, "map", "convert", small_map, "--out", tmp_path / "map.jpg")
    assert "--family" in refused(capsys, "map", "generate", "--family", "castle", "--out", tmp_path / "a.png")
    assert "--split" in refused(capsys, "map", "generate", "--split", "test", "--out", tmp_path / "a.png")
    assert "--seed" in refused(capsys, "map", "generate", "--seed", -1, "--out", tmp_path / "a.png")
    assert "--out" in refused(capsys, "map", "draw", small_map, "--out", tmp_path / "drawn.pdf")
    assert "paint" in refused(capsys, "map", "paint")


def test_help_and_version(capsys):
    assert run(capsys, "--version")[:2] == (0, f"decmarvel {__version__}\n")
    for arguments in (["--help"], ["explore", "--help"], ["map", "--help"], ["map", "check", "--help"]):
        status, out, _ = run(capsys, *arguments)
        assert status == 0
        assert "Usage" in out


def test_help_names_all_map_families():
    assert FAMILY_NAMES.replace(" or ", ", ").split(", ") == list(FAMILIES)


def test_help_loads_nothing_heavy():
    code = "import sys, decmarvel.cli; sys.exit(any(name in sys.modules for name in ('jax', 'numpy', 'matplotlib')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_visible_share():
    """A hall is seen whole; a closet off the lattice is not, until the lattice is finer."""
    config = Config()
    free = np.zeros((60, 60), bool)
    free[5:55, 5:45] = True
    hall = Building(free, (30, 25), config.cell_m, "hall")
    assert visible_share(config, hall) == 1.0

    free[8:52, 47:57] = True
    free[31:35, 45:47] = True  # a door of 1.6 m between the lines of the 4 m lattice
    closet = Building(free, (30, 25), config.cell_m, "closet")
    share = visible_share(config, closet)
    assert 0.7 < share < 0.99
    assert share == visible_cells(config, place(closet, config)).sum() / free.sum()
    assert visible_share(Config(spacing_m=2.0), closet) >= 0.99
