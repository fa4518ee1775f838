"""Read the pixels of a map file: ROS map_server, PNG or PGM pictures, NumPy arrays. All give the same `RawMap`."""

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from jaxtyping import Bool, UInt8
from PIL import Image

from decmarvel.worlds.building import MapError

FREE_GREY, WALL_GREY, START_GREY = 195, 127, 208
"""Greys of the pictures that exploration data sets use; the start is a rectangle of its own grey."""
_PICTURE_PIXEL_M = 0.2
_ARRAY_PIXEL_M = 0.4
RESOLUTION_KEY, ORIGIN_KEY = "decmarvel_resolution_m", "decmarvel_origin_m"
"""PNG text fields that hold the resolution and the origin of a map."""

_UNKNOWN_GREY = 205
"""The grey that map savers write for unknown cells. High thresholds would take it for free."""
_RESOLUTION_LIMITS_M = (0.01, 2.0)
_SMALLEST_M, _LARGEST_M = 1.0, 400.0


@dataclass(frozen=True)
class RawMap:
    """A map as its file has it, y up."""

    free: Bool[np.ndarray, "rows columns"]
    pixel_m: float
    origin_m: tuple[float, float] = (0.0, 0.0)
    start_m: tuple[float, float] | None = None
    """(x, y) in the map frame."""
    unknown: Bool[np.ndarray, "rows columns"] | None = None
    """Pixels that the file calls unknown. They are not free. None if the file cannot tell."""
    clear: Bool[np.ndarray, "rows columns"] | None = None
    """Free pixels that are surely floor. None if the file knows no shades."""
    blocks: bool = False
    """Whether it is a picture of the exploration data sets; see `Building.blocks`."""


def read_ros(path: Path, resolution_m: float | None) -> RawMap:
    """A map_server description and its picture. What is not certainly free counts as wall; so do unknown pixels."""
    fields = _read_yaml(path)
    for key in ("image", "resolution", "origin"):
        if key not in fields:
            raise MapError(f"{path}: the key '{key}' is missing; a map_server file needs image, resolution and origin")
    origin = _numbers(path, "origin", fields["origin"], (2, 3), "write it as [x, y, 0]")
    if len(origin) == 3 and origin[2] != 0:
        raise MapError(f"{path}: the origin has a yaw of {origin[2]:g}; turn the image upright and set the yaw to 0")
    pixel_m = resolution_m if resolution_m is not None else _number(path, "resolution", fields["resolution"])
    picture = path.parent / str(fields["image"])
    if not picture.is_file():
        raise MapError(f"{path}: its image {picture} is missing; put it there or correct the key 'image'")
    grey, opaque, _ = _read_picture(picture, pixel_m, described_in=path)
    start = fields.get("start")
    free, unknown = _by_thresholds(path, fields, grey)
    return RawMap(
        free=_flip(free & opaque),
        pixel_m=pixel_m,
        origin_m=(origin[0], origin[1]),
        start_m=None if start is None else _pair(path, "start", start),
        unknown=_flip(unknown | ~opaque),
        clear=_flip(free & opaque & _surely_floor(fields, grey)),
    )


def _surely_floor(
    fields: dict[str, object], grey: UInt8[np.ndarray, "rows columns"]
) -> Bool[np.ndarray, "rows columns"]:
    """Pixels as bright as map savers draw floor. Unknown places may be a shade brighter than the thresholds expect."""
    if fields.get("mode", "trinary") == "raw":
        return np.ones(grey.shape, bool)
    bright: Bool[np.ndarray, "rows columns"] = grey <= 5 if fields.get("negate", 0) else grey >= 250
    return bright


