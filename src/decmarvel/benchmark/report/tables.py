"""Tables in the paper's layout, a row per metric and a column per planner: as Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from decmarvel.benchmark.metrics import METRICS, Metric, shown_in
from decmarvel.benchmark.report.conditions import Condition
from decmarvel.benchmark.report.published import PLANNERS, Published, as_published
from decmarvel.benchmark.report.summary import Results, Summary, in_order

ABSENT = "–"


TABLE_1 = shown_in("table1")
"""The paper's four metrics."""
MORE = shown_in("more")
TABLE_3 = shown_in("table3")
NOISE = shown_in("noise")
CAMERAS = shown_in("cameras")


@dataclass(frozen=True)
class Cell:
    """One estimate, ready to print; empty strings for what it does not have."""

    value: str = ""
    spread: str = ""
    interval: str = ""
    count: str = ""
    paper: str = ""
    best: bool = False


@dataclass(frozen=True)
class Block:
    """The rows of one condition."""

    labels: tuple[str, ...]
    rows: list[tuple[str, list[Cell]]]


@dataclass(frozen=True)
class Table:
    """Headings of the label columns and of the planners' columns, and the blocks."""

    heads: tuple[str, ...]
    columns: tuple[str, ...]
    blocks: list[Block]


def build(results: Results, conditions: Sequence[Condition], metrics: Sequence[Metric], extra: str = "") -> Table:
    """A table over some conditions. `extra` is a field of `Condition` that is shown beside budget and N.

    The paper's figures stand below ours of the same planner, or in a column of their own where we have none.
    """
    subject = [condition for condition in conditions if not condition.plain] or conditions
    """What the table is about; undisturbed conditions stand beside disturbed ones for comparison."""
    flown = {name for name in results.planners if any((name, c) in results.summaries for c in subject)}
    names = columns(results, flown, subject, metrics)
    fields = [extra] * bool(extra) + ["camera"] * (extra != "camera" and not all(c.usual_camera for c in conditions))
    blocks = []
    for condition in conditions:
        labels = (f"{condition.budget_m:g}", *(str(getattr(condition, name)) for name in ("robots", *fields)))
        blocks.append(Block(labels, metric_rows(results, condition, metrics, names, flown)))
    heads = ("budget, m", "N", *fields)
    return Table(heads, tuple(results.label(name) if name in flown else as_published(name) for name in names), blocks)


def columns(results: Results, flown: set[str], conditions: Iterable[Condition], metrics: Sequence[Metric]) -> list[str]:
    """The planners of a table: those that were flown, and those that only the paper has figures of."""
    conditions = list(conditions)
    printed = {
        name
        for name in PLANNERS
        if name not in flown and any(_is_printed(results.published(name, c), metrics) for c in conditions)
    }
    return in_order(flown | printed, results.communicates)


def metric_rows(
    results: Results, condition: Condition, metrics: Sequence[Metric], names: Sequence[str], flown: set[str]
) -> list[tuple[str, list[Cell]]]:
    """The rows of one condition."""
    rows = []
    for metric in metrics:
        best = results.best(condition, metric.name)
        cells = [
            _cell(metric, results.summaries.get((name, condition)), name in best)
            if name in flown
            else Cell(paper=_paper_text(metric, results.published(name, condition)))
            for name in names
        ]
        rows.append((metric.table_heading, cells))
    return rows


def _is_printed(row: Published | None, metrics: Sequence[Metric]) -> bool:
    return row is not None and any(row.printed(metric.name) is not None for metric in metrics)


def _cell(metric: Metric, summary: Summary | None, best: bool) -> Cell:
    if summary is None:
        return Cell(ABSENT)
    estimate = summary[metric.name]
    paper = _paper_text(metric, summary.paper)
    count = str(estimate.count) if metric.optional else ""
    if not estimate.known:
        return Cell(ABSENT, count=count, paper=paper)
    spread = metric.number(estimate.std) if metric.spread and np.isfinite(estimate.std) else ""
    interval = f"{metric.number(estimate.low)}, {metric.number(estimate.high)}"
    return Cell(metric.number(estimate.mean), spread, interval, count, paper, best)


