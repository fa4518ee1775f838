"""Advice for the policy: what frontier planners would do that prefer a sector of their own and, by a hunch, news.

Not in the paper: for networks with the extension `advice`. A robot computes it from its own map, number and team size.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from decmarvel.budget import affordable
from decmarvel.config import Config
from decmarvel.learning.hunch import Hunch
from decmarvel.learning.nodes import NO_ADVICE, Nodes, Situation, on_lattice
from decmarvel.planners.frontier import cheapest_frontier, sector_cost_mm
from decmarvel.planners.goal import distances_from_here, towards
from decmarvel.sight import nearest_frontiers
from decmarvel.types import RETURN_HOME, Key, LocalView, Proposal, Scalar

FIRST_PREFERENCES_M = ((40.0, 0.0), (40.0, 40.0), (20.0, 40.0), (20.0, 80.0))
ALIKE_DEGREES = 30


class Advisers(eqx.Module):
    """Four planners with a hunch in common."""

    hunch: Hunch
    prefers_m: Float32[Array, "V 2"]
    """How much each adviser prefers its own direction, and a frontier that is surely news to one that surely is none.
    No gradient reaches these; a search may."""

    def __init__(self, key: Key):
        self.hunch = Hunch(key)
        self.prefers_m = jnp.array(FIRST_PREFERENCES_M, jnp.float32)

    def __call__(self, config: Config, view: LocalView, nodes: Nodes, situation: Situation) -> Int32[Array, "V"]:
        """The candidate that each would take. They remember nothing, as the policy remembers nothing."""
        known = on_lattice(nodes, jax.nn.sigmoid(self.hunch(nodes, situation)), view.visits.shape[0])
        return advise(config, view, known, self.prefers_m)


def advise(
    config: Config, view: LocalView, known: Float32[Array, "S S"], prefers_m: Float32[Array, "V 2"]
) -> Int32[Array, "V"]:
    """What planners with such preferences would do if others have looked behind a node's frontier so probably."""
    here_mm = distances_from_here(config, view)
    within_budget = affordable(config, view, here_mm)
    cell = nearest_frontiers(config, view.graph.sight)[1]

    def one(prefers_m: Float32[Array, "2"]) -> Scalar:
        stale_mm = jnp.round(1000 * prefers_m[1] * known).astype(jnp.int32)
        extra_mm = sector_cost_mm(config, view, cell, prefers_m[0]) + stale_mm[..., None]
        goal = cheapest_frontier(config, view, here_mm, within_budget, extra_mm, far_sighted=True)
        return nearest_candidate(config, view, towards(config, view, goal, far_sighted=True))

    return jax.vmap(one)(prefers_m)


def nearest_candidate(config: Config, view: LocalView, proposal: Proposal) -> Scalar:
    """The candidate most like a proposal: its waypoint, and of the headings there the nearest.

    Headings at like distances are alike, so the first of them is taken, which shows most frontiers.
    """
    slot = jnp.maximum(proposal.choice, 0) // config.headings_per_node
    away = view.candidates.heading_bin[slot] * config.degrees_per_bin - proposal.heading[slot]
    heading = jnp.argmin(jnp.abs((away + 180) % 360 - 180) // ALIKE_DEGREES)
    found = slot * config.headings_per_node + heading.astype(jnp.int32)
    return jnp.where(proposal.choice == RETURN_HOME, NO_ADVICE, found).astype(jnp.int32)
