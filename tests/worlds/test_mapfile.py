"""Map files: what is saved reads back, each format means what it says, and every bad file gets one useful line."""

import dataclasses
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from decmarvel.worlds import FAMILIES, Building, MapError, generate, load, save

ROOM = np.pad(np.ones((48, 58), bool), 1)
"""A single room with walls of one cell."""


def two_rooms() -> np.ndarray:
    """A small room on the left, x below 4.4 m, and a large one on the right; nothing joins them."""
    free = ROOM.copy()
    free[:, 11] = False
    return free


def write_picture(path: Path, top_down: np.ndarray) -> Path:
    Image.fromarray(np.asarray(top_down, np.uint8)).save(path)
    return path


def write_ros(folder: Path, free: np.ndarray | None = None, **changes: object) -> Path:
    """A proper map_server file but for the changes; a key set to None is left out."""
    free = ROOM if free is None else free
    write_picture(folder / "floor.pgm", np.where(free[::-1], 254, 0))
    fields = {
        "image": "floor.pgm",
        "resolution": 0.4,
        "origin": [-3.0, 5.5, 0.0],
        "negate": 0,
        "occupied_thresh": 0.65,
        "free_thresh": 0.196,
    } | changes
    path = folder / "floor.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in fields.items() if value is not None}))
    return path


def write_array(folder: Path, array: np.ndarray) -> Path:
    path = folder / "floor.npy"
    np.save(path, array, allow_pickle=True)
    return path


@settings(max_examples=25)
@given(
    family=st.sampled_from(FAMILIES),
    index=st.integers(0, 10**6),
    cell_m=st.sampled_from([0.25, 1 / 3, 0.4]),
    origin_m=st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)),
    suffix=st.sampled_from([".yaml", ".png", ".npy"]),
)
def test_what_is_saved_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    family: str,
    index: int,
    cell_m: float,
    origin_m: tuple[float, float],
    suffix: str,
) -> None:
    building = dataclasses.replace(generate(family, "train", index, cell_m), origin_m=origin_m)
    path = tmp_path_factory.mktemp("maps") / "new folder" / f"{building.name}{suffix}"
    save(building, path)
    read = load(path, cell_m=cell_m, resolution_m=cell_m if suffix == ".npy" else None)
    np.testing.assert_array_equal(read.free, building.free)
    assert read.cell_m == building.cell_m
    assert read.name == building.name
    if suffix != ".npy":
        assert read.start == building.start
        assert read.origin_m == building.origin_m


def test_a_saved_picture_has_the_greys_and_the_scale_of_exploration_data_sets(tmp_path: Path) -> None:
    building = generate("indoor", "heldout", 3)
    save(building, tmp_path / "map.png")
    grey = np.asarray(Image.open(tmp_path / "map.png"))
    assert grey.shape == (500, 500)
    assert set(np.unique(grey)) == {127, 195, 208}
    bare = write_picture(tmp_path / "bare.png", grey)  # without the notes that `save` makes in the file
    read = load(bare)
    np.testing.assert_array_equal(read.free, building.free)
    assert read.start == building.start


def test_a_data_set_picture_is_read_top_down_with_its_start_patch(tmp_path: Path) -> None:
    grey = np.full((100, 120), 127)
    grey[5:95, 5:115] = 195
    grey[40:60, 30:50] = 60  # a dark grey that is free too
    grey[10:20, 90:100] = 208
    building = load(write_picture(tmp_path / "m.png", grey))
    free = (grey > 150) | ((grey >= 50) & (grey <= 80))
    np.testing.assert_array_equal(building.free, free.reshape(50, 2, 60, 2).all(axis=(1, 3))[::-1])
    assert building.start == (42, 47)  # 15 px from the top: y = 17 m, x = 19 m
    assert building.origin_m == (0.0, 0.0)


def test_plain_pictures_are_free_where_bright(tmp_path: Path) -> None:
    free = np.pad(np.ones((98, 118), bool), 1)
    free[30:40, 20:60] = False
    expected = free.reshape(50, 2, 60, 2).all(axis=(1, 3))[::-1]
    for name, bright, dark in (("a.png", 255, 0), ("b.pgm", 180, 90), ("c.png", 254, 205)):
        building = load(write_picture(tmp_path / name, np.where(free, bright, dark)))
        np.testing.assert_array_equal(building.free, expected)
        assert building.cell_m == 0.4
    scattered = np.where(free, 255, 0)
    scattered[::7, ::9] = np.where(free[::7, ::9], 208, 0)  # this grey alone does not make a start
    np.testing.assert_array_equal(load(write_picture(tmp_path / "d.png", scattered)).free, expected)


