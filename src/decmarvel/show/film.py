"""Films of a mission: an MP4, or a GIF for pages that play no other films."""

import math
import subprocess
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageColor, ImageDraw, ImageFont

from decmarvel.core.files import put_whole
from decmarvel.core.types import ABSENT, FAILED, RETURNING
from decmarvel.recording.knowledge import KnowledgeHistory
from decmarvel.show.robots import beside, camera_outline, pose, trail
from decmarvel.show.style import FAINT, FLOOR, GROUND, HIGHLIGHT, INK, UNSEEN, WALL, robot_colour
from decmarvel.simulation.roster import label

_FRAMES_A_SECOND = {".mp4": 24, ".gif": 10}
_DECISIONS_A_SECOND = {".mp4": 8, ".gif": 16}
"""A GIF repeats without end, so it plays faster and is shorter."""
_HELD_S = 2.0
"""Seconds for which the last picture is shown."""
_SIDES = {".mp4": 1000, ".gif": 720}
"""Pixels of the longer side of the map, at most."""
ZOOM = 2
"""Pictures are drawn larger by this factor and then reduced, which smooths their lines."""
_GIF_COLOURS = 128


class FilmError(ValueError):
    """A film that cannot be made. The message is one line that names the fix."""


class FramePainter:
    """Draws a mission at any time, as the HTML page does: the team's map, trails, cameras, sightings."""

    def __init__(self, history: KnowledgeHistory, side: int) -> None:
        self.history, recording = history, history.recording
        self.known_at = history.known_at.min(axis=0)
        self.window = history.window
        height, width = recording.free[self.window].shape
        scale, caption = max(1, side // max(height, width)), max(26, side // 20)
        self.size = tuple(length + length % 2 for length in (width * scale, height * scale + caption))
        """Width and height in pixels. Both are even, because video codecs need that."""
        self.height, self.scale, self.caption = height, ZOOM * scale, ZOOM * caption
        self.thick = max(2 * ZOOM, self.scale)
        self.robots = [number for number in range(recording.robots) if recording.mode[0, number] != ABSENT]
        self.colours = [ImageColor.getrgb(robot_colour(n)) for n in range(recording.robots)]

    @cached_property
    def fonts(self) -> tuple[ImageFont.FreeTypeFont, ImageFont.FreeTypeFont]:
        folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
        return (
            ImageFont.truetype(folder / "DejaVuSans.ttf", round(0.52 * self.caption)),
            ImageFont.truetype(folder / "DejaVuSans-Bold.ttf", max(9, round(0.36 * self.caption))),
        )

    def points(self, cells: Float[np.ndarray, "... 2"]) -> Float[np.ndarray, "... 2"]:
        """Pixels (x, y) of places in cells (y, x), whose y grows upwards."""
        y, x = cells[..., 0] - self.window[0].start + 0.5, cells[..., 1] - self.window[1].start + 0.5
        return np.stack([self.scale * x, self.caption + self.scale * (self.height - y)], axis=-1)

    def draw(self, time: int | float) -> Image.Image:
        """The mission at a moment, or between two."""
        moment, recording = min(int(time), self.history.recording.decisions), self.history.recording
        picture = Image.new("RGB", (ZOOM * self.size[0], ZOOM * self.size[1]), GROUND)
        picture.paste(self._map(moment), (0, self.caption))
        pen = ImageDraw.Draw(picture, "RGBA")
        for robot in self.robots:
            self._trail(pen, time, robot)
        for robot in self.robots:
            self._base(pen, robot)
        for robot in self.robots:
            if recording.mode[moment, robot] <= RETURNING:
                self._camera(pen, time, robot)
        self._sightings(pen, time)
        for robot in self.robots:
            self._robot(pen, time, robot, int(recording.mode[moment, robot]))
        self._caption(pen, moment)
        return picture.reduce(ZOOM)

    def _map(self, moment: int) -> Image.Image:
        free, known = self.history.recording.free[self.window], self.known_at[self.window] <= moment
        kind = np.select([known & free, known & ~free, free], [1, 2, 3], 0)
        palette = np.array([ImageColor.getrgb(colour) for colour in (GROUND, FLOOR, WALL, UNSEEN)], np.uint8)
        cells = Image.fromarray(palette[kind][::-1])
        return cells.resize((cells.width * self.scale, cells.height * self.scale), Image.Resampling.NEAREST)

    def _trail(self, pen: ImageDraw.ImageDraw, time: int | float, robot: int) -> None:
        recording = self.history.recording
        path = self.points(trail(recording, time, robot) + beside(recording, robot))
        pen.line([tuple(point) for point in path], fill=(*self.colours[robot], 190), width=self.thick, joint="curve")

    def _base(self, pen: ImageDraw.ImageDraw, robot: int) -> None:
        recording, side = self.history.recording, 0.24 * self.caption
        x, y = self.points(recording.cell[0, robot].astype(float))
        square = (x - side, y - side, x + side, y + side)
        pen.rectangle(square, fill=FLOOR, outline=self.colours[robot], width=2 * ZOOM)

    def _camera(self, pen: ImageDraw.ImageDraw, time: int | float, robot: int) -> None:
        recording = self.history.recording
        edge = self.points(camera_outline(recording, robot, *pose(recording, time, robot)))
        pen.polygon(
            [tuple(point) for point in edge], fill=(*self.colours[robot], 60), outline=(*self.colours[robot], 150)
        )

    def _sightings(self, pen: ImageDraw.ImageDraw, time: int | float) -> None:
        for decision, observer, teammate, *cell, _ in self.history.recording.sightings.tolist():
            if decision == math.ceil(time):
                here, _ = pose(self.history.recording, time, observer)
                ends = self.points(np.stack([here, np.array(cell, float)]))
                pen.line(
                    [tuple(end) for end in ends],
                    fill=(*self.colours[teammate], 220),
                    width=max(2 * ZOOM, self.scale // 2),
                )

    def _robot(self, pen: ImageDraw.ImageDraw, time: int | float, robot: int, mode: int) -> None:
        recording = self.history.recording
        cell, heading = pose(recording, time, robot)
        (x, y), radius, angle = self.points(cell), 0.34 * self.caption, math.radians(-heading)
        body = self.scale * recording.body("radius_mm")[robot] / 1000 / recording.config.cell_m
        outline = (x - body, y - body, x + body, y + body)
        if body > radius:
            pen.ellipse(outline, fill=(*self.colours[robot], 90), outline=self.colours[robot], width=ZOOM)
        if mode <= RETURNING:
            nose = [(x + far * math.cos(angle + side), y + far * math.sin(angle + side))
                    for far, side in ((1.7 * radius, 0.0), (radius, 0.6), (radius, -0.6))]  # fmt: skip
            pen.polygon(nose, fill=self.colours[robot])
        pen.ellipse(
            (x - radius, y - radius, x + radius, y + radius),
            fill=self.colours[robot],
            outline="white",
            width=2 * ZOOM,
        )
        if 0 < body <= radius:
            pen.ellipse(outline, fill=(*ImageColor.getrgb(INK), 90))
        pen.text((x, y), str(robot + 1), fill="white", font=self.fonts[1], anchor="mm")
        if mode == FAILED:
            for sign in (1, -1):
                pen.line((x - radius, y - sign * radius, x + radius, y + sign * radius), fill=INK, width=3 * ZOOM)

    def _caption(self, pen: ImageDraw.ImageDraw, moment: int) -> None:
        recording, middle = self.history.recording, self.caption / 2
        metres = float(recording.travelled_m[moment].max())
        reached = recording.metres_to_99 is not None and metres >= recording.metres_to_99
        words = f"{100 * recording.coverage[moment]:.1f}% explored, {metres:.0f} m"
        right, room = ZOOM * self.size[0], ZOOM * 8
        team = f"{len(self.robots)} robot{'s' * (len(self.robots) > 1)}, {label(recording.planner)}"
        pen.rectangle((0, 0, right, self.caption), fill="white")
        pen.text((room, middle), words, fill=HIGHLIGHT if reached else INK, font=self.fonts[0], anchor="lm")
        pen.text((right - room, middle), team, fill=FAINT, font=self.fonts[0], anchor="rm")


def frames(history: KnowledgeHistory, kind: str) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """Yield all pictures of a film; the last one is repeated."""
    painter, rate = FramePainter(history, _SIDES[kind]), _FRAMES_A_SECOND[kind]
    last = history.recording.decisions
    for number in range(_moving(history, kind)):
        yield np.asarray(painter.draw(min(last, number * _DECISIONS_A_SECOND[kind] / rate)))
    end = np.asarray(painter.draw(last))
    for _ in range(round(_HELD_S * rate)):
        yield end


def _moving(history: KnowledgeHistory, kind: str) -> int:
    return history.recording.decisions * _FRAMES_A_SECOND[kind] // _DECISIONS_A_SECOND[kind] + 1


def count_frames(history: KnowledgeHistory, path: Path) -> int:
    kind = film_kind(path)
    return _moving(history, kind) + round(_HELD_S * _FRAMES_A_SECOND[kind])


def film_kind(path: Path) -> str:
    kind = path.suffix.lower()
    if kind not in _FRAMES_A_SECOND:
        raise FilmError(f"{path}: films are .mp4 or .gif; name the file so")
    return kind


def write_film(history: KnowledgeHistory, path: Path, progress: Callable[[], None] = lambda: None) -> None:
    """Write an MP4 or a GIF, by the suffix of the file. `progress` is called after every picture."""
    write = _write_mp4 if film_kind(path) == ".mp4" else _write_gif
    with put_whole(path) as beside:
        write(history, beside, progress)


def _write_gif(history: KnowledgeHistory, path: Path, progress: Callable[[], None]) -> None:
    midway = FramePainter(history, _SIDES[".gif"]).draw(history.recording.decisions / 2)
    colours = midway.quantize(_GIF_COLOURS, method=Image.Quantize.MEDIANCUT)  # shared, so that no picture flickers
    pictures = []
    for frame in frames(history, ".gif"):
        pictures.append(Image.fromarray(frame).quantize(palette=colours, dither=Image.Dither.NONE))
        progress()
    pause_ms = 1000 // _FRAMES_A_SECOND[".gif"]
    pictures[0].save(path, format="GIF", save_all=True, append_images=pictures[1:], duration=pause_ms, loop=0)


def _write_mp4(history: KnowledgeHistory, path: Path, progress: Callable[[], None]) -> None:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise FilmError("films in MP4 need ffmpeg; pip install decmarvel[film], or make a .gif") from None
    width, height = FramePainter(history, _SIDES[".mp4"]).size
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(_FRAMES_A_SECOND[".mp4"])]
    film = ["-c:v", "libx264", "-crf", "23", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *raw, "-i", "-", *film, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as ffmpeg:
        assert ffmpeg.stdin is not None
        for frame in frames(history, ".mp4"):
            ffmpeg.stdin.write(frame.tobytes())
            progress()
    if ffmpeg.returncode:
        raise FilmError(f"ffmpeg failed ({ffmpeg.returncode}); make a .gif, or see what it says above")
