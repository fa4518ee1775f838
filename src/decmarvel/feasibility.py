"""From what planners propose to what robots do: return mode, and one robot a node. Reads no team map."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.budget import must_return
from decmarvel.config import Config
from decmarvel.geometry import SELF_SLOT, SLOT_OFFSETS, SLOTS, direction_degrees, slot_lengths_mm
from decmarvel.graph import hop_costs
from decmarvel.types import EXPLORING, HOME, RETURN_HOME, RETURNING, LocalView, Proposal, Scalar

WORST_SCORE = -1e30
"""Floor of a proposal's scores: any feasible candidate is better than none."""


ORDER_RANGE = 400
"""Random precedence is drawn below this; it is less than the length of any move in millimetres."""


class Intent(eqx.Module):
    """What one robot means to do, before it is known who else wants the same node."""

    mode: Int32[Array, "*batch"]
    slot: Int32[Array, "*batch"]
    choice: Int32[Array, "*batch"]
    """Flat candidate index slot * H + h; -1 for a hold or a hop home."""
    heading: Int32[Array, "*batch"]


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
    turn_back = (
        must_return(config, view.graph, view.site, view.budget_mm)
        | ~mask.any()
        | ~(view.graph.utility > 0).any()
        | (proposal.choice == RETURN_HOME)
        | (waits >= config.patience)
    )
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


def same_site(a: Int32[Array, "n 2"], b: Int32[Array, "m 2"]) -> Bool[Array, "n m"]:
    return (a[:, None] == b[None, :]).all(axis=-1)


def resolve_conflicts(
    config: Config,
    site: Int32[Array, "N 2"],
    active: Bool[Array, "N"],
    returning: Bool[Array, "N"],
    waited: Bool[Array, "N"],
    slot: Int32[Array, "N"],
    choice: Int32[Array, "N"],
    score: Float32[Array, "N K H"],
    feasible: Bool[Array, "N K"],
    order: Int32[Array, "N"],
) -> tuple[Int32[Array, "N"], Int32[Array, "N"]]:
    """The paper's collision resolution: the closest robot keeps a contested node, the others take their next best.

    One robot is reassigned at a time, until all targets differ. Holding robots come first (they cannot give way), then
    returning ones, then the shorter move, then the lower number. That alone can block three robots for good: one gives
    way to the second, which waits for the third, which waits for the first. So among returning robots, which have only
    one way, and for robots that had to wait, `order` takes the place of the length: it is drawn for every decision.
    """
    count = site.shape[0]
    offsets, lengths = jnp.asarray(SLOT_OFFSETS), jnp.asarray(slot_lengths_mm(config))
    number = jnp.arange(count, dtype=jnp.int32)
    others = ~jnp.eye(count, dtype=bool)

    def losers(slot: Array) -> Array:
        target = site + offsets[slot]
        group = jnp.where(slot == SELF_SLOT, 0, jnp.where(returning, 1, 2)).astype(jnp.int32)
        precedence = jnp.where(returning | waited, order, lengths[slot])
        rank = group * 2**24 + precedence * 32 + number
        contested = same_site(target, target) & others & active[:, None] & active[None, :]
        return (contested & (rank[None, :] < rank[:, None])).any(axis=1) & (slot != SELF_SLOT)

    def reassign(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        slot, choice, banned = carry
        robot = jnp.argmax(losers(slot))
        banned = banned.at[robot, slot[robot]].set(True)
        taken = same_site(site[robot][None] + offsets, site + offsets[slot]) & (active & (number != robot))[None]
        allowed = feasible[robot] & ~banned[robot] & ~taken.any(axis=1) & ~returning[robot]
        options = jnp.where(allowed[:, None], jnp.maximum(score[robot], WORST_SCORE), -jnp.inf).reshape(-1)
        best = jnp.where(allowed.any(), jnp.argmax(options), -1).astype(jnp.int32)
        best_slot = jnp.where(best >= 0, best // score.shape[-1], SELF_SLOT).astype(jnp.int32)
        return slot.at[robot].set(best_slot), choice.at[robot].set(best), banned

    banned = jnp.zeros((count, SLOTS), bool)
    slot, choice, _ = jax.lax.while_loop(lambda carry: losers(carry[0]).any(), reassign, (slot, choice, banned))
    return slot, choice