def read_picture(path: Path, resolution_m: float | None) -> RawMap:
    """A PNG or PGM: bright pixels are free; 0.2 m a pixel unless given or written in the file.

    A solid rectangle of grey 208, two pixels a side or more, marks the start; then the greys are those of
    exploration data sets: free is above 150, or 50 to 80.
    """
    grey, opaque, info = _read_picture(path, resolution_m, described_in=path)
    pixel_m = _picture_pixel_m(path, resolution_m, info)
    origin_m = _pair(path, ORIGIN_KEY, info[ORIGIN_KEY].split()) if ORIGIN_KEY in info else (0.0, 0.0)
    patch = np.argwhere(_flip(grey == START_GREY))
    if len(patch) and len(patch) == np.prod(np.ptp(patch, axis=0) + 1) and np.ptp(patch, axis=0).min() > 0:
        y_m, x_m = ((patch.mean(axis=0) + 0.5) * pixel_m).tolist()
        free = (grey > 150) | ((grey >= 50) & (grey <= 80))
        start_m = (origin_m[0] + x_m, origin_m[1] + y_m)
        return RawMap(_flip(free & opaque), pixel_m, origin_m, start_m, blocks=True)
    free, unknown = grey > 127, ~opaque
    if (grey >= 250).any():  # the greys of map savers: what is brighter than unknown is the free space
        unknown |= grey == _UNKNOWN_GREY
    return RawMap(_flip(free & ~unknown), pixel_m, origin_m, unknown=_flip(unknown))


