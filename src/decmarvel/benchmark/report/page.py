"""The report on a benchmark: a page with the paper's tables beside ours, plots, tests, and files to go on with."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from decmarvel import __version__
from decmarvel.benchmark.metrics import Metric
from decmarvel.benchmark.report import charts, gallery, tables
from decmarvel.benchmark.report.calibration import calibration
from decmarvel.benchmark.report.comparisons import paired_tests
from decmarvel.benchmark.report.conditions import QUIET, Condition
from decmarvel.benchmark.report.families import by_family, write_families
from decmarvel.benchmark.report.published import PLANNERS, TRIALS
from decmarvel.benchmark.report.statistics import RESAMPLES
from decmarvel.benchmark.report.summary import Results
from decmarvel.benchmark.report.tables import markdown_escape, markdown_grid
from decmarvel.core.files import write_whole


def write_report(
    rows: pa.Table,
    folder: Path,
    missions: Path | None = None,
    baseline: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Results:
    """Write all files of the report to a folder that exists. `missions` is where recordings may be."""
    results = Results.of(rows)
    recordings = gallery.load_missions(missions) if missions is not None and missions.is_dir() else []
    plain = [condition for condition in results.conditions if condition.plain]
    say("statistics")
    write_whole(folder / "rows.parquet", lambda file: pq.write_table(rows, file, compression="zstd"))
    _write(folder / "summary.csv", tables.csv_text(tables.summary_lines(results)))
    failing, noisy, cameras = _breakdowns(results), _noises(results), _cameras(results)
    if plain:
        _write_table(results, folder / "table1", plain, tables.TABLE_1, "", "Exploration under travel budgets")
    if failing:
        _write_table(results, folder / "table3", failing, tables.TABLE_3, "broken", "Robots that break down")
    if noisy:
        _write_table(results, folder / "noise", noisy, tables.NOISE, "noise", "Perception noise")
    if cameras:
        _write_table(results, folder / "cameras", cameras, tables.CAMERAS, "camera", "Cameras")
    write_families(results, folder)
    pictures = _draw_plots(results, folder, say)
    say("replays of the recorded missions")
    shown = gallery.draw_galleries(results, recordings, folder) if recordings else []
    say("page")
    parts = [_lead(results), _overview(pictures)]
    if plain:
        parts += [_table_1(results, plain), _plots(pictures), _more(results, plain)]
    parts += [
        paired_tests(results, baseline),
        by_family(results),
        calibration(results),
        _table_3(results, failing),
        _noise(results, noisy),
        _camera_table(results, cameras),
    ]
    parts += [_gallery(shown), _method(results), _files(folder)]
    _write(folder / "report.md", "\n".join(part for part in parts if part))
    return results


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()))


def _write_table(
    results: Results,
    stem: Path,
    conditions: Sequence[Condition],
    metrics: Sequence[Metric],
    extra: str,
    name: str,
) -> None:
    table, caption = tables.build(results, conditions, metrics, extra), _caption(results, conditions, name)
    _write(stem.with_suffix(".tex"), tables.latex(table, caption, f"tab:{stem.name}"))
    _write(stem.with_suffix(".csv"), tables.csv_text(tables.long_lines(results, conditions, metrics)))


def _breakdowns(results: Results) -> list[Condition]:
    """Conditions with broken robots, and the same without."""
    quiet = [c for c in results.conditions if c.noise == QUIET]
    teams = {c._replace(broken=0) for c in quiet if c.broken}
    return [c for c in quiet if c._replace(broken=0) in teams]


def _noises(results: Results) -> list[Condition]:
    """Conditions with noise, and the same without."""
    teams = {c._replace(noise=QUIET) for c in results.conditions if c.noise != QUIET}
    return [c for c in results.conditions if c._replace(noise=QUIET) in teams]


def _cameras(results: Results) -> list[Condition]:
    """Undisturbed conditions with other cameras than the paper's, and the same with that."""
    undisturbed = [c for c in results.conditions if c.undisturbed]
    teams = {(c.budget_m, c.robots) for c in undisturbed if not c.usual_camera}
    return [c for c in undisturbed if (c.budget_m, c.robots) in teams]


