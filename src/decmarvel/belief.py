"""What robots know: a private map each, and the merged map that only metrics and critics see."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.sensing import cut
from decmarvel.types import FREE, OCCUPIED, UNKNOWN


def remember(
    belief: UInt8[Array, "G G"], free: Bool[Array, "G G"], seen: Bool[Array, "side side"], cell: Int32[Array, "2"]
) -> UInt8[Array, "G G"]:
    """Write the true value of the seen cells around a cell into a private belief."""
    reach = seen.shape[0] // 2
    truth = jnp.where(cut(free, cell, reach), FREE, OCCUPIED).astype(jnp.uint8)
    patch = jnp.where(seen, truth, cut(belief, cell, reach))
    return jax.lax.dynamic_update_slice(belief, patch, (cell[0] - reach, cell[1] - reach))


def merge(beliefs: UInt8[Array, "N G G"]) -> UInt8[Array, "G G"]:
    """Eq. 4: occupied if anybody says so, else free if anybody does, else unknown."""
    occupied = (beliefs == OCCUPIED).any(axis=0)
    free = (beliefs == FREE).any(axis=0)
    return jnp.where(occupied, OCCUPIED, jnp.where(free, FREE, UNKNOWN)).astype(jnp.uint8)


def coverage(merged: UInt8[Array, "G G"], free_count: Int32[Array, ""]) -> Array:
    """Share of the free space that the team knows (C_t in the text around Eq. 4)."""
    return (merged == FREE).sum() / free_count
