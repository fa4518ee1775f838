"""The staleness predictor: which frontiers of a robot's own map teammates have already explored.

The robot never receives this. It estimates it from what it knows: its teammates' sectors, the distance of a place from
the base, and how far robots have flown by now. Not in the paper: part of the planner `options`.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from decmarvel.core.types import Key
from decmarvel.robot.budget import budget_m
from decmarvel.robot.observation import NOTHING_CM, TRAJECTORY_SCALE_M, Feature
from decmarvel.robot.planners.frontier import SECTOR_OFFSET_RAD
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation, places, rows_at

NODE_FACTS = 11
FAR_M = 100.0
"""Distance in metres where there is nothing to measure to: no sighting, or no other option."""


class StalenessPredictor(eqx.Module):
    """Two hidden layers over what a robot knows of a node. A fresh one gives every node the probability one half."""

    first: Linear
    second: Linear
    last: Linear
    max_budget_m: float = eqx.field(static=True)

    def __init__(self, key: Key, width: int, max_budget_m: float):
        key_first, key_second = jax.random.split(key)
        self.first = Linear(key_first, NODE_FACTS, width)
        self.second = Linear(key_second, width, width)
        self.last = Linear.of(jnp.zeros((1, width)), jnp.zeros(1))
        self.max_budget_m = max_budget_m

    def __call__(self, nodes: Nodes, situation: Situation) -> Float32[Array, "M"]:
        """For each place, the logit that teammates have explored behind the node's nearest frontier still to see."""
        hidden = jnp.tanh(self.second(jnp.tanh(self.first(node_facts(nodes, situation, self.max_budget_m)))))
        return self.last(hidden)[:, 0]


def node_facts(nodes: Nodes, situation: Situation, max_budget_m: float) -> Float32[Array, "M 11"]:
    """What a robot knows of each node, scaled to numbers of about one."""
    at_m = nodes.at_m / situation.unit
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

    initial_m, left_m = budget_m(situation.budget[:2], max_budget_m)
    flown_m = (initial_m - left_m) / situation.unit
    seen_m = TRAJECTORY_SCALE_M * situation.tokens[..., :2].reshape(-1, 2) / situation.unit
    apart_m = jnp.sqrt(((at_m[:, None] - seen_m[None]) ** 2).sum(axis=-1))
    apart_m = jnp.where(situation.token_mask.reshape(1, -1), apart_m, FAR_M).min(axis=-1)
    columns = [
        own,
        theirs,
        radius_m / 50,
        jnp.broadcast_to(flown_m / 300, radius_m.shape),
        radius_m / jnp.maximum(flown_m, 8.0),
        nodes.features[:, Feature.HOME] / situation.unit,
        nodes.known_ways.way_cm.astype(jnp.float32) / 10_000 / situation.unit,
        jnp.minimum(nodes.known_ways.open_cm.astype(jnp.float32) / situation.unit, 1_000) / 1_000,
        jnp.minimum(apart_m, FAR_M) / 50,
        4 * nodes.features[:, Feature.UTILITY] * situation.cell_share,
        jnp.broadcast_to(1 / jnp.maximum(situation.team_size, 1).astype(jnp.float32), radius_m.shape),
    ]
    return jnp.stack(columns, axis=-1)


def is_open(nodes: Nodes) -> Bool[Array, "*n M"]:
    """Whether something is left to look at from a node, within the budget."""
    return nodes.mask & (nodes.known_ways.open_cm < NOTHING_CM)
