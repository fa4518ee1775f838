"""The metrics of a mission, one entry each. Rows, their Parquet columns, summaries, tables, tests and the overview
figure are made from the tuple METRICS: a new metric is a new entry there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from decmarvel.simulation.mission import Outcome

How = Literal["share", "mean", "sum", "average"]
"""How the values of many missions become one: the share of missions with Wilson's interval, the mean with a bootstrap
interval, the sum, or the mean alone."""
Place = Literal["table1", "more", "table3", "noise", "cameras", "families", "overview", "tests"]
"""Where a metric is shown: the paper's Table I, the table below it, the tables of breakdowns, of noise, of cameras and
of families of maps, the overview figure, the paired tests."""
Columns = Mapping[str, np.ndarray]
"""Columns of the rows, an entry for each mission. A missing number is NaN."""


@dataclass(frozen=True)
class Landed:
    """A mission at its end: what the values of its row are read from."""

    outcome: Outcome
    """In NumPy, of this mission alone."""
    covered: int
    """Free cells that the team knows."""
    free_cells: int
    """All free cells that are connected to the start."""


@dataclass(frozen=True)
class Column:
    """Where a metric is kept in the rows."""

    name: str
    kind: pa.DataType
    read: Callable[[Landed], Any]
    """Its value of one mission; None where it has none."""


@dataclass(frozen=True)
class Metric:
    """A number that says how a mission went."""

    name: str
    """In summaries, in CSV files and in code."""
    meaning: str
    """What the value of one mission is; of a column of the rows, as in docs/benchmark.md."""
    unit: str
    """Of that value: m, robots ...; `share` for 0 to 1, which figures and tests show in percent."""
    source: Column | Callable[[Columns], np.ndarray]
    """A column of the rows, or how the values follow from other columns (and `budget_m`)."""
    how: How
    optional: bool = False
    """Whether a mission may have no value. Summaries then leave this mission out and say how many had one."""
    higher_is_better: bool = False
    heading: str = ""
    """In tables."""
    digits: int = 1
    """After the point, in tables."""
    scale: float = 1.0
    """From the value to the number in tables."""
    spread: bool = False
    """Whether tables show the standard deviation."""
    label: str = ""
    """In the overview figure and in the headings of paired tests."""
    goal: float | None = None
    """A value that the overview figure marks with a line."""
    shown: tuple[Place, ...] = ()

    @property
    def column(self) -> Column | None:
        return self.source if isinstance(self.source, Column) else None

    def values(self, columns: Columns) -> np.ndarray:
        """The value of every mission."""
        return columns[self.source.name] if isinstance(self.source, Column) else self.source(columns)

    @property
    def estimated(self) -> bool:
        """Whether the summary is an estimate with an interval, and not a bare number."""
        return self.how in ("share", "mean")

    @property
    def table_heading(self) -> str:
        return f"{self.heading} {'↑' if self.higher_is_better else '↓'}"

    def number(self, value: float) -> str:
        """As tables print it."""
        return f"{self.scale * value:.{self.digits}f}"

    @property
    def figure_scale(self) -> float:
        """From the value to the number in figures and tests."""
        return 100.0 if self.unit == "share" else 1.0

    @property
    def figure_unit(self) -> str:
        return "%" if self.unit == "share" else self.unit


def _metres(value: Any) -> float | None:
    """To the millimetre, which is what the simulator counts in."""
    return None if np.isnan(value) else round(float(value), 3)


def _arrived(mission: Landed) -> np.ndarray:
    """Metres until a robot's own map reached 99%, of the robots that got there."""
    own = np.asarray(mission.outcome.individual_99)
    return own[~np.isnan(own)].astype(float)


