"""The types that only the simulator knows: the mission's state, the team's record, what each robot did."""

import equinox as eqx
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.types import Robot
from decmarvel.worlds.world import World


class Progress(eqx.Module):
    """The team's record, which only metrics, rewards and critics may read."""

    known_by: UInt8[Array, "*batch Y X"]
    """Number of robots that know each free cell of the ground truth."""
    covered: Int32[Array, "*batch"]
    own_covered: Int32[Array, "*batch N"]
    metres_to_success_mm: Int32[Array, "*batch"]
    """Longest distance that a robot had flown when merged coverage first reached 99%; -1 before."""
    own_success_mm: Int32[Array, "*batch N"]
    overlap_sum: Array
    """Float32: instantaneous overlap summed over the substeps with two active robots or more."""
    overlap_count: Int32[Array, "*batch"]


class State(eqx.Module):
    """One mission between two decisions."""

    world: World
    robots: Robot
    fail_step: Int32[Array, "*batch N"]
    """The decision at which each robot breaks down. The robots do not know it."""
    progress: Progress
    step: Int32[Array, "*batch"]

    @property
    def done(self) -> Bool[Array, "*batch"]:
        return ~self.robots.active.any(axis=-1)


class Move(eqx.Module):
    """What one decision made a robot do; enough to record and replay it."""

    target: Int32[Array, "*batch 2"]
    heading: Int32[Array, "*batch"]
    mode: Int32[Array, "*batch"]
    choice: Int32[Array, "*batch"]
    """Flat candidate index that was executed; -1 for a hold or a hop home."""
    path: Int32[Array, "*batch substeps 2"]
    """Cells after each substep of the way."""
