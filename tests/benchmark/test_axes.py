"""The benchmark over families of maps and cameras: a fit for each, rows that say what flew, runs that go on."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest

from decmarvel.benchmark.batches import make_batches
from decmarvel.benchmark.maps import Terms, fit_all, fit_digest, folder_maps, heldout_maps
from decmarvel.benchmark.rows import KEY, identities, read_rows, shards
from decmarvel.benchmark.trials import Setting, map_number, mission_key, settings, trials
from decmarvel.cli import main
from decmarvel.core.config import Config
from decmarvel.recording.format import load_recording
from decmarvel.simulation import roster
from decmarvel.simulation.mission import run_mission
from decmarvel.simulation.team import Member, Team
from decmarvel.worlds import MapError, generate, save
from decmarvel.worlds.fit import fit

PLAN = ["--family", "floorplan", "--radius", "0.3"]
GRID = ["--planners", "nearest", "--robots", "2", "--budgets", "30", "--trials", "1", "--batch", "2"]
ADDED = ["fov_deg", "range_m", "radius_m", "spacing_m"]


def run(capsys, *arguments: object) -> str:
    status = main(["benchmark", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--spacing", "12", "--range", "2", "--trials", "1"], ["indoor-heldout-000000", "--spacing auto"]),
        (["--fov", "120,20"], ["--fov", "20 is out of range", "30 to 360"]),
        (["--fov", "87.5"], ["--fov", "whole degrees"]),
        (["--range", "10,50"], ["--range", "0.5 to 20"]),
        (["--range", "far"], ["--range", "metres such as"]),
        (["--speed", "0"], ["--speed", "0.05 to 5"]),
        (["--yaw-rate", "400"], ["--yaw-rate", "5 to 360"]),
        (["--radius", "-1"], ["--radius", "0 to 1"]),
        (["--family", "ofice"], ["--family", "did you mean 'office'"]),
        (["--family", "office", "--maps", "."], ["--family", "--maps", "give one of them"]),
    ],
)
def test_bad_values_are_refused_in_one_line(capsys, tmp_path, arguments, words):
    assert main(["benchmark", "--out", str(tmp_path / "out"), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert not (tmp_path / "out").exists()


def test_the_papers_buildings_keep_the_papers_model(tmp_path):
    """Without options indoor maps have exactly the configuration of before, and arrays of NumPy that can be sent."""
    fits = fit_all(heldout_maps("indoor", 2), [10.0], Terms())
    for name, found in fits.items():
        assert found.config == Config()
        assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(found.world)), name
        again = pickle.loads(pickle.dumps(found))
        assert fit_digest(again) == fit_digest(found)
    one, other = fits.values()
    assert fit_digest(one) != fit_digest(other)
    assert fit_digest(one._replace(config=replace(one.config, radius_m=0.1))) != fit_digest(one)


def test_a_bad_map_is_named(tmp_path):
    save(generate("indoor", "heldout", 0), tmp_path / "good.npy")
    (tmp_path / "worse.png").write_bytes(b"no picture")
    with pytest.raises(MapError, match=r"worse\.png"):
        fit_all(folder_maps(tmp_path, 9), [10.0], Terms())


def test_each_family_has_its_trials():
    families = [[each.name for each in heldout_maps(name, 2)] for name in ("indoor", "hall")]
    flown = trials([Setting("nearest", 2, 60.0), Setting("nearest", 2, 60.0, fov_deg=87)], families, 2)
    assert [trial.map_id for trial in flown[:4]] == [
        "indoor-heldout-000000", "indoor-heldout-000001", "hall-heldout-000000", "hall-heldout-000001",
    ]  # fmt: skip
    assert [trial.recorded for trial in flown] == 2 * [True, False, True, False]
    assert len({trial.recording_name for trial in flown}) == len({trial.identity for trial in flown}) == 8
    assert flown[0].recording_name == "nearest_2x60m_indoor-heldout-000000_0.npz"
    assert "87deg10m" in flown[4].recording_name
    assert all(a.fleet.fail_step.tolist() == b.fleet.fail_step.tolist() for a, b in zip(flown, flown[4:], strict=False))


def test_batches_are_of_one_program():
    """One camera, one configuration and one size of arrays a batch; and no mission is lost."""
    fits = fit_all(heldout_maps("indoor", 2), [10.0, 5.0], Terms())
    grid = settings({"nearest": None}, [2], [60.0, 90.0], fovs_deg=[87, 120], ranges_m=[5.0, 10.0])
    names = [each.name for each in heldout_maps("indoor", 2)]
    wanted = trials(grid, [names], 2)
    batches = make_batches(wanted, {"nearest": roster.planner("nearest")}, fits, 8, mix_budgets=True)
    assert len(batches) == 4
    for batch in batches:
        cameras = {(trial.setting.fov_deg, trial.setting.range_m) for trial in batch.trials}
        assert cameras == {(batch.config.fov_deg, batch.config.sensor_range_m)}
        assert {found.config.sensor_range_m for found in batch.fits.values()} == {batch.config.sensor_range_m}
        assert len({found.world.free.shape for found in batch.fits.values()}) == 1
    assert sorted(t.identity for batch in batches for t in batch.trials) == sorted(t.identity for t in wanted)


@pytest.fixture(scope="module")
def plans(tmp_path_factory) -> Path:
    """A floor plan with a depth camera on robots with a body."""
    folder = tmp_path_factory.mktemp("plans")
    assert main(["benchmark", *GRID, *PLAN, "--fov", "87", "--range", "5", "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_a_row_is_its_mission(plans):
    """The same figures as from one mission that is fitted and flown alone."""
    (row,) = read_rows(plans).to_pylist()
    assert [row[name] for name in (*ADDED[:3], "map_id", "noise")] == [87, 5.0, 0.3, "floorplan-heldout-000000", "off"]
    member = Member(fov_deg=87, range_m=5.0, radius_m=0.3, budget_m=30.0)
    team = Team.alike(2, member)
    found = fit(lambda cell_m: generate("floorplan", "heldout", 0, cell_m), team.config(), None, 5.0)
    assert row["spacing_m"] == found.config.spacing_m < 4
    key = mission_key(jnp.uint32(0), jnp.asarray(map_number(row["map_id"]), jnp.uint32))
    fly = jax.jit(run_mission, static_argnums=(0, 1, 5))
    cap = found.config.max_decisions(30.0)
    alone = fly(found.config, roster.planner("nearest"), key, found.world, team.fleet(), cap)
    assert row["coverage"] == pytest.approx(float(alone.coverage), rel=1e-6)
    assert row["travelled_m"] == pytest.approx(float(alone.travelled_m.max()), abs=1e-4)
    assert row["decisions"] == int(alone.decisions)
    assert row["stranded"] == 0
    path = plans / "missions" / "nearest_2x30m_87deg5m_floorplan-heldout-000000_0.npz"
    recording = load_recording(path)
    assert (recording.config.fov_deg, recording.config.sensor_range_m, recording.config.radius_m) == (87, 5.0, 0.3)
    assert recording.covered[-1] / recording.counted.sum() == row["coverage"]
    terms = json.loads((plans / "benchmark.json").read_text())
    assert terms["options"] == {"speed_m_s": 1.0, "yaw_rate_deg_s": 35, "radius_m": 0.3, "spacing_m": "auto"}
    assert list(terms["maps"]) == ["floorplan-heldout-000000, 5 m"]


@pytest.mark.slow
def test_resumed_across_axes(plans, capsys):
    """Another camera adds to the folder; what is there is not flown again, and robots of another kind are refused."""
    before = {path: path.stat().st_mtime_ns for path in shards(plans)}
    assert "2 missions" in (said := run(capsys, *GRID, *PLAN, "--fov", "87,120", "--range", 5, "--out", plans))
    assert "1 are there already" in said
    assert before.items() <= {path: path.stat().st_mtime_ns for path in shards(plans)}.items()
    rows = read_rows(plans)
    assert sorted(rows["fov_deg"].to_pylist()) == [87, 120]
    assert len(set(identities(rows))) == len(list((plans / "missions").iterdir())) == 2
    assert main(["benchmark", *GRID, *PLAN[:2], "--range", "5", "--out", str(plans)]) == 2
    assert "radius_m = 0.3, now it is auto" in capsys.readouterr().err
    assert main(["report", str(plans)]) == 0
    page = (plans / "report" / "report.md").read_text()
    assert "## Cameras" in page
    assert "| 87 deg, 5 m |" in page
    assert "paper 0." not in page


@pytest.mark.slow
def test_rows_from_before_are_read(plans, tmp_path):
    """They were flown with the paper's camera, without a body, on a lattice of 4 m."""
    rows = read_rows(plans)
    pq.write_table(rows.slice(0, 1).drop_columns(ADDED), tmp_path / "old.parquet")
    (row,) = read_rows(tmp_path).to_pylist()
    assert [row[name] for name in ADDED] == [120, 10.0, 0.0, 4.0]
    assert identities(read_rows(tmp_path))[0][-2:] == (120, 10.0)
    assert KEY[-2:] == ("fov_deg", "range_m")
