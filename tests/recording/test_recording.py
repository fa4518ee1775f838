"""The recorded mission: it comes back as it was, beliefs follow from it, and bad files get one clear line."""

import dataclasses
import json
import re
import subprocess
from zipfile import ZipFile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image, ImageColor, ImageSequence

from decmarvel.core.config import Config, Noise
from decmarvel.core.types import FREE, UNKNOWN, Proposal
from decmarvel.recording.format import VERSION, RecordingError, load_recording
from decmarvel.recording.knowledge import NOT_YET, knowledge_history
from decmarvel.recording.playback import beliefs, beliefs_after
from decmarvel.recording.recorder import Recorder
from decmarvel.robot.policy.planner import LearnedPlanner
from decmarvel.show.film import ZOOM, FilmError, FramePainter, count_frames, write_film
from decmarvel.show.footprints import draw_footprints, sensed, shown_moment
from decmarvel.show.robots import pose
from decmarvel.show.style import FLOOR, UNSEEN, WALL
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import decide, moment, most_probable, outcome, take_off
from decmarvel.worlds import Building
from decmarvel.worlds.place import place, placement

CONFIG = Config()


@dataclasses.dataclass(frozen=True)
class Flown:
    """A mission that was recorded, and the beliefs and the state that it really had."""

    recorder: Recorder
    building: Building
    beliefs: list[np.ndarray]
    states: list
    outcome: object

    @property
    def recording(self):
        return self.recorder.recording(complete=True)


@pytest.fixture(scope="module")
def flown() -> Flown:
    """Three robots, of which one breaks down, in three rooms."""
    free = np.zeros((70, 80), bool)
    free[2:30, 2:78] = free[30:40, 30:48] = free[40:68, 2:78] = True
    free[40:60, 39:41] = False
    building = Building(free, (15, 40), CONFIG.cell_m, "three-rooms", origin_m=(-3.0, 7.0))
    world, planner = place(building, CONFIG), roster.planner("nearest")
    healthy = Fleet.of(3, 120.0)
    fleet = Fleet(healthy.present, healthy.budget_mm, healthy.fail_step.at[1].set(6))
    go_on = jax.jit(lambda flight: decide(CONFIG, planner, flight))
    flight = jax.jit(lambda key: take_off(CONFIG, planner, key, world, fleet))(jax.random.key(3))
    states = [flight.state]
    about = {"planner": "nearest", "seed": 3, "first": jax.device_get(moment(flight.state))}
    recorder = Recorder(CONFIG, building, world, fleet, **about)
    while not recorder.landed:
        flight, *news = go_on(flight)
        recorder.add(*jax.device_get((*news, moment(flight.state))))
        states.append(flight.state)
    known = [np.asarray(state.robots.belief) for state in states]
    return Flown(recorder, building, known, states, outcome(CONFIG, flight.state))


@pytest.fixture
def saved(flown, tmp_path):
    path = tmp_path / "mission.npz"
    flown.recording.save(path)
    return path


def same(one, other) -> bool:
    return all(
        np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
        for a, b in ((getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one))
    )


def rewrite(path, change_header=None, drop=(), **arrays) -> None:
    with np.load(path) as file:
        content = dict(file)
    header = json.loads(str(content["header"]))
    (change_header or (lambda header: None))(header)
    content |= {"header": np.array(json.dumps(header)), **arrays}
    for name in drop:
        content.pop(name)
    np.savez_compressed(path, **content)


@pytest.mark.slow
def test_round_trip(flown, saved):
    recording = load_recording(saved)
    assert same(recording, flown.recording)
    assert recording.complete
    assert recording.robots == 3
    assert recording.fail_steps == (None, 6, None)
    assert recording.mode[-1, 1] == 3
    assert saved.stat().st_size < 20_000
    assert [path.name for path in saved.parent.iterdir()] == ["mission.npz"]


def test_same_mission_same_bytes(flown, saved, tmp_path):
    flown.recording.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == saved.read_bytes()