def test_colour_transparency_and_16_bits(tmp_path: Path) -> None:
    colour = np.zeros((100, 100, 4), np.uint8)
    colour[10:90, 10:90] = 255
    colour[40:60, 40:60, 3] = 0
    Image.fromarray(colour, "RGBA").save(tmp_path / "rgba.png")
    expected = (colour[..., 0] > 0) & (colour[..., 3] > 0)
    np.testing.assert_array_equal(load(tmp_path / "rgba.png", cell_m=0.2).free, expected[::-1])
    deep = np.where(expected, 65535, 300).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(load(tmp_path / "deep.png", cell_m=0.2).free, expected[::-1])


def ros_rule(value: int, mode: str, negate: int, free_below: float) -> bool:
    """map_server's rule for one pixel."""
    value = 255 - value if negate else value
    return value < 100 * free_below if mode == "raw" else (255 - value) / 255 < free_below


@pytest.mark.parametrize("mode", ["trinary", "scale", "raw", None])
@pytest.mark.parametrize("negate", [0, 1, True])
def test_ros_thresholds(tmp_path: Path, mode: str | None, negate: int) -> None:
    """One column of the picture for each grey; neighbours that the rule makes free are joined below, walls above."""
    for free_below in (0.196, 0.25):
        path = write_ros(tmp_path, mode=mode, negate=negate, free_thresh=free_below, resolution=0.1)
        grey = np.tile(np.arange(256), (100, 1))
        write_picture(tmp_path / "floor.pgm", grey)
        expected = np.array([ros_rule(value, mode or "trinary", negate, free_below) for value in range(256)])
        if mode in (None, "trinary") and not negate:
            expected[205] = False  # unknown, whatever the threshold
        pieces, _ = ndimage.label(expected)
        largest = pieces == 1 + np.bincount(pieces)[1:].argmax()
        building = load(path, cell_m=0.1)
        np.testing.assert_array_equal(building.free, np.tile(largest, (100, 1)))


def test_ros_origin_start_and_resolution(tmp_path: Path) -> None:
    building = load(write_ros(tmp_path, start=[0.0, 10.0]))
    np.testing.assert_array_equal(building.free, ROOM)
    assert building.origin_m == (-3.0, 5.5)
    assert building.start == (11, 7)
    assert building.name == "floor"
    assert load(tmp_path / "floor.yaml", start_m=(-2.5, 6.0)).start == (1, 1), "the caller's start counts"
    assert load(tmp_path / "floor.yaml", resolution_m=0.8).free.shape == (100, 120)
    finer = load(tmp_path / "floor.yaml", cell_m=0.1)
    np.testing.assert_array_equal(finer.free, np.kron(ROOM, np.ones((4, 4), bool)))


def test_without_a_start_it_is_where_there_is_most_room(tmp_path: Path) -> None:
    free = ROOM.copy()
    free[20:30, 20:30] = False
    building = load(write_array(tmp_path, free.astype(np.int32) * 7))
    to_wall = np.hypot(*(np.argwhere(~free)[:, None] - np.argwhere(free)[None]).transpose(2, 0, 1)).min(axis=0)
    assert building.start == tuple(np.argwhere(free)[to_wall.argmax()])
    assert load(tmp_path / "floor.npy").start == building.start


def test_what_the_start_cannot_reach_becomes_wall(tmp_path: Path) -> None:
    building = load(write_array(tmp_path, two_rooms()))
    expected = two_rooms()
    expected[:, :11] = False
    np.testing.assert_array_equal(building.free, expected)


