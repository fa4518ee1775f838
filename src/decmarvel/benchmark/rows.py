"""The rows of a benchmark: one mission each, kept in Parquet files that are written once and never changed."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from decmarvel.benchmark.metrics import COLUMNS
from decmarvel.benchmark.trials import Identity
from decmarvel.core.files import write_whole

SCHEMA = pa.schema(
    [
        pa.field("planner", pa.string(), nullable=False),
        pa.field("communicates", pa.bool_(), nullable=False),
        pa.field("robots", pa.int32(), nullable=False),
        pa.field("budget_m", pa.float64(), nullable=False),
        pa.field("map_id", pa.string(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("broken", pa.int32(), nullable=False),
        pa.field("noise", pa.string(), nullable=False),
        pa.field("fov_deg", pa.int32(), nullable=False),
        pa.field("range_m", pa.float64(), nullable=False),
        pa.field("radius_m", pa.float64(), nullable=False),
        pa.field("spacing_m", pa.float64(), nullable=False),
        *(pa.field(column.name, column.kind, nullable=metric.optional) for metric, column in COLUMNS),
        pa.field("curve", pa.list_(pa.uint16()), nullable=False),
        pa.field("weights", pa.string()),
        pa.field("version", pa.string(), nullable=False),
    ]
)
"""Every column, in order. What they mean is in docs/benchmark.md."""
KEY = ("planner", "weights", "robots", "budget_m", "map_id", "seed", "broken", "noise", "fov_deg", "range_m")
"""The columns that name a mission. No two rows of a benchmark share them."""
CURVE_STEP_M = 16.0
"""Distance between two values of a curve."""
FOLDER = "rows"
_BEFORE_CAMERAS = {"fov_deg": 120, "range_m": 10.0, "radius_m": 0.0, "spacing_m": 4.0}
"""What all robots were like before these were columns."""
_FIRST_VERSION = "0.1.0"
_OPTION_WEIGHTS = ("3f374a2277616984",)
"""Fingerprints of the weights of `options` that were in the package while that planner was named dec-marvel."""


class RowsError(ValueError):
    """Rows that cannot be used. The message is one line that names the file or folder and the fix."""


def write_shard(folder: Path, rows: pa.Table) -> Path:
    """Store rows in a file of their own, whole or not at all. Its name follows from their keys."""
    digest = hashlib.sha256(json.dumps(sorted(map(str, identities(rows)))).encode()).hexdigest()
    path = folder / f"{digest[:32]}.parquet"
    write_whole(path, lambda file: pq.write_table(rows, file, compression="zstd"))
    return path


def shards(place: Path) -> list[Path]:
    """The files with rows: in a benchmark's folder, in a plain folder, or the one file given."""
    if place.is_file():
        return [place]
    folder = place / FOLDER if (place / FOLDER).is_dir() else place
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def read_rows(place: str | Path) -> pa.Table:
    """All rows of a benchmark's folder, or of one file, sorted by key."""
    place = Path(place)
    if not place.exists():
        raise RowsError(f"{place}: there is no such folder; make one with 'decmarvel benchmark --out {place}'")
    files = shards(place)
    if not files:
        raise RowsError(f"{place}: no rows here; fill it with 'decmarvel benchmark --out {place}'")
    rows = pa.concat_tables([_read(path) for path in files])
    if not len(rows):
        raise RowsError(f"{place}: no rows here; fill it with 'decmarvel benchmark --out {place}'")
    (twice, times), *_ = Counter(identities(rows)).most_common(1)
    if times > 1:
        raise RowsError(f"{place}: the mission {twice} is there twice; keep the files of one benchmark in a folder")
    return rows.sort_by([(name, "ascending") for name in KEY])


def _read(path: Path) -> pa.Table:
    again = "move it elsewhere, and the same 'decmarvel benchmark' flies its missions again"
    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:120]
        raise RowsError(f"{path}: the file is damaged or no Parquet file ({reason}); {again}") from None
    for metric, column in COLUMNS:
        if metric.optional and column.name not in table.column_names:  # a metric that is younger than the file
            table = table.append_column(column.name, pa.nulls(len(table), column.kind))
    for name, value in _BEFORE_CAMERAS.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.array([value] * len(table), SCHEMA.field(name).type))
    if missing := [name for name in SCHEMA.names if name not in table.column_names]:
        raise RowsError(f"{path}: not the rows of a benchmark (no column '{missing[0]}'); move it elsewhere")
    try:
        table = table.select(SCHEMA.names).cast(SCHEMA)
        table.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise RowsError(f"{path}: not the rows of a benchmark ({' '.join(str(error).split())}); {again}") from None
    return _with_todays_names(table)


def _with_todays_names(table: pa.Table) -> pa.Table:
    """Name the planner `options` where rows of version 0.1.0 call it dec-marvel. Its weights tell it from others."""
    old = pc.and_(pc.equal(table["planner"], "dec-marvel"), pc.equal(table["version"], _FIRST_VERSION))
    ours = pc.and_(old, pc.is_in(table["weights"], pa.array(_OPTION_WEIGHTS)))
    place = table.schema.get_field_index("planner")
    return table.set_column(place, SCHEMA.field("planner"), pc.if_else(ours, "options", table["planner"]))


def identities(rows: pa.Table) -> list[Identity]:
    """The key of every row."""
    return list(zip(*(rows.column(name).to_pylist() for name in KEY), strict=True))


def table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Rows that were just flown, checked against the schema."""
    made = pa.Table.from_pylist(list(rows), SCHEMA)
    for field in SCHEMA:
        if not field.nullable and made.column(field.name).null_count:
            raise ValueError(f"a row has no {field.name}")
    return made


def stranded(rows: pa.Table) -> int:
    """Robots that were left behind."""
    return int(pc.sum(rows.column("stranded")).as_py() or 0)
