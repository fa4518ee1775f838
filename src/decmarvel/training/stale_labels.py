"""Which frontiers of a robot's own map the team has already resolved; the robot does not know. Training only."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, LocalView
from decmarvel.robot.sight import frontiers, nearest_frontiers
from decmarvel.simulation.team_map import merge


def stale_labels(config: Config, views: LocalView) -> Bool[Array, "N I J"]:
    """For each robot and node, whether the team has resolved the nearest frontier still to see from the node."""
    news = frontiers(merge(views.belief))

    def one(view: LocalView) -> Bool[Array, "I J"]:
        away_mm, cell = nearest_frontiers(config, view.graph)
        left_mm = jnp.where(view.sensed, FAR_MM, away_mm)
        nearest = jnp.argmin(left_mm, axis=-1)[..., None]
        row, column = (jnp.take_along_axis(cell[..., axis], nearest, axis=-1)[..., 0] for axis in (0, 1))
        return (left_mm.min(axis=-1) < FAR_MM) & ~news[row, column]

    return jax.vmap(one)(views)
