"""Plots of a benchmark: coverage over distance, success over budget, an overview. One look per planner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from decmarvel.benchmark.metrics import Metric, shown_in
from decmarvel.benchmark.report.conditions import Condition
from decmarvel.benchmark.report.published import PLANNERS, as_published
from decmarvel.benchmark.report.statistics import Estimate, bootstrap_band
from decmarvel.benchmark.report.summary import Results, Summary, in_order
from decmarvel.benchmark.rows import CURVE_STEP_M
from decmarvel.core.files import write_whole
from decmarvel.show.style import FAINT, GROUND, INK, OTHER_LOOKS, PLANNER_LOOKS, RADIO_LOOKS, save

_BAND_RESAMPLES = 2000
_GOAL = 0.99
"""Coverage from which a mission is a success."""


@dataclass(frozen=True)
class Look:
    """How a planner looks in every plot. Planners that need a radio have dashed lines."""

    label: str
    colour: str
    marker: str
    dashed: bool

    @property
    def line(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": (0, (5, 2)) if self.dashed else "-"}

    @property
    def key(self) -> Line2D:
        return Line2D([], [], **self.line, marker=self.marker, markersize=6, linewidth=1.8, label=self.label)


def looks(results: Results) -> dict[str, Look]:
    """A fixed look for the planners that are known, the next free one for others."""
    radio, others = iter(RADIO_LOOKS * 9), iter(OTHER_LOOKS * 9)
    found = {}
    for planner in results.planners:
        dashed = results.communicates[planner]
        colour, marker = next(radio) if dashed else PLANNER_LOOKS.get(planner) or next(others)
        found[planner] = Look(results.label(planner), colour, marker, dashed)
    return found


def published_looks(results: Results, conditions: Sequence[Condition]) -> dict[str, Look]:
    """Of the paper's planners that were not flown here, where the paper has figures for these conditions."""
    return {
        planner: Look(as_published(planner), *PLANNER_LOOKS[planner], dashed=False)
        for planner in PLANNERS
        if planner not in results.planners and any(results.published(planner, c) for c in conditions)
    }


