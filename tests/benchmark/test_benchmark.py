"""The benchmark: rows that depend on nothing but their mission, a folder that survives kills, clear refusals."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decmarvel.benchmark import metrics
from decmarvel.benchmark.batches import coverage_curve, make_batches
from decmarvel.benchmark.executors import LocalExecutor
from decmarvel.benchmark.maps import Fits, Map, Terms, content_digest, fit_all, folder_maps, heldout_maps
from decmarvel.benchmark.rows import KEY, SCHEMA, RowsError, identities, read_rows, shards, table
from decmarvel.benchmark.store import open_store
from decmarvel.benchmark.trials import (
    Setting,
    Trial,
    map_number,
    mission_key,
    settings,
    trials,
)
from decmarvel.cli import main
from decmarvel.core.config import NOISE_LEVELS, Config
from decmarvel.recording.format import load_recording
from decmarvel.recording.playback import beliefs_after
from decmarvel.robot.policy.weights import fingerprint
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import FAIL_STEPS, NEVER
from decmarvel.simulation.mission import run_mission
from decmarvel.worlds import MapError, generate, save
from decmarvel.worlds.place import place
from paths import ROOT

CONFIG = Config()
PLANNED = {name: roster.planner(name) for name in ("nearest", "sector")}
ONE_CORE = {"JAX_NUM_CPU_DEVICES": "1"}
"""As in the process of the tests, so that they share compiled programs."""
GRID = ["--planners", "nearest", "--robots", "2", "--budgets", "60,90", "--broken", "0,1", "--trials", "3"]
COLUMNS = (
    "planner communicates robots budget_m map_id seed broken noise fov_deg range_m radius_m spacing_m "
    "coverage success strict_success metres_to_99 overlap overlap_cumulative individual_99 individual_99_count "
    "stranded decisions travelled_m curve weights version"
)


def grid() -> list[Trial]:
    """The trials of GRID."""
    return trials(settings({"nearest": None}, [2], [60.0, 90.0], [0, 1]), [names(heldout_maps("indoor", 3))], 3)


def names(maps: list[Map]) -> list[str]:
    return [each.name for each in maps]


def fitted(count: int) -> Fits:
    """Held-out maps as the paper's robots explore them."""
    return fit_all(heldout_maps("indoor", count), [10.0], Terms())


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def refused(capsys, *arguments: object) -> str:
    """The one line of complaint."""
    status, out, err = run(capsys, "benchmark", *arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def start(folder: Path, *options: object, env: dict[str, str] = ONE_CORE) -> subprocess.Popen:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "decmarvel", "benchmark", *GRID, "--out", str(folder), *map(str, options)],
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def by_identity(folder: Path) -> dict[tuple, dict]:
    rows = read_rows(folder)
    return dict(zip(identities(rows), rows.to_pylist(), strict=True))


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """A finished benchmark."""
    folder = tmp_path_factory.mktemp("done")
    assert main(["benchmark", *GRID, "--batch", "2", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def copy(done, tmp_path) -> Path:
    return Path(shutil.copytree(done, tmp_path / "copy"))


@pytest.mark.slow
def test_rows(done):
    rows = read_rows(done)
    assert rows.column_names == SCHEMA.names == COLUMNS.split()
    assert rows.schema.equals(SCHEMA)
    assert sorted(identities(rows)) == sorted(trial.identity for trial in grid())
    assert len(set(identities(rows))) == 12
    assert identities(rows) == sorted(identities(rows))
    assert set(KEY) <= set(rows.column_names)
    assert len(shards(done)) == 8
    assert pq.ParquetFile(shards(done)[0]).metadata.row_group(0).column(0).compression == "ZSTD"
    for path in shards(done):
        assert read_rows(path).num_rows in (1, 2)
    assert sum(rows["stranded"].to_pylist()) == 0


@pytest.mark.slow
def test_a_row_is_its_mission(done):
    """The same figures as from one mission that flies alone."""
    fly = jax.jit(run_mission, static_argnums=(0, 1, 5))
    rows = by_identity(done)
    maps = {each.name: each.build(CONFIG.cell_m) for each in heldout_maps("indoor", 3)}
    for trial in grid():
        world = place(maps[trial.map_id], CONFIG)
        key = mission_key(jnp.uint32(trial.seed), jnp.asarray(map_number(trial.map_id), jnp.uint32))
        alone = fly(CONFIG, roster.planner("nearest"), key, world, trial.fleet, 512)
        row = rows[trial.identity]
        assert row["coverage"] == pytest.approx(float(alone.coverage), rel=1e-6)
        assert row["travelled_m"] == pytest.approx(float(alone.travelled_m.max()), abs=1e-4)
        assert row["overlap"] == pytest.approx(float(alone.overlap), abs=1e-6)
        assert row["overlap_cumulative"] == pytest.approx(float(alone.overlap_cumulative), abs=1e-6)
        for name in ("success", "strict_success", "stranded", "decisions"):
            assert row[name] == getattr(alone, name).item()
        assert (row["metres_to_99"] is None) == (not row["success"])
        assert row["individual_99_count"] == int((~np.isnan(alone.individual_99)).sum())
        assert not row["communicates"]


@pytest.mark.slow
def test_rows_depend_on_nothing_but_their_mission(done):
    """Another batch size, budgets mixed, the order reversed; a batch that is filled up."""
    some = [trial for trial in reversed(grid()) if trial.seed == 0][:10]
    batches = make_batches(some, PLANNED, fitted(3), 4, mix_budgets=True)
    assert [len(batch.trials) for batch in batches] == [4, 4, 2]
    assert len({trial.setting.budget_m for trial in batches[1].trials}) == 2
    expected = by_identity(done)
    for batch, flown in LocalExecutor().fly(batches):
        assert [trial.identity for trial in batch.trials] == identities(flown.rows)
        for row, identity in zip(flown.rows.to_pylist(), identities(flown.rows), strict=True):
            assert row == expected[identity]


@pytest.mark.slow
def test_rows_do_not_depend_on_the_number_of_devices(done, tmp_path):
    process = start(tmp_path / "two", "--batch", 4, env={"JAX_NUM_CPU_DEVICES": "2"})
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "12 missions: 4 settings, 3 trials each" in out
    assert "decmarvel report" in out
    assert read_rows(tmp_path / "two").equals(read_rows(done))
    for path in (done / "missions").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / "missions" / path.name).read_bytes()


@pytest.mark.slow
def test_curves(done):
    for row in read_rows(done).to_pylist():
        curve = row["curve"]
        assert len(curve) == {60: 5, 90: 7}[row["budget_m"]]
        assert curve == sorted(curve)
        assert curve[0] > 0
        assert curve[-1] == int(10_000 * row["coverage"] + 1e-9)


def test_curve_by_hand():
    covered = np.array([10, 20, 40, 50, 55], np.int32)
    travelled_mm = np.array([0, 15_999, 16_000, 47_999, 47_999], np.int32)
    assert coverage_curve(covered, travelled_mm, 60, 64_000) == [1666, 6666, 8333, 9166, 9166]
    assert coverage_curve(covered, travelled_mm, 60, 50_000) == [1666, 6666, 8333, 9166, 9166]
    assert coverage_curve(covered[:1], travelled_mm[:1], 10, 8_000) == [10_000, 10_000]


@pytest.mark.slow
def test_recordings(done):
    assert sorted(path.name for path in (done / "missions").iterdir()) == [
        "nearest_2x60m_indoor-heldout-000000_0.npz",
        "nearest_2x90m_indoor-heldout-000000_0.npz",
    ]
    rows = {(row["budget_m"], row["map_id"], row["broken"]): row for row in read_rows(done).to_pylist()}
    for path in (done / "missions").iterdir():
        recording = load_recording(path)
        row = rows[recording.budget_mm[0, 0] / 1000, recording.map_id, 0]
        assert recording.complete
        assert (recording.planner, recording.robots, recording.seed) == ("nearest", 2, 0)
        assert recording.decisions == row["decisions"]
        assert recording.covered[-1] / recording.counted.sum() == row["coverage"]
        assert recording.travelled_m[-1].max() == pytest.approx(row["travelled_m"])
        assert recording.overlap[-1] == pytest.approx(row["overlap"], abs=1e-6)
        assert (recording.mode[-1] == 2).all()
        known = (beliefs_after(recording, recording.decisions) == 1).any(axis=0)
        assert (known & recording.counted).sum() == recording.covered[-1]


@pytest.mark.slow
def test_again_and_wider(capsys, copy):
    before = {path: path.stat().st_mtime_ns for path in shards(copy)}
    status, out, _ = run(capsys, "benchmark", *GRID, "--batch", 2, "--out", copy)
    assert status == 0
    assert "12 are there already" in out
    assert {path: path.stat().st_mtime_ns for path in shards(copy)} == before
    (copy / "rows" / ".left.parquet.123").write_bytes(b"half of it")
    (copy / "missions" / ".left.npz.123").write_bytes(b"half of it")
    status, out, _ = run(capsys, "benchmark", *GRID[:-1], 4, "--batch", 2, "--out", copy)
    assert status == 0
    assert len(read_rows(copy)) == 16
    assert before.items() <= {path: path.stat().st_mtime_ns for path in shards(copy)}.items()
    assert not [path for path in copy.rglob(".*") if path.name != ".lock"]


@pytest.mark.slow
def test_killed(done, tmp_path):
    """Whenever a run is killed, what it has stored is whole, and the next goes on from there."""
    folder, rng = tmp_path / "killed", random.Random(os.getpid())
    for least in (1, 5):
        process = start(folder, "--batch", 2)
        while process.poll() is None and len(shards(folder)) < least:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.communicate()
        rows = read_rows(folder)
        assert set(map(str, rows.to_pylist())) <= set(map(str, read_rows(done).to_pylist()))
    process = start(folder, "--batch", 2)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert read_rows(folder).equals(read_rows(done))
    assert sorted(path.name for path in folder.rglob("*.*")) == sorted(path.name for path in done.rglob("*.*"))


@pytest.mark.slow
def test_interrupted(tmp_path):
    folder = tmp_path / "interrupted"
    process = start(folder, "--batch", 2, "--trials", 200)
    while process.poll() is None and not shards(folder):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command goes on" in out
    assert "Traceback" not in err
    assert 0 < len(read_rows(folder)) < 800


@pytest.mark.slow
def test_one_run_at_a_time(capsys, copy):
    fits = fitted(3)
    with open_store(copy, Terms(), fits):
        assert "another run" in refused(capsys, *GRID, "--out", copy)
    with open_store(copy, Terms(), fits) as store:
        assert store.missing(grid()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda terms: terms.update(version="0.0.9"), ["decmarvel 0.0.9", "another --out"]),
        (lambda terms: terms["config"].update(fov_deg=90), ["fov_deg = 90", "120", "another --out"]),
        (
            lambda terms: terms["maps"].update({"indoor-heldout-000001, 10 m": "0"}),
            ["map 'indoor-heldout-000001, 10"],
        ),
        (lambda terms: terms.pop("options"), ["radius_m = not noted, now it is auto", "another --out"]),
        (lambda terms: terms["noise"]["mild"].update(range_sd_m=9.0), ["noise level 'mild'"]),
        (lambda terms: terms.update(format="other"), ["benchmark.json", "not the"]),
    ],
)
def test_other_terms_are_refused(capsys, copy, change, words):
    path = copy / "benchmark.json"
    terms = json.loads(path.read_text())
    change(terms)
    path.write_text(json.dumps(terms))
    complaint = refused(capsys, *GRID, "--out", copy)
    for word in (str(copy), *words):
        assert word in complaint
    assert json.loads(path.read_text()) == terms


