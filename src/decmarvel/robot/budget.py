"""The travel budget: which moves still leave a way home."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import Graph, LocalView, Scalar, Site
from decmarvel.robot.graph import hop_costs


def return_feasible(config: Config, graph: Graph, site: Site, budget_mm: Scalar) -> Bool[Array, "K"]:
    """Eq. 2: whether the robot can get home from the far end of each slot with the safety margin left."""
    return hop_costs(graph.length_mm, graph.home_mm, site) + config.safety_margin_mm <= budget_mm


def must_return(config: Config, graph: Graph, site: Site, budget_mm: Scalar) -> Bool[Array, ""]:
    """Eq. 3: whether the budget covers no more than the way home and the safety margin."""
    return graph.home_mm[site[0], site[1]] + config.safety_margin_mm >= budget_mm


def affordable(config: Config, view: LocalView, here_mm: Int32[Array, "I J"]) -> Bool[Array, "I J"]:
    """The nodes from which the way home still fits the budget."""
    return here_mm + view.graph.home_mm + config.safety_margin_mm <= view.budget_mm


def log_budget(config: Config, budget_mm: Int32[Array, ""]) -> Float32[Array, ""]:
    """Eta of Eq. 6: budgets on a logarithmic scale, 1 at the largest."""
    return jnp.log1p(budget_mm.astype(jnp.float32) / 1000) / math.log1p(config.max_budget_m)


def budget_m(features: Float32[Array, "*n"], max_budget_m: float) -> Float32[Array, "*n"]:
    """Budgets in metres from the first two features of Eq. 6."""
    return jnp.expm1(features * math.log1p(max_budget_m))


def budget_features(
    config: Config, graph: Graph, site: Site, budget_mm: Scalar, initial_budget_mm: Scalar
) -> Float32[Array, "4"]:
    """Eq. 6: initial and remaining budget (logarithmic), their ratio, and the way home relative to what is left."""
    remaining_m = budget_mm.astype(jnp.float32) / 1000
    initial_m = initial_budget_mm.astype(jnp.float32) / 1000
    home_m = graph.home_mm[site[0], site[1]].astype(jnp.float32) / 1000
    return jnp.stack(
        [
            log_budget(config, initial_budget_mm),
            log_budget(config, budget_mm),
            remaining_m / jnp.maximum(initial_m, 1e-3),
            jnp.minimum(home_m / jnp.maximum(remaining_m, 1.0), 2.0),
        ]
    )
