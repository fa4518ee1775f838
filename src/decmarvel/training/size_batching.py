"""A batch of graphs in groups of similar size, each with just enough places: most graphs of a mission are small."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from decmarvel.robot.policy.nodes import Nodes, shrink

Sums = TypeVar("Sums")
Rows = TypeVar("Rows")


def in_groups(
    group: int,
    buckets: tuple[int, ...],
    function: Callable[..., tuple[Sums, Rows]],
    nodes: tuple[Nodes, ...],
    *rest: Any,
) -> tuple[Sums, Rows]:
    """`function(nodes, *rest)` of a batch: the first result is averaged over groups, the second has a row per sample.

    Everything has the batch as its first axis. The groups are equally large, so an average over them is one over the
    batch. They change nothing but the time. A batch that is no multiple of a group is computed at once.
    """
    places = nodes[0].mask.shape[-1]
    count = jnp.stack([each.mask.sum(axis=-1) for each in nodes]).max(axis=0)
    batch, sizes = len(count), [bucket for bucket in sorted(buckets) if bucket < places] + [places]
    if batch <= group or batch % group or len(sizes) == 1:
        return function(nodes, *rest)
    order = jnp.argsort(count)
    back = jnp.argsort(order)

    def grouped(leaf: jax.Array) -> jax.Array:
        return leaf[order].reshape(batch // group, group, *leaf.shape[1:])

    branches = [
        lambda nodes, *rest, bucket=bucket: function(tuple(shrink(each, bucket) for each in nodes), *rest)
        for bucket in sizes
    ]

    def one(total: Sums, part: tuple[Any, ...]) -> tuple[Sums, Rows]:
        count, *inputs = part
        fits = jnp.searchsorted(jnp.asarray(sizes), count.max())
        found, rows = jax.lax.switch(fits, branches, *inputs)
        return jax.tree.map(lambda a, b: a + b / (batch // group), total, found), rows

    parts = jax.tree.map(grouped, (count, nodes, *rest))
    first = jax.tree.map(lambda leaf: leaf[0], parts)
    shapes = jax.eval_shape(lambda count, *inputs: branches[-1](*inputs)[0], *first)
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total, rows = jax.lax.scan(one, zero, parts)
    return total, jax.tree.map(lambda leaf: leaf.reshape(batch, *leaf.shape[2:])[back], rows)
