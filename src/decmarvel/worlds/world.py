"""The ground truth of a mission as arrays."""

import equinox as eqx
from jaxtyping import Array, Bool, Int32


class World(eqx.Module):
    """Ground truth, aligned so that the start is a lattice site and padded with walls to a bucket."""

    free: Bool[Array, "*batch Y X"]
    start: Int32[Array, "*batch 2"]
    counted: Bool[Array, "*batch Y X"]
    """The floor that counts for coverage: all of it, or with roads what can be seen from where a robot can stand."""
    free_count: Int32[Array, "*batch"]
    """Number of cells that count."""
