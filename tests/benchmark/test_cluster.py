"""The benchmark on a Ray cluster: a real one, on this machine, one of whose workers is killed."""

import builtins
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from decmarvel.benchmark.rows import read_rows, shards
from decmarvel.cli import main

pytestmark = pytest.mark.cluster
ray = pytest.importorskip("ray")

GRID = ["--planners", "nearest", "--robots", "2", "--budgets", "60,90", "--trials", "4", "--batch", "2"]


def workers_of(ancestor: int) -> list[int]:
    """Processes below one that are flying a batch."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in table.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}

    def below(pid: int) -> bool:
        return pid == ancestor or (pid in parents and below(parents[pid]))

    return [int(pid) for pid, _, *words in rows if words and words[0].startswith("ray::Worker.fly") and below(int(pid))]


def test_a_killed_worker_costs_no_row(tmp_path):
    """Rows are those of a single process, none lost, none doubled."""
    assert main(["benchmark", *GRID, "--out", str(tmp_path / "alone")]) == 0
    folder = tmp_path / "cluster"
    process = subprocess.Popen(
        [sys.executable, "-m", "decmarvel", "benchmark", *GRID, "--out", str(folder), "--cluster", "auto"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
    )
    killed: list[int] = []

    def kill_one() -> None:
        while process.poll() is None and not killed:
            for pid in workers_of(process.pid)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.02)

    thread = threading.Thread(target=kill_one)
    thread.start()
    out, err = process.communicate(timeout=300)
    thread.join()
    assert process.returncode == 0, err
    assert killed
    assert "8 of 8 missions" in out
    assert len(shards(folder)) == 4
    assert read_rows(folder).equals(read_rows(tmp_path / "alone"))
    for path in (tmp_path / "alone" / "missions").iterdir():
        assert path.read_bytes() == (folder / "missions" / path.name).read_bytes()


def test_without_ray(capsys, tmp_path, monkeypatch):
    def no_ray(name: str, *rest: object) -> object:
        if name == "ray":
            raise ImportError(name)
        return usual(name, *rest)

    usual = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", no_ray)
    assert main(["benchmark", *GRID, "--out", str(tmp_path / "out"), "--cluster", "auto"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "pip install decmarvel[cluster]" in err


def test_a_cluster_that_is_not_there(capsys, tmp_path):
    arguments = ["benchmark", *GRID, "--out", str(tmp_path / "out"), "--cluster", "nowhere.invalid:6379"]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "--cluster nowhere.invalid:6379" in err
    assert not Path(tmp_path / "out" / "rows").exists()