def draw_curves(results: Results, robots: int, stem: Path) -> None:
    """Merged coverage over the largest travel of a robot, a panel per budget, with the 95% band of the mean."""
    conditions = [condition for condition in results.conditions if condition.plain and condition.robots == robots]
    figure, panels = _panels(len(conditions), height=3.7)
    for axes, condition in zip(panels, conditions, strict=True):
        for planner, look in looks(results).items():
            trials = results.trials.get((planner, condition))
            if trials is None or trials.curve.size == 0:
                continue
            curve, at_m = 100 * trials.curve, CURVE_STEP_M * np.arange(trials.curve.shape[1])
            low, high = bootstrap_band(curve, resamples=_BAND_RESAMPLES)
            axes.fill_between(at_m, low, high, color=look.colour, alpha=0.18, linewidth=0)
            every = max(1, len(at_m) // 6)
            axes.plot(at_m, curve.mean(axis=0), **look.line, linewidth=1.8)
            axes.plot(
                at_m[every::every],
                curve.mean(axis=0)[every::every],
                ls="none",
                marker=look.marker,
                markersize=5,
                color=look.colour,
            )
        _goal_line(axes)
        axes.set(xlim=(0, condition.budget_m), ylim=(0, 103), xlabel="largest distance travelled by a robot, m")
        axes.set_title(f"budget {condition.budget_m:g} m", loc="left", fontsize=10, color=INK)
    panels[0].set_ylabel("merged coverage")
    _percent_axis(panels)
    _finish(
        figure,
        results,
        conditions,
        f"How fast {robots} robots explore",
        "Mean over all missions, with its 95% band. The dashed grey line is 99%, the mark of success.",
        stem,
    )


def draw_success(results: Results, stem: Path) -> None:
    """Success over the budget, a panel per team size, Wilson intervals, the paper's figures hollow."""
    conditions = [condition for condition in results.conditions if condition.plain]
    teams, budgets = sorted({s.robots for s in conditions}), sorted({s.budget_m for s in conditions})
    figure, panels = _panels(len(teams), height=3.7)
    style = looks(results)
    told = published_looks(results, conditions)
    shift = _shifts(len(style), 0.075)
    for axes, robots in zip(panels, teams, strict=True):
        for (planner, look), beside in zip(style.items(), shift, strict=True):
            there = _there(results, planner, [Condition(budget_m, robots) for budget_m in budgets])
            at = [budgets.index(summary.condition.budget_m) + beside for summary in there]
            _points(axes, at, [summary["success"] for summary in there], look, 100.0)
            axes.plot(at, [100 * summary["success"].mean for summary in there], **look.line, linewidth=1, alpha=0.5)
            papers = [(x, s.paper.success_percent) for x, s in zip(at, there, strict=True) if s.paper is not None]
            if papers:
                axes.plot(*zip(*papers, strict=True), **_hollow(look))
        for planner, look in told.items():
            prints = [(x, results.published(planner, Condition(b, robots))) for x, b in enumerate(budgets)]
            papers = [(x, print.success_percent) for x, print in prints if print is not None]
            if papers:
                axes.plot(*zip(*papers, strict=True), **_hollow(look))
        axes.set(ylim=(-3, 103), xlim=(-0.5, len(budgets) - 0.5), xlabel="budget of each robot, m")
        axes.set_xticks(range(len(budgets)), [f"{budget_m:g}" for budget_m in budgets])
        axes.set_title(_team(robots), loc="left", fontsize=10, color=INK)
    panels[0].set_ylabel("missions that reach 99%")
    _percent_axis(panels)
    extra = _paper_keys(results, conditions)
    _finish(
        figure,
        results,
        conditions,
        "How often the team reaches 99% coverage",
        "Share of missions with its 95% interval (Wilson). Hollow: what the paper prints.",
        stem,
        extra,
    )


def draw_overview(results: Results, stem: Path) -> None:
    """The metrics that are shown in the overview: a panel each, a line per condition, a mark per planner."""
    conditions = sorted((s for s in results.conditions if s.plain), key=lambda s: (s.robots, s.budget_m))
    style = looks(results) | published_looks(results, conditions)
    metrics = shown_in("overview")
    size = (4.8 * len(metrics), 1.4 + len(conditions) * max(0.5, 0.11 * len(style)))
    figure = Figure(figsize=size, layout="constrained")
    panels = [panel for row in figure.subplots(1, len(metrics), sharey=True, squeeze=False) for panel in row]
    shift = -_shifts(len(style), 0.78 / max(1, len(style)))
    middle = {condition: len(conditions) - 1 - number for number, condition in enumerate(conditions)}
    for planner, beside in zip(in_order(style, results.communicates), shift, strict=True):
        look = style[planner]
        there = _there(results, planner, conditions)
        at = [middle[summary.condition] + beside for summary in there]
        for axes, metric in zip(panels, metrics, strict=True):
            _points(axes, at, [summary[metric.name] for summary in there], look, metric.figure_scale, across=True)
            papers = _papers(results, metric, planner, conditions)
            if papers:
                axes.plot([x for _, x in papers], [middle[c] + beside for c, _ in papers], **_hollow(look))
    for axes, metric in zip(panels, metrics, strict=True):
        _overview_axes(axes, metric, middle)
    names = [f"{_team(s.robots)}\n{s.budget_m:g} m" for s in reversed(conditions)]
    panels[0].set_yticks(range(len(conditions)), names)
    panels[0].set(ylim=(-0.5, len(conditions) - 0.5))
    _bare(panels, "x")
    extra = _paper_keys(results, conditions)
    _finish(
        figure,
        results,
        conditions,
        "All settings at a glance",
        "Means with 95% intervals. A mission that did not reach 99% counts with its whole budget (grey line).",
        stem,
        extra,
    )


def _overview_axes(axes: Axes, metric: Metric, middle: Mapping[Condition, int]) -> None:
    """Bands for the conditions, the goal, and for distances the budget, which none exceeds."""
    for condition, number in middle.items():
        if number % 2 == 0:
            axes.axhspan(number - 0.5, number + 0.5, color=GROUND, alpha=0.5, linewidth=0, zorder=0)
        if metric.unit == "m":
            axes.plot([condition.budget_m] * 2, [number - 0.45, number + 0.45], color=FAINT, linewidth=1.2)
    if metric.goal is not None:
        axes.axvline(metric.figure_scale * metric.goal, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
    axes.set(xlabel=f"{metric.label}, {metric.figure_unit}")
    side = "right" if metric.higher_is_better else "left"
    axes.set_title(f"{metric.label}: {side} is better", loc="left", fontsize=10, color=INK)


def _papers(
    results: Results, metric: Metric, planner: str, conditions: Sequence[Condition]
) -> list[tuple[Condition, float]]:
    """What the paper prints of a metric, in the unit of figures."""
    rows = [(condition, results.published(planner, condition)) for condition in conditions]
    found = [(condition, row.printed(metric.name)) for condition, row in rows if row is not None]
    return [(c, metric.figure_scale / metric.scale * printed[0]) for c, printed in found if printed is not None]


def _there(results: Results, planner: str, conditions: Sequence[Condition]) -> list[Summary]:
    return [
        results.summaries[planner, condition] for condition in conditions if (planner, condition) in results.summaries
    ]


def _points(
    axes: Axes, at: Sequence[float], estimates: Sequence[Estimate], look: Look, scale: float, across: bool = False
) -> None:
    """Means with their intervals; `across` puts the values on the x axis."""
    if not estimates:
        return
    mean, low, high = (scale * np.array([getattr(e, name) for e in estimates]) for name in ("mean", "low", "high"))
    reach = np.maximum(0.0, [mean - low, high - mean])
    place: dict[str, Any] = {"x": mean, "y": at, "xerr": reach} if across else {"x": at, "y": mean, "yerr": reach}
    axes.errorbar(**place, ls="none", marker=look.marker, ms=5.5, color=look.colour, elinewidth=1.3, zorder=3)


def _hollow(look: Look) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": look.marker,
        "markersize": 8.5,
        "markerfacecolor": "none",
        "markeredgecolor": look.colour,
        "markeredgewidth": 1.1,
        "zorder": 2.5,
    }


def _paper_keys(results: Results, conditions: Sequence[Condition]) -> list[Line2D]:
    """The legend of the hollow markers, as far as there are any."""
    shown = any(summary.paper for summary in results.summaries.values() if summary.condition in conditions)
    hollow = [Look("in the paper", FAINT, "o", False)] * shown + list(published_looks(results, conditions).values())
    return [Line2D([], [], **_hollow(look), label=look.label) for look in hollow]


def _shifts(count: int, step: float) -> np.ndarray:
    return step * (np.arange(count) - (count - 1) / 2)


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(max(5.2, 3.4 * count), height + 0.9), layout="constrained")
    panels = [panel for row in figure.subplots(1, count, sharey=True, squeeze=False) for panel in row]
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(w_pad=0.1)
    return figure, panels


