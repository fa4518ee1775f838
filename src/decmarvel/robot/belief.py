"""What one robot knows: its private map."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.types import FREE, OCCUPIED
from decmarvel.core.windows import cut


def remember(
    belief: UInt8[Array, "Y X"],
    free: Bool[Array, "side side"],
    seen: Bool[Array, "side side"],
    cell: Int32[Array, "2"],
) -> UInt8[Array, "Y X"]:
    """Write into a private belief which of the seen cells around a cell are free. Both are patches centred on it."""
    reach = seen.shape[0] // 2
    measured = jnp.where(free, FREE, OCCUPIED).astype(jnp.uint8)
    patch = jnp.where(seen, measured, cut(belief, cell, reach))
    return jax.lax.dynamic_update_slice(belief, patch, (cell[0] - reach, cell[1] - reach))
