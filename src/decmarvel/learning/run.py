"""A training run from its first round to its last: logs, evaluations, checkpoints, weights."""

import dataclasses
import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import jax
import numpy as np

from decmarvel import __version__
from decmarvel.config import Config
from decmarvel.files import clean_up
from decmarvel.learning.checkpoint import CheckpointError, load_state, read_about, save_state
from decmarvel.learning.collect import Maps
from decmarvel.learning.evaluate import EvaluationSettings, evaluate
from decmarvel.learning.networks import Compute
from decmarvel.learning.train import Round, Training, TrainSettings, play_round, prepare
from decmarvel.learning.weights import Card, save_weights
from decmarvel.types import World

STATE, LOG = "state.safetensors", "log.jsonl"


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """How long, and how often what is kept. None of it changes what is learned."""

    minutes: float = 10.0
    log_every_s: float = 10.0
    evaluate_every_s: float = 120.0
    save_every_s: float = 300.0
    evaluation: EvaluationSettings = dataclasses.field(default_factory=EvaluationSettings)


class Log:
    """One JSON object a line, and TensorBoard where it is installed."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / LOG).open("a")
        try:
            from tensorboard.summary import DirectoryOutput, Writer

            self._board: Any = Writer(DirectoryOutput(str(folder)))
        except ImportError:
            self._board = None

    def write(self, step: int, figures: dict[str, float]) -> None:
        self._file.write(json.dumps({"decisions": step} | figures) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in figures.items():
                self._board.add_scalar(name.replace(" ", "_"), value, step)
            self._board.flush()

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def figures_of(reports: list[Round], seconds: float, batch: int) -> dict[str, float]:
    """Means and rates over some rounds."""
    total = jax.tree.map(lambda *leaves: np.sum(leaves, axis=0), *(report.gathered for report in reports))
    decisions, finished = max(1, int(total.decisions)), max(1, int(total.finished))
    learned = [report for report in reports if report.learned]
    figures = {f"reward/{name}": float(getattr(total.terms, name)) / decisions for name in vars(total.terms)}
    if total.finished:
        figures |= {
            "episode/success": float(total.success) / finished,
            "episode/coverage": float(total.coverage) / finished,
            "episode/penalised metres": float(total.metres) / finished,
            "episode/overlap": float(total.overlap) / finished,
        }
    for name in reports[-1].metrics if learned else ():
        figures[name] = float(np.mean([report.metrics[name] for report in learned]))
    return figures | {
        "curriculum/target": float(reports[-1].target_m),
        "memory/transitions": float(reports[-1].remembered),
        "speed/decisions a second": int(total.decisions) / seconds,
        "speed/samples a second": batch * sum(int(report.learned) for report in reports) / seconds,
    }


def train(
    config: Config,
    settings: TrainSettings,
    run: RunSettings,
    compute: Compute,
    maps: Maps,
    worlds: World,
    folder: Path,
    seed: int,
    resume: bool,
    tell: Callable[[float, dict[str, float]], None],
) -> dict[str, float]:
    """Train on `maps` for some minutes, judge on `worlds`. `tell` hears how far the run is and its latest figures."""
    began = time.monotonic()
    about = {"version": __version__, "settings": json.loads(json.dumps(dataclasses.asdict(settings))), "seed": seed}
    start = jax.jit(prepare, static_argnums=(0, 1))
    spent_s, decisions, best = 0.0, 0, float("inf")
    if resume:
        noted = read_about(folder / STATE)
        for name in ("version", "settings", "seed"):
            if noted.get(name) != about[name]:
                raise CheckpointError(
                    f"{folder / STATE}: made with another {name}; resume with the same, or choose another --out"
                )
        training = load_state(
            folder / STATE, jax.eval_shape(lambda maps: prepare(config, settings, maps, jax.random.key(seed)), maps)
        )
        spent_s, decisions, best = noted["seconds"], noted["decisions"], noted["best"]
    else:
        training = start(config, settings, maps, jax.random.key(seed))
    clean_up(folder)
    log = Log(folder)
    latest: dict[str, float] = {}
    reports: list[Round] = []
    logged = evaluated = saved = began

    def judge(training: Training) -> None:
        nonlocal best
        cards, figures = evaluate(config, run.evaluation, compute, training.learner.actor, worlds)
        latest.update(figures)
        log.write(decisions, figures)
        metres = float(np.mean([value for name, value in figures.items() if "penalised" in name]))
        wall_s = spent_s + time.monotonic() - began
        card = Card("actor", settings.network, seed, round(wall_s, 1), cards)
        save_weights(folder / "last.safetensors", training.learner.actor, card)
        if metres < best:
            best = metres
            save_weights(folder / "best.safetensors", training.learner.actor, card)
            critics = Card("critic", settings.network, seed, round(wall_s, 1), cards)
            for number in range(2):
                twin = jax.tree.map(lambda leaf: leaf[number], training.learner.critics)  # noqa: B023
                save_weights(folder / f"best-critic-{number + 1}.safetensors", twin, critics)

    def keep(training: Training) -> None:
        wall_s = spent_s + time.monotonic() - began
        save_state(folder / STATE, training, about | {"seconds": wall_s, "decisions": decisions, "best": best})

    with closing(log):
        playing = True
        while playing:  # one round at least
            training, report = play_round(config, settings, compute, maps, training)
            report = jax.device_get(report)
            if not all(np.isfinite(value) for value in report.metrics.values()):
                log.write(decisions, {name: float(value) for name, value in report.metrics.items()})
                raise FloatingPointError(
                    f"{folder}: a loss is no number any more; the last good state is kept in {STATE}"
                )
            reports.append(report)
            decisions += int(report.gathered.decisions)
            now = time.monotonic()
            if now - logged >= run.log_every_s:
                latest.update(figures_of(reports, now - logged, settings.sac.batch))
                log.write(decisions, latest | {"seconds": spent_s + now - began})
                reports, logged = [], now
                tell(now - began, latest)
            if now - evaluated >= run.evaluate_every_s:
                judge(training)
                evaluated = time.monotonic()
                tell(evaluated - began, latest)
            if now - saved >= run.save_every_s:
                keep(training)
                saved = time.monotonic()
            playing = time.monotonic() - began < 60 * run.minutes
        judge(training)
        keep(training)
    return latest