def _goal_line(axes: Axes) -> None:
    axes.axhline(100 * _GOAL, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)


def _percent_axis(panels: Sequence[Axes]) -> None:
    _bare(panels, "both")
    panels[0].yaxis.set_major_formatter(PercentFormatter(decimals=0))


def _bare(panels: Sequence[Axes], grid: Any) -> None:
    for axes in panels:
        axes.grid(color=GROUND, linewidth=0.8, axis=grid)
        axes.set_axisbelow(True)
        axes.tick_params(length=3, labelsize=9)
        axes.spines[["top", "right"]].set_visible(False)


def _team(robots: int) -> str:
    return "1 robot" if robots == 1 else f"{robots} robots"


def _finish(
    figure: Figure,
    results: Results,
    conditions: Sequence[Condition],
    headline: str,
    detail: str,
    stem: Path,
    extra: Sequence[Line2D] = (),
) -> None:
    """Headline, what is seen, how many missions it rests on, and the planners below."""
    shown = {key: len(trials) for key, trials in results.trials.items() if key[1] in conditions}
    counts, flown = set(shown.values()), {planner for planner, _ in shown}
    rests = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    heading(figure, headline, f"{detail} {rests} missions a mean.")
    key(figure, [look.key for name, look in looks(results).items() if name in flown] + list(extra))
    save_both(figure, stem)


def heading(figure: Figure, headline: str, detail: str) -> None:
    """Two lines above everything else, of the same size in every figure."""
    inch = 1 / figure.get_figheight()
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, 0, 1, 1 - 0.58 * inch))
    place: dict[str, Any] = {"x": 0.01, "ha": "left", "va": "top"}
    figure.text(y=1 - 0.06 * inch, s=headline, fontsize=12, fontweight="bold", color=INK, **place)
    figure.text(y=1 - 0.30 * inch, s=detail, fontsize=9, color=FAINT, **place)


def key(figure: Figure, handles: Sequence[Artist]) -> None:
    """Below everything else, in rows of about the same length."""
    rows = -(-len(handles) // max(2, int(figure.get_figwidth() / 1.35)))
    columns = -(-len(handles) // rows)
    figure.legend(
        handles=list(handles), loc="outside lower center", ncols=columns, frameon=False, fontsize=9, columnspacing=1.6
    )


def save_both(figure: Figure, stem: Path) -> None:
    """As PNG and, for print, as SVG. The same rows give the same bytes."""
    save(figure, stem.with_suffix(".png"))
    with mpl.rc_context({"svg.hashsalt": "decmarvel"}):
        write_whole(
            stem.with_suffix(".svg"),
            lambda file: figure.savefig(
                file, format="svg", bbox_inches="tight", pad_inches=0.12, metadata={"Date": None}
            ),
        )
