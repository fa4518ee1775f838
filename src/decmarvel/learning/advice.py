"""Advice for the policy: what frontier planners would do that prefer, more or less, a sector of their own.

Not in the paper: for networks with the extension `advice`. A robot computes it from its own map, number and team size.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from decmarvel.budget import affordable
from decmarvel.config import Config
from decmarvel.planners.frontier import cheapest_frontier, sector_cost_mm
from decmarvel.planners.goal import distances_from_here, towards
from decmarvel.sight import nearest_frontiers
from decmarvel.types import RETURN_HOME, LocalView, Proposal, Scalar

SECTORS_M = (0.0, 15.0, 40.0, 80.0)
"""How much each adviser prefers its own direction; the first not at all."""
ADVISERS = len(SECTORS_M)
NO_ADVICE = -1
ALIKE_DEGREES = 30


def advise(config: Config, view: LocalView) -> Int32[Array, "V"]:
    """The candidate that each adviser would take. They remember nothing, as the policy remembers nothing."""
    here_mm = distances_from_here(config, view)
    within_budget = affordable(config, view, here_mm)
    cell = nearest_frontiers(config, view.graph.sight)[1]

    def one(sector_m: Float32[Array, ""]) -> Scalar:
        extra_mm = sector_cost_mm(config, view, cell, sector_m)
        goal = cheapest_frontier(config, view, here_mm, within_budget, extra_mm, far_sighted=True)
        return nearest_candidate(config, view, towards(config, view, goal, far_sighted=True))

    return jax.vmap(one)(jnp.array(SECTORS_M, jnp.float32))


def nearest_candidate(config: Config, view: LocalView, proposal: Proposal) -> Scalar:
    """The candidate most like a proposal: its waypoint, and of the headings there the nearest.

    Headings at like distances are alike, so the first of them is taken, which shows most frontiers.
    """
    slot = jnp.maximum(proposal.choice, 0) // config.headings_per_node
    away = view.candidates.heading_bin[slot] * config.degrees_per_bin - proposal.heading[slot]
    heading = jnp.argmin(jnp.abs((away + 180) % 360 - 180) // ALIKE_DEGREES)
    found = slot * config.headings_per_node + heading.astype(jnp.int32)
    return jnp.where(proposal.choice == RETURN_HOME, NO_ADVICE, found).astype(jnp.int32)
