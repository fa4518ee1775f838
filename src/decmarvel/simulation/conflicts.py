"""At most one robot per node: the paper's collision resolution, which reads the whole team."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, SLOTS
from decmarvel.robot.guard import WORST_SCORE

ORDER_RANGE = 400
"""Random precedence is drawn below this; it is less than the length of any move in millimetres."""


def same_site(a: Int32[Array, "n 2"], b: Int32[Array, "m 2"]) -> Bool[Array, "n m"]:
    return (a[:, None] == b[None, :]).all(axis=-1)


def resolve_conflicts(
    config: Config,
    site: Int32[Array, "N 2"],
    active: Bool[Array, "N"],
    lengths_mm: Int32[Array, "N K"],
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
    offsets = jnp.asarray(SLOT_OFFSETS)
    number = jnp.arange(count, dtype=jnp.int32)
    others = ~jnp.eye(count, dtype=bool)

    def losers(slot: Array) -> Array:
        target = site + offsets[slot]
        group = jnp.where(slot == SELF_SLOT, 0, jnp.where(returning, 1, 2)).astype(jnp.int32)
        precedence = jnp.where(returning | waited, order, jnp.take_along_axis(lengths_mm, slot[:, None], axis=1)[:, 0])
        rank = group * 2**24 + jnp.minimum(precedence, 2**19 - 1) * 32 + number
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
