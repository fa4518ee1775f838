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
