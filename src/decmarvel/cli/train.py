"""`decmarvel train`: learn the policy from scratch, or go on learning it."""

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from decmarvel.cli.options import check_name, check_range, complain, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from decmarvel.robot.policy.compute import Compute

NAMES = "options (ours), fast, paper, marvel (the predecessor), or an ablation: no-top, no-curriculum, no-dual-head"


def train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for weights, logs and the state of the run.")],
    preset: Annotated[str, typer.Option(metavar="NAME", help=f"{NAMES}.")] = "fast",
    minutes: Annotated[float, typer.Option(metavar="M", help="Stop after this long.")] = 10.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in DIR.")] = False,
    parent: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Begin with these weights, their critics beside them."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the whole run.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting: algorithm.batch=1024. May be repeated."),
    ] = None,
) -> None:
    """Train a learned planner on generated buildings.

    Writes best.safetensors and last.safetensors with their cards, log.jsonl (and TensorBoard's log where that is
    installed), and state.safetensors, from which --resume goes on as if nothing had happened.
    """
    check_range("--minutes", minutes, 0.01, 100_000)
    check_range("--seed", seed, 0, 2**32 - 1)

    from rich.console import Console

    from decmarvel.cli.display import TrainingDisplay
    from decmarvel.core.config import Config
    from decmarvel.core.jax_setup import enable_compilation_cache
    from decmarvel.robot.policy.planner import ACTOR_CONFIGS
    from decmarvel.robot.policy.weights import read_card
    from decmarvel.training.evaluate import heldout_worlds
    from decmarvel.training.machine import default_compute
    from decmarvel.training.maps import training_maps
    from decmarvel.training.methods.presets import PRESETS
    from decmarvel.training.run import RunSettings, TrainingRun, run_rounds

    preset_settings = PRESETS[check_name("--preset", preset, PRESETS)]
    settings, run, compute = with_changes(preset_settings, RunSettings(minutes=minutes), default_compute, set_ or [])
    if parent is not None:
        read_card(parent, "actor", ACTOR_CONFIGS)  # complains now, not after a minute of preparations
    make_folder("--out", out)
    enable_compilation_cache()
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"Preset [bold]{preset}[/], {minutes:g} min. Compiling; a minute or two the first time.")
    config, command = Config(), shlex.join(["decmarvel", *sys.argv[1:]])
    maps = training_maps(config, settings.maps, settings.collect.bucket)
    worlds = heldout_worlds(config, run.evaluation.maps)
    training = TrainingRun(config, settings, run, compute, maps, worlds, out, seed, resume, parent, command)
    with TrainingDisplay(console, 60 * minutes) as display:
        run_rounds(training, display.show)
    console.print(f"Weights in [bold]{out}[/]: best.safetensors, last.safetensors")


def with_changes(
    settings: Any, run: Any, default_compute: "Callable[[int], Compute]", assignments: list[str]
) -> tuple[Any, Any, Any]:
    """The settings of a method, of the run and of the machine, with the assignments of --set."""
    named = [(assignment, *assignment.partition("=")[::2]) for assignment in assignments]
    for assignment, name, text in named:
        if name.startswith("run."):
            run = with_setting(run, name.removeprefix("run."), text, assignment)
        elif not name.startswith("compute."):
            settings = with_setting(settings, name, text, assignment)
    compute: Any = default_compute(settings.algorithm.batch)
    for assignment, name, text in named:
        if name.startswith("compute."):
            compute = with_setting(compute, name.removeprefix("compute."), text, assignment)
    return settings, run, compute


def with_setting(settings: Any, name: str, text: str, assignment: str) -> Any:
    """Settings with one field changed; the field may lie in a part of them, as in algorithm.batch."""
    first, _, rest = name.partition(".")
    hints = get_type_hints(type(settings))
    if first not in hints or not text:
        known = ", ".join(sorted(hints))
        raise complain("--set", f"'{assignment}' sets nothing; write FIELD=VALUE, the fields here being: {known}")
    if rest:
        part = getattr(settings, first)
        if not dataclasses.is_dataclass(part):
            raise complain("--set", f"'{assignment}': {first} has no parts")
        return dataclasses.replace(settings, **{first: with_setting(part, rest, text, assignment)})
    kind = hints[first]
    try:
        value: Any
        if kind is bool:
            value = {"true": True, "false": False}[text.lower()]
        elif get_origin(kind) is Literal:
            value = {name: name for name in get_args(kind)}[text]
        elif kind in (int, float, str):
            value = kind(text)
        else:
            value = tuple(get_args(kind)[0](part) for part in text.split(","))
    except (ValueError, KeyError, TypeError, IndexError):
        raise complain("--set", f"'{assignment}': '{text}' is no {getattr(kind, '__name__', kind)}") from None
    return dataclasses.replace(settings, **{first: value})
