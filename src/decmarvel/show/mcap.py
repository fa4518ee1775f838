"""MCAP files: a mission as standard ROS 2 messages, for Foxglove and the tools of ROS (docs/recording.md)."""

import math
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from jaxtyping import Int64, UInt16
from matplotlib.colors import to_rgba

from decmarvel import __version__
from decmarvel.core.files import write_whole
from decmarvel.core.types import ABSENT, FAILED, RETURNING
from decmarvel.recording.format import Recording
from decmarvel.recording.knowledge import KnowledgeHistory
from decmarvel.show.robots import camera_edge, pose
from decmarvel.show.style import INK, robot_colour

try:
    from mcap.writer import Writer
    from rosbags.interfaces import Nodetype
    from rosbags.typesys import Stores, get_typestore
except ImportError as error:
    raise ImportError("MCAP files need more packages; pip install 'decmarvel[mcap]'") from error

MOST_MAPS = 200
"""Most messages on a map or path topic. Longer missions have one only every few decisions, to keep the file small."""
_CHUNK_BYTES = 4 * 2**20
"""Bytes compressed together. Maps of successive moments are nearly the same, so large chunks compress well."""
_ABOVE_M = 0.1
"""Height of markers over the maps, in metres, so that maps do not hide them."""
_ROS = get_typestore(Stores.ROS2_JAZZY)
_MARKER: Any = _ROS.types["visualization_msgs/msg/Marker"]

_Fields: TypeAlias = dict[str, Any]
"""A message as nested dictionaries; a field that is missing is zero or empty."""


def write_mcap(history: KnowledgeHistory, path: Path, progress: Callable[[], None] = lambda: None) -> None:
    """Write the whole mission. `progress` is called after every moment."""

    def write(file: BinaryIO) -> None:
        bag, messages = _Bag(file), MissionMessages(history)
        for moment, time_ns in enumerate(messages.times_ns.tolist()):
            for topic, kind, fields in messages.at(moment):
                bag.write(topic, kind, fields, time_ns, moment)
            progress()
        bag.close()

    write_whole(path, write)


def times_ns(recording: Recording) -> Int64[np.ndarray, "moments"]:
    """Time since take-off. A decision lasts until the last robot has arrived; a hold lasts as `hold_turn_m` does."""
    config = recording.config
    moved_mm = recording.budget_mm[:-1] - recording.budget_mm[1:]
    length_mm = np.where(moved_mm > 0, moved_mm, 1000 * config.hold_turn_m)
    lasts_s = np.where(recording.move_mode <= RETURNING, length_mm, 0) / recording.body("speed_mm_s")
    lasts_ns = np.rint(1e9 * lasts_s.max(axis=1)).astype(np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lasts_ns)])


