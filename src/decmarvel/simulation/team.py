"""A team as data: the camera, the body and the budget of each robot, and the settings that follow from them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp

from decmarvel.core.config import Config
from decmarvel.simulation.fleet import Bodies, Fleet

PAPER = Config()
UTILITY_SHARE = PAPER.utility_range_m / PAPER.sensor_range_m
MARGIN_SHARE = PAPER.safety_margin_m / PAPER.sensor_range_m
HOLD_SHARE = PAPER.hold_turn_m / PAPER.sensor_range_m
"""Lengths of the paper's model in sensing ranges: so they suit every camera."""


@dataclass(frozen=True)
class Member:
    """One robot of a team."""

    fov_deg: int = PAPER.fov_deg
    """Horizontal field of view of its camera; 360 for a lidar."""
    range_m: float = PAPER.sensor_range_m
    speed_m_s: float = PAPER.speed_m_s
    yaw_rate_deg_s: int = PAPER.yaw_rate_deg_s
    radius_m: float = 0.0
    """Radius of its body, safety distance included. It keeps its centre that far from walls."""
    budget_m: float = 720.0


@dataclass(frozen=True)
class Team:
    """The robots of a mission, which need not be alike."""

    members: tuple[Member, ...]

    @staticmethod
    def alike(count: int, member: Member | None = None) -> "Team":
        return Team((member or Member(),) * count)

    @property
    def described(self) -> str:
        """The team in words: how many of each kind, and what they can do."""
        kinds = [
            f"{count} robot{'s' * (count > 1)} with {m.fov_deg} degrees and {m.range_m:g} m of sight, "
            f"{m.radius_m:g} m radius, {m.budget_m:g} m each"
            for m, count in Counter(self.members).items()
        ]
        return "; ".join(kinds)

    @property
    def radius_m(self) -> float:
        """Radius of the largest body."""
        return max(member.radius_m for member in self.members)

    @property
    def shortest_range_m(self) -> float:
        return min(member.range_m for member in self.members)

    def config(self, base: Config = PAPER, *, roads: bool | None = None) -> Config:
        """The model's settings for this team. Lengths that the model fixes grow with the farthest-seeing camera.

        Robots travel on roads if they have bodies, unless `roads` says otherwise.
        """
        range_m = max(member.range_m for member in self.members)
        first = self.members[0]
        roads = self.radius_m > 0 if roads is None else roads
        return replace(
            base,
            roads=roads,
            radius_m=self.radius_m if roads else 0.0,
            spacing_m=base.spacing_m * range_m / base.sensor_range_m,
            coarsest_cell_m=base.coarsest_cell_m * range_m / base.sensor_range_m,
            sensor_range_m=range_m,
            fov_deg=first.fov_deg,
            utility_range_m=UTILITY_SHARE * range_m,
            safety_margin_m=MARGIN_SHARE * range_m,
            hold_turn_m=HOLD_SHARE * range_m,
            speed_m_s=first.speed_m_s,
            yaw_rate_deg_s=first.yaw_rate_deg_s,
        )

    def fleet(self, broken: int = 0, seed: Sequence[int] = (0,)) -> Fleet:
        """The fleet of this team. `broken` robots fail; the seed decides which ones and when."""
        count = len(self.members)
        failing = Fleet.failing(count, 0.0, broken, seed)
        budgets = [round(1000 * member.budget_m) for member in self.members]
        return Fleet(failing.present, jnp.asarray(budgets, jnp.int32), failing.fail_step, self.bodies)

    @property
    def bodies(self) -> Bodies:
        columns = [
            (m.fov_deg, round(1000 * m.range_m), round(1000 * m.speed_m_s), m.yaw_rate_deg_s, round(1000 * m.radius_m))
            for m in self.members
        ]
        return Bodies(*(jnp.asarray(column, jnp.int32) for column in zip(*columns, strict=True)))