def read_array(path: Path, resolution_m: float | None) -> RawMap:
    """A 2-d NumPy array, True or nonzero where free, row 0 at the bottom; 0.4 m a pixel unless given."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # reads the header alone, and never a pickle
    except Exception as error:  # damaged headers raise errors of many kinds
        reason = one_line(error)
        raise MapError(f"{path}: not a plain array file ({reason}); write it with numpy.save, no objects") from None
    if array.ndim != 2 or array.dtype.kind not in "buif":
        kind = f"{array.ndim}-d {array.dtype}"
        raise MapError(f"{path}: a 2-d array of numbers or booleans is needed, this is {kind}; save one grid")
    pixel_m = _ARRAY_PIXEL_M if resolution_m is None else resolution_m
    _check_size(path, array.shape, pixel_m)
    if not np.isfinite(array).all():
        raise MapError(f"{path}: the array has NaN or infinite values; write 0 for wall or unknown and 1 for free")
    return RawMap(np.asarray(array != 0), pixel_m)


def _check_size(path: Path, shape: tuple[int, ...], pixel_m: float) -> None:
    low, high = _RESOLUTION_LIMITS_M
    if not low <= pixel_m <= high:
        raise MapError(f"{path}: a resolution of {pixel_m:g} m a pixel is absurd; give one from {low} to {high:g} m")
    height_m, width_m = (side * pixel_m for side in shape)
    size = f"the map is {width_m:.1f} m x {height_m:.1f} m"
    if max(height_m, width_m) > _LARGEST_M + 1e-6:
        raise MapError(f"{path}: {size}, more than {_LARGEST_M:g} m a side; crop it or correct the resolution")
    if min(height_m, width_m) < _SMALLEST_M - 1e-6:
        raise MapError(f"{path}: {size}, less than {_SMALLEST_M:g} m a side; correct the resolution")


def _number(path: Path, what: str, value: object) -> float:
    try:
        result = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        result = math.nan
    if not math.isfinite(result):
        raise MapError(f"{path}: {what} is {one_line(value)}; write a plain number")
    return result


def _numbers(path: Path, what: str, value: object, counts: tuple[int, ...], fix: str) -> list[float]:
    if not isinstance(value, list | tuple) or len(value) not in counts:
        raise MapError(f"{path}: {what} is {one_line(value)}; {fix}")
    return [_number(path, what, item) for item in value]


def one_line(value: object) -> str:
    """A value as text for messages: on one line, 120 characters at most."""
    text = " ".join(str(value).split())
    return text if len(text) <= 120 else text[:117] + "..."


def _pair(path: Path, what: str, value: object) -> tuple[float, float]:
    x_m, y_m = _numbers(path, what, value, (2,), "write it as two numbers, [x, y] in metres")
    return x_m, y_m


def _flip(image: Bool[np.ndarray, "rows columns"]) -> Bool[np.ndarray, "rows columns"]:
    """Reverse the rows: pictures begin at the top, maps at the bottom."""
    return image[::-1]


def _read_yaml(path: Path) -> dict[str, object]:
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise MapError(f"{path}: not readable as yaml ({one_line(error)}); correct the file") from None
    if not isinstance(fields, dict):
        raise MapError(f"{path}: not a map description; a map_server file has lines such as 'resolution: 0.05'")
    return fields


def _by_thresholds(
    path: Path, fields: dict[str, object], grey: UInt8[np.ndarray, "rows columns"]
) -> tuple[Bool[np.ndarray, "rows columns"], Bool[np.ndarray, "rows columns"]]:
    """Free and unknown pixels by the rules of map_server. Its modes differ only between free and occupied."""
    mode = fields.get("mode", "trinary")
    if mode not in ("trinary", "scale", "raw"):
        raise MapError(f"{path}: unknown mode '{one_line(mode)}'; write trinary, scale or raw")
    negate_field = fields.get("negate", 0)
    negate = negate_field is True or (negate_field is not False and _number(path, "negate", negate_field) != 0)
    free_below = _number(path, "free_thresh", fields.get("free_thresh", 0.196))
    occupied_above = _number(path, "occupied_thresh", fields.get("occupied_thresh", 0.65))
    if not 0 < free_below <= occupied_above <= 1:
        thresholds = f"free_thresh {free_below:g} and occupied_thresh {occupied_above:g}"
        raise MapError(f"{path}: {thresholds} cannot be used; write 0.196 and 0.65, or others that rise within 0 to 1")
    shade = 255 - grey if negate else grey
    if mode == "raw":  # the value is the occupancy in percent; above 100 is unknown
        return shade < 100 * free_below, shade > 100
    occupancy = (255 - shade) / np.float32(255)
    saved_unknown = (grey == _UNKNOWN_GREY) & (mode == "trinary" and not negate)
    free = (occupancy < free_below) & ~saved_unknown
    return free, ~free & (saved_unknown | (occupancy <= occupied_above))


def _picture_pixel_m(path: Path, resolution_m: float | None, info: dict[str, str]) -> float:
    if resolution_m is not None:
        return resolution_m
    return _number(path, RESOLUTION_KEY, info[RESOLUTION_KEY]) if RESOLUTION_KEY in info else _PICTURE_PIXEL_M


def _read_picture(
    path: Path, resolution_m: float | None, described_in: Path
) -> tuple[UInt8[np.ndarray, "rows columns"], Bool[np.ndarray, "rows columns"], dict[str, str]]:
    """Greys from 0 to 255, which pixels are not transparent, and the text fields. The size is checked first.

    `described_in` is the file that errors about the size name, since it has the resolution.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(path, formats=("PNG", "PPM"))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise MapError(f"{path}: the image has too many pixels; save it with fewer, 0.05 m a pixel is plenty") from None
    except Exception as error:  # decoders raise errors of many kinds on damaged files
        raise MapError(f"{path}: not a readable PNG or PGM image ({one_line(error)}); export it again") from None
    with image:
        info = {str(key): value for key, value in image.info.items() if isinstance(value, str)}
        _check_size(described_in, (image.height, image.width), _picture_pixel_m(path, resolution_m, info))
        try:
            if image.mode.startswith("I"):  # 16 bits
                grey = (np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8)
            else:
                grey = np.asarray(image.convert("L"))
            if "A" in image.mode or "transparency" in image.info:
                return grey, np.asarray(image.convert("RGBA").getchannel("A")) > 0, info
        except Exception as error:  # a truncated file raises only here
            raise MapError(f"{path}: the image is damaged ({one_line(error)}); export it again") from None
    return grey, np.full(grey.shape, True), info
