"""Kill a benchmark again and again at random moments, let it finish, and compare with one that was left alone.

    python benchmarks/killed.py --kills 20

Each run is ended with SIGKILL: a random time after its start, or after its first new file, or at the moment when it is
writing one. Give it enough trials that it does not finish before the last kill. At the end every row must be there,
once and equal to that of the undisturbed run, every recording equal byte by byte, and no leftover may remain.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from decmarvel.benchmark.rows import read_rows, shards
from decmarvel.recording.format import load_recording


def command(folder: Path, options: argparse.Namespace) -> list[str]:
    grid = ["--planners", "nearest", "--robots", "2", "--budgets", options.budgets, "--trials", str(options.trials)]
    return [sys.executable, "-m", "decmarvel", "benchmark", *grid, "--batch", "2", "--out", str(folder)]


def leftovers(folder: Path, process: int) -> int:
    """Files that a process has begun and not finished."""
    places = [folder / name for name in ("rows", "missions") if (folder / name).is_dir()]
    return sum(name.endswith(f".{process}") for place in places for name in os.listdir(place))


def killed(folder: Path, options: argparse.Namespace, rng: random.Random) -> str:
    """Start a run and kill it; say when."""
    before = len(shards(folder))
    process = subprocess.Popen(command(folder, options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    moment = rng.choice(("after the start", "after a file", "while writing"))
    began = time.monotonic()
    while moment == "after a file" and process.poll() is None and len(shards(folder)) == before:
        time.sleep(0.002)
    skip = rng.randrange(10)
    while moment == "while writing" and process.poll() is None:
        if len(shards(folder)) >= before + skip and leftovers(folder, process.pid):
            process.kill()
    delay_s = rng.uniform(0, options.longest_s if moment == "after the start" else 1.5)
    try:
        status = process.wait(delay_s)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    if status not in (0, -9):
        raise SystemExit(f"the run failed by itself: {process.stderr and process.stderr.read().decode()}")
    if shards(folder):
        read_rows(folder)  # at any moment all files are whole, and no row is there twice
    how = f"killed {moment}," if status else "had finished"
    left = leftovers(folder, process.pid)
    return f"{how} {time.monotonic() - began:.2f} s, {len(shards(folder))} files, {left} half-written"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--budgets", default="60,80,100,120")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--longest-s", type=float, default=20.0, help="of the kills counted from the start")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        alone, disturbed = Path(scratch) / "alone", Path(scratch) / "disturbed"
        subprocess.run(command(alone, options), check=True, stdout=subprocess.DEVNULL)
        kills = 0
        for number in range(options.kills):
            news = killed(disturbed, options, rng)
            kills += news.startswith("killed")
            print(f"{number + 1}: {news}", flush=True)
        subprocess.run(command(disturbed, options), check=True, stdout=subprocess.DEVNULL)
        rows, expected = read_rows(disturbed), read_rows(alone)
        if not rows.equals(expected):
            raise SystemExit(f"the rows differ: {len(rows)} of {len(expected)}")
        missions = sorted(path.name for path in (alone / "missions").iterdir())
        if missions != sorted(path.name for path in (disturbed / "missions").iterdir()):
            raise SystemExit("other recordings, or leftovers")
        for name in missions:
            load_recording(disturbed / "missions" / name)
            if (alone / "missions" / name).read_bytes() != (disturbed / "missions" / name).read_bytes():
                raise SystemExit(f"the recording {name} differs")
        print(f"{kills} kills; {len(rows)} rows and {len(missions)} recordings, all as in the undisturbed run")


if __name__ == "__main__":
    main()
