"""Does the learner learn? A small network from scratch, a few minutes on two cores, measured against chance.

The world is small: generated buildings cut to 45 m around the start, two robots, 200 m each. Training buildings and
those of the evaluation come from different series. Evaluations are greedy; everybody flies exactly the same missions.

python benchmarks/learning_study.py                          # six to eight minutes; writes curve.csv and curve.png
python benchmarks/learning_study.py --minutes 1 --seed 3 --out /tmp/curve
"""

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from decmarvel.benchmark.report.charts import heading, key
from decmarvel.benchmark.report.statistics import Estimate, estimate_mean, estimate_share
from decmarvel.core.config import Config
from decmarvel.core.jax_setup import enable_compilation_cache
from decmarvel.robot.planners.base import Planner
from decmarvel.robot.policy.compute import PLAIN
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.robot.policy.planner import LearnedPlanner
from decmarvel.show.style import GROUND, INK, save
from decmarvel.simulation import roster
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import Outcome, run_mission
from decmarvel.training.algorithms.sac import Sac
from decmarvel.training.critic import GraphCriticConfig
from decmarvel.training.curriculum import CurriculumSettings
from decmarvel.training.loop import play_round
from decmarvel.training.maps import fitting_maps
from decmarvel.training.methods.paper import PaperReward
from decmarvel.training.settings import CollectSettings, TrainSettings
from decmarvel.training.state import prepare, put_in_place
from decmarvel.worlds import Building, generate
from decmarvel.worlds.generate import reachable
from decmarvel.worlds.place import place_all
from decmarvel.worlds.world import World

SIDE_M, ROBOTS, BUDGET_M = 45.0, 2, 200.0
MISSIONS = 48
"""Of an evaluation, each on a held-out building of its own."""
CONFIG = Config(coarsest_cell_m=0.5, max_budget_m=256.0)
SIZES: dict[str, Any] = {"width": 32, "heads": 2, "layers": 2, "feed": 64, "channels": 4}
SETTINGS = TrainSettings(
    maps=64,
    capacity=20_000,
    first_rows=2_000,
    updates=8,
    collect=CollectSettings(missions=32, team_sizes=(ROBOTS,), bucket=64, max_decisions=128, renew_every=8),
    curriculum=CurriculumSettings(largest_m=1.2 * BUDGET_M, smallest_m=0.8 * BUDGET_M, around_m=20.0, warm_up=50),
    reward=PaperReward(),
    algorithm=Sac(batch=64),
    actor=GraphActorConfig(**SIZES, token_width=16, token_layers=1, token_feed=32, max_budget_m=CONFIG.max_budget_m),
    critic=GraphCriticConfig(**SIZES),
)
"""Small in every size. Reward, discount, entropy and targets are the paper's, rates of learning those of `fast`."""
LOOKS: dict[str, dict[str, Any]] = {
    "random": {"label": "chance (planner random)", "color": "#7C828B", "lw": 1.8},
    "nearest": {"label": "nearest frontier, written by hand", "color": "#E69F00", "lw": 1.8},
    "learned": {"label": "learned policy, untrained at 0 s", "color": "#D55E00", "lw": 1.8, "marker": "P", "ms": 6},
}


@dataclass(frozen=True)
class Point:
    """One evaluation."""

    policy: str
    seconds: float
    """Of flying and learning; compiling and evaluations do not count."""
    decisions: int
    updates: int
    success: Estimate
    coverage: Estimate
    metres: Estimate
    """To 99%; the budget where it was not reached."""

    def __str__(self) -> str:
        share, metres = self.success, self.metres
        return (
            f"{self.policy}: {share.mean:.0%} of missions reach 99% [{share.low:.0%}, {share.high:.0%}], "
            f"{metres.mean:.0f} m to it [{metres.low:.0f}, {metres.high:.0f}], coverage {self.coverage.mean:.1%}"
        )

    def row(self) -> dict[str, Any]:
        """For the table: each mean is followed by its interval."""
        row: dict[str, Any] = {"policy": self.policy, "seconds": round(self.seconds, 1)}
        row |= {"decisions": self.decisions, "updates": self.updates}
        for name in ("success", "coverage", "metres"):
            found: Estimate = getattr(self, name)
            row |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}


def small_building(series: str, index: int) -> Building:
    """What can be reached of a building inside a square around its start. The cut leaves whole blocks of 5 m."""
    whole = generate("indoor", series, index, CONFIG.cell_m)
    (y, x), half = whole.start, round(SIDE_M / 2 / CONFIG.cell_m)
    inside = np.zeros_like(whole.free)
    inside[max(0, y - half) : y + half, max(0, x - half) : x + half] = True
    return replace(whole, free=reachable(whole.free & inside, whole.start), name=f"{whole.name}-{SIDE_M:g}m")


def small_worlds(series: str, count: int) -> World:
    return place_all([small_building(series, index) for index in range(count)], CONFIG)