@pytest.mark.slow
def test_lost_terms_and_other_spacing_are_refused(capsys, copy):
    assert "spacing_m = auto, now it is 2.0" in refused(capsys, *GRID, "--spacing", 2, "--out", copy)
    assert "radius_m = auto, now it is 0.3" in refused(capsys, *GRID, "--radius", 0.3, "--out", copy)
    (copy / "benchmark.json").unlink()
    assert "no benchmark.json" in refused(capsys, *GRID, "--out", copy)


@pytest.mark.slow
def test_foreign_and_damaged_rows(capsys, copy, tmp_path):
    def complaint(place: Path) -> str:
        with pytest.raises(RowsError) as caught:
            read_rows(place)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "no such folder" in complaint(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no rows" in complaint(tmp_path / "empty")
    pq.write_table(SCHEMA.empty_table(), tmp_path / "empty" / "none.parquet")
    assert "no rows" in complaint(tmp_path / "empty")

    path = shards(copy)[0]
    content = path.read_bytes()
    pq.write_table(read_rows(path), copy / "rows" / "again.parquet")
    assert "twice" in complaint(copy)
    pq.write_table(pa.table({"planner": ["nearest"]}), copy / "rows" / "again.parquet")
    assert "no column 'communicates'" in complaint(copy)
    bad = read_rows(path).set_column(12, "coverage", pa.array(["much"] * len(read_rows(path))))
    pq.write_table(bad, copy / "rows" / "again.parquet")
    assert "not the rows" in complaint(copy)
    (copy / "rows" / "again.parquet").unlink()
    for damaged in (b"", b"hello", content[: len(content) // 2], content[:-4]):
        path.write_bytes(damaged)
        assert str(path) in complaint(copy)
        assert str(path) in refused(capsys, *GRID, "--out", copy)
    path.unlink()
    assert len(read_rows(copy)) in (10, 11)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--planners", "nearst"], ["--planners", "did you mean 'nearest'"]),
        (["--planners", ","], ["--planners", "empty"]),
        (["--robots", "2,17"], ["--robots", "17", "1 to 16"]),
        (["--robots", "two"], ["--robots", "2,4,8"]),
        (["--budgets", "720,0"], ["--budgets", "0 m"]),
        (["--budgets", "nan"], ["--budgets"]),
        (["--budgets", "1e9"], ["--budgets", "20000"]),
        (["--trials", "0"], ["--trials"]),
        (["--broken", "3", "--robots", "2,4"], ["--broken", "3 of 2"]),
        (["--broken", "-1"], ["--broken"]),
        (["--noise", "milde"], ["--noise", "did you mean 'mild'"]),
        (["--batch", "0"], ["--batch"]),
        (["--spacing", "13"], ["--spacing", "0.1 to 12 m"]),
        (["--spacing", "wide"], ["--spacing", "write auto"]),
        (["--maps", "nowhere"], ["nowhere", "no such folder"]),
        (["--maps", "."], ["no map in this folder"]),
    ],
)
def test_bad_options(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    complaint = refused(capsys, "--out", "out", *arguments)
    for word in words:
        assert word in complaint
    assert list(tmp_path.iterdir()) == []


def test_bad_places(capsys, tmp_path):
    (tmp_path / "file").touch()
    assert "--out" in refused(capsys, *GRID, "--out", tmp_path / "file")
    assert "--out" in refused(capsys, *GRID)
    maps = tmp_path / "maps"
    maps.mkdir()
    (maps / "broken.png").write_bytes(b"no picture")
    assert "broken.png" in refused(capsys, *GRID, "--maps", maps, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_maps_of_a_folder(tmp_path):
    """Numbers sort as numbers, the picture of a ROS map is no map, and every map is flown before any is flown again."""
    for number, name in enumerate(("map10.npy", "map2.png", "map1.yaml")):
        save(generate("indoor", "heldout", number), tmp_path / name)
    (tmp_path / "notes.txt").touch()
    assert names(folder_maps(tmp_path, 99)) == ["map1", "map2", "map10"]
    assert names(folder_maps(tmp_path, 1)) == ["map1"]
    flown = trials([Setting("nearest", 2, 60.0)], [names(folder_maps(tmp_path, 99))], 5)
    assert [(trial.map_id, trial.seed) for trial in flown] == [
        ("map1", 0), ("map2", 0), ("map10", 0), ("map1", 1), ("map2", 1),
    ]  # fmt: skip
    assert [trial.recorded for trial in flown] == [True, False, False, False, False]
    same, other = (each.build(CONFIG.cell_m) for each in heldout_maps("indoor", 2))
    assert content_digest(same) == content_digest(generate("indoor", "heldout", 0)) != content_digest(other)
    assert content_digest(replace(same, start=other.start)) != content_digest(same)
    save(generate("indoor", "heldout", 0), tmp_path / "map2.npy")
    with pytest.raises(MapError, match=r"map2\.npy and map2\.png|map2\.png and map2\.npy"):
        folder_maps(tmp_path, 99)


def test_chance_depends_on_map_and_seed_alone():
    def steps(**changes) -> list[int]:
        setting = replace(Setting("nearest", 4, 720.0, broken=2), **changes)
        return Trial(setting, "map", 3).fleet.fail_step.tolist()

    once = steps()
    assert sum(step < NEVER for step in once) == 2
    assert all(FAIL_STEPS[0] <= step <= FAIL_STEPS[1] for step in once if step < NEVER)
    assert once == steps(planner="sector", budget_m=1024.0, noise="mild")
    assert once != Trial(Setting("nearest", 4, 720.0, broken=2), "map", 4).fleet.fail_step.tolist()
    assert sum(step < NEVER for step in steps(broken=4)) == 4
    many = {
        step for seed in range(100) for step in Trial(Setting("a", 4, 1.0, 4), "map", seed).fleet.fail_step.tolist()
    }
    assert len(many) > 80
    assert min(many) >= FAIL_STEPS[0]
    assert max(many) <= FAIL_STEPS[1]


def test_programs_are_few():
    """Budgets and failures are data; planner, team, noise and size of the map make a program."""
    fits = fitted(4)
    grid = settings({"nearest": None, "sector": None}, [2, 4], [60.0, 90.0, 120.0], [0, 1], list(NOISE_LEVELS))
    wanted = trials(grid, [names(heldout_maps("indoor", 4))], 4)
    mixed = make_batches(wanted, PLANNED, fits, 24, mix_budgets=True)
    assert len(mixed) == 2 * 2 * 3
    assert all(len(batch.trials) == 24 for batch in mixed)
    apart = make_batches(wanted, PLANNED, fits, 3, mix_budgets=False)
    for batch in (*mixed, *apart):
        assert len({(t.setting.planner, t.setting.robots, t.setting.noise) for t in batch.trials}) == 1
        assert batch.config.noise == NOISE_LEVELS[batch.trials[0].setting.noise]
    assert all(len({trial.setting for trial in batch.trials}) == 1 for batch in apart)
    for batches in (mixed, apart):
        flown = [trial.identity for batch in batches for trial in batch.trials]
        assert sorted(flown) == sorted(trial.identity for trial in wanted)


def test_weights_are_told_apart():
    class Learned(type(roster.planner("nearest"))):
        weights: jax.Array = eqx.field(default_factory=lambda: jnp.zeros(3))

    digests = [fingerprint(Learned(weights=jnp.full(3, value))) for value in (0.0, 1.0, 1.0)]
    assert digests[0] != digests[1] == digests[2]


def test_the_page_says_what_the_metrics_say():
    page = (ROOT / "docs" / "benchmark.md").read_text()
    for metric, column in metrics.COLUMNS:
        kind = np.dtype(column.kind.to_pandas_dtype()).name + ", null" * metric.optional
        assert f"| `{column.name}` | {kind} | {metric.unit} | {metric.meaning} |\n" in page


def test_rows_of_the_first_version_get_todays_names(tmp_path, done):
    """What was called dec-marvel and flew with the package's weights of then is `options`; others keep their names."""
    ours, other = "3f374a2277616984", "0123456789abcdef"
    cases = {
        ("dec-marvel", ours, "0.1.0"): "options",
        ("dec-marvel", other, "0.1.0"): "dec-marvel",
        ("dec-marvel", None, "0.1.0"): "dec-marvel",
        ("dec-marvel", ours, "0.2.0"): "dec-marvel",
        ("nearest", ours, "0.1.0"): "nearest",
    }
    row = read_rows(done).to_pylist()[0]
    for number, ((planner, weights, version), expected) in enumerate(cases.items()):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table([row | {"planner": planner, "weights": weights, "version": version}]), path)
        assert read_rows(path).to_pylist() == [row | {"planner": expected, "weights": weights, "version": version}]


def test_a_metric_that_is_younger_than_the_rows_is_missing(tmp_path, done):
    rows = read_rows(done)
    pq.write_table(rows.drop_columns("metres_to_99"), tmp_path / "old.parquet")
    assert read_rows(tmp_path / "old.parquet")["metres_to_99"].null_count == len(rows)
    pq.write_table(rows.drop_columns("coverage"), tmp_path / "old.parquet")
    with pytest.raises(RowsError, match="no column 'coverage'"):
        read_rows(tmp_path / "old.parquet")


@pytest.mark.slow
def test_the_example_of_the_page_runs(done, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "benchmark.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert blocks
    (tmp_path / "results").symlink_to(done)
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, "benchmark.md", "exec"), {"__name__": "page"})
    assert "nearest" in capsys.readouterr().out
    names = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert names == SCHEMA.names
