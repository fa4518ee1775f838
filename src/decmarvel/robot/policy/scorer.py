"""How an actor weighs the options of its adviser. Not in the paper: part of the extension `advice`.

A policy that begins as a planner has only to get better; and one that chooses among a few sensible goals, by facts that
bear upon them, has little to learn but that.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from decmarvel.core.types import Key
from decmarvel.robot.observation import POSITION_SCALE_M
from decmarvel.robot.policy.blocks import is_open
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import OPTIONS, Nodes, Situation, places, rows_at
from decmarvel.robot.policy.staleness import FACTS, FAR_M, facts

OPTION_FACTS = FACTS + 17
HIDDEN = 64
NEAR_M, AROUND_M = 12.0, 24.0
COST_SCALE_M = 20.0
FIRM = 12.0
"""Logit of the cheapest option before anything is learned; of an action that begins none it is 0."""
FIRST_PER_M = 0.4
NEVER = -1e9


class Trust(eqx.Module):
    """Two hidden layers over the facts of an option; the second also reads the mean of the first over all options."""

    first: Linear
    second: Linear
    value: Linear
    per_m: Float32[Array, "1"]
    """By how much an option is less likely that costs a metre more."""

    def __init__(self, key: Key):
        key_first, key_second = jax.random.split(key)
        self.first = Linear(key_first, OPTION_FACTS, HIDDEN)
        self.second = Linear(key_second, 2 * HIDDEN, HIDDEN)
        self.value = Linear.of(jnp.zeros((1, HIDDEN)), jnp.zeros(1))
        self.per_m = jnp.full(1, FIRST_PER_M)

    def __call__(self, nodes: Nodes, situation: Situation, stale: Float32[Array, "M"]) -> Float32[Array, "K H"]:
        """To the logits: actions that begin no option have 0, the cheapest option alone FIRM at first.

        `stale` are the chances that what is left to look at from a node is no news.
        """
        there = (situation.advice.action >= 0).astype(jnp.float32)[:, None]
        own = there * jnp.tanh(self.first(option_facts(nodes, situation, stale)))
        among = own.sum(axis=0) / jnp.maximum(there.sum(), 1.0)
        hidden = jnp.tanh(self.second(jnp.concatenate([own, jnp.broadcast_to(among, own.shape)], axis=-1)))
        return by_action(situation, FIRM - self.per_m[0] * dearer_m(situation) + self.value(hidden)[:, 0])


def before_learning(situation: Situation) -> Float32[Array, "K H"]:
    """The logits of an actor that has learned nothing yet."""
    return by_action(situation, FIRM - FIRST_PER_M * dearer_m(situation))


def by_action(situation: Situation, logit: Float32[Array, "V"]) -> Float32[Array, "K H"]:
    """From options to the actions that they begin with."""
    actions = jnp.arange(situation.action_mask.size, dtype=jnp.int32)
    chances = jnp.where(situation.advice.action[:, None] == actions[None], logit[:, None], NEVER)
    return jnp.logaddexp(jax.nn.logsumexp(chances, axis=0), 0.0).reshape(situation.action_mask.shape)


def dearer_m(situation: Situation) -> Float32[Array, "V"]:
    """What each option costs more than the cheapest."""
    there, cost_m = situation.advice.action >= 0, situation.advice.cost_m
    return jnp.where(there, cost_m - jnp.where(there, cost_m, jnp.inf).min(), 0.0)


def option_facts(nodes: Nodes, situation: Situation, stale: Float32[Array, "M"]) -> Float32[Array, "V F"]:
    """What bears upon how good an option is, in numbers of about one."""
    advice = situation.advice
    there, place = advice.action >= 0, places(nodes, advice.site)
    at_m = POSITION_SCALE_M * nodes.features[:, :2]
    goal_m = rows_at(at_m, place)
    apart_m = jnp.sqrt(((goal_m[:, None] - at_m[None]) ** 2).sum(axis=-1))
    goals = is_open(nodes)
    news, known = jnp.where(goals, 1 - stale, 0.0), jnp.where(goals, stale, 0.0)
    other = there[None] & ~jnp.eye(OPTIONS, dtype=bool)
    other_m = jnp.sqrt(((goal_m[:, None] - goal_m[None]) ** 2).sum(axis=-1))
    near, around = (apart_m <= NEAR_M).astype(jnp.float32), (apart_m <= AROUND_M).astype(jnp.float32)
    of_node = jnp.concatenate([facts(nodes, situation), stale[:, None], nodes.features[:, 8:9]], axis=-1)
    columns = [
        dearer_m(situation) / COST_SCALE_M,
        jnp.where(there, advice.cost_m, 0.0) / 100,
        jnp.arange(OPTIONS, dtype=jnp.float32) / OPTIONS,
        near @ news / 5,
        around @ news / 10,
        near @ known / 5,
        jnp.where(other, other_m, FAR_M).min(axis=-1) / 50,
        advice.shows.astype(jnp.float32) / 500,
    ]
    for whole in (news.sum() / 20, known.sum() / 20, nodes.mask.sum() / 250, *situation.budget):
        columns.append(jnp.broadcast_to(whole, (OPTIONS,)))
    return jnp.concatenate([rows_at(of_node, place), jnp.stack(columns, axis=-1)], axis=-1)
