"""Budget guard and return mode: they turn a planner's proposal into what its robot intends to do."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from decmarvel.core.angles import direction_degrees
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS
from decmarvel.core.types import EXPLORING, HOME, RETURN_HOME, RETURNING, LocalView, Proposal, Scalar
from decmarvel.robot.budget import must_return
from decmarvel.robot.graph import hop_costs

WORST_SCORE = -1e30
"""Floor of a proposal's scores: any feasible candidate is better than none."""


class Intent(eqx.Module):
    """What one robot intends to do, before conflicts with teammates are resolved."""

    mode: Int32[Array, "*batch"]
    slot: Int32[Array, "*batch"]
    choice: Int32[Array, "*batch"]
    """Flat candidate index slot * H + h; -1 for a hold or a hop home."""
    heading: Int32[Array, "*batch"]


def must_turn_back(config: Config, waits: Scalar, view: LocalView) -> Bool[Array, ""]:
    """Whether an exploring robot turns home for good, whatever its planner proposes."""
    return (
        must_return(config, view.graph, view.site, view.budget_mm)
        | ~view.candidates.mask.any()
        | ~(view.graph.utility > 0).any()
        | (waits >= config.patience)
    )


def intend(config: Config, mode: Scalar, waits: Scalar, view: LocalView, proposal: Proposal) -> Intent:
    """Apply the budget guard (Eq. 2, Eq. 3) and the return mode to one robot's proposal.

    An exploring robot turns home for good when the guard says so, when nothing is left to see, when its planner says
    so, or when it has been kept from moving for too long (more robots than nodes may be in a dead end together).
    """
    mask = view.candidates.mask
    wanted_slot = jnp.clip(proposal.choice, 0) // config.headings_per_node
    score = jnp.where(mask[:, None], jnp.maximum(proposal.score, WORST_SCORE), -jnp.inf)
    fallback = jnp.argmax(score.reshape(-1)).astype(jnp.int32)
    choice = jnp.where(mask[wanted_slot], proposal.choice, fallback)
    here = view.graph.home_mm[view.site[0], view.site[1]]
    turn_back = must_turn_back(config, waits, view) | (proposal.choice == RETURN_HOME)
    mode = jnp.where((mode == EXPLORING) & turn_back, RETURNING, mode)
    mode = jnp.where((mode == RETURNING) & (here == 0), HOME, mode)

    home_slot = jnp.argmin(hop_costs(config, view.graph.edge, view.graph.home_mm, view.site)).astype(jnp.int32)
    along = jnp.asarray(direction_degrees(SLOT_OFFSETS[:, 0], SLOT_OFFSETS[:, 1]))[home_slot]
    exploring, returning = mode == EXPLORING, mode == RETURNING
    slot = jnp.where(exploring, choice // config.headings_per_node, jnp.where(returning, home_slot, SELF_SLOT))
    heading = jnp.where(exploring, proposal.heading.reshape(-1)[jnp.clip(choice, 0)], along)
    return Intent(
        mode=mode,
        slot=slot.astype(jnp.int32),
        choice=jnp.where(exploring, choice, -1),
        heading=jnp.where(exploring | returning, heading, view.heading),
    )
