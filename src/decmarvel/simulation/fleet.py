"""The robots of a mission, their budgets, and when some of them fail."""

from collections.abc import Sequence
from dataclasses import fields

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import Scalar

NEVER = 2**30
FAIL_STEPS = (30, 128)
"""First and last decision at which a robot may fail."""


class Bodies(eqx.Module):
    """The camera and the body of each robot; see `core.types.Own`."""

    fov_deg: Int32[Array, "*batch N"]
    range_mm: Int32[Array, "*batch N"]
    speed_mm_s: Int32[Array, "*batch N"]
    yaw_rate_deg_s: Int32[Array, "*batch N"]
    radius_mm: Int32[Array, "*batch N"]

    @staticmethod
    def alike(config: Config, count: int) -> "Bodies":
        """`count` robots as the configuration describes them."""
        values = (
            config.fov_deg,
            config.sensor_range_mm,
            round(1000 * config.speed_m_s),
            config.yaw_rate_deg_s,
            config.radius_mm,
        )
        return Bodies(*(jnp.full(count, value, jnp.int32) for value in values))

    def of(self, number: Scalar) -> dict[str, Scalar]:
        """The facts of one robot, by the names of `Own`."""
        return {field.name: getattr(self, field.name)[number] for field in fields(self)}


class Fleet(eqx.Module):
    """The robots of a mission, their budgets, when some of them fail, and what they are like."""

    present: Bool[Array, "*batch N"]
    budget_mm: Int32[Array, "*batch N"]
    fail_step: Int32[Array, "*batch N"]
    bodies: Bodies | None = None
    """None: all robots are as the configuration describes them."""

    @staticmethod
    def of(robots: int, budget_m: float, slots: int | None = None) -> "Fleet":
        """`robots` healthy robots with equal budgets, in an array of `slots` places."""
        return Fleet.healthy(robots, round(1000 * budget_m), slots or robots)

    @staticmethod
    def healthy(robots: int | Scalar, budget_mm: int | Scalar, slots: int) -> "Fleet":
        """`robots` healthy robots with equal budgets; both numbers may be drawn inside a compiled program."""
        return Fleet(
            present=jnp.arange(slots) < robots,
            budget_mm=jnp.full(slots, budget_mm, jnp.int32),
            fail_step=jnp.full(slots, NEVER, jnp.int32),
        )

    @staticmethod
    def failing(robots: int, budget_m: float, broken: int, seed: Sequence[int]) -> "Fleet":
        """A team in which `broken` robots fail; seed, team size and `broken` decide which ones and when."""
        rng = np.random.default_rng([*seed, robots, broken])
        steps = np.full(robots, NEVER, np.int32)
        first, last = FAIL_STEPS
        steps[rng.choice(robots, broken, replace=False)] = rng.integers(first, last + 1, broken)
        healthy = Fleet.of(robots, budget_m)
        return Fleet(healthy.present, healthy.budget_mm, jnp.asarray(steps))
