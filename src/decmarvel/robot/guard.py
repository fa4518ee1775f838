"""Budget guard and return mode: they turn a planner's proposal into what its robot intends to do."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from decmarvel.core.angles import degrees_towards
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT
from decmarvel.core.types import EXPLORING, HOME, RETURN_HOME, RETURNING, LocalView, Proposal, Robot, Scalar
from decmarvel.robot.budget import must_return
from decmarvel.robot.graph import hop_costs, way_offsets
from decmarvel.robot.pursuit import circles, pursue

WORST_SCORE = -1e30
"""Floor of a proposal's scores: any feasible candidate is better than none."""


class Intent(eqx.Module):
    """What one robot intends to do, before conflicts with teammates are resolved."""

    mode: Int32[Array, "*batch"]
    slot: Int32[Array, "*batch"]
    choice: Int32[Array, "*batch"]
    """Flat candidate index slot * H + h; -1 for a hold, a hop home, or a move that its planner did not choose."""
    heading: Int32[Array, "*batch"]
    lost: Bool[Array, "*batch"]
    """Whether its planner led it in circles, so that it goes to the nearest open view."""


def must_turn_back(config: Config, waits: Scalar, view: LocalView) -> Bool[Array, ""]:
    """Whether an exploring robot turns home for good, whatever its planner proposes."""
    return (
        must_return(config, view.graph, view.site, view.budget_mm)
        | ~view.candidates.mask.any()
        | ~(view.graph.utility > 0).any()
        | (waits >= config.patience)
    )


def intend(config: Config, robot: Robot, view: LocalView, proposal: Proposal) -> Intent:
    """Apply the budget guard (Eq. 2, Eq. 3), the return mode and the way out of circles to one robot's proposal.

    An exploring robot turns home for good when the guard says so, when nothing is left to see, when its planner says
    so, or when it has been kept from moving for too long (more robots than nodes may be in a dead end together). A
    robot whose planner leads it in circles goes to the nearest open view (pursuit.py), and home if there is none.
    """
    mask = view.candidates.mask
    wanted_slot = jnp.clip(proposal.choice, 0) // config.headings_per_node
    score = jnp.where(mask[:, None], jnp.maximum(proposal.score, WORST_SCORE), -jnp.inf)
    fallback = jnp.argmax(score.reshape(-1)).astype(jnp.int32)
    choice = jnp.where(mask[wanted_slot], proposal.choice, fallback)
    here = view.graph.home_mm[view.site[0], view.site[1]]
    gives_up = proposal.choice == RETURN_HOME
    caught = jnp.where(
        gives_up, robot.circling.lost, circles(config, view, robot.circling, choice // config.headings_per_node)
    )
    lost = (robot.mode == EXPLORING) & caught
    way_out = pursue(config, view)
    turn_back = must_turn_back(config, robot.waits, view) | jnp.where(lost, ~way_out.found, gives_up)
    mode = jnp.where((robot.mode == EXPLORING) & turn_back, RETURNING, robot.mode)
    mode = jnp.where((mode == RETURNING) & (here == 0), HOME, mode)

    home_slot = jnp.argmin(hop_costs(view.graph.length_mm, view.graph.home_mm, view.site)).astype(jnp.int32)
    along = degrees_towards(way_offsets(view.graph, view.site)[home_slot], 3 * config.stride)
    exploring, returning = mode == EXPLORING, mode == RETURNING
    own_slot = jnp.where(lost, way_out.slot, choice // config.headings_per_node)
    own_heading = jnp.where(lost, way_out.heading, proposal.heading.reshape(-1)[jnp.clip(choice, 0)])
    slot = jnp.where(exploring, own_slot, jnp.where(returning, home_slot, SELF_SLOT))
    heading = jnp.where(exploring, own_heading, along)
    return Intent(
        mode=mode,
        slot=slot.astype(jnp.int32),
        choice=jnp.where(exploring & ~lost, choice, -1),
        heading=jnp.where(exploring | returning, heading, view.heading),
        lost=lost & exploring,
    )
