"""The report: its statistics against independent references, its tables against cells that are worked out here."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import decmarvel
from decmarvel.benchmark.metrics import COLUMNS, shown_in
from decmarvel.benchmark.report import published, tables
from decmarvel.benchmark.report.conditions import Condition
from decmarvel.benchmark.report.page import write_report
from decmarvel.benchmark.report.published import Published, Spread
from decmarvel.benchmark.report.statistics import (
    wilcoxon,
    wilson,
)
from decmarvel.benchmark.report.summary import Results
from decmarvel.benchmark.rows import table, write_shard
from decmarvel.cli import main
from decmarvel.core.config import Config
from decmarvel.recording.format import Recording


def row(planner="nearest", map_id="map-0", metres=None, coverage=None, **more):
    """A mission; it succeeded if it has metres."""
    success = metres is not None
    unset = {column.name: None if metric.optional else 0 for metric, column in COLUMNS}
    fields = unset | {
        "planner": planner,
        "communicates": False,
        "robots": 4,
        "budget_m": 720.0,
        "map_id": map_id,
        "seed": 0,
        "broken": 0,
        "noise": "off",
        "fov_deg": 120,
        "range_m": 10.0,
        "radius_m": 0.0,
        "spacing_m": 4.0,
        "coverage": coverage if coverage is not None else 1.0 if success else 0.5,
        "success": success,
        "strict_success": success,
        "metres_to_99": metres,
        "overlap": 0.1,
        "overlap_cumulative": 0.8,
        "individual_99": None,
        "individual_99_count": 0,
        "stranded": 0,
        "decisions": 100,
        "travelled_m": 2000.0,
        "curve": [1000, 5000, 10000 if success else 5000],
        "weights": None,
        "version": "1.2.3",
    }
    return fields | more


def results(*rows):
    return Results.of(table(rows))


# Statistics


def test_published_figures():
    assert len(published.TABLE_1) == 45
    assert len(published.TABLE_3) == 9
    nearest = published.TABLE_1["nearest", 720.0, 2]
    assert nearest == Published(0.762, 4.0, Spread(508.67, 42.378), overlap=Spread(0.415, 0.093))
    assert published.TABLE_1["smmr", 800.0, 8].success_percent == 97
    assert published.TABLE_1["nbvp", 1024.0, 4].metres == (602.593, 165.627)
    assert published.TABLE_1["marvel", 1024.0, 8].overlap == (0.496, 0.215)
    assert published.TABLE_1["dec-marvel", 720.0, 4].metres == (398.24, 97.829)
    assert published.TABLE_3[1024.0, 1].individual == (763.03, 85.50)
    assert {key[0] for key in published.TABLE_1} == set(published.PLANNERS)
    for (planner, budget_m, robots), printed in published.TABLE_1.items():
        assert 0.7 < printed.coverage <= 0.999
        assert 0 < printed.metres.mean < budget_m
        assert printed.overlap.mean <= 0.997
        assert published.published(planner, robots, budget_m).metres == printed.metres


def test_the_papers_tables_agree_with_each_other():
    """Table III without breakdowns repeats dec-marvel with four robots in Table I."""
    for budget_m in (720.0, 800.0, 1024.0):
        one, three = published.TABLE_1["dec-marvel", budget_m, 4], published.TABLE_3[budget_m, 0]
        assert (one.coverage, one.success_percent) == (three.coverage, three.success_percent)
        assert one.metres == pytest.approx(three.metres, abs=0.01)
        assert published.published("dec-marvel", 4, budget_m).individual == three.individual
    assert published.published("dec-marvel", 2, 720.0, broken=1) is None
    assert published.published("sector", 4, 720.0) is None


# Tables


@pytest.fixture
def small():
    """Three planners on four missions. Nearest: 2 of 4. Sector: 3 of 4. Skyline, with a radio: all."""
    found = [
        row("nearest", "map-0", 400.0, overlap=0.2),
        row("nearest", "map-1", 500.0, overlap=0.4),
        row("nearest", "map-2", coverage=0.7),
        row("nearest", "map-3", coverage=0.9, stranded=1),
        row("sector", "map-0", 380.0, individual_99=600.0, individual_99_count=2),
        row("sector", "map-1", 420.0, individual_99=640.0, individual_99_count=1),
        row("sector", "map-2", 610.0),
        row("sector", "map-3", coverage=0.95),
        *(row("skyline", f"map-{i}", 300.0, communicates=True) for i in range(4)),
    ]
    return Results.of(table(found))


def test_every_cell(small):
    setting = Condition(720.0, 4)
    nearest, sector = small.summaries["nearest", setting], small.summaries["sector", setting]
    assert (nearest.trials, nearest.stranded, sector.numbers["individual_robots"]) == (4, 1, 3)
    assert nearest["coverage"].mean == pytest.approx(0.9)
    assert nearest["success"].mean == 0.5
    assert nearest["metres"].mean == 450.0
    assert nearest["metres"].count == 2
    assert nearest["penalised"].mean == (400 + 500 + 720 + 720) / 4
    assert nearest["overlap"].mean == pytest.approx(0.2)
    assert sector["individual"].mean == 620.0
    assert sector["individual"].count == 2

    lines = tables.markdown(tables.build(small, [setting], tables.TABLE_1)).splitlines()
    assert lines[0] == (
        "| budget, m | N |  | nearest | SMMR, as published | NBVP, as published | MARVEL, as published "
        "| Dec-MARVEL, as published | sector | skyline (radio) |"
    )
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    assert cells[0][:2] == ["720", "4"]
    assert [line[2] for line in cells] == ["exploration rate ↑", "success, % ↑", "metres to 99% ↓", "overlap ratio ↓"]
    low, high = wilson(2, 4)
    assert cells[1][3] == f"50.0 [{100 * low:.1f}, {100 * high:.1f}]<br>*paper 16.0*"
    assert cells[1][8].startswith("**75.0** [")
    assert cells[1][9].startswith("100.0 [")
    assert cells[2][3] == "**450.0** ± 70.7 [400.0, 500.0], n = 2<br>*paper 532.9 ± 69.1*"
    assert cells[2][8].startswith("470.0 ± ")
    assert cells[2][8].endswith(", n = 3")
    assert cells[2][9] == "300.0 ± 0.0 [300.0, 300.0], n = 4"
    assert cells[2][7] == "*398.2 ± 97.8*"
    assert cells[3][8] == "**0.100** ± 0.000 [0.100, 0.100]"


def test_our_planner_stands_beside_the_papers():
    """Without rows of its own the paper's planner has a column; with rows, its figures stand in their cells."""
    setting = Condition(720.0, 4)
    published_only = tables.build(results(row("options"), row("sector")), [setting], tables.TABLE_1)
    assert published_only.columns[-3:] == ("Dec-MARVEL, as published", "options", "sector")
    assert not any(cells[-2].paper for _, cells in published_only.blocks[0].rows)
    flown = tables.build(results(row("options"), row("dec-marvel")), [setting], tables.TABLE_1)
    assert flown.columns[-2:] == ("dec-marvel", "options")
    assert flown.blocks[0].rows[0][1][-2].paper == "0.995"


