"""How smoothly the page of a large mission scrubs, and what recording a mission costs.

    python benchmarks/replay.py                # both; needs Chromium and playwright
    python benchmarks/replay.py --keep runs    # leaves the page and the recording there
    python benchmarks/replay.py --mission runs/mission.npz    # with the page of a mission that was recorded before

The page is that of 16 robots in a building of 400 m x 400 m, 512 decisions. Each scrub seeks a moment, and the next
begins when the browser asks for another picture: as somebody drags the time line, or clicks it here and there.
Recording is timed with a default mission, compiled before, that is flown with and without it, and alone while it is
flown: what is only for the record, over all the rest.

The figures are those of the machine as it is; other work on it makes them worse, so its load is printed.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright
from speed import mosaic

from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.integrations.api import begin_record
from decmarvel.recording.format import Recording, load_recording
from decmarvel.recording.knowledge import knowledge_history
from decmarvel.show.html import write_page
from decmarvel.simulation.flight import Mission
from decmarvel.worlds import generate

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-frame-rate-limit", "--disable-gpu-vsync"]
WANTED_MS = 1000 / 30
VIEWS = {
    "team": "view.look('team')",
    "one robot's": "view.select(0); view.look('own')",
    "one robot's, with graph": "view.layer('graph')",
}
SCRUB = """async ([times]) => {
    const draws = [], shown = [], next = () => new Promise(requestAnimationFrame);
    await next();
    let before = performance.now();
    for (const time of times) {
        const began = performance.now();
        view.seek(time);
        view.due = false;
        view.draw();
        draws.push(performance.now() - began);
        await next();
        shown.push(performance.now() - before);
        before = performance.now();
    }
    return [draws, shown];
}"""


def large_mission(decisions: int) -> Recording:
    """16 robots in a building of 400 m x 400 m."""
    mission = Mission(mosaic(4, 0), "nearest", robots=16, budget_m=20_000.0)
    began = time.perf_counter()
    flight = mission.take_off()
    recorder = begin_record(flight)
    while not flight.done and flight.decisions < decisions:
        recorder.add(*flight.step())
    recording = recorder.recording(complete=flight.landed)
    print(f"{recording.decisions} decisions of {recording.robots} robots in {_lasted(began)}, ", end="")
    print(f"{recording.coverage[-1]:.1%} explored", flush=True)
    return recording


def scrub(page: Page, last: int, count: int) -> None:
    """Every view, with times drawn at random and with a slow drag."""
    rng = np.random.default_rng(0)
    times = {"jumps": rng.uniform(0, last, count), "a drag": np.linspace(0, last, count)}
    print("\n| map | scrubs | script ms, median (95%) | picture ms, median (95%) | pictures a second |")
    print("|---|---|---|---|---|")
    for name, switch in VIEWS.items():
        page.evaluate(switch)
        for how, moments in times.items():
            draws, shown = page.evaluate(SCRUB, [moments.tolist()])
            cells = [f"{np.median(t):.1f} ({np.percentile(t, 95):.1f})" for t in (draws, shown)]
            verdict = "" if np.percentile(shown, 95) <= WANTED_MS else ", fewer than 30 at times"
            print(f"| {name} | {how} | {cells[0]} | {cells[1]} | {1000 / np.mean(shown):.0f}{verdict} |", flush=True)


def measure_page(recording: Recording, folder: Path, scrubs: int) -> None:
    began = time.perf_counter()
    history = knowledge_history(recording)
    print(f"The history of what robots knew takes {_lasted(began)}", end=", ")
    began = time.perf_counter()
    write_page([history], folder / "replay.html")
    recording.save(folder / "mission.npz")
    sizes = [(folder / name).stat().st_size / 1e6 for name in ("replay.html", "mission.npz")]
    print(f"writing its page {_lasted(began)}; page {sizes[0]:.1f} MB, recording {sizes[1]:.2f} MB", flush=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1366, "height": 800})
        began = time.perf_counter()
        page.goto((folder / "replay.html").absolute().as_uri())
        page.wait_for_selector("html[data-ready=true]")
        cells = page.evaluate("view.missions[0].columns")
        load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        print(f"The page opens in {_lasted(began)}; a map of {cells} cells a side; {load}")
        scrub(page, recording.decisions, scrubs)
        browser.close()


def measure_recording(folder: Path, repeats: int) -> None:
    """A default mission, decision by decision as `explore` flies it; alone, and with recorder and file."""
    mission = Mission(generate(), "sector")

    def fly(recorded: bool) -> tuple[float, float]:
        """How long it took, and how much of it was for the record."""
        began, extra_s = time.perf_counter(), 0.0
        flight = mission.take_off()
        recorder = begin_record(flight) if recorded else None
        while not flight.done:
            news = flight.step()
            if recorder:
                paused = time.perf_counter()
                recorder.add(*news)
                extra_s += time.perf_counter() - paused
        if recorder:
            paused = time.perf_counter()
            recorder.recording(complete=True).save(folder / "small.npz")
            extra_s += time.perf_counter() - paused
        return time.perf_counter() - began, extra_s

    fly(True)
    pairs = np.array([(fly(False)[0], *fly(True)) for _ in range(repeats)])
    alone, recorded, extra = pairs.T
    ratios, shares = recorded / alone - 1, extra / (recorded - extra)
    print(f"\nA default mission takes {np.median(alone):.2f} s, with recording {np.median(recorded):.2f} s: ", end="")
    print(f"{np.median(ratios):+.1%} ({min(ratios):+.1%} to {max(ratios):+.1%} in {repeats} pairs)")
    print(f"For the record alone: {1e3 * np.median(extra):.0f} ms, {np.median(shares):.1%} ({max(shares):.1%} at most)")


def _lasted(began: float) -> str:
    return f"{time.perf_counter() - began:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=512)
    parser.add_argument("--scrubs", type=int, default=200, help="of each kind")
    parser.add_argument("--repeats", type=int, default=7, help="of the mission with and without recording")
    parser.add_argument("--mission", type=Path, help="a recording to make the page of, instead of a new one")
    parser.add_argument("--keep", type=Path, help="folder for the page and the recording")
    options = parser.parse_args()
    enable_compilation_cache()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        recording = load_recording(options.mission) if options.mission else large_mission(options.decisions)
        measure_page(recording, folder, options.scrubs)
        measure_recording(folder, options.repeats)


if __name__ == "__main__":
    main()
