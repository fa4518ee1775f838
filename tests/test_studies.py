"""The scripts of `benchmarks/` start. What they call, and how, is checked with the types (`make lint`)."""

import runpy
import sys

import pytest

from paths import ROOT

SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_study_answers_help(script, monkeypatch, capsys):
    """In this process, which has loaded JAX already; a script finds its neighbours, as when it is started."""
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.syspath_prepend(str(script.parent))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert not ended.value.code
    assert script.name in capsys.readouterr().out


def test_there_are_studies():
    assert SCRIPTS


SMALL_HUNTS = {
    "caught": ["--missions", "2", "--settings", "1", "--maps", "3"],
    "complete": ["--missions", "2", "--settings", "1", "--maps", "3"],
    "guard": ["--again", "5,50000017", "--maps", "30"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL_HUNTS)
def test_hunts_find_nothing_in_a_mission_or_two(name, monkeypatch, capsys):
    script = ROOT / "benchmarks" / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(script), *SMALL_HUNTS[name]])
    monkeypatch.syspath_prepend(str(script.parent))
    code: object = None
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    assert not code
    assert ("missions complete" if name == "complete" else "no counter-example") in capsys.readouterr().out
