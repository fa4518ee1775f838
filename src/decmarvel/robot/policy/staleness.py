"""A hunch which frontiers somebody else has looked behind already. Not in the paper: part of the extension `advice`.

The robot never hears of it. But where its teammates' sectors lie, how far from the base a place is, and how far
everybody has flown by now say a good deal; and that is all in its own head.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from decmarvel.core.config import Config
from decmarvel.core.types import Key
from decmarvel.robot.observation import POSITION_SCALE_M, TRAJECTORY_SCALE_M
from decmarvel.robot.planners.frontier import SECTOR_OFFSET_RAD
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation, places, rows_at

FACTS = 11
HIDDEN = 64
FAR_M = 100.0
"""Nobody was seen nearer than this."""


class Hunch(eqx.Module):
    """Two hidden layers over what a robot knows of a node. A fresh one holds everything for as likely as not."""

    first: Linear
    second: Linear
    last: Linear

    def __init__(self, key: Key):
        key_first, key_second = jax.random.split(key)
        self.first = Linear(key_first, FACTS, HIDDEN)
        self.second = Linear(key_second, HIDDEN, HIDDEN)
        self.last = Linear.of(jnp.zeros((1, HIDDEN)), jnp.zeros(1))

    def __call__(self, nodes: Nodes, situation: Situation) -> Float32[Array, "M"]:
        """The logit of "what is left to look at from here is no news any more", for each place."""
        hidden = jnp.tanh(self.second(jnp.tanh(self.first(facts(nodes, situation)))))
        return self.last(hidden)[:, 0]


def facts(nodes: Nodes, situation: Situation) -> Float32[Array, "M 11"]:
    """What bears upon it, in numbers of about one."""
    at_m = POSITION_SCALE_M * nodes.features[:, :2]
    from_base = at_m - rows_at(at_m, places(nodes, situation.base))[None]
    radius_m = jnp.sqrt((from_base**2).sum(axis=-1))
    bearing = jnp.arctan2(from_base[:, 1], from_base[:, 0])
    number = jnp.arange(situation.token_mask.shape[0], dtype=jnp.int32)
    share = number.astype(jnp.float32) / jnp.maximum(situation.team_size, 1).astype(jnp.float32)
    sector = 2 * math.pi * share + SECTOR_OFFSET_RAD
    along = jnp.cos(bearing[:, None] - sector[None])
    mate = (number < situation.team_size) & (number != situation.number)
    own = jnp.where(number == situation.number, along, 0.0).sum(axis=-1)
    theirs = jnp.where(mate, along, -1.0).max(axis=-1)

    initial_m, left_m = jnp.expm1(situation.budget[:2] * math.log1p(Config.max_budget_m))
    flown_m = initial_m - left_m
    seen_m = TRAJECTORY_SCALE_M * situation.tokens[..., :2].reshape(-1, 2)
    apart_m = jnp.sqrt(((at_m[:, None] - seen_m[None]) ** 2).sum(axis=-1))
    apart_m = jnp.where(situation.token_mask.reshape(1, -1), apart_m, FAR_M).min(axis=-1)
    columns = [
        own,
        theirs,
        radius_m / 50,
        jnp.broadcast_to(flown_m / 300, radius_m.shape),
        radius_m / jnp.maximum(flown_m, 8.0),
        nodes.features[:, 7],
        nodes.ways.way_cm.astype(jnp.float32) / 10_000,
        jnp.minimum(nodes.ways.open_cm.astype(jnp.float32), 1_000) / 1_000,
        jnp.minimum(apart_m, FAR_M) / 50,
        4 * nodes.features[:, 2],
        jnp.broadcast_to(1 / jnp.maximum(situation.team_size, 1).astype(jnp.float32), radius_m.shape),
    ]
    return jnp.stack(columns, axis=-1)
