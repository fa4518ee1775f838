"""How far the planners with public rules are from the paper's figures."""

from decmarvel.benchmark.report.comparisons import short
from decmarvel.benchmark.report.conditions import Condition
from decmarvel.benchmark.report.summary import Results
from decmarvel.benchmark.report.tables import ABSENT, markdown_grid

CALIBRATED = ("nearest", "smmr", "nbvp")
"""Planners whose rules are public, so that the paper's figures check our simulator."""
COVERAGE_LIMIT, METRES_LIMIT = 0.06, 0.12


def calibration(results: Results) -> str:
    """The section of the report."""
    flown = [name for name in CALIBRATED if name in results.planners]
    conditions = [c for c in results.conditions if c.plain and any(_gaps(results, name, c) for name in flown)]
    if not conditions:
        return ""
    far, all_of = 0, 0
    lines = [["ours against the paper", *(short(condition) for condition in conditions)]]
    for name in flown:
        cells = []
        for condition in conditions:
            gaps = _gaps(results, name, condition)
            far += any(beyond for _, beyond in gaps)
            all_of += bool(gaps)
            cells.append("<br>".join(f"**{text}** (far)" if beyond else text for text, beyond in gaps) or ABSENT)
        lines.append([name, *cells])
    verdict = f"All {all_of} are" if not far else f"**{far} of {all_of} are not**"
    return (
        "## Calibration\n\n"
        "Planners with public rules should come out here as in the paper: coverage within "
        f"{COVERAGE_LIMIT}, metres to 99% (survivors' mean, *n* missions) within {METRES_LIMIT:.0%}. {verdict}.\n\n"
        + markdown_grid(lines)
    )


def _gaps(results: Results, planner: str, condition: Condition) -> list[tuple[str, bool]]:
    """Coverage minus the paper's, metres over the paper's; and whether that is too much."""
    summary = results.summaries.get((planner, condition))
    if summary is None or summary.paper is None:
        return []
    coverage = summary["coverage"].mean - summary.paper.coverage
    gaps = [(f"coverage {round(coverage, 3) + 0.0:+.3f}", abs(coverage) > COVERAGE_LIMIT)]
    ours = summary["metres"]
    if ours.known:
        metres = ours.mean / summary.paper.metres.mean - 1
        gaps.append((f"metres {round(metres, 3) + 0.0:+.1%}, n = {ours.count}", abs(metres) > METRES_LIMIT))
    return gaps