def test_holds_what_happened(flown):
    recording = flown.recording
    assert recording.decisions == int(flown.outcome.decisions)
    np.testing.assert_allclose(recording.coverage[-1], flown.outcome.coverage, rtol=1e-6)
    np.testing.assert_allclose(recording.overlap[-1], flown.outcome.overlap, rtol=1e-6)
    np.testing.assert_allclose(recording.travelled_m[-1], flown.outcome.travelled_m, rtol=1e-6)
    for t, state in enumerate(flown.states):
        np.testing.assert_array_equal(recording.site[t], state.robots.site)
        np.testing.assert_array_equal(recording.cell[t], CONFIG.lattice.cell(np.asarray(state.robots.site)))
        np.testing.assert_array_equal(recording.heading[t], state.robots.heading)
        np.testing.assert_array_equal(recording.mode[t], state.robots.mode)
        np.testing.assert_array_equal(recording.budget_mm[t], state.robots.budget_mm)
        seen, now = (
            np.asarray(state.robots.sightings.seen[:, :, 0]),
            recording.sightings[recording.sightings[:, 0] == t],
        )
        assert {(row[1], row[2]) for row in now.tolist()} == {(i, j) for i, j in np.argwhere(seen).tolist()}
        for _, observer, teammate, y, x, heading in now.tolist():
            sightings = state.robots.sightings
            assert sightings.cell[observer, teammate, 0].tolist() == [y, x]
            assert int(sightings.heading[observer, teammate, 0]) == heading
    assert len(recording.sightings) > 0


def test_beliefs_follow_from_the_moves(flown, saved):
    rebuilt = list(beliefs(load_recording(saved)))
    assert len(rebuilt) == len(flown.beliefs)
    for known, live in zip(rebuilt, flown.beliefs, strict=True):
        np.testing.assert_array_equal(known, live)
    np.testing.assert_array_equal(beliefs_after(flown.recording, 4), flown.beliefs[4])
    with pytest.raises(RecordingError, match="there is no decision 999"):
        beliefs_after(flown.recording, 999)


def test_noise_is_refused(flown):
    noisy = dataclasses.replace(flown.recording, config=dataclasses.replace(CONFIG, noise=Noise(range_sd_m=1.0)))
    with pytest.raises(RecordingError, match="noise"):
        beliefs_after(noisy, 0)


def test_cells_lie_in_the_map_frame(flown):
    """The start is where the building says, and the ground truth is the building."""
    recording, building = flown.recording, flown.building
    row, column = building.start
    x_m, y_m = recording.to_map_m(recording.start_cell)
    assert x_m == pytest.approx(-3.0 + (column + 0.5) * 0.4)
    assert y_m == pytest.approx(7.0 + (row + 0.5) * 0.4)
    shift = placement(building, CONFIG).shift
    np.testing.assert_array_equal(np.argwhere(recording.free) - shift, np.argwhere(building.free))


def test_partial_without_a_decision(flown, tmp_path):
    recorder = object.__new__(Recorder)
    recorder.__dict__.update(flown.recorder.__dict__, moments=flown.recorder.moments[:1], _moves=[], _probabilities=[])
    recorder.recording(complete=False).save(tmp_path / "partial.npz")
    partial = load_recording(tmp_path / "partial.npz")
    assert not partial.complete
    assert partial.decisions == 0
    np.testing.assert_array_equal(beliefs_after(partial, 0), flown.beliefs[0])


def assert_refused(path, *words) -> None:
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    message = str(caught.value)
    assert "\n" not in message
    for word in (str(path), *words):
        assert word in message


def test_missing(tmp_path):
    assert_refused(tmp_path / "none.npz", "no such file")


@pytest.mark.parametrize("content", [b"", b"hello, this is no archive", b"\x93NUMPY\x01\x00"])
def test_foreign(tmp_path, content):
    path = tmp_path / "mission.npz"
    path.write_bytes(content)
    assert_refused(path, "not a recorded mission")


