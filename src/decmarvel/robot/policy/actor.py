"""The policy: from what one robot knows to a probability for each waypoint and heading."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32

from decmarvel.core.config import Config
from decmarvel.core.types import Key, LocalView
from decmarvel.robot.policy.blocks import (
    IDENTITY_FEATURES,
    PLAIN,
    ActionEncoder,
    Compute,
    Context,
    CrossAttention,
    Fusion,
    GraphEncoder,
    NetworkConfig,
    TokenEncoder,
    with_bearings,
)
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation, places, rows_at
from decmarvel.robot.policy.options import Adviser
from decmarvel.robot.policy.scorer import Trust, before_learning

Decide: TypeAlias = Callable[..., Float32[Array, "*n K H"]]

IMPOSSIBLE = -1e9
"""Log-probability of an action that is not valid."""


class Pointer(eqx.Module):
    """How well each action fits the context."""

    query: Linear
    key: Linear
    clip: float = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        key_query, key_key = jax.random.split(key)
        self.query = Linear(key_query, config.width, config.width, bias=False)
        self.key = Linear(key_key, config.width, config.width, bias=False)
        self.clip = config.clip

    def __call__(
        self, zeta: Float[Array, "D"], rho: Float[Array, "K H D"], mask: Bool[Array, "K H"]
    ) -> Float32[Array, "K H"]:
        """Eq. 12: masked log-probabilities. In float32 whatever the rest is computed in."""
        zeta, rho = zeta.astype(jnp.float32), rho.astype(jnp.float32)
        logits = self.key(rho) @ self.query(zeta) / len(zeta) ** 0.5
        if self.clip:
            logits = self.clip * jnp.tanh(logits)
        return masked_log_softmax(logits, mask)


def masked_log_softmax(logits: Float32[Array, "K H"], mask: Bool[Array, "K H"]) -> Float32[Array, "K H"]:
    """Log-probabilities of the valid actions, which sum to one."""
    logits = jnp.where(mask, logits, IMPOSSIBLE)
    return jnp.where(mask, jax.nn.log_softmax(logits, axis=(0, 1)), IMPOSSIBLE)


def of_all(decide: Decide, situation: Situation) -> Decide:
    """From the policy of one robot to that of all robots in a situation, however many axes they have."""
    for _ in range(situation.team_size.ndim):
        decide = jax.vmap(decide)
    return decide


class Actor(eqx.Module):
    """The decentralised actor. It reads one robot's own nodes and situation, nothing else."""

    graph: GraphEncoder
    tokens: TokenEncoder | None
    fusion: Fusion | None
    context: Context
    action: ActionEncoder
    cross: CrossAttention | None
    pointer: Pointer
    config: NetworkConfig = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        keys = jax.random.split(key, 7)
        self.graph = GraphEncoder(keys[0], config, IDENTITY_FEATURES * config.identity)
        self.tokens = TokenEncoder(keys[1], config) if config.trajectories else None
        self.fusion = Fusion(keys[2], config) if config.trajectories else None
        self.context = Context(keys[3], config)
        self.action = ActionEncoder(keys[4], config)
        self.cross = CrossAttention(keys[5], config) if config.trajectories else None
        self.pointer = Pointer(keys[6], config)
        self.config = config

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n K H"]:
        """Eq. 1: the log-probability of each action, of one robot or many."""
        decide = of_all(partial(self.decide, compute=compute), situation)
        read = with_bearings(nodes, situation) if self.config.identity else nodes
        return decide(nodes, self.graph(read, compute), situation)

    def decide(
        self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation, compute: Compute = PLAIN
    ) -> Float32[Array, "K H"]:
        """The policy of one robot whose graph is encoded."""
        rho = self.action(nodes, z, situation)
        if self.cross is not None:
            tokens, seen = self.fused_tokens(nodes, z, situation, compute), situation.token_mask.reshape(-1)
            looked = self.cross(rho.reshape(-1, rho.shape[-1]), tokens.reshape(len(seen), -1), seen)
            rho = looked.reshape(rho.shape)
        zeta = self.context(nodes, z, situation)
        return self.pointer(zeta, rho, situation.action_mask)

    def fused_tokens(
        self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation, compute: Compute = PLAIN
    ) -> Float[Array, "N L D"]:
        """What was seen of the teammates (Eq. 9), with the nodes where it was (Eq. 11)."""
        assert self.tokens is not None
        assert self.fusion is not None
        tau = self.tokens(situation.tokens, situation.token_mask, compute)
        return self.fusion(tau, rows_at(z, places(nodes, situation.token_site)))


class OptionActor(eqx.Module):
    """An actor that does nothing but weigh the options of its adviser: no graph is encoded. Not in the paper."""

    adviser: Adviser
    trust: Trust
    config: NetworkConfig = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        key_adviser, key_trust = jax.random.split(key)
        self.adviser, self.trust, self.config = Adviser(key_adviser), Trust(key_trust), config

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n K H"]:
        """The log-probability of each action, of one robot or many."""
        return of_all(self.decide, situation)(nodes, situation)

    def decide(self, nodes: Nodes, situation: Situation) -> Float32[Array, "K H"]:
        """The policy of one robot. Without any option all valid actions are alike."""
        logits = self.trust(nodes, situation, self.adviser.chances(nodes, situation))
        return masked_log_softmax(logits, situation.action_mask)

    def first_policy(self, situation: Situation) -> Float32[Array, "*n K H"]:
        """What it would do had it learned nothing, of one robot or many."""

        def decide(situation: Situation) -> Float32[Array, "K H"]:
            return masked_log_softmax(before_learning(situation), situation.action_mask)

        return of_all(decide, situation)(situation)


AnyActor: TypeAlias = Actor | OptionActor


def new_actor(key: Key, config: NetworkConfig) -> AnyActor:
    """With fresh weights."""
    return OptionActor(key, config) if config.advice else Actor(key, config)


def advised(actor: AnyActor, config: Config, view: LocalView, nodes: Nodes, situation: Situation) -> Situation:
    """The situation of one robot with advice, if its actor has an adviser."""
    if not isinstance(actor, OptionActor):
        return situation
    return eqx.tree_at(lambda s: s.advice, situation, actor.adviser(config, view, nodes, situation))
