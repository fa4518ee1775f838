"""Missions that are watched while they fly: in a real browser, and by clients that a browser would never be."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import sync_playwright
from rich.console import Console

from decmarvel.cli import main
from decmarvel.cli.explore import Interruption, fly_and_show
from decmarvel.core.config import Config
from decmarvel.recording.format import Recording, load_recording
from decmarvel.recording.knowledge import knowledge_history
from decmarvel.show.html import page_data, page_text
from decmarvel.show.live import Live
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.flight import Mission
from decmarvel.worlds import load
from show.browser import CHROMIUM, FLAGS, in_browser

pytestmark = pytest.mark.slow

BUDGET_M = 320.0


class Watched(Live):
    """Between two decisions of the mission, something happens to its pages."""

    def __init__(self) -> None:
        super().__init__()
        self.happenings: dict[int, Callable[[], None]] = {}
        self.cut_off = False
        self.asked: list[int] = []

    def show(self, recorder, state) -> None:
        super().show(recorder, state)
        self.happenings.get(len(recorder.moments) - 1, lambda: None)()

    def events(self, last: int) -> Iterator[bytes]:
        self.asked.append(last)
        for text in super().events(last):
            if self.cut_off and text:
                self.cut_off = False
                raise ConnectionAbortedError
            yield text


@pytest.fixture(scope="module")
def rooms(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("maps") / "two rooms.npy"
    free = np.zeros((75, 75), bool)
    free[2:73, 2:73] = True
    free[35:38] = False
    free[35:38, 30:45] = True
    np.save(file, free)
    return file


@pytest.fixture(scope="module")
def fly(rooms):
    """Fly a mission of three robots, of which one breaks down, in front of its pages."""
    config = Config()
    building = load(rooms, cell_m=config.cell_m)
    fleet = Fleet.failing(3, BUDGET_M, 1, [26])
    mission = Mission(building, "random", seed=26, config=config, fleet=fleet)

    def go(live: Live) -> Recording:
        _, recorder = fly_and_show(mission, Console(quiet=True), True, Interruption(), live)
        return recorder.recording(complete=recorder.landed)

    return go


@pytest.fixture(scope="module")
def flown(fly):
    """A mission that is over."""
    live = Live()
    recording = fly(live)
    live.end(recording)
    yield live, recording
    live.close()


@pytest.fixture
def live():
    live = Watched()
    yield live
    live.close()


@pytest.fixture
def page():
    """A page on which nothing may be complained about."""
    complaints = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1366, "height": 800})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        browser.close()
    assert complaints == []


def until(page, condition: str) -> None:
    """As `wait_for_function`, which the page's own rules forbid."""
    deadline = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"{condition}: {page.evaluate('[view.live, view.time, view.last]')}"
        page.wait_for_timeout(20)


def data(page, names: list[str]) -> dict[str, object]:
    """All that a page knows of its mission, and what it makes of it."""
    return page.evaluate(
        """(names) => {
            const mission = view.missions[0], { seen, last, moments } = mission, found = { seen, last, moments };
            const facts = ["complete", "metres_to_99", "corner", "planner", "floor_cells"];
            const listed = (array) => [array.constructor.name, array.shape, Array.from(array)];
            for (const name of names) found[name] = listed(mission[name]);
            for (const name of facts) found[name] = mission[name];
            for (const moment of [0, 9, last]) found[`utility ${moment}`] = Array.from(mission.utilityAt(moment));
            return { ...found, anybody: Array.from(mission.knownAt(null)) };
        }""",
        names,
    )


def ask(live: Live, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(*urlsplit(live.address).netloc.split(":"), timeout=30)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return connection.getresponse()


@in_browser
def test_the_page_of_a_flying_mission_ends_as_the_page_of_its_recording(fly, live, page, tmp_path):
    """Watched from the take-off, looked back on, loaded again, cut off, and followed to its end."""

    def take_off() -> None:
        page.goto(live.address)
        page.wait_for_selector("html[data-ready=true]")
        until(page, "view.live === 'live' && view.following")
        assert page.inner_text("#detail").endswith("in the air")
        assert page.inner_text("#live") == "live"

    def follow() -> None:
        until(page, "view.time === 6")
        assert page.get_attribute("#time", "max") == "6"
        until(page, "$('when').textContent === 'decision 6 of 6'")

    def look_back() -> None:
        page.keyboard.press("Home")
        page.keyboard.press("2")
        page.keyboard.press("o")
        page.evaluate("view.missions[0].knownAt(null)")  # what is kept has to grow, too
        assert not page.evaluate("view.following")

    def still_there() -> None:
        until(page, "view.last === 12")
        assert page.evaluate("[view.time, view.whose, view.robot, view.following]") == [0, "own", 1, False]
        page.click("#live")
        until(page, "view.time === 12 && view.following")

    def load_again() -> None:
        page.reload()
        until(page, "view.time === 15 && view.following")
        live.cut_off = True

    def connect_again() -> None:
        until(page, "view.live === 'lost'")
        until(page, "view.live === 'live' && view.time === 16")
        assert live.asked == [0, 0, 15]
        page.select_option("#speed", "40")

    live.happenings = {0: take_off, 6: follow, 7: look_back, 12: still_there, 15: load_again, 16: connect_again}
    recording = fly(live)
    assert recording.decisions > 40
    live.end(recording)
    until(page, "view.live === 'over'")
    assert live.wait(10.0)
    until(page, "view.time === view.last && !view.playing")
    assert page.inner_text("#live") == "mission over"
    assert "in the air" not in page.inner_text("#detail")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    names = list(page_data(knowledge_history(recording))[1])
    found = data(page, names)
    (tmp_path / "page.html").write_text(page_text([knowledge_history(recording)]))
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("html[data-ready=true]")
    assert page.is_hidden("#live")
    expected = data(page, names)
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name] == expected[name], name