class MissionMessages:
    """The messages of every moment of a mission. Robots are counted from 1; metres are those of the map frame."""

    def __init__(self, history: KnowledgeHistory) -> None:
        self.history, self.recording = history, history.recording
        self.times_ns = times_ns(history.recording)
        self.robots = [n for n in range(history.recording.robots) if history.recording.mode[0, n] != ABSENT]
        self.maps_every = math.ceil((history.recording.decisions + 1) / MOST_MAPS)
        """Decisions from one map to the next."""
        moments = range(history.recording.decisions + 1)
        self.poses = {n: [self._pose(moment, n) for moment in moments] for n in self.robots}
        self.ways = {n: [self._way(moment, n) for moment in moments] for n in self.robots}
        """The poses that led to each moment, the last one at that moment."""

    def at(self, moment: int) -> Iterator[tuple[str, str, _Fields]]:
        """Yield topic, type and fields of every message of a moment."""
        recording, known_at = self.recording, self.history.known_at
        yield "/tf", "tf2_msgs/msg/TFMessage", {"transforms": [self._transform(moment, n) for n in self.robots]}
        yield "/coverage", "std_msgs/msg/Float32", {"data": recording.coverage[moment]}
        yield "/markers", "visualization_msgs/msg/MarkerArray", {"markers": list(self._markers(moment))}
        for n in self.robots:
            yield f"/robot_{n + 1}/pose", "geometry_msgs/msg/PoseStamped", self.poses[n][moment]
            yield f"/robot_{n + 1}/budget_m", "std_msgs/msg/Float32", {"data": recording.budget_mm[moment, n] / 1000}
        if moment == 0:
            yield "/map/truth", "nav_msgs/msg/OccupancyGrid", self._grid(moment, np.zeros_like(known_at[0]))
        if moment % self.maps_every and moment != recording.decisions:
            return
        yield "/map/team", "nav_msgs/msg/OccupancyGrid", self._grid(moment, known_at.min(axis=0))
        for n in self.robots:
            path = {"header": self._header(moment), "poses": list(chain(*self.ways[n][: moment + 1]))}
            yield f"/robot_{n + 1}/path", "nav_msgs/msg/Path", path
            yield f"/robot_{n + 1}/map", "nav_msgs/msg/OccupancyGrid", self._grid(moment, known_at[n])

    def _header(self, time: int | float) -> _Fields:
        time_ns = np.interp(time, np.arange(len(self.times_ns)), self.times_ns)
        seconds, nanoseconds = divmod(round(time_ns), 10**9)
        return {"stamp": {"sec": seconds, "nanosec": nanoseconds}, "frame_id": "map"}

    def _grid(self, moment: int, known_at: UInt16[np.ndarray, "Y X"]) -> _Fields:
        """The shown window. As in ROS, the first row has the smallest y."""
        window = self.history.window
        free, known = self.recording.free[window], known_at[window] <= moment
        corner = np.array([window[0].start, window[1].start]) - 0.5
        about = {
            "resolution": self.recording.config.cell_m,
            "width": free.shape[1],
            "height": free.shape[0],
            "origin": _facing(0, *self._points(corner)),
        }
        return {"header": self._header(moment), "info": about, "data": np.select([~known, free], [-1, 0], 100).ravel()}

    def _points(self, *cells: np.ndarray) -> list[_Fields]:
        return [{"x": x, "y": y} for x, y in self.recording.to_map_m(np.stack(cells)).tolist()]

    def _pose(self, time: int | float, robot: int) -> _Fields:
        cell, heading = pose(self.recording, time, robot)
        return {"header": self._header(time), "pose": _facing(heading, *self._points(cell))}

    def _way(self, moment: int, robot: int) -> list[_Fields]:
        """The poses after each substep where a robot came on a bent way, then the one at the moment."""
        steps = self.recording.config.substeps if moment and self.recording.bent[moment - 1, robot] else 1
        between = [self._pose(moment - 1 + k / steps, robot) for k in range(1, steps)]
        return [*between, self.poses[robot][moment]]

    def _transform(self, moment: int, robot: int) -> _Fields:
        pose = self.poses[robot][moment]["pose"]
        way = {"translation": pose["position"], "rotation": pose["orientation"]}
        return {"header": self._header(moment), "child_frame_id": f"robot_{robot + 1}", "transform": way}

    def _markers(self, moment: int) -> Iterator[_Fields]:
        """Delete all markers and send all again, so that every moment can be shown without those before it."""
        recording, header = self.recording, self._header(moment)
        cells, wide_m = recording.cell[moment].astype(float), recording.body("radius_mm") / 500
        size_m, reach = 0.3 * recording.config.spacing_m, 0.25 * recording.config.stride

        def marker(name: str, number: int, shape: int, colour: _Fields, scale: float, *points: _Fields) -> _Fields:
            """A line or an area has several points; any other marker has one, its position."""
            here = points[0] if len(points) == 1 else {}
            return {
                "header": header,
                "ns": name,
                "id": number,
                "type": shape,
                "pose": _facing(0, here | {"z": _ABOVE_M}),
                "scale": dict.fromkeys("xyz", scale),
                "color": colour,
                "points": [] if here else points,
            }

        yield {"header": header, "action": _MARKER.DELETEALL}
        for n in self.robots:
            base, robot = self._points(recording.cell[0, n], cells[n])
            yield marker("base", n + 1, _MARKER.CUBE, _colour(n, 0.4), size_m, base)
            yield marker("robot", n + 1, _MARKER.SPHERE, _colour(n), float(wide_m[n]) or size_m, robot)
            if recording.mode[moment, n] == FAILED:
                ends = self._points(*(cells[n] + reach * np.array([[-1, -1], [1, 1], [-1, 1], [1, -1]])))
                yield marker("failed", n + 1, _MARKER.LINE_LIST, _colour(None), 0.2 * size_m, *ends)
            elif recording.mode[moment, n] <= RETURNING:
                edge = self._points(*camera_edge(recording, n, cells[n], float(recording.heading[moment, n])))
                fan = [corner for pair in pairwise(edge) for corner in (robot, *pair)]
                yield marker("camera", n + 1, _MARKER.TRIANGLE_LIST, _colour(n, 0.25), 1.0, *fan)
        for number, row in enumerate(recording.sightings[recording.sightings[:, 0] == moment]):
            line = self._points(cells[row[1]], row[3:5])
            yield marker("sighting", number, _MARKER.LINE_LIST, _colour(int(row[2])), 0.2 * size_m, *line)


def _facing(degrees: int | float, position: _Fields) -> _Fields:
    half = math.radians(degrees) / 2
    return {"position": position, "orientation": {"z": math.sin(half), "w": math.cos(half)}}


def _colour(robot: int | None, alpha: float = 1.0) -> _Fields:
    """The colour of a robot; of no robot, the colour of text."""
    colour = INK if robot is None else robot_colour(robot)
    return dict(zip("rgba", to_rgba(colour, alpha), strict=True))


class _Bag:
    """An MCAP file in writing. The first message of a topic registers the topic and its type."""

    def __init__(self, file: BinaryIO) -> None:
        self._writer = Writer(file, chunk_size=_CHUNK_BYTES)
        self._writer.start(profile="ros2", library=f"decmarvel {__version__}")
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}

    def write(self, topic: str, kind: str, fields: _Fields, time_ns: int, number: int) -> None:
        if kind not in self._schemas:
            text, _ = _ROS.generate_msgdef(kind, ros_version=2)
            self._schemas[kind] = self._writer.register_schema(kind, "ros2msg", text.encode())
        if topic not in self._channels:
            self._channels[topic] = self._writer.register_channel(topic, "cdr", self._schemas[kind])
        data = bytes(_ROS.serialize_cdr(_message(kind, fields), kind))
        self._writer.add_message(self._channels[topic], time_ns, data, time_ns, number)

    def close(self) -> None:
        self._writer.finish()


def _message(kind: str, fields: _Fields) -> object:
    shapes = dict(_ROS.fielddefs[kind][1])
    return _ROS.types[kind](**{name: _value(shapes[name], fields.get(name)) for name in shapes | fields})


def _value(shape: Any, value: Any) -> Any:
    """One field: a number or a string, a message, or an array of either."""
    node, detail = shape
    if node == Nodetype.NAME:
        return _message(detail, value or {})
    if node == Nodetype.BASE:
        return value if value is not None else "" if detail[0] == "string" else 0
    items = [] if value is None else value
    inner = detail[0]
    return np.asarray(items, inner[1][0]) if inner[0] == Nodetype.BASE else [_value(inner, item) for item in items]
