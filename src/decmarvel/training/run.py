"""A training run from its first round to its last: logs, evaluations, checkpoints, weights."""

import dataclasses
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from decmarvel import __version__
from decmarvel.core.config import Config
from decmarvel.core.errors import TrainingError
from decmarvel.core.files import clean_up
from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.weights import Card, known_fingerprint
from decmarvel.training.checkpoint import CheckpointError, load_state, read_about, save_state
from decmarvel.training.evaluate import EvaluationSettings, GreedyMissions, compile_missions, evaluate
from decmarvel.training.loop import Round, play_round
from decmarvel.training.maps import Maps
from decmarvel.training.settings import TrainSettings
from decmarvel.training.state import Training, prepare, put_in_place
from decmarvel.training.warm_start import load_learner, save_networks
from decmarvel.worlds.world import World

STATE, LOG = "state.safetensors", "log.jsonl"


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """Length of a run, and intervals of logs, evaluations and checkpoints. They do not change what is learned."""

    minutes: float = 10.0
    log_every_s: float = 10.0
    evaluate_every_s: float = 120.0
    save_every_s: float = 300.0
    evaluation: EvaluationSettings = dataclasses.field(default_factory=EvaluationSettings)


class TrainingLog:
    """Writes one JSON object per line, and to TensorBoard where it is installed."""

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
    figures = {f"reward/{name}": float(term) / decisions for name, term in total.terms.items()}
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


@dataclasses.dataclass
class Account:
    """Time, decisions and best result of a run so far; saved with its state."""

    seconds: float = 0.0
    decisions: int = 0
    best: float = math.inf
    """The fewest penalised metres of an evaluation."""


class Every:
    """Tells when an interval of `seconds` has passed."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._seconds

    def elapsed(self) -> float:
        """Seconds since the interval began; it begins again."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        return passed


class TrainingRun:
    """One run in one folder, begun or resumed."""

    def __init__(
        self,
        config: Config,
        settings: TrainSettings,
        run: RunSettings,
        compute: Compute,
        maps: Maps,
        worlds: World,
        folder: Path,
        seed: int,
        resume: bool,
        parent: Path | None = None,
        command: str = "",
    ) -> None:
        self.config, self.settings, self.run, self.compute = config, settings, run, compute
        self.maps, self.folder, self.seed = maps, folder, seed
        self.parent, self.command = parent, command
        self.account, self.latest, self.began = Account(), dict[str, float](), time.monotonic()
        self._about: dict[str, Any] = {
            "version": __version__,
            "settings": json.loads(json.dumps(dataclasses.asdict(settings))),
            "seed": seed,
            "devices": jax.device_count(),
            "parent": known_fingerprint(parent) if parent else "",
        }
        training = self._resumed() if resume else self._begun()
        self.maps, self.training = put_in_place(maps, training)
        self.worlds = jax.device_put(worlds, self.maps.world.start.sharding)
        clean_up(folder)
        self.log = TrainingLog(folder)
        self._missions = self._compiled_beside()

    def _compiled_beside(self) -> Future[GreedyMissions]:
        """Compile the evaluation in a thread while the first round compiles: each takes a minute or two on a GPU."""
        pool = ThreadPoolExecutor(1)
        actor = self.training.learner.published
        missions = pool.submit(compile_missions, self.config, self.run.evaluation, self.compute, actor, self.worlds)
        pool.shutdown(wait=False)
        return missions

    def _begun(self) -> Training:
        begin = jax.jit(prepare, static_argnums=(0, 1, 4))
        training: Training = begin(self.config, self.settings, self.maps, jax.random.key(self.seed), jax.device_count())
        if self.parent is None:
            return training
        learner = load_learner(self.settings, self.parent)
        return eqx.tree_at(lambda t: t.learner, training, learner)

    def _resumed(self) -> Training:
        path = self.folder / STATE
        noted = read_about(path)
        for name, value in self._about.items():
            if noted.get(name) != value:
                raise CheckpointError(
                    f"{path}: made with another {name}; resume with the same, or choose another --out"
                )
        self.account = Account(**noted["account"])
        shapes = jax.eval_shape(
            lambda maps: prepare(self.config, self.settings, maps, jax.random.key(self.seed), jax.device_count()),
            self.maps,
        )
        return load_state(path, shapes)

    @property
    def elapsed(self) -> float:
        """Seconds since this process began with the run."""
        return time.monotonic() - self.began

    @property
    def seconds(self) -> float:
        """Seconds that the whole run has taken."""
        return self.account.seconds + self.elapsed

    def play(self) -> Round:
        """One round. A loss that is not finite ends the run; the last good state stays on disk."""
        self.training, report = play_round(self.config, self.settings, self.compute, self.maps, self.training)
        found: Round = jax.device_get(report)
        self.account.decisions += int(found.gathered.decisions)
        if not all(np.isfinite(value) for value in found.metrics.values()):
            self.log.write(self.account.decisions, {name: float(value) for name, value in found.metrics.items()})
            kept = f"state is kept in {STATE}" if (self.folder / STATE).is_file() else "weights, if any, are kept"
            raise TrainingError(f"{self.folder}: a loss is no number any more; the last good {kept}")
        return found

    def note(self, reports: list[Round], seconds: float) -> None:
        """Write some rounds to the log."""
        self.latest.update(figures_of(reports, seconds, self.settings.algorithm.batch))
        self.log.write(self.account.decisions, self.latest | {"seconds": self.seconds})

    def judge(self) -> None:
        """Evaluate the current policy, and save its weights as the last ones, and as the best ones if they are."""
        learner = self.training.learner
        cards, figures = evaluate(self.run.evaluation, self._missions.result()(learner.published, self.worlds))
        self.latest.update(figures)
        self.log.write(self.account.decisions, figures | {"seconds": self.seconds})
        metres = float(np.mean([value for name, value in figures.items() if "penalised" in name]))
        card = Card(
            kind="actor",
            planner=learner.actor.name,
            network=self.settings.actor,
            seed=self.seed,
            wall_time_s=round(self.seconds, 1),
            evaluation=cards,
            command=self.command,
            parent=self._about["parent"],
        )
        save_networks(self.folder / "last.safetensors", self.settings, learner, card)
        if metres < self.account.best:
            self.account.best = metres
            save_networks(self.folder / "best.safetensors", self.settings, learner, card)

    def keep(self) -> None:
        """Save the state, so that the run can go on from here."""
        account = dataclasses.replace(self.account, seconds=self.seconds)
        save_state(self.folder / STATE, self.training, self._about | {"account": dataclasses.asdict(account)})


def run_rounds(run: TrainingRun, tell: Callable[[float, dict[str, float]], None]) -> dict[str, float]:
    """Play rounds until the time is up. `tell` gets the seconds so far and the latest figures."""
    settings = run.run
    logging, judging, keeping = (
        Every(each) for each in (settings.log_every_s, settings.evaluate_every_s, settings.save_every_s)
    )
    reports: list[Round] = []
    with closing(run.log):
        playing = True
        while playing:  # one round at least
            reports.append(run.play())
            if logging.due():
                run.note(reports, logging.elapsed())
                reports = []
                tell(run.elapsed, run.latest)
            if judging.due():
                run.judge()
                judging.elapsed()
                tell(run.elapsed, run.latest)
            if keeping.due():
                run.keep()
                keeping.elapsed()
            playing = run.elapsed < 60 * settings.minutes
        run.judge()
        run.keep()
    return run.latest