@in_browser
def test_watching_on_the_command_line(page, rooms, tmp_path):
    folder = tmp_path / "out"
    arguments = ["--map", rooms, "--robots", 3, "--budget", BUDGET_M, "--planner", "random", "--out", folder]
    process = explore(*arguments)
    address = re.search(r"http://\S+", read_to(process, "http://"))[0]
    page.goto(address, timeout=120_000)
    until(page, "view.live === 'over'")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "The page has all of the mission" in out
    assert "replay.html" in out
    until(page, "view.time === view.last")
    assert (folder / "replay.html").read_text() == page_text(
        [knowledge_history(load_recording(folder / "mission.npz"))]
    )


def test_nobody_has_to_watch(rooms, tmp_path, monkeypatch, capsys):
    arguments = ["explore", "--watch", "--map", str(rooms), "--robots", "3", "--budget", "60", "--out", str(tmp_path)]
    arguments += ["--planner", "sector"]
    monkeypatch.setattr("decmarvel.cli.browser.PATIENCE_S", 0.1)
    monkeypatch.setattr("decmarvel.cli.browser.open_page", lambda address: None)
    assert main(arguments) == 0
    assert "No page was there for the end" in capsys.readouterr().out
    assert (tmp_path / "replay.html").is_file()
    assert main([*arguments, "--quiet"]) == 2
    assert "--watch" in capsys.readouterr().err


@pytest.mark.parametrize(("after", "status", "words"), [("can be opened", 0, "Ended."), ("http", 130, "Interrupted")])
def test_interrupt(rooms, tmp_path, after, status, words):
    """While a page is waited for, and while the mission flies: then nobody is waited for."""
    process = explore("--map", rooms, "--robots", 2, "--budget", 60 if status == 0 else 4000, "--out", tmp_path)
    read_to(process, after)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=50)
    assert process.returncode == status, err
    assert "Traceback" not in err
    assert words in out
    assert (tmp_path / "replay.html").is_file()


def explore(*arguments: object) -> subprocess.Popen:
    hidden = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "decmarvel", "explore", "--watch", "--planner", "sector", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**hidden, "COLUMNS": "200"},
    )


def read_to(process: subprocess.Popen, words: str) -> str:
    return next(line for line in process.stdout if words in line)


def test_events_are_kept_and_told_from_where_a_page_was(flown):
    live, recording = flown
    last = recording.decisions + 1  # a number for each decision, and one for the end
    for known, first in (("", 1), ("7", 8), (str(last - 1), last), ("something else", 1)):
        assert told(live, known) == list(range(first, last + 1))
    until_true(lambda: live.listening == 0)
    assert live.served == 4
    assert live.wait(0.0)


def told(live: Live, last: str) -> list[int]:
    """The numbers of the events that come after one, to the end; then hang up, as a page does."""
    answer = ask(live, f"{live.path}events", Last_Event_ID=last)
    assert answer.headers["Content-Type"] == "text/event-stream"
    found, line = [], b""
    while line != b"event: over\n":
        line = answer.readline()
        if line.startswith(b"id: "):
            found.append(int(line[4:]))
    while line != b"\n":
        line = answer.readline()
    answer.close()
    return found


def test_refusals(flown):
    live, _ = flown
    port = urlsplit(live.address).port
    for path in ("/", "/events", "/favicon.ico", f"{live.path}x", live.path[:-1], f"/{'x' * 43}/", f"{live.path}../x"):
        assert ask(live, path).status == 404, path
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ask(live, live.path, method).status == 501, method
    strangers = ["example.com", f"example.com:{port}", f"127.0.0.1.example.com:{port}"]
    for host in [*strangers, "127.0.0.1", f"127.0.0.1:{port + 1}", ""]:
        assert ask(live, live.path, Host=host).status == 403, host
        assert ask(live, f"{live.path}events", Host=host).status == 403, host
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(live, live.path, Host=host).status == 200
    assert len(live.path) > 40


def test_headers(flown):
    live, _ = flown
    for path in (live.path, "/"):
        answer = ask(live, path)
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in answer.headers
    head = ask(live, live.path, "HEAD")
    assert int(head.headers["Content-Length"]) == len(ask(live, live.path).read())
    assert head.read() == b""
    assert ask(live, f"{live.path}events", "HEAD").read() == b""


def test_only_this_machine_can_connect(live, flown):
    assert live.path != flown[0].path
    assert live.address.startswith("http://127.0.0.1:")
    port = urlsplit(live.address).port
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", port), 5):
        pass


def test_pages_that_stop_reading_or_vanish_hold_nobody_up(live):
    address = urlsplit(live.address)

    def listen() -> socket.socket:
        connection = socket.create_connection((address.hostname, address.port))
        connection.sendall(f"GET {live.path}events HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        return connection

    stuck, gone = listen(), listen()
    until_true(lambda: live.listening == 2)
    gone.close()
    began = time.monotonic()
    for _ in range(200):
        live._add("message", "x" * 100_000)
    assert time.monotonic() - began < 2
    until_true(lambda: live.listening == 1)
    stuck.close()
    until_true(lambda: live.listening == 0)
    assert not live.wait(0.0)


def until_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
