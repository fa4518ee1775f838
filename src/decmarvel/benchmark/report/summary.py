"""What the rows of a benchmark say: statistics of every condition, and who beats whom on the same missions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from decmarvel.benchmark.metrics import COLUMNS, METRICS, Columns, metric
from decmarvel.benchmark.report.conditions import PAPER_FAMILIES, QUIET, Condition, condition_order, family
from decmarvel.benchmark.report.published import PLANNERS, Published, published
from decmarvel.benchmark.report.statistics import (
    Estimate,
    estimate_mean,
    estimate_means,
    estimate_share,
    holm,
    mcnemar,
    wilcoxon,
)

_CURVE_UNIT = 1e-4
_OURS = "options"
"""Our learned planner. It stands beside the paper's."""


@dataclass(frozen=True)
class Trials:
    """The missions of one planner in one condition, one entry each."""

    mission: list[tuple[str, int]]
    """Map and seed; planners are compared on the missions that they share."""
    families: np.ndarray
    """Of the maps."""
    columns: Columns
    curves: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.mission)

    def values(self, name: str) -> np.ndarray:
        """Of a metric, one for each mission."""
        return metric(name).values(self.columns)

    def of(self, rows: Int[np.ndarray, " chosen"]) -> "Trials":
        """Some of the missions."""
        return Trials(
            [self.mission[row] for row in rows],
            self.families[rows],
            {name: column[rows] for name, column in self.columns.items()},
            [self.curves[row] for row in rows],
        )

    @cached_property
    def curve(self) -> Float[np.ndarray, "trials points"]:
        """Merged coverage every 16 m of the largest travel. A curve that ends early stays where it ended."""
        whole = [curve for curve in self.curves if len(curve)]
        points = max((len(curve) for curve in whole), default=0)
        held = [np.pad(curve, (0, points - len(curve)), mode="edge") for curve in whole]
        return np.array(held, np.float64).reshape(len(whole), points) * _CURVE_UNIT


@dataclass(frozen=True)
class Summary:
    """The statistics of one planner in one condition."""

    planner: str
    condition: Condition
    trials: int
    estimates: Mapping[str, Estimate]
    """By the metric's name, of those with an interval."""
    numbers: Mapping[str, int | float]
    """By the metric's name, of the others: sums and plain means."""

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    paper: Published | None = None
    """What the paper prints of it."""

    @property
    def stranded(self) -> int:
        """Robots that were neither home nor broken at the end."""
        return int(self.numbers["stranded"])


@dataclass(frozen=True)
class Comparison:
    """Two planners on the missions that both flew. A positive difference speaks for the first."""

    first: str
    second: str
    condition: Condition
    pairs: int
    difference: Estimate
    """Of shares in percentage points, of other metrics in their unit."""
    p: float
    p_holm: float = 1.0


