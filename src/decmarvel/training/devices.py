"""Several devices learn as one: each flies and remembers missions of its own, and all take the same step.

With `axis` None there is one device, and these functions change nothing.
"""

from typing import TypeVar

import jax
from jaxtyping import Array, Shaped

T = TypeVar("T")


def own_key(key: Shaped[Array, ""], axis: str | None) -> Shaped[Array, ""]:
    """A key for this device alone."""
    return jax.random.fold_in(key, jax.lax.axis_index(axis)) if axis else key


def mean(tree: T, axis: str | None) -> T:
    """Averages over the devices."""
    return jax.lax.pmean(tree, axis) if axis else tree


def total(tree: T, axis: str | None) -> T:
    """Sums over the devices."""
    return jax.lax.psum(tree, axis) if axis else tree


def everyone(tree: T, axis: str | None) -> T:
    """The rows of all devices, one after the other."""
    return jax.lax.all_gather(tree, axis, tiled=True) if axis else tree
