"""Evaluation of a policy: greedy missions on held-out buildings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from decmarvel.core.config import Config
from decmarvel.core.types import Key
from decmarvel.robot.policy.actor import Actor
from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.planner import LearnedPlanner
from decmarvel.robot.policy.weights import Evaluation
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import Outcome, run_mission
from decmarvel.worlds import generate
from decmarvel.worlds.place import place_all
from decmarvel.worlds.world import World

FIRST_MAP = 10_000
"""Index of the first map: far from the first held-out buildings, which benchmarks use."""


@dataclass(frozen=True)
class EvaluationSettings:
    """The missions that evaluate a policy while it learns."""

    maps: int = 64
    robots: tuple[int, ...] = (4,)
    """Team sizes."""
    budgets_m: tuple[float, ...] = (720.0, 1024.0)

    @property
    def teams(self) -> list[tuple[int, float]]:
        return [(robots, budget_m) for robots in self.robots for budget_m in self.budgets_m]


def heldout_worlds(config: Config, count: int) -> World:
    """Held-out buildings to choose the best weights by; benchmarks use others."""
    return place_all(
        [generate("indoor", "heldout", FIRST_MAP + index, config.cell_m) for index in range(count)], config
    )


GreedyMissions: TypeAlias = Callable[[Actor, World], Outcome]


def compile_missions(
    config: Config, settings: EvaluationSettings, compute: Compute, actor: Actor, worlds: World
) -> GreedyMissions:
    """The missions of an evaluation, compiled. It reads only shapes and devices of the arrays, even of deleted ones."""
    actor, worlds = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), (actor, worlds)
    )
    compiled: GreedyMissions = fly_greedily.lower(config, settings, compute, actor, worlds).compile()
    return compiled


@partial(jax.jit, static_argnums=(0, 1, 2))
def fly_greedily(
    config: Config, settings: EvaluationSettings, compute: Compute, actor: Actor, worlds: World
) -> Outcome:
    """All teams on all maps, side by side: (teams, maps)."""
    planner = LearnedPlanner(actor, compute=compute.without_gradient)
    keys = jax.vmap(jax.random.key)(jnp.arange(settings.maps))
    cap, slots = config.max_decisions(max(settings.budgets_m)), max(settings.robots)

    def fly(robots: Array, budget_mm: Array, key: Key, world: World) -> Outcome:
        return run_mission(config, planner, key, world, Fleet.healthy(robots, budget_mm, slots), cap)

    robots, budgets_mm = jnp.asarray([(robots, round(1000 * metres)) for robots, metres in settings.teams], jnp.int32).T
    on_all_maps = jax.vmap(fly, in_axes=(None, None, 0, 0))
    return jax.vmap(on_all_maps, in_axes=(0, 0, None, None))(robots, budgets_mm, keys, worlds)


def evaluate(settings: EvaluationSettings, flown: Outcome) -> tuple[tuple[Evaluation, ...], dict[str, float]]:
    """Evaluations for a card, and figures for the log. A better policy has fewer penalised metres."""
    cards, figures = [], {}
    flown = jax.device_get(flown)
    for number, (robots, budget_m) in enumerate(settings.teams):
        result = jax.tree.map(lambda leaf: leaf[number], flown)  # noqa: B023
        reached = result.metres_to_99[result.success]
        cards.append(
            Evaluation(
                maps=f"indoor-heldout-{FIRST_MAP:06d}+",
                robots=robots,
                budget_m=budget_m,
                missions=settings.maps,
                success=float(result.success.mean()),
                metres_to_99=float(reached.mean()) if len(reached) else None,
                overlap=float(result.overlap.mean()),
            )
        )
        name = f"{robots}x{budget_m:g}m"
        metres = np.where(result.success, result.metres_to_99, budget_m)
        figures[f"evaluation/success {name}"] = float(result.success.mean())
        figures[f"evaluation/coverage {name}"] = float(result.coverage.mean())
        figures[f"evaluation/penalised metres {name}"] = float(metres.mean())
        figures[f"evaluation/overlap {name}"] = float(result.overlap.mean())
        figures[f"evaluation/stranded {name}"] = float(result.stranded.sum())
    return tuple(cards), figures