@dataclass(frozen=True)
class Results:
    """All missions of a benchmark by planner and condition."""

    trials: Mapping[tuple[str, Condition], Trials]
    communicates: Mapping[str, bool]
    versions: tuple[str, ...]
    maps: tuple[str, ...]
    seeds: int
    weights: Mapping[str, str]
    """Of the planners that have learned something."""
    missions: int

    @classmethod
    def of(cls, table: pa.Table) -> "Results":
        names = _planner_names(table)
        conditions = [
            Condition(*values) for values in zip(*(table[name].to_pylist() for name in Condition._fields), strict=True)
        ]
        missions = list(zip(table["map_id"].to_pylist(), table["seed"].to_pylist(), strict=True))
        groups: dict[tuple[str, Condition], list[int]] = {}
        for row, key in enumerate(zip(names, conditions, strict=True)):
            groups.setdefault(key, []).append(row)
        pairs = zip(table["map_id"].to_pylist(), table["radius_m"].to_pylist(), strict=True)
        families = np.array([family(*pair) for pair in pairs])
        columns = _columns(table)
        curves = _curves(table)
        trials = {
            (planner, condition): Trials(
                [missions[row] for row in rows],
                families[rows],
                {name: column[rows] for name, column in columns.items()},
                [curves[row] for row in rows],
            )
            for (planner, condition), rows in groups.items()
        }
        radio = dict(zip(names, table["communicates"].to_pylist(), strict=True))
        return cls(
            trials,
            {name: radio[name] for name in in_order(radio, radio)},
            tuple(sorted(set(table["version"].to_pylist()))),
            tuple(sorted(set(table["map_id"].to_pylist()))),
            len(set(table["seed"].to_pylist())),
            {name: text for name, text in zip(names, table["weights"].to_pylist(), strict=True) if text},
            len(names),
        )

    @property
    def planners(self) -> tuple[str, ...]:
        """The paper's in its order, then ours, then those that need a radio."""
        return tuple(self.communicates)

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(sorted({condition for _, condition in self.trials}, key=condition_order))

    @cached_property
    def summaries(self) -> dict[tuple[str, Condition], Summary]:
        order = ((planner, condition) for condition in self.conditions for planner in self.planners)
        return {
            key: replace(_summarise(*key, self.trials[key]), paper=self.published(*key))
            for key in order
            if key in self.trials
        }

    @cached_property
    def families(self) -> tuple[str, ...]:
        """Of the maps, those that the paper has figures of first."""
        there = {name for trials in self.trials.values() for name in trials.families.tolist()}
        return tuple(sorted(there, key=lambda name: (name not in PAPER_FAMILIES, name)))

    def of_family(self, name: str) -> "Results":
        """The missions on the maps of one family."""
        chosen = {key: trials.of(np.flatnonzero(trials.families == name)) for key, trials in self.trials.items()}
        return replace(self, trials={key: trials for key, trials in chosen.items() if len(trials)})

    def published(self, planner: str, condition: Condition) -> Published | None:
        """What the paper prints of a planner, where all maps and the camera are as the paper's."""
        if condition.noise != QUIET or not condition.usual_camera or not set(self.families) <= set(PAPER_FAMILIES):
            return None
        return published(planner, condition.robots, condition.budget_m, condition.broken)

    def label(self, planner: str) -> str:
        """The planner's name; one that needs a radio says so, wherever it appears."""
        return f"{planner} (radio)" if self.communicates[planner] else planner

    def best(self, condition: Condition, name: str) -> set[str]:
        """The best planners without a radio in a condition, by a metric; those that print the same are equally good."""
        printed, shown = {}, metric(name)
        for planner in self.planners:
            summary = self.summaries.get((planner, condition))
            if summary is None or self.communicates[planner]:
                continue
            if summary[name].known:
                printed[planner] = shown.number(summary[name].mean)
        if not printed:
            return set()
        goal = (max if shown.higher_is_better else min)(printed.values(), key=float)
        return {planner for planner, value in printed.items() if value == goal}

    @cached_property
    def missing(self) -> list[tuple[str, Condition, int, int]]:
        """Planner, condition, trials there and trials wanted: where a planner has fewer than another one.

        Conditions with breakdowns or noise are not flown by everybody; there, only what was begun counts.
        """
        most = {
            condition: max(len(t) for (_, s), t in self.trials.items() if s == condition)
            for condition in self.conditions
        }
        return [
            (planner, condition, there, most[condition])
            for condition in self.conditions
            for planner in self.planners
            if (there := len(self.trials.get((planner, condition), ()))) < most[condition]
            and (there or condition.plain)
        ]

    def compare(
        self, name: str, conditions: Sequence[Condition] | None = None, baseline: str | None = None
    ) -> list[Comparison]:
        """By a metric: all pairs of planners, or those with the baseline; p is corrected over the whole list."""
        found = []
        for one, other in combinations(self.planners, 2):
            if baseline is not None and baseline not in (one, other):
                continue
            tests = [self.pair(name, one, other, c) for c in self.conditions if conditions is None or c in conditions]
            there = [test for test in tests if test is not None]
            if sum(test.difference.mean for test in there) < 0:
                there = [_turned(test) for test in there]
            found += there
        adjusted = holm([test.p for test in found])
        return [replace(test, p_holm=p) for test, p in zip(found, adjusted, strict=True)]

    def pair(self, name: str, one: str, other: str, condition: Condition) -> Comparison | None:
        """Two planners in one condition by a metric, the first as it is given; p is not corrected."""
        first, second = self.trials.get((one, condition)), self.trials.get((other, condition))
        if first is None or second is None:
            return None
        rows, others = _shared(first, second)
        a, b = first.values(name)[rows], second.values(name)[others]
        both = np.isfinite(a) & np.isfinite(b)
        a, b = a[both], b[both]
        if len(a) == 0:
            return None
        tested = metric(name)
        high, low = (a, b) if tested.higher_is_better else (b, a)
        differences = tested.figure_scale * (high.astype(np.float64) - low)
        p = mcnemar(int((a > b).sum()), int((b > a).sum())) if tested.how == "share" else wilcoxon(differences)
        return Comparison(one, other, condition, len(a), estimate_mean(differences), p)


