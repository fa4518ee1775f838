"""The HTML page that shows missions. As a file it is self-contained: no network, no server, opens from disk.

The page of a mission that still flies (live.py) begins with the take-off. Each later moment reaches it as an update.
"""

import base64
import json
import re
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from decmarvel.core.files import write_whole
from decmarvel.core.lattice import SLOT_OFFSETS
from decmarvel.core.types import ABSENT, MODE_NAMES
from decmarvel.recording.format import BODY, Recording
from decmarvel.recording.knowledge import NOT_YET, KnowledgeHistory
from decmarvel.show import style
from decmarvel.show.robots import aside_cells, carries
from decmarvel.simulation.roster import label, needs_radio

_VIEWER = Path(__file__).parent / "viewer"
_SCRIPTS = ("mission.js", "map.js", "charts.js", "controls.js")
"""The scripts of the page, in the order in which they are written into it."""
_SINCE = ("known_at", "node_at", "edge_at")
"""Arrays that say since when something is known. An update has the places that became known, and the cells of those in
`node_at`; the other arrays of an update have rows to be added."""
_FIXED = ("free", "base_cell", "bodies")
"""Arrays that never change; updates leave them out."""
_RECORDED = (
    "bodies", "site", "cell", "heading", "mode", "budget_mm", "covered",
    "overlap", "move_mode", "move_choice", "path", "sightings", "probabilities",
)  # fmt: skip
"""Arrays that the page gets from the recording as they are."""


def write_page(histories: Sequence[KnowledgeHistory], path: str | Path) -> None:
    """Write the page of one mission, or of several missions of one map, which it shows side by side."""
    text = page_text(histories).encode()
    write_whole(path, lambda file: file.write(text))


def page_text(histories: Sequence[KnowledgeHistory], updates: str = "") -> str:
    """The text of the page. `updates` is the address at which it asks for later moments, if there are any."""
    headline = " and ".join(_team(history.recording) for history in histories)
    address = f' data-updates="{escape(updates)}"' if updates else ""
    begin = f'<script type="application/octet-stream" class="mission"{address}>'
    parts = {
        "title": escape(f"{headline} · {histories[0].recording.map_id}"),
        "colours": _colours(),
        "style": (_VIEWER / "page.css").read_text(),
        "script": "\n".join((_VIEWER / name).read_text() for name in _SCRIPTS),
        "missions": "\n".join(f"{begin}{pack(*page_data(history))}</script>" for history in histories),
    }
    return re.sub(r"{{(\w+)}}", lambda place: parts[place[1]], (_VIEWER / "page.html").read_text())


def page_data(history: KnowledgeHistory) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Facts and arrays of a mission, as the page gets them."""
    recording, window = history.recording, history.window
    config = recording.config
    facts = {
        "map": recording.map_id,
        "planner": label(recording.planner),
        "radio": needs_radio(recording.planner),
        "heard": history.heard and needs_radio(recording.planner),
        "seed": recording.seed,
        "complete": recording.complete,
        "metres_to_99": recording.metres_to_99,
        "cell_m": config.cell_m,
        "stride": config.stride,
        "first_site": config.margin_cells + config.stride // 2,
        "corner": [window[0].start, window[1].start],
        "roads": config.roads,
        "aside_cells": aside_cells(recording),
        "body": list(BODY),
        "carries": carries(recording),
        "remembered_decisions": config.history,
        "success_percent": config.success_percent,
        "floor_cells": int(recording.counted.sum()),
        "slots": SLOT_OFFSETS.tolist(),
        "modes": list(MODE_NAMES),
        "robot_colours": list(style.ROBOTS),
    }
    arrays = {
        "free": recording.free[window].astype(np.uint8),
        "known_at": history.known_at[(slice(None), *window)],
        "node_at": history.node_at,
        "node_cell": history.node_cell,
        "edge_at": history.edge_at,
        "utility": history.utility,
        "home_mm": history.home_mm,
        "base_cell": recording.cell[0],
        **{name: getattr(recording, name) for name in _RECORDED},
    }
    return facts, arrays


def page_update(history: KnowledgeHistory) -> str:
    """A history of one moment, packed for a page that has all moments before it."""
    facts, arrays = page_data(history)
    arrays["node_cell"] = arrays["node_cell"][arrays["node_at"] != NOT_YET]
    for name in _SINCE:
        arrays[name] = np.flatnonzero(arrays[name] != NOT_YET).astype(np.int32)
    changed = {name: facts[name] for name in ("complete", "metres_to_99")}
    return pack(changed, {name: array for name, array in arrays.items() if name not in _FIXED})


def pack(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """Facts and arrays as base64 text. Deflated inside: a length, JSON with the place of every array, their bytes."""
    places, body = {}, bytearray()
    for name, array in arrays.items():
        body.extend(b"\0" * (-len(body) % 8))
        places[name] = {"kind": array.dtype.name, "shape": array.shape, "at": len(body)}
        body.extend(np.ascontiguousarray(array).tobytes())
    head = json.dumps(facts | {"arrays": places}).encode()
    head += b" " * (-(len(head) + 4) % 8)
    return base64.b64encode(zlib.compress(len(head).to_bytes(4, "little") + head + bytes(body), 9)).decode()


def _team(recording: Recording) -> str:
    robots = int((recording.mode[0] != ABSENT).sum())
    return f"{robots} robot{'s' * (robots > 1)}, {label(recording.planner)}"


def _colours() -> str:
    """The style sheet that gives the page its colours."""
    rules = ((":root", style.PAGE_LIGHT), (":root.dark", style.PAGE_DARK))
    return "\n".join(
        f"{selector} {{ {' '.join(f'--{name}: {colour};' for name, colour in colours.items())} }}"
        for selector, colours in rules
    )
