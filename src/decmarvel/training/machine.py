"""Compute settings for this machine."""

from dataclasses import replace

import jax

from decmarvel.robot.policy.compute import Compute

ACTOR_BUCKETS, CRITIC_BUCKETS = (128, 192), (256,)
"""Smaller than `collect.bucket`. Robots know 119 nodes on average, and whole buildings have 201 to 316."""


def default_compute(batch: int = 1024) -> Compute:
    """Mixed precision and our kernels on an NVIDIA GPU, float32 elsewhere; small graphs in small buckets.

    A larger group uses a GPU better; more groups per batch leave fewer places empty.
    """
    group = max(256, batch // 8)
    plain = Compute(actor_buckets=ACTOR_BUCKETS, critic_buckets=CRITIC_BUCKETS, group=group, critic_group=group)
    return replace(plain, dtype="bfloat16", kernel="pallas", in_a_row=True) if jax.default_backend() == "gpu" else plain