def test_foreign_arrays(tmp_path):
    np.savez(tmp_path / "weights.npz", weights=np.zeros(3))
    assert_refused(tmp_path / "weights.npz", "not a recorded mission")
    np.save(tmp_path / "grid.npy", np.zeros((3, 3)))
    assert_refused(tmp_path / "grid.npy", "not a recorded mission")
    np.savez(tmp_path / "other.npz", header=np.array(json.dumps({"format": "other", "format_version": 1})))
    assert_refused(tmp_path / "other.npz", "not a recorded mission")
    np.savez(tmp_path / "list.npz", header=np.array("[1, 2]"))
    assert_refused(tmp_path / "list.npz", "not a recorded mission")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_truncated(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    assert_refused(saved, "damaged", "fly the mission again")


def test_flipped_bit(flown, saved):
    """In the middle of any array: noticed, unless the array is the same nevertheless (a run copied from elsewhere)."""
    good, refused = saved.read_bytes(), 0
    with ZipFile(saved) as archive:
        entries = archive.infolist()
        ends = [*(entry.header_offset for entry in entries[1:]), archive.start_dir]
    for entry, end in zip(entries, ends, strict=True):
        content = bytearray(good)
        content[end - entry.compress_size // 2] ^= 0x10
        saved.write_bytes(content)
        try:
            assert same(load_recording(saved), flown.recording)
        except RecordingError:
            assert_refused(saved, "damaged")
            refused += 1
    assert refused > 10


def test_newer(saved):
    rewrite(saved, lambda header: header.update(format_version=VERSION + 1, package_version="9.0"))
    assert_refused(saved, f"format {VERSION + 1}", "9.0", "update decmarvel")


def test_older(flown, saved):
    """Format 2 had no paths and equal robots, and its constants no roads; format 1 had no probabilities, either."""

    def before(header) -> None:
        header.update(format_version=2)
        for name in ("roads", "radius_m"):
            del header["config"][name]

    rewrite(saved, before, drop=["counted", "bodies", "cell", "path"])
    assert same(load_recording(saved), flown.recording)
    rewrite(saved, lambda header: header.update(format_version=1), drop=["thoughts"])
    assert same(load_recording(saved), flown.recording)
    rewrite(saved, lambda header: header.update(format_version=0))
    assert_refused(saved, "format 0", "record the mission again")


def test_the_recording_has_the_most_probable_candidates(flown, tmp_path):
    key_score, key_heading = jax.random.split(jax.random.key(1))
    score = jax.nn.log_softmax(3 * jax.random.normal(key_score, (3, 75)))
    heading = jax.random.randint(key_heading, (3, 75), 0, 360)
    proposals = Proposal(score.reshape(3, 25, 3), heading.reshape(3, 25, 3), jnp.zeros(3, jnp.int32))
    planner = LearnedPlanner.__new__(LearnedPlanner)
    probabilities = jax.device_get(most_probable(planner, proposals, jnp.array([True, False, True])))
    recorder = object.__new__(Recorder)
    parts = {name: value[:1] for name, value in flown.recorder.__dict__.items() if name == "_moves"}
    recorder.__dict__.update(
        flown.recorder.__dict__, moments=flown.recorder.moments[:2], _probabilities=[probabilities], **parts
    )
    recorder.recording(complete=False).save(tmp_path / "probable.npz")
    found = load_recording(tmp_path / "probable.npz").probabilities[0]
    for robot in range(3):
        best = sorted(range(75), key=lambda candidate: -float(score[robot, candidate]))[:5]
        assert found[robot, :, 0].tolist() == best
        assert found[robot, :, 1].tolist() == [int(heading[robot, candidate]) for candidate in best]
        shares = [float(np.exp(score[robot, candidate])) * (robot != 1) for candidate in best]
        np.testing.assert_allclose(found[robot, :, 2], 1e4 * np.array(shares), atol=0.51)
    assert flown.recording.probabilities.shape == (flown.recording.decisions, 3, 0, 3), "others know no probabilities"


def test_inner_contradictions(saved):
    good = saved.read_bytes()
    for name in ("budget_mm", "path"):
        rewrite(saved, drop=[name])
        assert_refused(saved, "damaged", name)
        saved.write_bytes(good)
    rewrite(saved, heading=np.zeros((2, 3), np.int16))
    assert_refused(saved, "damaged", "heading")
    saved.write_bytes(good)
    rewrite(saved, lambda header: header.pop("map_id"))
    assert_refused(saved, "damaged")
    saved.write_bytes(good)
    rewrite(saved, lambda header: header["config"].update(spacing_m=99))
    assert_refused(saved, "damaged", "spacing_m")


def test_the_history_says_what_everybody_knew_and_where_they_could_go(flown):
    """At every moment: cells, nodes, edges, utilities and the way home of the live mission."""
    heard = []
    history = knowledge_history(flown.recording, heard.append)
    assert heard == list(range(len(flown.states)))
    utility = np.zeros((3, history.sites**2), int)
    for moment_, state in enumerate(flown.states):
        robots = state.robots
        np.testing.assert_array_equal(history.known_at <= moment_, np.asarray(robots.belief) != UNKNOWN)
        np.testing.assert_array_equal(history.node_at <= moment_, robots.graph.node)
        reached = np.asarray(robots.graph.edge)[:, :12] & np.asarray(robots.graph.node)[:, None]
        np.testing.assert_array_equal(history.edge_at <= moment_, reached)
        for when, robot, site, value in history.utility:
            if when == moment_:
                utility[robot, site] = value
        np.testing.assert_array_equal(utility, np.asarray(robots.graph.utility).reshape(3, -1))
        home_mm = [robots.graph.home_mm[number, *robots.site[number]] for number in range(3)]
        np.testing.assert_array_equal(history.home_mm[moment_], home_mm)
    assert (history.known_at == NOT_YET).any()
    assert len(history.utility) < 0.3 * utility.size * len(flown.states), "only what changes"


@pytest.fixture(scope="module")
def history(flown):
    return knowledge_history(flown.recording)


def test_pictures_show_the_map_and_the_robots(history):
    """Cell by cell what the team knew, and every robot's colour where it is."""
    painter, recording = FramePainter(history, 300), history.recording
    for moment_ in (0, 9, recording.decisions):
        cells = np.asarray(painter._map(moment_))[:: painter.scale, :: painter.scale][::-1]
        known, free = history.known_at.min(axis=0)[history.window] <= moment_, recording.free[history.window]
        for colour, wanted in ((FLOOR, known & free), (WALL, known & ~free), (UNSEEN, ~known & free)):
            np.testing.assert_array_equal((cells == ImageColor.getrgb(colour)).all(axis=-1), wanted)
        picture = np.asarray(painter.draw(moment_))
        assert picture.shape == (painter.size[1], painter.size[0], 3)
        for robot in range(3):
            x, y = painter.points(pose(recording, moment_, robot)[0]) / ZOOM
            around = picture[round(y) - 6 : round(y) + 7, round(x) - 6 : round(x) + 7].reshape(-1, 3)
            assert (around == painter.colours[robot]).all(axis=-1).sum() > 20
    np.testing.assert_allclose(pose(recording, 0.5, 0)[0], recording.cell[:2, 0].mean(axis=0))


def test_footprints_are_what_each_camera_found(history, flown, tmp_path):
    """Until the team has succeeded, without the scan that all robots begin with; drawn as figures for a paper."""
    recording = history.recording
    moment_ = shown_moment(recording)
    assert recording.coverage[moment_] >= 0.99 > recording.coverage[moment_ - 1]
    for robot in range(3):
        found = (flown.beliefs[moment_][robot] == FREE) & (flown.beliefs[0][robot] == UNKNOWN)
        np.testing.assert_array_equal(sensed(history, moment_)[robot], found)
    for kind, begin in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        path = tmp_path / f"footprints.{kind}"
        draw_footprints(history, path)
        assert path.read_bytes().startswith(begin)
        assert path.stat().st_size > 4000


@pytest.mark.slow
def test_films(history, tmp_path):
    """As many pictures as announced, that move."""
    for name in ("film.gif", "film.mp4"):
        path, heard = tmp_path / name, []
        write_film(history, path, lambda: heard.append(1))  # noqa: B023
        assert len(heard) == count_frames(history, path)
        assert [file.name for file in tmp_path.iterdir() if file.suffix == path.suffix] == [name]
    with Image.open(tmp_path / "film.gif") as film:
        frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]
    assert (frames[0] != frames[-1]).any()
    probe = [get_ffmpeg_exe(), "-i", tmp_path / "film.mp4", "-map", "0:v", "-f", "null", "-"]
    told = subprocess.run(probe, capture_output=True, text=True, check=True).stderr
    assert int(re.findall(r"frame=\s*(\d+)", told)[-1]) == len(heard)


def test_a_film_needs_a_known_ending(history, tmp_path):
    with pytest.raises(FilmError, match=r"films are \.mp4 or \.gif; name the file so"):
        write_film(history, tmp_path / "film.mov")
    assert not list(tmp_path.iterdir())


def test_a_noisy_mission_has_no_history(flown):
    noisy = dataclasses.replace(flown.recording, config=Config(noise=Noise(range_sd_m=1.0)))
    with pytest.raises(RecordingError, match="sensor noise"):
        knowledge_history(noisy)
