"""The Python API: what it exports, what it says of mistakes, and that a mission is the same however it is flown."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import decmarvel
from decmarvel import Building, Config, Fleet, MapError, Mission, PlannerError, RecordingError, WeightsError
from decmarvel.cli import main
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.robot.policy.planner import published
from decmarvel.robot.policy.weights import Card, save_weights
from decmarvel.simulation.roster import BEST_PLANNER, PLANNERS, name_of
from paths import ROOT

PACKAGE = ROOT / "src" / "decmarvel"
TEAM = {"robots": 2, "budget_m": 60.0, "seed": 5, "broken": 1}


@pytest.fixture(scope="module")
def small_map(tmp_path_factory) -> Path:
    """Two rooms of a 30 m x 30 m building, joined by a wide door."""
    free = np.zeros((75, 75), bool)
    free[2:73, 2:73] = True
    free[35:38] = False
    free[35:38, 30:45] = True
    path = tmp_path_factory.mktemp("maps") / "two rooms.npy"
    np.save(path, free)
    return path


@pytest.fixture(scope="module")
def rooms(small_map) -> Building:
    return decmarvel.load_map(small_map)


# Names


def test_importing_the_package_and_asking_for_help_load_nothing_heavy():
    code = """
import sys
import decmarvel
from decmarvel.cli import main
assert set(decmarvel.__all__) <= set(dir(decmarvel))
main(["--help"]), main(["explore", "--help"])
sys.exit(bool({"jax", "numpy", "matplotlib"} & sys.modules.keys()))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_every_name_is_there():
    for name in decmarvel.__all__:
        assert getattr(decmarvel, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'flie'"):
        decmarvel.flie  # noqa: B018


def test_type_checkers_see_the_same_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    typed = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("decmarvel.")
        for alias in node.names
    }
    assert sorted(typed) == sorted(decmarvel.__all__)
    for name, (module, own) in typed.items():
        assert getattr(sys.modules.get(module) or __import__(module, fromlist=[own]), own) is getattr(decmarvel, name)


def test_modules_take_only_the_version_from_the_package_itself():
    """The import contracts look away there."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "decmarvel":
                assert [alias.name for alias in node.names] == ["__version__"], path


# Planners


def test_the_roster_is_true():
    for name, entry in PLANNERS.items():
        if entry.packaged:
            planner = decmarvel.planner(name)
            assert planner.communicates == entry.radio
            assert name_of(planner) == name
    assert decmarvel.planner("sector") is decmarvel.planner("sector")


def test_the_readme_lists_the_planners():
    listed = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    default = {BEST_PLANNER: " (default)"}
    assert listed[: len(PLANNERS)] == [(name, entry.about + default.get(name, "")) for name, entry in PLANNERS.items()]


@pytest.fixture
def graph_weights(tmp_path) -> Path:
    """Weights of the paper's kind of actor, untrained and tiny."""
    sizes = GraphActorConfig(
        width=16, heads=2, layers=1, feed=16, channels=2, token_width=8, token_layers=1, token_feed=8
    )
    path = tmp_path / "tiny.safetensors"
    save_weights(path, sizes.build(jax.random.key(5)), Card("actor", "dec-marvel", sizes, 0, 0.0))
    return path


def test_weights_of_ones_own(graph_weights):
    assert name_of(decmarvel.planner("dec-marvel", weights=graph_weights)) == "dec-marvel"
    assert name_of(decmarvel.planner("options", weights=published("options"))) == "options"
    with pytest.raises(WeightsError, match=r"tiny.*planner dec-marvel, not for options; choose dec-marvel"):
        decmarvel.planner("options", weights=graph_weights)
    with pytest.raises(WeightsError, match=r"planner options, not for dec-marvel; choose options"):
        decmarvel.planner("dec-marvel", weights=published("options"))
    with pytest.raises(PlannerError, match=r"no weights for the planner dec-marvel.*--weights FILE.*train.*options"):
        decmarvel.planner("dec-marvel")
    with pytest.raises(PlannerError, match=r"tiny.*nearest has no weights"):
        decmarvel.planner("nearest", weights=graph_weights)
    with pytest.raises(PlannerError, match=r"no 'sectr'; did you mean 'sector'.*nbvp, nearest, options"):
        decmarvel.planner("sectr")


