"""The option scorer: how good each option of a robot is. Not in the paper: part of the planner `options`."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from decmarvel.core.types import Key
from decmarvel.robot.observation import Feature
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation, places, rows_at
from decmarvel.robot.policy.staleness import FAR_M, NODE_FACTS, is_open, node_facts

OPTION_FACTS = NODE_FACTS + 17
NEAR_M, AROUND_M = 12.0, 24.0
COST_SCALE_M = 20.0
BEST_LOGIT = 12.0
"""Logit of the cheapest option before learning. An action that begins no option has logit 0."""
FIRST_PER_M = 0.4
UNLIKELY = -1e9


class OptionScorer(eqx.Module):
    """Two hidden layers over the facts of an option; the second also reads the mean of the first over all options."""

    first: Linear
    second: Linear
    value: Linear
    per_m: Float32[Array, "1"]
    """Decrease of an option's logit per metre of extra cost."""
    max_budget_m: float = eqx.field(static=True)

    def __init__(self, key: Key, width: int, max_budget_m: float):
        key_first, key_second = jax.random.split(key)
        self.first = Linear(key_first, OPTION_FACTS, width)
        self.second = Linear(key_second, 2 * width, width)
        self.value = Linear.of(jnp.zeros((1, width)), jnp.zeros(1))
        self.per_m = jnp.full(1, FIRST_PER_M)
        self.max_budget_m = max_budget_m

    def __call__(self, nodes: Nodes, situation: Situation, stale: Float32[Array, "M"]) -> Float32[Array, "K H"]:
        """The logits of all actions: 0 if an action begins no option. A fresh scorer gives the cheapest BEST_LOGIT.

        `stale`: for each node, the probability that teammates have explored behind its nearest frontier still to see.
        """
        there = (situation.known_options.action >= 0).astype(jnp.float32)[:, None]
        own = there * jnp.tanh(self.first(option_facts(nodes, situation, stale, self.max_budget_m)))
        among = own.sum(axis=0) / jnp.maximum(there.sum(), 1.0)
        hidden = jnp.tanh(self.second(jnp.concatenate([own, jnp.broadcast_to(among, own.shape)], axis=-1)))
        return by_action(situation, BEST_LOGIT - self.per_m[0] * extra_cost_m(situation) + self.value(hidden)[:, 0])


def prior_logits(situation: Situation) -> Float32[Array, "K H"]:
    """The logits of an actor that has learned nothing."""
    return by_action(situation, BEST_LOGIT - FIRST_PER_M * extra_cost_m(situation))


def by_action(situation: Situation, logit: Float32[Array, "V"]) -> Float32[Array, "K H"]:
    """Logits of actions, from the logits of the options that begin with them."""
    actions = jnp.arange(situation.action_mask.size, dtype=jnp.int32)
    chances = jnp.where(situation.known_options.action[:, None] == actions[None], logit[:, None], UNLIKELY)
    return jnp.logaddexp(jax.nn.logsumexp(chances, axis=0), 0.0).reshape(situation.action_mask.shape)


def extra_cost_m(situation: Situation) -> Float32[Array, "V"]:
    """Extra cost in metres of each option over the cheapest."""
    there, cost_m = situation.known_options.action >= 0, situation.known_options.cost_m
    return jnp.where(there, cost_m - jnp.where(there, cost_m, jnp.inf).min(), 0.0)


def option_facts(
    nodes: Nodes, situation: Situation, stale: Float32[Array, "M"], max_budget_m: float
) -> Float32[Array, "V F"]:
    """What a robot knows of each option, scaled to numbers of about one."""
    options, at_m, share = situation.known_options, nodes.at_m / situation.unit, situation.node_share
    there, place = options.action >= 0, places(nodes, options.site)
    count = len(options.action)
    goal_m = rows_at(at_m, place)
    apart_m = jnp.sqrt(((goal_m[:, None] - at_m[None]) ** 2).sum(axis=-1))
    goals = is_open(nodes)
    news, known = jnp.where(goals, 1 - stale, 0.0), jnp.where(goals, stale, 0.0)
    other = there[None] & ~jnp.eye(count, dtype=bool)
    other_m = jnp.sqrt(((goal_m[:, None] - goal_m[None]) ** 2).sum(axis=-1))
    near, around = (apart_m <= NEAR_M).astype(jnp.float32), (apart_m <= AROUND_M).astype(jnp.float32)
    visits = nodes.features[:, Feature.VISITS, None]
    of_node = jnp.concatenate([node_facts(nodes, situation, max_budget_m), stale[:, None], visits], axis=-1)
    columns = [
        extra_cost_m(situation) / COST_SCALE_M,
        jnp.where(there, options.cost_m, 0.0) / 100,
        jnp.arange(count, dtype=jnp.float32) / count,
        near @ news / 5 * share,
        around @ news / 10 * share,
        near @ known / 5 * share,
        jnp.where(other, other_m, FAR_M).min(axis=-1) / 50,
        options.shown_cells.astype(jnp.float32) / 500 * (situation.cell_share * situation.cell_share),
    ]
    sums = (news.sum() / 20 * share, known.sum() / 20 * share, nodes.mask.sum() / 250 * share)
    for whole in (*sums, *situation.budget):
        columns.append(jnp.broadcast_to(whole, (count,)))
    return jnp.concatenate([rows_at(of_node, place), jnp.stack(columns, axis=-1)], axis=-1)
