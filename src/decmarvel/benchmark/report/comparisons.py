"""Who beats whom: the section of the report with paired tests."""

from collections.abc import Sequence

from decmarvel.benchmark.metrics import Metric, shown_in
from decmarvel.benchmark.report.conditions import Condition
from decmarvel.benchmark.report.summary import Comparison, Results
from decmarvel.benchmark.report.tables import ABSENT, markdown_escape, markdown_grid

SIGNIFICANT = 0.05


def paired_tests(results: Results, baseline: str | None) -> str:
    """Conditions of Table I, then breakdowns, noise and other cameras: two sets of tests for each metric."""
    if len(results.planners) < 2:
        return ""
    over = f" Baseline: {markdown_escape(results.label(baseline))}." if baseline else ""
    text = (
        "## Who beats whom\n\n"
        "Two planners are compared on the missions that both flew: same map, seed, team, budget and conditions. A "
        "setting is "
        f"won where p, corrected by Holm's method over all tests of a table, is below {SIGNIFICANT}.{over}\n\n"
    )
    plain = [condition for condition in results.conditions if condition.plain]
    others = [condition for condition in results.conditions if not condition.plain]
    for conditions, where in ((plain, ""), (others, _apart(others))):
        for metric in shown_in("tests"):
            comparisons = results.compare(metric.name, conditions, baseline)
            if comparisons:
                text += f"### {metric.label.capitalize()}{where}\n\n{_how(metric)}.\n\n"
                text += _wins(results, comparisons, baseline) + _details(results, comparisons)
    return text


def _apart(conditions: Sequence[Condition]) -> str:
    """What sets conditions apart from those of Table I, in a heading."""
    disturbed = not all(condition.undisturbed for condition in conditions)
    cameras = not all(condition.usual_camera for condition in conditions)
    return " with " + " or ".join(["breakdowns or noise"] * disturbed + ["other cameras"] * cameras)


def _how(metric: Metric) -> str:
    """Which test, and in what the differences are."""
    unit = {"share": "percentage points", "m": "metres"}.get(metric.unit, metric.unit)
    if metric.how == "share":
        return f"Exact McNemar test; differences in {unit}"
    return f"Wilcoxon signed-rank test; mean differences in {unit}{'' if metric.higher_is_better else ' saved'}"


def _wins(results: Results, comparisons: Sequence[Comparison], baseline: str | None) -> str:
    """In how many settings the planner of the row beats that of the column, and the other way round."""
    score: dict[tuple[str, str], list[int]] = {}
    for test in comparisons:
        for one, other, sign in ((test.first, test.second, 1), (test.second, test.first, -1)):
            tally = score.setdefault((one, other), [0, 0, 0])
            tally[2] += 1
            if test.p_holm < SIGNIFICANT:
                tally[0 if sign * test.difference.mean > 0 else 1] += 1
    names = [name for name in results.planners if any(name in pair for pair in score)]
    columns = [baseline] if baseline else names
    lines = [["won : lost of settings", *(f"against {markdown_escape(results.label(name))}" for name in columns)]]
    for one in names:
        if one == baseline:
            continue
        cells = []
        for other in columns:
            won, lost, all_of = score.get((one, other), (0, 0, 0))
            text = f"{won} : {lost} of {all_of}"
            cells.append("" if one == other else ABSENT if not all_of else f"**{text}**" if won > lost else text)
        lines.append([markdown_escape(results.label(one)), *cells])
    return markdown_grid(lines) + "\n"


def _details(results: Results, comparisons: Sequence[Comparison]) -> str:
    """A line per pair, a column per setting: by how much the first is better, and p."""
    conditions = [c for c in results.conditions if any(test.condition == c for test in comparisons)]
    pairs = list(dict.fromkeys((test.first, test.second) for test in comparisons))
    found = {(test.first, test.second, test.condition): test for test in comparisons}
    lines = [["better on average, and than whom", *(short(condition) for condition in conditions)]]
    for first, second in pairs:
        cells = []
        for condition in conditions:
            test = found.get((first, second, condition))
            cells.append(ABSENT if test is None else difference(test))
        names = (markdown_escape(results.label(name)) for name in (first, second))
        lines.append([" over ".join(names), *cells])
    return (
        "<details><summary>Every pair and setting: mean difference [95% interval], corrected p, shared missions"
        f"</summary>\n\n{markdown_grid(lines)}\n</details>\n\n"
    )


def difference(test: Comparison) -> str:
    """By how much the first is better, bold where that is certain, and p."""
    gap = test.difference
    mean, low, high = (f"{round(value, 1) + 0.0:+.1f}" for value in (gap.mean, gap.low, gap.high))  # no -0.0
    text = f"{mean} [{low}, {high}]"
    p = "p < 0.001" if test.p_holm < 0.001 else f"p = {test.p_holm:.3f}" if test.p_holm < 1 else "p = 1"
    return f"{f'**{text}**' if test.p_holm < SIGNIFICANT else text}<br>{p}, {test.pairs}"


def short(condition: Condition) -> str:
    """As the heading of a column."""
    return "<br>".join([f"N = {condition.robots}", f"{condition.budget_m:g} m", *condition.extras])