@pytest.mark.slow
def test_the_command_line_says_the_same(capsys, graph_weights, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, words in (
        (["--planner", "dec-marvel"], "no weights for the planner dec-marvel yet"),
        (["--weights", str(graph_weights)], "planner dec-marvel, not for options"),
    ):
        assert main(["explore", *arguments]) == 2
        err = capsys.readouterr().err
        assert words in err
        assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


# Missions


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["nearest", "options"])
def test_a_mission_is_the_same_however_it_is_flown(planner, rooms, small_map, tmp_path):
    outcome = decmarvel.fly(rooms, planner, **TEAM)
    recording = decmarvel.record(rooms, decmarvel.planner(planner), **TEAM)
    folder = tmp_path / "explored"
    options = ["--robots", "2", "--budget", "60", "--seed", "5", "--broken", "1", "--planner", planner, "--quiet"]
    options += ["--radius", "0", "--spacing", "4"]  # the lattice that a mission has without a configuration
    assert main(["explore", "--map", str(small_map), "--out", str(folder), *options]) == 0
    recording.save(tmp_path / "mission.npz")
    assert (tmp_path / "mission.npz").read_bytes() == (folder / "mission.npz").read_bytes()
    assert outcome.decisions == recording.decisions > 10
    assert outcome.coverage == recording.coverage[-1]
    np.testing.assert_array_equal(np.round(1000 * outcome.remaining_m), recording.budget_mm[-1])
    assert (recording.planner, recording.seed, recording.complete) == (planner, 5, True)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(outcome))


@pytest.mark.slow
def test_a_flight_is_flown_step_by_step(rooms):
    mission = Mission(rooms, "nearest", **TEAM)
    flight = mission.take_off()
    assert (flight.decisions, flight.done) == (0, False)
    move, _, moment = flight.step()
    np.testing.assert_array_equal(move.target, moment.site)
    rest = list(flight)
    assert rest[0] is moment
    assert flight.done
    assert flight.landed
    assert flight.decisions == len(rest)
    for one, other in zip(jax.tree.leaves(flight.outcome()), jax.tree.leaves(mission.fly()), strict=True):
        np.testing.assert_array_equal(one, other)
    assert flight.coverage == pytest.approx(float(flight.outcome().coverage))


@pytest.mark.slow
def test_a_fleet_takes_the_place_of_numbers(rooms):
    fleet = Fleet.failing(2, 60.0, 1, [5])
    one, other = decmarvel.fly(rooms, "nearest", fleet=fleet, seed=5), decmarvel.fly(rooms, "nearest", **TEAM)
    assert one.travelled_m.tolist() == other.travelled_m.tolist()


@pytest.mark.slow
def test_a_planner_of_ones_own_is_recorded_by_its_class(rooms):
    class Mine(type(decmarvel.planner("nearest"))):
        weight: float = eqx.field(static=True, default=1.0)

    assert Mission(rooms, Mine()).planner_name == "Mine"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"robots": 0}, "robots is 0; choose 1 to 16"),
        ({"budget_m": 0.5}, "budget_m is 0.5; choose 1 to 20000"),
        ({"broken": 5}, "broken is 5; choose 0 to 4"),
        ({"seed": -1}, "seed is -1; choose 0 to 4294967295"),
    ],
)
def test_what_cannot_be_flown(rooms, options, words):
    with pytest.raises(ValueError, match=words):
        decmarvel.fly(rooms, "nearest", **options)


def test_cells_of_another_size(rooms):
    """Half the spacing has the same cells; a spacing of 1 m has not, and says so."""
    assert Mission(rooms, "nearest", config=Config(spacing_m=2.0)).world.free_count == rooms.free.sum()
    with pytest.raises(MapError, match=r"two rooms: cells of 0.4 m, but a spacing of 1 m needs 0.333333 m.*cell_m="):
        Mission(rooms, "nearest", config=Config(spacing_m=1.0))


@pytest.mark.slow
def test_replay(rooms, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recording = decmarvel.record(rooms, "nearest", **TEAM)
    assert decmarvel.replay(recording) == Path("replay.html")
    (tmp_path / "run").mkdir()
    recording.save(tmp_path / "run" / "mission.npz")
    for given in (tmp_path / "run", tmp_path / "run" / "mission.npz"):
        page = decmarvel.replay(given)
        assert page == tmp_path / "run" / "replay.html"
        assert page.read_bytes() == Path("replay.html").read_bytes()
    elsewhere = tmp_path / "pages" / "one.html"
    assert decmarvel.replay(recording, elsewhere) == elsewhere
    assert elsewhere.is_file()
    with pytest.raises(RecordingError, match=r"nowhere.npz: there is no such file"):
        decmarvel.replay("nowhere.npz")


# Documentation


def test_the_page_of_the_api_is_what_the_docstrings_say():
    make = runpy.run_path(str(ROOT / "docs" / "make_api.py"))
    assert sorted(name for names in make["SECTIONS"].values() for name in names) == sorted(decmarvel.__all__)
    assert (ROOT / "docs" / "api.md").read_text() == make["page"](), "run 'make api'"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/api.md"])
def test_the_examples_run(page, tmp_path, monkeypatch, capsys):
    """As one program, from top to bottom, in a process as a reader has it: with JAX's usual promotion of types."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        namespace = {"__name__": "example"}
        for number, block in enumerate(blocks):
            exec(compile(block, f"{page}, block {number}", "exec"), namespace)
    assert "explored" in capsys.readouterr().out
