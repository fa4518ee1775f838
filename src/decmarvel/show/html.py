"""The page to watch missions on. As a file it is self-contained: no network, no server, opens from disk.

A mission in the air is told to the page in pieces (live.py): the take-off is in it, and each moment is news of the
same kind.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from decmarvel.core.files import write_whole
from decmarvel.core.lattice import SLOT_OFFSETS
from decmarvel.core.types import MODE_NAMES
from decmarvel.recording.knowledge import NEVER, Story
from decmarvel.simulation.roster import label, needs_radio

VIEWER = Path(__file__).parent / "viewer"
SINCE = ("known_at", "node_at", "edge_at")
"""Arrays that say since when something is known; news of them are places. The others grow, a row or more a moment."""
FIXED = ("free", "base")
"""Arrays that are there from the beginning."""


def write_page(stories: Sequence[Story], path: str | Path) -> None:
    """Missions of the same map, side by side and in step; usually one."""
    text = compose(stories).encode()
    write_whole(path, lambda file: file.write(text))


def compose(stories: Sequence[Story], more: str = "") -> str:
    """The text of a page. It asks for what comes after its stories at the address `more`, if there is one."""
    headline = " and ".join(describe(story) for story in stories)
    address = f' data-more="{escape(more)}"' if more else ""
    begin = f'<script type="application/octet-stream" class="mission"{address}>'
    parts = {
        "{{title}}": escape(f"{headline} · {stories[0].recording.map_id}"),
        "{{style}}": (VIEWER / "page.css").read_text(),
        "{{script}}": (VIEWER / "page.js").read_text(),
        "{{missions}}": "\n".join(f"{begin}{pack(*contents(story))}</script>" for story in stories),
    }
    page = (VIEWER / "page.html").read_text()
    for place, text in parts.items():
        page = page.replace(place, text)
    return page


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
        "radio": needs_radio(recording.planner),
        "heard": story.heard and needs_radio(recording.planner),
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
        **{
            name: getattr(recording, name)
            for name in ("overlap", "move_mode", "move_choice", "sightings", "probabilities")
        },
    }
    return facts, arrays


def news(story: Story) -> str:
    """The story of one moment, for a page that knows all before it."""
    facts, arrays = contents(story)
    for name in SINCE:
        arrays[name] = np.flatnonzero(arrays[name] != NEVER).astype(np.int32)
    changed = {name: facts[name] for name in ("complete", "metres_to_99")}
    return pack(changed, {name: array for name, array in arrays.items() if name not in FIXED})


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
