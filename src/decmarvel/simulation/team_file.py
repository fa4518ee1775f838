"""Read a team from a YAML file; docs/teams.md describes the format."""

import math
from pathlib import Path
from typing import Any

import yaml

from decmarvel.core.errors import unknown_name
from decmarvel.core.limits import MAX_ROBOTS, MEMBER_LIMITS
from decmarvel.simulation.sensors import SENSORS
from decmarvel.simulation.team import Member, Team

LARGEST_BYTES = 64_000


class TeamError(ValueError):
    """A team that cannot be used. The message is one line that names the file and the fix."""


def read_team(path: str | Path) -> Team:
    """The team in a file. Errors raise a `TeamError` of one line."""
    path = Path(path)
    fields = _read_yaml(path)
    if not isinstance(fields, dict) or not isinstance(fields.get("robots"), list):
        raise TeamError(f"{path}: not a team; it begins with 'robots:' and a list, an entry for each kind of robot")
    if others := sorted(set(map(str, fields)) - {"robots"}):
        raise TeamError(f"{path}: {unknown_name(others[0], ['robots'])}")
    members: list[Member] = []
    for number, entry in enumerate(fields["robots"], start=1):
        members += _members(f"{path}: entry {number}", entry)
        if len(members) > MAX_ROBOTS:
            raise TeamError(f"{path}: more than {MAX_ROBOTS} robots; take some out")
    if not members:
        raise TeamError(f"{path}: no robots; add an entry such as '- {{count: 4, sensor: realsense-d455}}'")
    return Team(tuple(members))


def _read_yaml(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise TeamError(f"{path}: more than {LARGEST_BYTES} bytes; a team takes a few lines")
        text = path.read_text(encoding="utf-8")
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise TeamError(f"{path}: it has aliases (*name); write the values out")
        return yaml.safe_load(text)
    except FileNotFoundError:
        raise TeamError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TeamError(f"{path}: cannot be read ({error}); check the file") from None
    except TeamError:
        raise
    except Exception as error:  # the parser raises errors of many kinds
        reason = " ".join(str(error).split())[:120]
        raise TeamError(f"{path}: not readable as yaml ({reason}); correct the file") from None


def _members(where: str, entry: Any) -> list[Member]:
    """The robots of one entry."""
    if not isinstance(entry, dict):
        raise TeamError(f"{where} is no list of fields; write lines such as 'count: 2'")
    known = ["count", "sensor", *MEMBER_LIMITS]
    for name in entry:
        if name not in known:
            raise TeamError(f"{where}: {unknown_name(str(name), known)}")
    values: dict[str, Any] = {}
    if "sensor" in entry:
        if not isinstance(entry["sensor"], str) or entry["sensor"] not in SENSORS:
            raise TeamError(f"{where}: sensor: {unknown_name(str(entry['sensor']), SENSORS)}")
        sensor = SENSORS[entry["sensor"]]
        values |= {"fov_deg": sensor.fov_deg, "range_m": sensor.range_m}
    for name, (kind, low, high) in MEMBER_LIMITS.items():
        if name in entry:
            values[name] = _number(f"{where}: {name}", entry[name], kind, low, high)
    count = _number(f"{where}: count", entry.get("count", 1), int, 1, MAX_ROBOTS)
    return [Member(**values)] * int(count)


def _number(where: str, value: Any, kind: type, low: int | float, high: int | float) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TeamError(f"{where} is {str(value)[:40]!r}, not a number; choose {low:g} to {high:g}")
    if kind is int and value != int(value):
        raise TeamError(f"{where} is {value:g}; choose a whole number from {low:g} to {high:g}")
    if not low <= value <= high:
        raise TeamError(f"{where} is {value:g}; choose {low:g} to {high:g}")
    return int(value) if kind is int else float(value)
