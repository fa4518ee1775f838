"""The families of maps, one beside another: what planners do in each, and whether the best is better than the next."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from decmarvel.benchmark.metrics import metric, shown_in
from decmarvel.benchmark.report.comparisons import difference
from decmarvel.benchmark.report.conditions import Condition
from decmarvel.benchmark.report.published import as_published
from decmarvel.benchmark.report.statistics import holm
from decmarvel.benchmark.report.summary import Comparison, Results
from decmarvel.benchmark.report.tables import (
    ABSENT,
    Block,
    Cell,
    Table,
    columns,
    csv_text,
    long_lines,
    markdown,
    markdown_escape,
    metric_rows,
)
from decmarvel.core.files import write_whole

TESTED = "penalised"
_Key = tuple[str, Condition, str]
"""Family, condition, planner."""


def by_family(results: Results) -> str:
    """The section of the report, where the maps are of several families."""
    conditions = [condition for condition in results.conditions if condition.undisturbed]
    if len(results.families) < 2 or not conditions:
        return ""
    return (
        "## Families of maps\n\n"
        "The name of a generated map says its family. Maps from files are a family each, but those that robots without "
        "a body flew in are together, as `blocks`. Below each planner: the metres that it saves over the best other "
        "planner without a radio (Wilcoxon signed-rank test on the missions that both flew; p is corrected by Holm's "
        "method over the table; bold below 0.05).\n\n" + markdown(_table(results, conditions))
    )


def write_families(results: Results, folder: Path) -> None:
    """The numbers of the section as CSV: one line per family, setting, metric and planner."""
    conditions = [condition for condition in results.conditions if condition.undisturbed]
    if len(results.families) < 2 or not conditions:
        return
    lines: list[list[object]] = []
    for name in results.families:
        head, *rest = long_lines(results.of_family(name), conditions, shown_in("families"))
        lines += [["family", *head]] * (not lines) + [[name, *line] for line in rest]
    write_whole(folder / "families.csv", lambda file: file.write(csv_text(lines).encode()))


def _table(results: Results, conditions: Sequence[Condition]) -> Table:
    metrics = shown_in("families")
    parts = {name: results.of_family(name) for name in results.families}
    flown = {name for name in results.planners if any((name, c) in results.trials for c in conditions)}
    names = [name for name in results.planners if name in flown]
    for part in parts.values():
        names += [name for name in columns(part, flown, conditions, metrics) if name not in names]
    tests = _tests(parts, conditions)
    camera = not all(condition.usual_camera for condition in conditions)
    blocks = []
    for family, part in parts.items():
        for condition in conditions:
            if not any(there == condition for _, there in part.trials):
                continue
            rows = metric_rows(part, condition, metrics, names, flown)
            cells = [_cell(results, tests.get((family, condition, name)), name in flown) for name in names]
            labels = (
                markdown_escape(family),
                f"{condition.budget_m:g}",
                str(condition.robots),
                *[condition.camera] * camera,
            )
            blocks.append(Block(labels, [*rows, ("metres saved over the best other", cells)]))
    heads = ("family", "budget, m", "N", *["camera"] * camera)
    return Table(heads, tuple(results.label(name) if name in flown else as_published(name) for name in names), blocks)


def _tests(parts: dict[str, Results], conditions: Sequence[Condition]) -> dict[_Key, Comparison]:
    """Every planner against the best other one without a radio, on the same missions; p is corrected over all."""
    found: dict[_Key, Comparison] = {}
    for family, part in parts.items():
        for condition in conditions:
            for planner in part.planners:
                test = _against_the_best(part, condition, planner)
                if test is not None:
                    found[family, condition, planner] = test
    adjusted = holm([test.p for test in found.values()])
    return {key: replace(test, p_holm=p) for (key, test), p in zip(found.items(), adjusted, strict=True)}


def _against_the_best(part: Results, condition: Condition, planner: str) -> Comparison | None:
    sign = -1 if metric(TESTED).higher_is_better else 1
    others = {
        name: sign * part.summaries[name, condition][TESTED].mean
        for name in part.planners
        if name != planner and not part.communicates[name] and (name, condition) in part.summaries
    }
    return part.pair(TESTED, planner, min(others, key=lambda name: others[name]), condition) if others else None


def _cell(results: Results, test: Comparison | None, flown: bool) -> Cell:
    if test is None:
        return Cell(ABSENT) if flown else Cell()
    return Cell(f"{difference(test)}<br>over {markdown_escape(results.label(test.second))}")