def _paper_text(metric: Metric, row: Published | None) -> str:
    printed = row.printed(metric.name) if row is not None else None
    if printed is None:
        return ""
    mean, std = printed
    return f"{mean:.{metric.digits}f}" + (f" ± {std:.{metric.digits}f}" if std is not None else "")


def markdown(table: Table) -> str:
    """With line breaks inside the cells: value and interval, below it the paper's figure."""

    def text(cell: Cell) -> str:
        if not cell.value:  # a column of the paper alone
            return f"*{cell.paper}*" if cell.paper else ABSENT
        value = f"**{cell.value}**" if cell.best else cell.value
        ours = value + f" ± {cell.spread}" * bool(cell.spread) + f" [{cell.interval}]" * bool(cell.interval)
        ours += f", n = {cell.count}" * bool(cell.count)
        return "<br>".join([ours] + [f"*paper {cell.paper}*"] * bool(cell.paper))

    lines = [[*table.heads, "", *map(markdown_escape, table.columns)]]
    for block in table.blocks:
        for number, (heading, cells) in enumerate(block.rows):
            labels = block.labels if number == 0 else ("",) * len(block.labels)
            lines.append([*labels, heading, *map(text, cells)])
    return markdown_grid(lines)


def markdown_grid(lines: Iterable[Sequence[str]]) -> str:
    """A plain table; the first line is its head."""
    head, *body = ["| " + " | ".join(line) + " |" for line in lines]
    rule = "|" + "---|" * (head.count(" | ") + 1)
    return "\n".join([head, rule, *body]) + "\n"


