"""One self-contained page to watch missions on: no network, no server, opens from disk."""

import base64
import json
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from decmarvel.files import write_whole
from decmarvel.geometry import SLOT_OFFSETS
from decmarvel.planners import label
from decmarvel.story import Story
from decmarvel.types import MODE_NAMES

VIEWER = Path(__file__).parent / "viewer"


def write_page(stories: Sequence[Story], path: str | Path) -> None:
    """Missions of the same map, side by side and in step; usually one."""
    headline = " and ".join(describe(story) for story in stories)
    missions = [
        f'<script type="application/octet-stream" class="mission">{pack(*contents(s))}</script>' for s in stories
    ]
    parts = {
        "{{title}}": escape(f"{headline} · {stories[0].recording.map_id}"),
        "{{style}}": (VIEWER / "page.css").read_text(),
        "{{script}}": (VIEWER / "page.js").read_text(),
        "{{missions}}": "\n".join(missions),
    }
    page = (VIEWER / "page.html").read_text()
    for place, text in parts.items():
        page = page.replace(place, text)
    write_whole(path, lambda file: file.write(page.encode()))


def describe(story: Story) -> str:
    robots = int((story.recording.mode[0] != MODE_NAMES.index("absent")).sum())
    return f"{robots} robot{'s' * (robots > 1)}, {label(story.recording.planner)}"


def contents(story: Story) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the page is told of a mission: a few facts, and arrays."""
    recording = story.recording
    config = recording.config
    window = story.window
    facts = {
        "map": recording.map_id,
        "planner": label(recording.planner),
        "seed": recording.seed,
        "complete": recording.complete,
        "metres_to_99": recording.metres_to_99,
        "cell_m": config.cell_m,
        "stride": config.stride,
        "first_site": config.margin_cells + config.stride // 2,
        "corner": [window[0].start, window[1].start],
        "fov_deg": config.fov_deg,
        "range_cells": config.sensor_radius_cells,
        "margin_m": config.safety_margin_m,
        "history": config.history,
        "success_percent": config.success_percent,
        "floor_cells": int(recording.free.sum()),
        "modes": list(MODE_NAMES),
        "slots": SLOT_OFFSETS.tolist(),
    }
    arrays = {
        "free": recording.free[window].astype(np.uint8),
        "known_at": story.known_at[(slice(None), *window)],
        "node_at": story.node_at,
        "edge_at": story.edge_at,
        "utility": story.utility,
        "home_mm": story.home_mm,
        **{name: getattr(recording, name) for name in ("base", "site", "heading", "mode", "budget_mm", "covered")},
        **{name: getattr(recording, name) for name in ("overlap", "move_mode", "move_choice", "sightings", "thoughts")},
    }
    return facts, arrays


def pack(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """Facts and arrays as text: a length, JSON with the place of every array, and their bytes, deflated."""
    places, body = {}, bytearray()
    for name, array in arrays.items():
        body.extend(b"\0" * (-len(body) % 8))
        places[name] = {"kind": array.dtype.name, "shape": array.shape, "at": len(body)}
        body.extend(np.ascontiguousarray(array).tobytes())
    head = json.dumps(facts | {"arrays": places}).encode()
    head += b" " * (-(len(head) + 4) % 8)
    return base64.b64encode(zlib.compress(len(head).to_bytes(4, "little") + head + bytes(body), 9)).decode()
