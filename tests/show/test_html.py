"""The replay page in a real browser: it opens from disk, moves with the time line, and shows what it is asked to."""

import base64
import dataclasses
import json
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playwright.sync_api import sync_playwright

import mixed
from decmarvel.cli import main
from decmarvel.core.lattice import SLOT_OFFSETS
from decmarvel.core.types import FREE, OCCUPIED, UNKNOWN
from decmarvel.recording.format import load_recording
from decmarvel.recording.knowledge import KnowledgeHistory, knowledge_history
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.robot.policy.weights import Card, save_weights
from decmarvel.robot.sight import frontiers
from decmarvel.show.html import pack, page_data
from decmarvel.show.robots import carries, pose, trail
from show.browser import CHROMIUM, FLAGS, in_browser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Missions of three robots in two rooms, one with a breakdown; and one elsewhere."""
    folder = tmp_path_factory.mktemp("runs")
    free = np.zeros((75, 75), bool)
    free[2:73, 2:73] = True
    free[35:38] = False
    free[35:38, 30:45] = True
    np.save(folder / "two rooms.npy", free)
    for name, more in (("broken", ["--seed", 26, "--broken", 1]), ("other", ["--seed", 27])):
        team = ["--robots", 3, "--budget", 320, "--planner", "random", "--quiet"]
        command = ["explore", "--map", folder / "two rooms.npy", *team, *more, "--out", folder / name]
        assert main([str(word) for word in command]) == 0
    found = load_recording(folder / "other" / "mission.npz")
    (folder / "elsewhere").mkdir()
    dataclasses.replace(found, map_id="one room").save(folder / "elsewhere" / "mission.npz")
    sizes = GraphActorConfig(
        width=16, heads=2, layers=1, feed=16, channels=2, token_width=8, token_layers=1, token_feed=8
    )
    card = Card("actor", "dec-marvel", sizes, 0, 0.0)
    save_weights(folder / "tiny.safetensors", sizes.build(jax.random.key(5)), card)
    team = ["--robots", 2, "--budget", 200, "--planner", "dec-marvel", "--weights", folder / "tiny.safetensors"]
    command = ["explore", "--map", folder / "two rooms.npy", *team, "--quiet", "--out", folder / "learned"]
    assert main([str(word) for word in command]) == 0
    (folder / "mixed").mkdir()
    mixed.flown().recording.save(folder / "mixed" / "mission.npz")
    return {name: folder / name for name in ("broken", "other", "elsewhere", "learned", "mixed")}


@pytest.fixture(scope="module")
def history(runs) -> KnowledgeHistory:
    return knowledge_history(load_recording(runs["broken"] / "mission.npz"))


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def watch(browser, runs, tmp_path):
    """Write the page of some runs and open it; in the end, nothing may have been complained about."""
    complaints, pages = [], []

    def open_page(*names: str, width: int = 1366, height: int = 800, colours: str = "light"):
        file = tmp_path / "page.html"
        assert main(["replay", *(str(runs[name]) for name in names), "--out", str(file), "--no-open"]) == 0
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if "http" in request.url else None)
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=true]")
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def settle(page) -> None:
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def seek(page, time: float) -> None:
    page.evaluate(f"const line = $('time'); line.value = {time}; line.dispatchEvent(new Event('input'))")
    settle(page)


def stage(page, number: int = 0) -> str:
    """The picture of a mission, pixel by pixel."""
    settle(page)
    return page.evaluate(f"view.panes[{number}].canvas.toDataURL()")


def pixels(page, name: str) -> int:
    """How many cells of the map have a colour."""
    settle(page)
    return page.evaluate(
        """(name) => {
            const pixels = new Uint32Array(view.panes[0].image.data.buffer), wanted = rgb(ink(name)) >>> 0;
            return pixels.filter((pixel) => pixel === wanted).length;
        }""",
        name,
    )


def test_packed_arrays_come_back(history):
    facts, arrays = page_data(history)
    raw = zlib.decompress(base64.b64decode(pack(facts, arrays)))
    length = int.from_bytes(raw[:4], "little")
    head = json.loads(raw[4 : 4 + length])
    assert (4 + length) % 8 == 0, "the browser wants numbers on their own boundaries"
    for name, array in arrays.items():
        place = head["arrays"][name]
        found = np.frombuffer(raw, place["kind"], array.size, 4 + length + place["at"]).reshape(place["shape"])
        np.testing.assert_array_equal(found, array)
    assert head["planner"] == "random"


def test_runs_that_cannot_be_shown_get_one_line(runs, tmp_path, capsys):
    foreign = tmp_path / "mission.npz"
    foreign.write_text("something else")
    for arguments, words in (
        ([tmp_path / "nowhere"], "there is no such file"),
        ([foreign], "not a recorded mission"),
        ([runs["broken"], runs["elsewhere"]], "one room is not the map of the first mission"),
        ([runs["broken"], "--out", foreign / "page.html"], "cannot write"),
        ([runs["broken"], "--film", tmp_path / "film.avi"], "films are .mp4 or .gif"),
        ([runs["broken"], runs["other"], "--film", tmp_path / "film.gif"], "is made of one mission"),
    ):
        assert main(["replay", *map(str, arguments), "--no-open"]) == 2
        complaint = capsys.readouterr().err
        assert words in complaint
        assert complaint.count("\n") == 1


@in_browser
def test_the_time_line_moves_the_robots(watch, history):
    page = watch("broken")
    assert page.inner_text("h1") == "3 robots explore two rooms"
    start = stage(page)
    last = history.recording.decisions
    for time in (3, last // 2 + 0.5, last):
        seek(page, time)
        assert stage(page) != start
        cells = history.recording.cell[int(time)]
        at = page.evaluate("view.missions[0].present.map((robot) => view.missions[0].at(Math.floor(view.time), robot))")
        corner = np.array(page.evaluate("view.missions[0].corner"))
        np.testing.assert_allclose(np.array(at)[:, ::-1], cells - corner + 0.5)
    assert "broken" in page.inner_text("#team")
    assert page.inner_text("#when") == f"decision {last} of {last}"
    seek(page, 0)
    assert stage(page) == start
    box = page.locator("#coverage").bounding_box()
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 20)
    assert 0.6 * last < page.evaluate("view.time") < 0.9 * last


@in_browser
def test_maps_are_those_of_the_robots(watch, history):
    """Cell by cell: floor, walls and frontiers of the team and of each robot."""
    page, recording = watch("broken"), history.recording
    page.click("#layers [value=truth]")
    for time in (0, 7, recording.decisions):
        seek(page, time)
        for key, known_at in (
            ("t", history.known_at.min(axis=0)),
            *((str(n + 1), history.known_at[n]) for n in range(3)),
        ):
            page.keyboard.press(key)
            if key != "t":
                page.keyboard.press("o")
            known = known_at <= time
            belief = np.where(known, np.where(recording.free, FREE, OCCUPIED), UNKNOWN).astype(np.uint8)
            edge = np.asarray(frontiers(jnp.asarray(belief)))
            assert pixels(page, "--frontier") == edge.sum()
            assert pixels(page, "--floor") == (known & recording.free).sum() - edge.sum()
            assert pixels(page, "--wall") == (known & ~recording.free).sum()


@in_browser
def test_maps_are_the_same_wherever_one_comes_from(watch, history):
    """Only what is new is painted: forwards, backwards and from afar."""
    page, last = watch("broken"), history.recording.decisions
    painted = "view.panes[0].image.data.join()"
    maps = []
    for time in (*range(0, last, 4), last, 2, 7):
        seek(page, time)
        step_by_step = page.evaluate(painted)
        page.evaluate("view.panes[0].painted = {}; view.refresh()")
        settle(page)
        assert page.evaluate(painted) == step_by_step
        maps.append(step_by_step)
    assert len(set(maps)) > 3, "there was something to paint"


@in_browser
def test_every_switch_changes_the_picture_and_changes_it_back(watch):
    page = watch("broken")
    page.keyboard.press("1")
    seek(page, 6.5)
    for layer in ("trails", "cameras", "frontiers", "graph", "truth"):
        before = stage(page)
        page.click(f"#layers [value={layer}]")
        assert stage(page) != before, layer
        page.click(f"#layers [value={layer}]")
        assert stage(page) == before, layer
    seen = page.evaluate("view.missions[0].seen.findIndex((each) => each.some(({ observer }) => observer === 0))")
    seek(page, seen)
    before = stage(page)
    page.click("#layers [value=sightings]")
    assert stage(page) != before
    before = stage(page)
    page.click("#theme")
    assert stage(page) != before
    assert page.evaluate("document.documentElement.classList.contains('dark')")


@in_browser
def test_keys(watch):
    page = watch("broken")
    time = lambda: page.evaluate("view.time")  # noqa: E731
    for key, expected in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("Shift+ArrowRight", 12),
        ("ArrowLeft", 11),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        assert time() == expected
    page.keyboard.press("End")
    assert time() == page.evaluate("view.last")
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    page.wait_for_function("view.time > 1")
    page.keyboard.press(" ")
    stopped = time()
    settle(page)
    assert time() == stopped
    page.keyboard.press("2")
    assert page.evaluate("view.robot") == 1
    page.keyboard.press("o")
    settle(page)
    assert "robot 2 has seen itself" in page.inner_text("#whose-note")
    page.keyboard.press("Escape")
    assert page.evaluate("[view.robot, view.whose]") == [None, "team"]


@in_browser
def test_it_says_who_knows_a_map(watch, runs):
    """A team with a radio is told of as such, also beside one without."""
    silent = load_recording(runs["other"] / "mission.npz")
    runs["radio"] = runs["other"].parent / "radio"
    runs["radio"].mkdir()
    dataclasses.replace(silent, planner="shared-greedy").save(runs["radio"] / "mission.npz")
    for names, team, own in (
        (["other"], "No robot knows it: they never talk.", "This is all it decides from."),
        (["radio"], "All robots know it, by radio.", "It decides from what all have seen: they have a radio."),
    ):
        page = watch(*names)
        assert page.inner_text("#whose-note").endswith(team)
        page.keyboard.press("o")
        settle(page)
        assert page.inner_text("#whose-note") == f"What robot 1 has seen itself. {own}"
    page = watch("other", "radio")
    settle(page)
    words = page.inner_text("#whose-note")
    assert "random: Everything" in words
    assert "shared-greedy (radio): Everything" in words
    heard = page.evaluate("whoseNote({ radio: true, heard: true }, 'own', 2)")
    assert heard == "What robot 3 knows, by radio from the others, too."


@in_browser
def test_two_missions_stay_in_step(watch):
    page = watch("broken", "other")
    assert page.locator(".caption").all_inner_texts()[1].startswith("random: ")
    start = [stage(page, number) for number in (0, 1)]
    seek(page, 9.25)
    assert page.evaluate("view.panes.map((pane) => pane.time())") == [9.25, 9.25]
    assert all(stage(page, number) != start[number] for number in (0, 1))
    page.click("#play")
    page.wait_for_function("view.time > 12")
    first, second = page.evaluate("view.panes.map((pane) => pane.time())")
    assert first == second


@in_browser
def test_candidates_of_the_learned_planner(watch, runs):
    recording = load_recording(runs["learned"] / "mission.npz")
    page = watch("learned")
    assert page.locator("#candidates").is_hidden(), "nobody is selected"
    seek(page, 3)
    before = stage(page)
    page.keyboard.press("2")
    assert stage(page) != before
    rows = page.locator("#candidates li")
    shares = [int(text.rstrip("%")) for text in rows.locator("span:nth-child(2)").all_inner_texts()]
    assert shares == [int(share / 100 + 0.5) for share in recording.probabilities[3, 1, :, 2]]
    assert page.locator("#candidates li.done").count() == 1
    slot, where = recording.probabilities[3, 1, 0, 0] // 3, rows.first.inner_text()
    dy, dx = SLOT_OFFSETS[slot]
    assert f"{round(4 * np.hypot(dy, dx))} m" in where
    assert (("north" in where.split(",")[0]), ("south" in where.split(",")[0])) == (dy > 0, dy < 0) or abs(
        dx
    ) == 2 * abs(dy)
    seek(page, recording.decisions)
    assert rows.count() == 0
    assert "Nothing to decide" in page.inner_text("#candidates")


@in_browser
def test_a_mixed_team_on_roads(watch):
    """Robots, ways, cameras and nodes are where they are in other pictures; the table says what each robot has."""
    page, history = watch("mixed"), mixed.history()
    recording, corner = history.recording, [part.start for part in history.window]

    def assert_points(found, cells) -> None:
        np.testing.assert_allclose(np.array(found)[..., ::-1], np.array(cells) - corner + 0.5, atol=1e-6)

    bent = np.argwhere(recording.bent[:, :3])
    assert len(bent)
    for time in (0, 7, 8.3, *(move + 0.4 for move, _ in bent[:3]), recording.decisions):
        seek(page, time)
        for robot in range(3):
            found = page.evaluate(f"view.missions[0].pose({time}, {robot})")
            cell, heading = pose(recording, time, robot)
            assert_points(found["at"], cell)
            assert found["heading"] == pytest.approx(heading)
            assert_points(page.evaluate(f"view.missions[0].trail({time}, {robot})"), trail(recording, time, robot))
            ahead = page.evaluate(f"view.missions[0].ahead({time}, {robot})")
            assert_points(ahead[0], cell)
            assert_points(ahead[-1], recording.cell[min(int(time) + 1, recording.decisions), robot])
    for robot, row, column in np.argwhere(history.node_at != 65535)[::20].tolist():
        found = page.evaluate(f"view.missions[0].nodePoint({robot}, {row}, {column})")
        assert_points(found, history.node_cell[robot, row, column])
    rows = page.locator("#team .robot .carries").all_inner_texts()
    assert rows == carries(recording)[:3]
    page.keyboard.press("1")
    seek(page, recording.decisions)
    before = stage(page)
    page.click("#layers [value=graph]")
    assert stage(page) != before


@in_browser
def test_equal_robots_have_nothing_to_be_told_apart_by(watch):
    assert watch("broken").locator("#team .robot .carries").count() == 0


@in_browser
def test_other_planners_have_no_candidates_to_show(watch):
    page = watch("broken")
    page.keyboard.press("1")
    settle(page)
    assert page.locator("#candidates").is_hidden()


@in_browser
@pytest.mark.parametrize("width", [390, 1366])
def test_it_fits_the_width_of_a_phone_and_of_a_laptop(watch, width):
    page = watch("broken", width=width, height=800, colours="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".pane").bounding_box()["width"] > 0.6 * min(width, 1000)
    for button in ("#play", "#on", "#theme"):
        box = page.locator(button).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