def _caption(results: Results, conditions: Sequence[Condition], name: str) -> str:
    """Of a LaTeX table."""
    radio = any(results.communicates[p] for p in results.planners if any((p, c) in results.trials for c in conditions))
    return (
        f"{name}: mean (± standard deviation), below it the 95% interval and, where a row does not rest on all "
        f"missions, "
        f"their number n. Italics: the paper's figures. Bold: the best planner without a radio. "
        + "Planners marked (radio) exchange maps, which the others cannot. " * radio
        + f"{_counts(results, conditions)}."
    )


def _counts(results: Results, conditions: Sequence[Condition]) -> str:
    counts = sorted({len(trials) for (_, condition), trials in results.trials.items() if condition in conditions})
    each = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return f"{each} mission{'s' * (counts[-1] != 1)} per planner and setting"


def _lead(results: Results) -> str:
    maps = results.maps
    span = f"`{maps[0]}`" if len(maps) == 1 else f"`{maps[0]}` to `{maps[-1]}`"
    names = ", ".join(markdown_escape(results.label(planner)) for planner in results.planners)
    lines = [
        "# Benchmark report\n",
        f"- **{results.missions:,} missions**, {_counts(results, results.conditions)}",
        f"- **Planners**: {names}",
        f"- **Maps**: {len(maps)}, {span}; {results.seeds} seed{'s' * (results.seeds != 1)}",
        *_unusual_cameras(results),
        f"- **Version**: missions flown by decmarvel {', '.join(results.versions)}, report by {__version__}",
    ]
    for planner, weights in results.weights.items():
        lines.append(f"- **Weights** of {markdown_escape(planner)}: `{weights}`")
    stranded = sum(summary.stranded for summary in results.summaries.values())
    lines.append(f"- **Stranded robots**: {stranded or 'none'} in all missions")
    if len(results.versions) > 1:
        lines.append("- **Mixed versions**: missions of different versions of the package are compared here")
    if any(results.communicates.values()):
        lines.append(
            "- **(radio)** marks planners whose robots exchange maps. They show what communication would buy; they "
            "do not "
            "compete for bold figures"
        )
    if results.missing:
        lines += ["", _incomplete(results)]
    return "\n".join(lines) + "\n"


def _unusual_cameras(results: Results) -> list[str]:
    """A line, unless all have the paper's camera."""
    if all(condition.usual_camera for condition in results.conditions):
        return []
    cameras = dict.fromkeys(c.camera for c in sorted(results.conditions, key=lambda c: (c.fov_deg, c.range_m)))
    return [f"- **Cameras**: {'; '.join(cameras)}"]


def _incomplete(results: Results) -> str:
    wanted = sum(want for *_, want in results.missing) - sum(there for _, _, there, _ in results.missing)
    shown = [
        f"{markdown_escape(results.label(planner))} at {condition.text} ({there} of {want})"
        for planner, condition, there, want in results.missing[:6]
    ]
    more = len(results.missing) - len(shown)
    rest = f", and {more} more" if more > 0 else ""
    return (
        f"> **Incomplete.** {wanted:,} missions that other planners have flown are not there: "
        f"{', '.join(shown)}{rest}. "
        "Means of different planners may rest on different missions; the paired tests use shared missions only.\n"
    )


def _draw_plots(results: Results, folder: Path, say: Callable[[str], None]) -> list[tuple[str, str]]:
    """File names and what they show, in the order of the page."""
    plain = [condition for condition in results.conditions if condition.plain]
    if not plain:
        return []
    say("plots")
    charts.draw_overview(results, folder / "glance.png")
    made = [("glance", "Coverage and penalised metres of every planner in every setting, with 95% intervals")]
    teams = sorted({condition.robots for condition in plain}, key=lambda robots: (robots != gallery.USUAL_TEAM, robots))
    for robots in teams:
        charts.draw_curves(results, robots, folder / f"coverage_{robots}.png")
        made.append((f"coverage_{robots}", f"Merged coverage over the distance travelled, {robots} robots"))
    charts.draw_success(results, folder / "success.png")
    made.append(("success", "Success rate over the budget, by team size, with Wilson intervals"))
    return made


def _overview(pictures: Sequence[tuple[str, str]]) -> str:
    return "".join(f"![{text}]({name}.png)\n" for name, text in pictures[:1])