def test_survivors_flatter_and_the_penalty_does_not(small):
    """Nearest has the better mean of the survivors, because it failed where sector was slow."""
    setting = Condition(720.0, 4)
    assert small.best(setting, "metres") == {"nearest"}
    assert small.best(setting, "penalised") == {"sector"}


def test_bold_is_for_planners_without_a_radio(small):
    setting = Condition(720.0, 4)
    assert small.best(setting, "success") == {"sector"}
    tie = results(row("a", metres=400.04), row("b", metres=400.01), row("c", metres=300.0, communicates=True))
    assert tie.best(setting, "metres") == {"a", "b"}
    assert results(row("c", metres=300.0, communicates=True)).best(setting, "metres") == set()
    assert results(row("a")).best(setting, "metres") == set()


def test_planners_come_in_the_papers_order_and_radio_last():
    found = results(*(row(name, communicates=name == "airy") for name in ("airy", "zed", "dec-marvel", "nearest")))
    assert found.planners == ("nearest", "dec-marvel", "zed", "airy")
    assert found.label("airy") == "airy (radio)"


def test_one_planner_with_two_weights_is_two():
    found = results(row("net", weights="aaaaaaaaaaaa"), row("net", weights="bbbbbbbbbbbb"))
    assert found.planners == ("net [aaaaaaaa]", "net [bbbbbbbb]")