def _shared(first: Trials, second: Trials) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Entries of both that are the same mission."""
    place = {mission: row for row, mission in enumerate(second.mission)}
    both = [(row, place[mission]) for row, mission in enumerate(first.mission) if mission in place]
    rows = np.array(both, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _turned(test: Comparison) -> Comparison:
    gap = test.difference
    back = Estimate(-gap.mean, -gap.high, -gap.low, gap.std, gap.count)
    return replace(test, first=test.second, second=test.first, difference=back)


def _summarise(planner: str, condition: Condition, trials: Trials) -> Summary:
    """Means of metrics that every mission has share their bootstrap samples."""
    whole = [each for each in METRICS if each.how == "mean" and not each.optional]
    means = estimate_means(np.stack([each.values(trials.columns) for each in whole], 1))
    estimates = {each.name: estimate for each, estimate in zip(whole, means, strict=True)}
    numbers: dict[str, int | float] = {}
    for each in METRICS:
        values = each.values(trials.columns)
        there = values[np.isfinite(values)]
        if each.how == "share":
            estimates[each.name] = estimate_share(int(there.sum()), len(there))
        elif each.how == "mean" and each.optional:
            estimates[each.name] = estimate_mean(there)
        elif not each.estimated:
            numbers[each.name] = (
                there.sum().item() if each.how == "sum" else float(there.mean()) if len(there) else np.nan
            )
    return Summary(planner, condition, len(trials), estimates, numbers)


def _columns(table: pa.Table) -> Columns:
    """As they are in the rows; those with gaps as floats, so that a gap is NaN."""
    columns = {column.name: table[column.name] for _, column in COLUMNS} | {"budget_m": table["budget_m"]}
    gaps = {column.name for each, column in COLUMNS if each.optional}
    return {
        name: (values.cast(pa.float64()) if name in gaps else values).to_numpy() for name, values in columns.items()
    }


def _curves(table: pa.Table) -> list[np.ndarray]:
    column = table["curve"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # older versions keep one chunk as a chunk
        column = pa.concat_arrays(column.chunks)
    values, offsets = column.values.to_numpy(zero_copy_only=False), column.offsets.to_numpy()
    return [values[begin:end] for begin, end in pairwise(offsets)]


def _planner_names(table: pa.Table) -> list[str]:
    """Planners by name; one that was flown with several weights is as many planners."""
    pairs = list(zip(table["planner"].to_pylist(), table["weights"].to_pylist(), strict=True))
    kinds: dict[str, set[Any]] = {}
    for planner, weights in pairs:
        kinds.setdefault(planner, set()).add(weights)
    return [
        f"{planner} [{weights[:8] if weights else 'untrained'}]" if len(kinds[planner]) > 1 else planner
        for planner, weights in pairs
    ]


def in_order(names: Iterable[str], communicates: Mapping[str, bool]) -> list[str]:
    """The paper's planners in its order, then ours, then the others, then those that need a radio."""
    order = [*PLANNERS, _OURS]

    def rank(name: str) -> tuple[bool, int, str]:
        family = name.split(" [")[0]
        return communicates.get(name, False), order.index(family) if family in order else len(order), name

    return sorted(names, key=rank)