@jax.jit
def fly(planner: Planner, worlds: World) -> Outcome:
    """One mission a building. Everybody starts from the same sites: they follow from the mission's number."""
    fleet, cap = Fleet.of(ROBOTS, BUDGET_M), CONFIG.max_decisions(BUDGET_M)
    keys = jax.vmap(jax.random.key)(jnp.arange(MISSIONS))
    return jax.vmap(lambda key, world: run_mission(CONFIG, planner, key, world, fleet, cap))(keys, worlds)


def judge(policy: str, planner: Planner, worlds: World, seconds: float, decisions: int, updates: int) -> Point:
    """Fly the missions, say and return how it went."""
    result: Outcome = jax.device_get(fly(planner, worlds))
    success = estimate_share(int(result.success.sum()), MISSIONS)
    metres = estimate_mean(np.where(result.success, result.metres_to_99, BUDGET_M))
    point = Point(policy, seconds, decisions, updates, success, estimate_mean(np.asarray(result.coverage)), metres)
    print(f"{seconds:4.0f} s, {decisions:6,} decisions, {updates:4,} updates, {point}", flush=True)
    return point


def learn(minutes: float, seed: int, worlds: World) -> list[Point]:
    """Train, and evaluate every 30 seconds; more often at first, when most happens."""
    maps = fitting_maps(CONFIG, small_worlds("train", SETTINGS.maps), SETTINGS.collect.bucket)
    training = jax.jit(prepare, static_argnums=(0, 1))(CONFIG, SETTINGS, maps, jax.random.key(seed))
    maps, training = put_in_place(maps, training)
    points = [judge("learned", LearnedPlanner(training.learner.actor), worlds, 0.0, 0, 0)]
    play = play_round.lower(CONFIG, SETTINGS, PLAIN, maps, training).compile()
    seconds, decisions, updates, due = 0.0, 0, 0, 5.0
    while seconds < 60 * minutes:
        begin = time.perf_counter()
        training, report = jax.block_until_ready(play(maps, training))
        seconds += time.perf_counter() - begin
        decisions, updates = decisions + int(report.gathered.decisions), updates + int(report.learned)
        if seconds >= min(due, 60 * minutes):
            planner = LearnedPlanner(training.learner.actor)
            points.append(judge("learned", planner, worlds, seconds, decisions, updates))
            due += min(due, 30.0)
    return points


def draw(points: Sequence[Point], references: Sequence[Point], path: Path) -> None:
    """Success and metres over the time of training, with 95% intervals."""
    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    end = points[-1]
    curves = [[point, replace(point, seconds=end.seconds)] for point in references] + [list(points)]
    for axes, name, scale in ((left, "success", 100.0), (right, "metres", 1.0)):
        for curve in curves:
            look, at = LOOKS[curve[0].policy], [point.seconds for point in curve]
            found: list[Estimate] = [getattr(point, name) for point in curve]
            mean, low, high = scale * np.array([(each.mean, each.low, each.high) for each in found]).T
            axes.fill_between(at, low, high, color=look["color"], alpha=0.15, linewidth=0)
            axes.plot(at, mean, **look)
        axes.grid(color=GROUND, linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlim=(-0.02 * end.seconds, 1.02 * end.seconds), xlabel="seconds of training")
    left.set(ylim=(-3, 103))
    left.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    right.set(ylim=(0, 1.06 * BUDGET_M))
    left.set_title("missions that reach 99% coverage: higher is better", loc="left", fontsize=10, color=INK)
    right.set_title(f"metres to 99% ({BUDGET_M:g} if never): lower is better", loc="left", fontsize=10, color=INK)
    what = f"{ROBOTS} robots with {BUDGET_M:g} m each in {MISSIONS} held-out buildings of {SIDE_M:g} m."
    spent = f"The last point: {end.decisions:,} decisions, {end.updates:,} updates."
    heading(figure, "Learning to explore small buildings, from scratch", f"{what} {spent} Means with 95% intervals.")
    key(figure, [Line2D([], [], **look) for look in reversed(LOOKS.values())])
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="of training, without compiling and evaluations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/results/learning"))
    arguments = parser.parse_args()
    enable_compilation_cache()
    begin = time.perf_counter()
    worlds = small_worlds("heldout", MISSIONS)
    references = [judge(name, roster.planner(name), worlds, 0.0, 0, 0) for name in ("random", "nearest")]
    points = learn(arguments.minutes, arguments.seed, worlds)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with (arguments.out / "curve.csv").open("w", newline="") as file:
        rows = [point.row() for point in (*references, *points)]
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(points, references, arguments.out / "curve.png")
    chance, first, last = references[0], replace(points[0], policy="untrained"), replace(points[-1], policy="trained")
    above = last.success.low > chance.success.high and last.metres.high < chance.metres.low
    print(f"\n{chance}\n{first}\n{last}")
    print(f"The intervals of trained and random {'lie apart' if above else 'overlap'}.", end=" ")
    print(f"{(time.perf_counter() - begin) / 60:.1f} minutes in all, on {jax.devices()[0].device_kind}.")


if __name__ == "__main__":
    main()
