"""The ground truth of a mission as arrays."""

import equinox as eqx
from jaxtyping import Array, Bool, Int32


class World(eqx.Module):
    """Ground truth, aligned so that the start is a lattice site and padded with walls to a bucket."""

    free: Bool[Array, "*batch Y X"]
    start: Int32[Array, "*batch 2"]
    free_count: Int32[Array, "*batch"]
