"""The report over families of maps and cameras: apart where they vary, not mentioned where they do not."""

import csv

import numpy as np
import pytest

from decmarvel.benchmark.metrics import COLUMNS
from decmarvel.benchmark.report.conditions import Condition, family
from decmarvel.benchmark.report.families import by_family
from decmarvel.benchmark.report.page import write_report
from decmarvel.benchmark.report.statistics import wilcoxon
from decmarvel.benchmark.report.summary import Results
from decmarvel.benchmark.rows import table, write_shard
from decmarvel.cli import main

OFFICE = {"radius_m": 0.25, "spacing_m": 2.0}


def row(planner, map_id, metres, **more):
    """A mission; it succeeded if it has metres."""
    there = metres is not None
    about = {"planner": planner, "communicates": False, "robots": 4, "budget_m": 720.0, "map_id": map_id, "seed": 0}
    about |= {"broken": 0, "noise": "off", "fov_deg": 120, "range_m": 10.0, "radius_m": 0.0, "spacing_m": 4.0}
    about |= {column.name: None if metric.optional else 0 for metric, column in COLUMNS}
    about |= {"coverage": 1.0 if there else 0.5, "success": there, "strict_success": there, "metres_to_99": metres}
    return about | {"curve": [1000, 10000], "weights": None, "version": "1.2.3"} | more


def missions():
    """In floor plans sector is better than nearest in every mission; indoors nearest is. Skyline has a radio."""
    rows = []
    for name, about in (("indoor", {}), ("floorplan", OFFICE)):
        for number in range(6):
            worse = 500.0 + number
            for planner, slow in (("nearest", name == "floorplan"), ("sector", name == "indoor"), ("skyline", False)):
                metres = worse if slow else 300.0 + 2 * number
                radio = {"communicates": planner == "skyline"}
                rows.append(row(planner, f"{name}-heldout-{number:06d}", metres, **about | radio))
    rows.append(row("nearest", "floorplan-heldout-000006", None, **OFFICE))
    return rows


@pytest.fixture(scope="module")
def mixed():
    return Results.of(table(missions()))


def test_the_family_of_a_map():
    assert family("floorplan-heldout-000012", 0.25) == "floorplan"
    assert family("indoor-train-000012", 0.0) == "indoor"
    assert family("willow", 0.25) == "willow"
    assert family("10", 0.0) == "blocks"


def test_families_are_apart(mixed):
    setting = Condition(720.0, 4)
    assert mixed.families == ("indoor", "floorplan")
    plans = mixed.of_family("floorplan")
    nearest = plans.summaries["nearest", setting]
    assert (nearest.trials, nearest["success"].mean) == (7, 6 / 7)
    assert nearest["penalised"].mean == pytest.approx((sum(range(500, 506)) + 720) / 7)
    assert mixed.of_family("indoor").summaries["nearest", setting].trials == 6


def test_papers_figures_are_of_the_papers_buildings(mixed):
    setting = Condition(720.0, 4)
    assert mixed.summaries["nearest", setting].paper is None
    assert mixed.of_family("floorplan").summaries["nearest", setting].paper is None
    assert mixed.of_family("indoor").summaries["nearest", setting].paper.coverage == 0.862
    assert mixed.of_family("indoor").published("nearest", setting._replace(range_m=5.0)) is None


def test_the_table_of_families(mixed):
    text = by_family(mixed)
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if "|" in line]
    head, _, *body = lines
    assert head[:4] == ["family", "budget, m", "N", ""]
    assert [line[0] for line in body if line[0]] == ["indoor", "floorplan"]
    metrics = ["exploration rate ↑", "success, % ↑", "metres to 99% ↓", "penalised metres ↓", "overlap ratio ↓"]
    assert [line[3] for line in body[:6]] == [*metrics, "metres saved over the best other"]
    at = {name: head.index(name) for name in ("nearest", "sector", "skyline (radio)")}
    saved, plans = body[5], body[11]
    gap = np.mean([200.0 - number for number in range(6)])
    assert saved[at["nearest"]].startswith(f"{gap:+.1f} [")
    assert "over sector" in saved[at["nearest"]]
    assert saved[at["sector"]].startswith(f"{-gap:+.1f} [")
    assert plans[at["sector"]].startswith(f"{gap:+.1f} [")
    assert plans[at["sector"]].endswith("6<br>over nearest")
    assert "over sector" in plans[at["skyline (radio)"]]
    p = wilcoxon(np.array([200.0 - number for number in range(6)]))
    assert f"p = {min(1.0, 6 * p):.3f}" in saved[at["nearest"]]
    assert "paper" not in "".join("".join(line) for line in body[6:])
    assert "*paper 0.862*" in body[0][at["nearest"]]


def test_one_family_and_the_papers_camera_are_not_mentioned(tmp_path):
    write_report(table([each for each in missions() if each["radius_m"] == 0]), tmp_path)
    page = (tmp_path / "report.md").read_text()
    for word in ("Families", "amera", "floorplan"):
        assert word not in page
    assert "fov" not in (tmp_path / "summary.csv").read_text() + (tmp_path / "table1.csv").read_text()
    assert not (tmp_path / "families.csv").exists()


def test_cameras_stand_beside_each_other(tmp_path, capsys):
    narrow = [each | {"fov_deg": 87, "range_m": 5.0, "metres_to_99": 600.0, "success": True} for each in missions()]
    (tmp_path / "rows").mkdir()
    write_shard(tmp_path / "rows", table(missions() + narrow))
    assert main(["report", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "Camera: 120 deg, 10 m" in said
    assert "Camera: 87 deg, 5 m" in said
    page = (tmp_path / "report" / "report.md").read_text()
    assert "- **Cameras**: 87 deg, 5 m; 120 deg, 10 m" in page
    assert "with other cameras" in page
    cameras = page[page.index("## Cameras") :]
    assert "| 720 | 4 | 120 deg, 10 m | exploration" in cameras
    assert "| 720 | 4 | 87 deg, 5 m | exploration" in cameras
    assert "| floorplan | 720 | 4 | 87 deg, 5 m |" in page
    for block in page.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in lines}) <= 1
    with (tmp_path / "report" / "families.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {(line["family"], line["fov_deg"]) for line in lines if line["trials"] != "0"} == {
        (name, fov) for name in ("indoor", "floorplan") for fov in ("87", "120")
    }
    for name in ("cameras.csv", "cameras.tex"):
        assert (tmp_path / "report" / name).exists()


def test_only_another_camera(tmp_path):
    """Nothing is a condition of Table I; the table of cameras has it all."""
    write_report(table([row("nearest", "willow", 400.0, fov_deg=87, **OFFICE)]), tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert "## Table I" not in page
    assert "| 720 | 4 | 87 deg, 10 m | exploration" in page