def bad_text(name: str, text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return write


def truncated_picture(folder: Path) -> Path:
    noise = np.random.default_rng(0).integers(0, 255, (300, 300))
    path = write_picture(folder / "cut.png", noise)
    path.write_bytes(path.read_bytes()[:20000])
    return path


def archive(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "floor.npy", "w") as file:
        file.writestr("a.npy", "x")
    return folder / "floor.npy"


NAN_ROOM = np.where(ROOM, 1.0, np.nan)

BAD: list[tuple[str, Callable[[Path], Path], dict[str, object], str]] = [
    ("missing", lambda d: d / "none.png", {}, "no such file"),
    ("folder", lambda d: d, {}, "folder"),
    ("extension", bad_text("map.bmp", "x"), {}, "unknown type"),
    ("no extension", bad_text("map", "x"), {}, "unknown type"),
    ("not a picture", bad_text("map.png", "hello"), {}, "export it again"),
    ("empty picture", bad_text("map.pgm", ""), {}, "export it again"),
    ("cut picture", truncated_picture, {}, "damaged"),
    ("not yaml", bad_text("map.yaml", "a: [1,\n b: }"), {}, "not readable as yaml"),
    ("a yaml list", bad_text("map.yaml", "- 1\n- 2"), {}, "not a map description"),
    ("empty yaml", bad_text("map.yaml", ""), {}, "not a map description"),
    ("no image key", lambda d: write_ros(d, image=None), {}, "'image' is missing"),
    ("no resolution", lambda d: write_ros(d, resolution=None), {}, "'resolution' is missing"),
    ("no origin", lambda d: write_ros(d, origin=None), {}, "'origin' is missing"),
    ("image missing", lambda d: write_ros(d, image="gone.pgm"), {}, "gone.pgm is missing"),
    ("yaw", lambda d: write_ros(d, origin=[0, 0, 0.5]), {}, "yaw of 0.5"),
    ("short origin", lambda d: write_ros(d, origin=[0]), {}, r"\[x, y, 0\]"),
    ("words for numbers", lambda d: write_ros(d, resolution="fine"), {}, "resolution is fine"),
    ("mode", lambda d: write_ros(d, mode="colourful"), {}, "trinary, scale or raw"),
    ("thresholds", lambda d: write_ros(d, free_thresh=0.9), {}, "free_thresh"),
    ("negate", lambda d: write_ros(d, negate="perhaps"), {}, "negate is perhaps"),
    ("start in yaml", lambda d: write_ros(d, start="here"), {}, "two numbers"),
    ("zero resolution", lambda d: write_ros(d, resolution=0.0), {}, "absurd"),
    ("negative resolution", write_ros, {"resolution_m": -0.4}, "absurd"),
    ("coarse resolution", write_ros, {"resolution_m": 5.0}, "absurd"),
    ("NaN resolution", write_ros, {"resolution_m": float("nan")}, "absurd"),
    ("cell size", write_ros, {"cell_m": 0.0}, "cells of 0 m"),
    ("all walls", lambda d: write_ros(d, free=~np.ones((50, 50), bool)), {}, "all is wall"),
    ("too large", lambda d: write_array(d, np.ones((30, 1001), bool)), {}, "400.4 m x 12.0 m, more than 400 m"),
    ("too small", lambda d: write_array(d, np.ones((2, 50), bool)), {}, "less than 1 m"),
    ("start outside", write_ros, {"start_m": (-3.5, 6.0)}, "outside the map; choose x from -3 to 21 and y from 5.5 to"),
    ("start nowhere", write_ros, {"start_m": (float("nan"), 6.0)}, "outside the map"),
    ("start in a wall", write_ros, {"start_m": (-2.9, 10.1)}, r"inside a wall.*nearest free place is \(-2.40, 10.10\)"),
    ("cut off", lambda d: write_array(d, two_rooms()), {"start_m": (1.0, 1.0)}, r"reaches 18% .* at \(14\.\d, 9\.\d\)"),
    ("in pieces", lambda d: write_array(d, np.arange(2500).reshape(50, 50) % 5 > 0), {}, "falls into pieces"),
    ("NaN", lambda d: write_array(d, NAN_ROOM), {}, "NaN"),
    ("3-d", lambda d: write_array(d, np.ones((30, 30, 3))), {}, "3-d"),
    ("text array", lambda d: write_array(d, np.full((30, 30), "free")), {}, "numbers or booleans"),
    ("pickled", lambda d: write_array(d, np.full((30, 30), {"free": 1})), {}, "no objects"),
    ("not an array", bad_text("map.npy", "hello"), {}, "numpy.save"),
    ("damaged header", bad_text("map.npy", "\x93NUMPY\x01\x00"), {}, "numpy.save"),
    ("empty array file", bad_text("map.npy", ""), {}, "numpy.save"),
    ("no cells", lambda d: write_array(d, np.ones((0, 30), bool)), {}, "floor.npy"),
    ("archive", archive, {}, "numpy.save"),
]


@pytest.mark.parametrize(("write", "options", "says"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_files_get_one_line_that_names_them(
    tmp_path: Path, write: Callable[[Path], Path], options: dict, says: str
) -> None:
    path = write(tmp_path)
    with pytest.raises(MapError, match=says) as error:
        load(path, **options)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert ";" in message or "nearest" in message, "the second half says what to do"


def test_pictures_of_too_many_pixels_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "huge.pgm"
    path.write_bytes(b"P5 30000 30000 255\n")
    with pytest.raises(MapError, match="too many pixels"):
        load(path, resolution_m=0.01)


def test_the_suggested_start_works(tmp_path: Path) -> None:
    path = write_array(tmp_path, two_rooms())
    with pytest.raises(MapError) as error:
        load(path, start_m=(1.0, 1.0))
    x_m, y_m = (float(x) for x in str(error.value).rsplit("(", 1)[1].rstrip(")").split(","))
    assert load(path, start_m=(x_m, y_m)).free.any()


@pytest.mark.parametrize("name", ["map.bmp", "map", "map.pgm"])
def test_saving_knows_its_formats(tmp_path: Path, name: str) -> None:
    with pytest.raises(MapError, match=r"use \.yaml, \.png or \.npy"):
        save(Building(ROOM, (5, 5), 0.4, "m"), tmp_path / name)


def test_saving_where_one_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MapError, match="cannot be written"):
        save(Building(ROOM, (5, 5), 0.4, "m"), tmp_path / "file" / "map.npy")