def markdown_escape(text: str) -> str:
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, "\\" + sign)
    return text


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "±": r"$\pm$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "[": "{[}",
    "]": "{]}",
} | {sign: "\\" + sign for sign in "&%$#_{}"}


def latex_escape(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def latex(table: Table, caption: str, label: str) -> str:
    """For an article with booktabs and multirow. Below each value its interval, then in italics the paper's figure."""
    depth, width = len(table.heads), len(table.heads) + 1 + len(table.columns)
    lines = [
        r"% Needs \usepackage{adjustbox,booktabs,multirow}.",
        r"\begin{table*}[tb]",
        r"\centering",
        rf"\caption{{{latex_escape(caption)}}}",
        rf"\label{{{label}}}",
        r"\tiny",
        r"\setlength{\tabcolsep}{3pt}",
        r"\renewcommand{\arraystretch}{0.95}",
        r"\begin{adjustbox}{max width=\textwidth}",
        rf"\begin{{tabular}}{{{'c' * depth}l{'c' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(map(latex_escape, [*table.heads, "", *table.columns])) + r" \\",
    ]
    for budget, group in groupby(table.blocks, key=lambda block: block.labels[0]):
        blocks = list(group)
        lines.append(r"\midrule")
        for number, block in enumerate(blocks):
            if number:
                lines.append(rf"\cmidrule{{2-{width}}}")
            labels = ["" if number else _multirow(budget, sum(map(_height, blocks)))]
            labels += [_multirow(text, _height(block)) for text in block.labels[1:]]
            for heading, cells in block.rows:
                lines.append(" & ".join([*labels, latex_escape(heading), *map(_latex_value, cells)]) + r" \\")
                labels = [""] * depth
                below = _latex_below(cells)
                lines += [" & ".join([*labels, "", *line]) + r" \\" for line in below]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}", r"\end{table*}"]
    return "\n".join(lines) + "\n"


def _multirow(text: str, rows: int) -> str:
    return rf"\multirow{{{rows}}}{{*}}{{{latex_escape(text)}}}"


def _latex_value(cell: Cell) -> str:
    if not cell.value:  # a column of the paper alone
        return rf"\textit{{{latex_escape(cell.paper or ABSENT)}}}"
    value = rf"\textbf{{{latex_escape(cell.value)}}}" if cell.best else latex_escape(cell.value)
    return value + rf" $\pm$ {cell.spread}" * bool(cell.spread)


def _latex_below(cells: Sequence[Cell]) -> list[list[str]]:
    """Intervals and counts; the paper's figures beside them if they are short, on a line of their own if not."""
    ground = [f"[{cell.interval}]" * bool(cell.interval) + f" n={cell.count}" * bool(cell.count) for cell in cells]
    paper = [rf"\textit{{{latex_escape(cell.paper)}}}" if cell.value and cell.paper else "" for cell in cells]
    escaped = [latex_escape(text.strip()) for text in ground]
    if any("±" in cell.paper for cell in cells if cell.value):
        return [escaped, paper]
    return [[" ".join(filter(None, both)) for both in zip(escaped, paper, strict=True)]]


def _height(block: Block) -> int:
    return sum(1 + len(_latex_below(cells)) for _, cells in block.rows)


def csv_text(lines: Iterable[Sequence[object]]) -> str:
    """Lines of a CSV file. Floats keep every digit, what is unknown is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for line in lines:
        writer.writerow(["" if item is None or (isinstance(item, float) and np.isnan(item)) else item for item in line])
    return file.getvalue()


def _fields(conditions: Iterable[Condition], usual: list[str]) -> list[str]:
    """Columns that name a condition. The paper's camera needs none."""
    return usual + ["fov_deg", "range_m"] * (not all(condition.usual_camera for condition in conditions))


def long_lines(results: Results, conditions: Sequence[Condition], metrics: Sequence[Metric]) -> list[list[object]]:
    """The numbers of a table, a line each, in the units of the table; the paper's own beside them."""
    fields = _fields(conditions, ["budget_m", "robots", "broken", "noise"])
    head = "metric planner communicates trials count mean low high std best_without_radio paper_mean paper_std"
    lines: list[list[object]] = [[*fields, *head.split()]]
    names = in_order({*results.planners, *PLANNERS}, results.communicates)
    for condition in conditions:
        for metric in metrics:
            best = results.best(condition, metric.name)
            for name in names:
                summary, row = results.summaries.get((name, condition)), results.published(name, condition)
                paper = row.printed(metric.name) if row is not None else None
                if summary is None and paper is None:
                    continue
                line: list[object] = [getattr(condition, field) for field in fields]
                line += [metric.name, name, results.communicates.get(name, False)]
                if summary is None:
                    line += [0, 0, None, None, None, None, False]
                else:
                    value = summary[metric.name]
                    scaled = [metric.scale * number for number in (value.mean, value.low, value.high, value.std)]
                    line += [summary.trials, value.count, *scaled, name in best]
                lines.append(line + list(paper or (None, None)))
    return lines


def summary_lines(results: Results) -> list[list[object]]:
    """One line per planner and condition, with every statistic in full precision."""
    fields = _fields(results.conditions, ["robots", "budget_m", "broken", "noise"])
    head = ["planner", "communicates", *fields, "trials"]
    for metric in METRICS:
        parts = ("mean", "low", "high", "std", "count")
        head += [f"{metric.name}_{part}" for part in parts] if metric.estimated else [metric.name]
    lines: list[list[object]] = [[*head]]
    for (planner, condition), summary in results.summaries.items():
        line: list[object] = [planner, results.communicates[planner]]
        line += [*(getattr(condition, field) for field in fields), summary.trials]
        for metric in METRICS:
            if metric.estimated:
                value = summary[metric.name]
                line += [value.mean, value.low, value.high, value.std, value.count]
            else:
                line.append(summary.numbers[metric.name])
        lines.append(line)
    return lines
