"""The merged map of the team. Metrics, rewards and critics read it; robots never do."""

import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt8

from decmarvel.core.types import FREE, OCCUPIED, UNKNOWN


def merge(beliefs: UInt8[Array, "N Y X"]) -> UInt8[Array, "Y X"]:
    """Eq. 4: a cell is occupied if any robot says so, else free if any robot says so, else unknown."""
    occupied = (beliefs == OCCUPIED).any(axis=0)
    free = (beliefs == FREE).any(axis=0)
    return jnp.where(occupied, OCCUPIED, jnp.where(free, FREE, UNKNOWN)).astype(jnp.uint8)


def coverage(merged: UInt8[Array, "Y X"], free_count: Int32[Array, ""]) -> Array:
    """Share of the free space that the team knows (C_t in the text around Eq. 4)."""
    return (merged == FREE).sum() / free_count