METRICS: tuple[Metric, ...] = (
    Metric(
        "coverage",
        "free cells that the team knows at the end, over all free cells connected to the start",
        "share",
        Column("coverage", pa.float64(), lambda mission: mission.covered / mission.free_cells),
        "mean",
        higher_is_better=True,
        heading="exploration rate",
        digits=3,
        label="merged coverage",
        goal=0.99,
        shown=("table1", "table3", "noise", "cameras", "families", "overview", "tests"),
    ),
    Metric(
        "success",
        "coverage reached 99%",
        "share",
        Column("success", pa.bool_(), lambda mission: bool(mission.outcome.success)),
        "share",
        higher_is_better=True,
        heading="success, %",
        scale=100.0,
        label="success",
        shown=("table1", "table3", "noise", "cameras", "families", "tests"),
    ),
    Metric(
        "strict_success",
        "success, and no robot was stranded",
        "share",
        Column("strict_success", pa.bool_(), lambda mission: bool(mission.outcome.strict_success)),
        "share",
        higher_is_better=True,
        heading="success and all home, %",
        scale=100.0,
        shown=("more",),
    ),
    Metric(
        "metres",
        "largest distance of a robot when coverage first reached 99%; null without success",
        "m",
        Column("metres_to_99", pa.float64(), lambda mission: _metres(mission.outcome.metres_to_99)),
        "mean",
        optional=True,
        heading="metres to 99%",
        spread=True,
        shown=("table1", "table3", "noise", "cameras", "families"),
    ),
    Metric(
        "penalised",
        "`metres_to_99`, and the budget where 99% was not reached",
        "m",
        lambda columns: np.where(columns["success"], columns["metres_to_99"], columns["budget_m"]),
        "mean",
        heading="penalised metres",
        spread=True,
        label="penalised metres to 99%",
        shown=("more", "noise", "cameras", "families", "overview", "tests"),
    ),
    Metric(
        "overlap",
        "part of the team's view that several robots have at once, mean over the substeps with two flying",
        "share",
        Column("overlap", pa.float64(), lambda mission: round(float(mission.outcome.overlap), 6)),
        "mean",
        heading="overlap ratio",
        digits=3,
        spread=True,
        shown=("table1", "cameras", "families"),
    ),
    Metric(
        "overlap_cumulative",
        "part of the cells known at the end that two robots or more know",
        "share",
        Column("overlap_cumulative", pa.float64(), lambda mission: round(float(mission.outcome.overlap_cumulative), 6)),
        "mean",
        heading="cumulative overlap",
        digits=3,
        spread=True,
        shown=("more",),
    ),
    Metric(
        "individual",
        "distance of a robot when its own map reached 99%, mean of those that got there; null if none",
        "m",
        Column(
            "individual_99",
            pa.float64(),
            lambda mission: round(float(own.mean()), 3) if len(own := _arrived(mission)) else None,
        ),
        "mean",
        optional=True,
        heading="individual 99%, m",
        spread=True,
        shown=("more", "table3"),
    ),
    Metric(
        "individual_robots",
        "robots whose own map reached 99%",
        "robots",
        Column("individual_99_count", pa.int32(), lambda mission: len(_arrived(mission))),
        "sum",
        higher_is_better=True,
    ),
    Metric(
        "stranded",
        "robots neither broken nor home at the end, or overspent; always 0",
        "robots",
        Column("stranded", pa.int32(), lambda mission: int(mission.outcome.stranded)),
        "sum",
    ),
    Metric(
        "decisions",
        "decisions of the team until the last landing",
        "decisions",
        Column("decisions", pa.int32(), lambda mission: int(mission.outcome.decisions)),
        "average",
    ),
    Metric(
        "travelled_m",
        "largest distance of a robot at the end",
        "m",
        Column("travelled_m", pa.float64(), lambda mission: _metres(np.asarray(mission.outcome.travelled_m).max())),
        "average",
    ),
)
"""In the order of the rows' columns, of the columns of summary.csv, and of the lines of every table."""
COLUMNS: tuple[tuple[Metric, Column], ...] = tuple((each, each.column) for each in METRICS if each.column is not None)
"""The metrics that the rows keep. The others follow from these."""
_BY_NAME = {each.name: each for each in METRICS}


def metric(name: str) -> Metric:
    return _BY_NAME[name]


def shown_in(place: Place) -> tuple[Metric, ...]:
    return tuple(each for each in METRICS if place in each.shown)