def _table_1(results: Results, plain: Sequence[Condition]) -> str:
    printed = any(results.published(name, condition) for name in PLANNERS for condition in plain)
    paper = (
        f" *Italics*: the paper's figure, {TRIALS} trials each, on maps of its own; *as published* are planners that "
        "were not flown here."
    )
    together = " Maps of all families count together; further down they are apart."
    return (
        "## Table I\n\n"
        "The paper's layout and metrics. In brackets the 95% interval of the mean. Metres to 99% are over the *n* "
        "missions "
        "that reached 99%, as in the paper, which flatters planners that succeed on easy maps only: the penalised "
        "metres "
        f"further down do not. Bold: the best planner without a radio.{paper * printed}"
        f"{together * (len(results.families) > 1)}\n\n" + tables.markdown(tables.build(results, plain, tables.TABLE_1))
    )


def _plots(pictures: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"![{text}]({name}.png)\n" for name, text in pictures[1:])


def _more(results: Results, plain: Sequence[Condition]) -> str:
    text = (
        "## More about the same missions\n\n"
        "Penalised metres count a mission that did not reach 99% with its whole budget. Overlap in Table I is "
        "instantaneous: "
        "the share of the team's view that two robots or more have at the same time. Cumulative overlap is the share "
        "of the "
        "team's known floor that two robots or more know at the end; the paper's overlap of NBVP looks like this "
        "one. Individual 99%: metres until a robot's own map was "
        "complete, mean over the robots that got there, *n* missions with such a robot.\n\n"
    )
    text += tables.markdown(tables.build(results, plain, tables.MORE))
    lost = [(key, summary) for key, summary in results.summaries.items() if summary.stranded]
    if not lost:
        return text + "\nStranded robots: none.\n"
    lines = [["planner", "setting", "stranded robots", "missions"]]
    lines += [
        [markdown_escape(results.label(planner)), condition.text, str(summary.stranded), str(summary.trials)]
        for (planner, condition), summary in lost
    ]
    return text + "\n**Stranded robots**, neither home nor broken at the end:\n\n" + markdown_grid(lines)


def _table_3(results: Results, failing: Sequence[Condition]) -> str:
    if not failing:
        return ""
    return (
        "## Table III: robots that break down\n\n"
        "Broken robots stop where they are, at a moment of chance. The paper has this for Dec-MARVEL with four robots. "
        "Metres are over the *n* missions that got there, so a setting with more failures can look faster.\n\n"
        + tables.markdown(tables.build(results, failing, tables.TABLE_3, "broken"))
    )


def _noise(results: Results, noisy: Sequence[Condition]) -> str:
    if not noisy:
        return ""
    return "## Perception noise\n\nNot in the paper.\n\n" + tables.markdown(
        tables.build(results, noisy, tables.NOISE, "noise")
    )


def _camera_table(results: Results, cameras: Sequence[Condition]) -> str:
    if not cameras:
        return ""
    return (
        "## Cameras\n\nField of view and range. The paper has one camera, of 120 deg and 10 m.\n\n"
        + tables.markdown(tables.build(results, cameras, tables.CAMERAS, "camera"))
    )


def _gallery(shown: Sequence[tuple[str, str]]) -> str:
    if not shown:
        return ""
    return (
        "## Missions\n\nThe first trial of each setting, recorded. One mission is an example, not evidence.\n\n"
        + "\n".join(f"![{text}]({name}.png)\n" for name, text in shown)
    )


def _method(results: Results) -> str:
    return (
        "## How the figures are made\n\n"
        "- **Success**: merged coverage of 99% at any time. **All home**: and every unbroken robot home within its "
        "budget.\n"
        "- **Metres to 99%**: largest travel of a robot at that moment.\n"
        "- **Intervals** are 95%: Wilson's for shares; for means, percentiles of "
        f"{RESAMPLES:,} bootstrap samples of missions with a fixed seed. Missions count as independent, also where "
        f"several "
        "seeds share a map.\n"
        "- **±** is the standard deviation over missions.\n"
    )


def _files(folder: Path) -> str:
    return (
        "## Files\n\n"
        "`rows.parquet` has every mission, `summary.csv` every statistic in full precision"
        + (
            ", `table1.tex` and `table1.csv` Table I for a paper (LaTeX needs booktabs and multirow)"
            if (folder / "table1.csv").exists()
            else ""
        )
        + (", `table3.*` the breakdowns" if (folder / "table3.csv").exists() else "")
        + (", `noise.*` the noise" if (folder / "noise.csv").exists() else "")
        + (", `cameras.*` the cameras" if (folder / "cameras.csv").exists() else "")
        + (", `families.csv` the families of maps" if (folder / "families.csv").exists() else "")
        + "; every plot is there as SVG, too.\n"
    )
