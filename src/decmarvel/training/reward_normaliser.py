"""The running spread of the rewards, by which they are divided."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

LARGEST = 10.0
"""Scaled rewards are clipped to plus or minus this."""


class Spread(eqx.Module):
    """Number, mean and variance of everything seen so far (Welford's method, many values at a time)."""

    count: Float32[Array, ""]
    mean: Float32[Array, ""]
    variance: Float32[Array, ""]

    @staticmethod
    def none() -> "Spread":
        zero = jnp.array(0, jnp.float32)
        return Spread(zero, zero, zero)

    @property
    def deviation(self) -> Float32[Array, ""]:
        """The standard deviation; 1 as long as all values were equal."""
        return jnp.where(self.variance > 0, jnp.sqrt(self.variance), 1.0)


def widen(spread: Spread, values: Float32[Array, "*n"], mask: Bool[Array, "*n"]) -> Spread:
    """Update the spread with the values that the mask marks."""
    number = mask.sum().astype(jnp.float32)
    some = jnp.maximum(number, 1.0)
    mean = jnp.where(mask, values, 0.0).sum() / some
    variance = jnp.where(mask, (values - mean) ** 2, 0.0).sum() / some
    count = spread.count + number
    share, gap = number / jnp.maximum(count, 1.0), mean - spread.mean
    return Spread(
        count=count,
        mean=spread.mean + share * gap,
        variance=spread.variance + share * (variance - spread.variance + (1 - share) * gap**2),
    )


def scaled(spread: Spread, rewards: Float32[Array, "*n"]) -> Float32[Array, "*n"]:
    """Rewards divided by their standard deviation, without a shift: zero stays zero."""
    return jnp.clip(rewards / spread.deviation, -LARGEST, LARGEST)