def test_individual_curves_are_held():
    found = results(row(curve=[100, 200]), row(map_id="map-1", curve=[100, 300, 9900]))
    curve = found.trials["nearest", Condition(720.0, 4)].curve
    np.testing.assert_allclose(curve, [[0.01, 0.02, 0.02], [0.01, 0.03, 0.99]])


# Comparisons


def test_a_new_metric_is_one_entry(tmp_path):
    """In a copy of the package: its column, summary, tables, CSV files and panel follow."""
    source = Path(decmarvel.__file__).parent
    shutil.copytree(source, tmp_path / "decmarvel", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "decmarvel" / "benchmark" / "metrics.py"
    entry = """    Metric(
        "reserve",
        "least that a robot had left",
        "m",
        Column("reserve_m", pa.float64(), lambda mission: float(mission.outcome.remaining_m.min())),
        "mean",
        optional=True,
        higher_is_better=True,
        heading="reserve, m",
        label="reserve",
        shown=("more", "overview", "tests"),
    ),
)
"""
    text = path.read_text()
    end = text.index("\n)\n", text.index("METRICS: tuple")) + 1
    path.write_text(text[:end] + entry + text[end + 2 :])
    fields = row("nearest", metres=400.0, robots=3)
    code = f"""
from pathlib import Path
from types import SimpleNamespace
import numpy as np
from decmarvel.benchmark.metrics import COLUMNS, Landed
from decmarvel.benchmark.report import charts, tables
from decmarvel.benchmark.report.comparisons import paired_tests
from decmarvel.benchmark.report.summary import Results
from decmarvel.benchmark.rows import read_rows, table, write_shard
column = dict((column.name, column) for _, column in COLUMNS)["reserve_m"]
reserve = column.read(Landed(SimpleNamespace(remaining_m=np.array([7.5, 12.0])), 1, 1))
rows = [{fields!r} | {{"planner": name, "reserve_m": reserve + i}} for i, name in enumerate(("nearest", "sector"))]
write_shard(Path("."), table(rows))
results = Results.of(read_rows("."))
print(tables.markdown(tables.build(results, results.conditions, tables.MORE)))
print(tables.csv_text(tables.summary_lines(results)))
print(paired_tests(results, None))
charts.draw_overview(results, Path("overview"))
"""
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "reserve, m ↑ | 7.5 [7.5, 7.5], n = 1 | **8.5** [8.5, 8.5], n = 1" in done.stdout
    assert ",reserve_mean,reserve_low,reserve_high,reserve_std,reserve_count" in done.stdout
    assert "### Reserve\n\nWilcoxon signed-rank test; mean differences in metres." in done.stdout
    panels = re.findall(r'<g id="axes_', (tmp_path / "overview.svg").read_text())
    assert len(panels) == len(shown_in("overview")) + 1


def test_pairs_are_the_same_mission():
    """What only one of them flew, or with another seed, budget, team or noise, is no pair."""
    found = results(
        row("a", "map-0", 400.0),
        row("a", "map-1", 400.0),
        row("a", "only-a", 100.0),
        row("a", "map-2", 400.0, seed=1),
        row("a", "map-3", 400.0, budget_m=800.0),
        row("a", "map-4", 400.0, robots=2),
        row("a", "map-5", 400.0, noise="mild"),
        row("b", "map-0", 500.0),
        row("b", "map-1"),
        row("b", "only-b", 100.0),
        *(row("b", f"map-{i}", 100.0) for i in (2, 3, 4, 5)),
    )
    (test,) = found.compare("penalised")
    assert (test.first, test.second, test.pairs) == ("a", "b", 2)
    assert test.difference.mean == (100 + 320) / 2
    assert test.p == test.p_holm == wilcoxon(np.array([100.0, 320.0])) == 0.5
    (test,) = found.compare("success")
    assert (test.difference.mean, test.p) == (50.0, 1.0)


def test_comparisons_name_the_better_one_first():
    worse = [row("a", f"map-{i}", coverage=0.5 - i / 100) for i in range(8)]
    better = [row("b", f"map-{i}", 400.0 + i) for i in range(8)]
    found = results(*worse, *better, *(row("c", f"map-{i}", 400.0 + i) for i in range(8)))
    tests = {(test.first, test.second): test for test in found.compare("success")}
    assert tests["b", "a"].difference.mean == 100.0
    assert tests["b", "a"].p == pytest.approx(2 / 256)
    assert tests["b", "a"].p_holm == pytest.approx(3 * 2 / 256)
    assert tests["b", "c"].p_holm == 1.0
    assert len(found.compare("coverage", baseline="a")) == 2
    (coverage,) = [test for test in found.compare("coverage", baseline="a") if test.first == "b"]
    assert coverage.difference.mean == pytest.approx(53.5)
    assert coverage.p == pytest.approx(2 / 256)


# Formats


def test_latex(small):
    text = tables.latex(tables.build(small, [Condition(720.0, 4)], tables.TABLE_1), "50% & more_", "tab:x")
    assert r"\caption{50\% \& more\_}" in text
    body = text[text.index(r"\begin{tabular}") : text.index(r"\bottomrule")]
    columns = len(re.search(r"\{tabular\}\{([cl]+)\}", body)[1])
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 1 + 10
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {columns - 1}
    assert text.count("{") == text.count("}")
    assert r"\multirow{10}{*}{720} & \multirow{10}{*}{4} & exploration rate $\uparrow$" in body
    assert r"\textbf{75.0}" in body
    assert r"\textbf{450.0} $\pm$ 70.7" in body
    assert r"{[}400.0, 500.0{]} n=2" in body
    assert r"\textit{532.9 $\pm$ 69.1}" in body
    assert r"skyline (radio)" in body
    assert not re.search(r"[^\x00-\x7f]", text)
    assert tables.latex_escape(r"a\b{c}~^") == r"a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}"


def test_markdown_escapes():
    assert tables.markdown_escape("a_b|c*") == r"a\_b\|c\*"


# The whole report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A benchmark with breakdowns and noise that has not finished: sector lacks a mission, skyline two settings."""
    place = tmp_path_factory.mktemp("bench")
    (place / "rows").mkdir()
    rng = np.random.default_rng(0)
    rows = []
    for planner, mean in (("nearest", 600), ("sector", 450), ("skyline", 400)):
        for robots, budget_m in ((2, 720.0), (4, 720.0), (4, 800.0)):
            for number in range(6 - (planner == "sector" and robots == 2)):
                if planner == "skyline" and robots == 4:
                    continue
                metres = float(rng.normal(mean, 90))
                about = {"robots": robots, "budget_m": budget_m, "communicates": planner == "skyline"}
                rows.append(row(planner, f"map-{number}", metres if metres < 700 else None, **about))
    rows += [row("sector", f"map-{i}", 500.0, broken=k) for i in range(3) for k in (1, 2)]
    rows += [row("nearest", f"map-{i}", 500.0 + i, broken=1) for i in range(3)]
    rows += [row("sector", "map-0", noise="mild"), row("sector", "map-1", noise="mild")]
    write_shard(place / "rows", table(rows[:20]))
    write_shard(place / "rows", table(rows[20:]))
    return place


def test_report(folder, capsys):
    assert main(["report", str(folder), "--baseline", "nearest"]) == 0
    out = capsys.readouterr().out
    assert "report.md" in out
    assert "Incomplete" in out
    page = (folder / "report" / "report.md").read_text()
    assert "**Incomplete.** 13 missions" in page
    assert "sector at 2 robots, 720 m (5 of 6)" in page
    assert "skyline (radio) at 4 robots, 720 m (0 of 6)" in page
    assert "6, `map-0` to `map-5`; 1 seed" in page
    assert "decmarvel 1.2.3" in page
    assert "Baseline: nearest." in page
    for heading in (
        "Table I",
        "Who beats whom",
        "Calibration",
        "Table III: robots that break down",
        "Perception noise",
    ):
        assert f"## {heading}\n" in page
    assert not re.search(r"(?<!\w)skyline(?! \(radio\))", page)
    assert "nan" not in page
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", page)
    assert pictures == ["glance.png", "coverage_4.png", "coverage_2.png", "success.png"]
    for name in pictures:
        assert (folder / "report" / name).stat().st_size > 10_000
        assert (folder / "report" / name).with_suffix(".svg").stat().st_size > 10_000
    for block in re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    assert pq.read_table(folder / "report" / "rows.parquet").num_rows == 52
    with (folder / "report" / "table1.csv").open() as file:
        lines = list(csv.DictReader(file))
    (cell,) = [
        line
        for line in lines
        if (line["planner"], line["robots"], line["budget_m"], line["metric"]) == ("nearest", "4", "800.0", "coverage")
    ]
    assert cell["paper_mean"] == "0.896"
    assert cell["trials"] == "6"
    with (folder / "report" / "summary.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 7 + 3 + 1
    assert (folder / "report" / "table3.tex").exists()


def still(planner: str, budget_m: float) -> Recording:
    """The shortest mission there is: two robots that see a room from their bases and are home."""
    config = Config()
    cells = 2 * config.margin_cells + config.stride * 24
    free = np.zeros((cells, cells), bool)
    middle = config.margin_cells + config.stride * 12
    free[middle - 30 : middle + 30, middle - 40 : middle + 20] = True
    site = np.array([[[12, 12], [12, 11]]], np.int16)
    budget_mm = np.full((1, 2), round(1000 * budget_m), np.int32)
    return Recording(
        config=config,
        planner=planner,
        seed=0,
        map_id="room",
        origin_m=(0.0, 0.0),
        shift=(0, 0),
        fail_steps=(None, None),
        metres_to_99=None,
        complete=True,
        version="1.2.3",
        free=free,
        counted=free,
        bodies=np.array([[120, 10_000, 1000, 35, 0]] * 2, np.int32),
        start=site[0, 0],
        base=site[0],
        site=site,
        cell=config.lattice.cell(site).astype(np.int16),
        heading=np.zeros((1, 2), np.int16),
        mode=np.full((1, 2), 2, np.uint8),
        budget_mm=budget_mm,
        covered=np.array([900], np.int32),
        overlap=np.zeros(1, np.float32),
        move_mode=np.zeros((0, 2), np.uint8),
        move_heading=np.zeros((0, 2), np.int16),
        move_choice=np.zeros((0, 2), np.int16),
        path=np.zeros((0, 2, 6, 2), np.int16),
        sightings=np.zeros((0, 6), np.int32),
        probabilities=np.zeros((0, 2, 0, 3), np.int16),
    )


@pytest.mark.slow
def test_same_rows_same_report_with_pictures_of_missions(tmp_path):
    missions = tmp_path / "missions"
    missions.mkdir()
    for planner, budget_m in (("nearest", 720.0), ("nearest", 800.0), ("skyline", 720.0)):
        still(planner, budget_m).save(missions / f"{planner}_2x{budget_m:g}m_room_0.npz")
    about = {"map_id": "room", "robots": 2}
    rows = table([row("nearest", **about), row("skyline", **about, metres=500.0, communicates=True)])
    for name, pictures in (("one", missions), ("two", None)):
        (tmp_path / name).mkdir()
        write_report(rows, tmp_path / name, pictures)
    for path in (tmp_path / "two").iterdir():
        if path.suffix == ".md":
            continue
        assert path.read_bytes() == (tmp_path / "one" / path.name).read_bytes(), path.name
    page = (tmp_path / "one" / "report.md").read_text()
    for name in ("missions.png", "missions_nearest.png", "missions_skyline.png"):
        assert f"({name})" in page
        assert (tmp_path / "one" / name).stat().st_size > 10_000
    assert "Final maps of skyline (radio), 2 robots" in page


def test_a_single_mission_of_one_planner(tmp_path):
    """The first minute of a benchmark; the rows are one file."""
    write_shard(tmp_path, table([row("nearest", robots=3, budget_m=50.0)]))
    (file,) = tmp_path.glob("*.parquet")
    assert main(["report", str(file), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.md").read_text()
    assert "1 mission per planner and setting" in page
    assert "Calibration" not in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none"], ("none", "no such folder", "decmarvel benchmark")),
        (["empty"], ("empty", "no rows here")),
        (["foreign.parquet"], ("foreign.parquet", "no Parquet file")),
        (["good", "--baseline", "sektor"], ("--baseline", "did you mean 'sector'?")),
    ],
)
def test_complaints(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "good").mkdir()
    (tmp_path / "foreign.parquet").write_bytes(b"this is something else")
    write_shard(tmp_path / "good", table([row("sector")]))
    assert main(["report", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for word in words:
        assert word in error
    assert not (tmp_path / "good" / "report").exists()


def test_help_imports_nothing_heavy():
    code = "import sys; from decmarvel.cli import main; main(['report', '--help']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"jax", "pyarrow", "matplotlib", "scipy"} & set(out.split())
