"""What pictures show of a robot: where it is at any time, the way it came, what it sees, and what it carries.

A time is a moment of a recording, or between two moments a fraction. Places are cells (y, x).
"""

import numpy as np
from jaxtyping import Float

from decmarvel.core.types import ABSENT
from decmarvel.recording.format import BODY, Recording

_ASIDE_M = 0.4
"""With roads, paths of a team lie at most this far apart: they pass doors that are not much wider."""


def aside_cells(recording: Recording) -> float:
    """How far the paths of the first and the last robot are drawn apart, so that they do not hide each other."""
    config = recording.config
    apart_cells = 0.25 * config.stride
    return min(apart_cells, _ASIDE_M / config.cell_m) if config.roads else apart_cells


def beside(recording: Recording, robot: int) -> Float[np.ndarray, "2"]:
    """By how much the path of a robot is drawn beside its cells."""
    away = aside_cells(recording) * ((robot + 0.5) / recording.robots - 0.5)
    return np.array([-away, away])


def way(recording: Recording, move: int, robot: int) -> Float[np.ndarray, "corners 2"]:
    """Corners of a move, its start first: the cells after each substep if it is bent, else its end."""
    bent = recording.bent[move, robot]
    rest = recording.path[move, robot] if bent else recording.cell[move + 1, robot][None]
    return np.concatenate([recording.cell[move, robot][None], rest]).astype(float)


def pose(recording: Recording, time: int | float, robot: int) -> tuple[Float[np.ndarray, "2"], float]:
    """Cell and heading of a robot."""
    before = min(int(time), recording.decisions)
    start = float(recording.heading[before, robot])
    if before == recording.decisions:
        return recording.cell[before, robot].astype(float), start
    corners, share = way(recording, before, robot), time - before
    passed, part = divmod(share * (len(corners) - 1), 1)
    here, there = corners[int(passed)], corners[int(passed) + 1]
    turn = (float(recording.heading[before + 1, robot]) - start + 180) % 360 - 180
    return here + part * (there - here), start + share * turn


def trail(recording: Recording, time: int | float, robot: int) -> Float[np.ndarray, "corners 2"]:
    """The way of a robot from its base to where it is."""
    before = min(int(time), recording.decisions)
    parts = [recording.cell[0, robot][None].astype(float)]
    parts += [way(recording, move, robot)[1:] for move in range(before)]
    if before < recording.decisions:
        corners = way(recording, before, robot)
        parts.append(corners[1 : int((time - before) * (len(corners) - 1)) + 1])
    return np.concatenate([*parts, pose(recording, time, robot)[0][None]])


def camera_edge(
    recording: Recording, robot: int, cell: Float[np.ndarray, "2"], heading: float
) -> Float[np.ndarray, "corners 2"]:
    """The far edge of what a robot's camera sees, up to the walls."""
    config, free, fov_deg = recording.config, recording.free, int(recording.body("fov_deg")[robot])
    angles = np.radians(heading + np.linspace(-fov_deg / 2, fov_deg / 2, -(-fov_deg // 2) + 1))
    lengths = np.arange(0, recording.body("range_mm")[robot] / 1000 / config.cell_m, 0.5)
    rays = cell + lengths[None, :, None] * np.stack([np.sin(angles), np.cos(angles)], axis=-1)[:, None]
    inside = np.clip(np.rint(rays).astype(int), 0, len(free) - 1)
    wall = ~free[inside[..., 0], inside[..., 1]]
    reach = np.where(wall.any(axis=1), wall.argmax(axis=1), len(lengths) - 1)
    return rays[np.arange(len(rays)), reach]


def camera_outline(
    recording: Recording, robot: int, cell: Float[np.ndarray, "2"], heading: float
) -> Float[np.ndarray, "corners 2"]:
    """Outline of what a robot's camera sees. It begins at the camera, unless that sees all around."""
    edge = camera_edge(recording, robot, cell, heading)
    return edge if recording.body("fov_deg")[robot] >= 360 else np.concatenate([cell[None], edge])


def carries(recording: Recording) -> list[str]:
    """What each robot has that others of its team have not, in words; empty where all are alike."""
    present = recording.mode[0] != ABSENT
    differ = {name for name in BODY if len(np.unique(recording.body(name)[present])) > 1}

    def words(fov_deg: int, range_mm: int, speed_mm_s: int, yaw_rate_deg_s: int, radius_mm: int) -> str:
        parts = (
            ({"fov_deg", "range_mm"}, f"sees {fov_deg}° to {range_mm / 1000:g} m"),
            ({"speed_mm_s"}, f"{speed_mm_s / 1000:g} m/s"),
            ({"yaw_rate_deg_s"}, f"turns {yaw_rate_deg_s}°/s"),
            ({"radius_mm"}, f"{radius_mm / 500:g} m wide" if radius_mm else ""),
        )
        return ", ".join(text for names, text in parts if text and names & differ)

    return [words(*body) for body in recording.bodies.tolist()]
