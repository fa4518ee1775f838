"""The policy: from what one robot knows to a probability for each waypoint and heading."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32

from decmarvel.config import Config
from decmarvel.learning.advice import Adviser
from decmarvel.learning.layers import Linear, relu
from decmarvel.learning.networks import (
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
from decmarvel.learning.nodes import Nodes, Situation, places, rows_at
from decmarvel.types import Key, LocalView

IMPOSSIBLE = -1e9
"""Log-probability of an action that is not valid."""
FIRM = 8.0
"""Logit of the cheapest option before anything is learned; of an action that begins none it is 0."""
FIRST_PER_M = 0.4
COST_SCALE_M = 20.0


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
        self,
        zeta: Float[Array, "D"],
        rho: Float[Array, "K H D"],
        mask: Bool[Array, "K H"],
        prior: Float32[Array, "K H"],
    ) -> Float32[Array, "K H"]:
        """Eq. 12: masked log-probabilities. In float32 whatever the rest is computed in. `prior` is for extensions."""
        zeta, rho = zeta.astype(jnp.float32), rho.astype(jnp.float32)
        logits = self.key(rho) @ self.query(zeta) / len(zeta) ** 0.5
        if self.clip:
            logits = self.clip * jnp.tanh(logits)
        logits = jnp.where(mask, logits + prior, IMPOSSIBLE)
        return jnp.where(mask, jax.nn.log_softmax(logits, axis=(0, 1)), IMPOSSIBLE)


class Trust(eqx.Module):
    """How well each option of the adviser fits the context. Not in the paper: a policy that begins as a planner has
    only to get better.
    """

    hidden: Linear
    value: Linear
    per_m: Float32[Array, "1"]
    """By how much an option is less likely that costs a metre more."""

    def __init__(self, key: Key, config: NetworkConfig):
        self.hidden = Linear(key, 2 * config.width + 1, config.width)
        self.value = Linear.of(jnp.zeros((1, config.width)), jnp.zeros(1))
        self.per_m = jnp.full(1, FIRST_PER_M)

    def __call__(
        self, nodes: Nodes, z: Float[Array, "M D"], zeta: Float[Array, "D"], situation: Situation
    ) -> Float32[Array, "K H"]:
        """To the logits: actions that begin no option have 0, the cheapest option alone FIRM."""
        advice = situation.advice
        there = advice.action >= 0
        more_m = advice.cost_m - jnp.where(there, advice.cost_m, jnp.inf).min()
        more_m = jnp.where(there, more_m, 0.0)
        goal = rows_at(z, places(nodes, advice.site)).astype(jnp.float32)
        context = jnp.broadcast_to(zeta.astype(jnp.float32), goal.shape)
        hidden = relu(self.hidden(jnp.concatenate([goal, context, more_m[:, None] / COST_SCALE_M], axis=-1)))
        logit = FIRM - self.per_m[0] * more_m + self.value(hidden)[:, 0]
        named = advice.action[:, None] == jnp.arange(situation.action_mask.size, dtype=jnp.int32)[None]
        chances = jnp.where(named, logit[:, None], IMPOSSIBLE)
        return jnp.logaddexp(jax.nn.logsumexp(chances, axis=0), 0.0).reshape(situation.action_mask.shape)


class Actor(eqx.Module):
    """The decentralised actor. It reads one robot's own nodes and situation, nothing else."""

    graph: GraphEncoder
    tokens: TokenEncoder | None
    fusion: Fusion | None
    context: Context
    action: ActionEncoder
    cross: CrossAttention | None
    pointer: Pointer
    adviser: Adviser | None
    trust: Trust | None
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
        self.adviser = Adviser(jax.random.fold_in(key, 9)) if config.advice else None
        self.trust = Trust(jax.random.fold_in(key, 10), config) if config.advice else None
        self.config = config

    def advised(self, config: Config, view: LocalView, nodes: Nodes, situation: Situation) -> Situation:
        """The situation of one robot with advice, if it has an adviser."""
        if self.adviser is None:
            return situation
        return eqx.tree_at(lambda s: s.advice, situation, self.adviser(config, view, nodes, situation))

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n K H"]:
        """Eq. 1: the log-probability of each action, of one robot or many."""
        decide = partial(self.decide, compute=compute)
        for _ in nodes.mask.shape[:-1]:
            decide = jax.vmap(decide)
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
        prior = jnp.zeros(situation.action_mask.shape)
        if self.trust is not None:
            prior += self.trust(nodes, z, zeta, situation)
        return self.pointer(zeta, rho, situation.action_mask, prior)

    def fused_tokens(
        self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation, compute: Compute = PLAIN
    ) -> Float[Array, "N L D"]:
        """What was seen of the teammates (Eq. 9), with the nodes where it was (Eq. 11)."""
        assert self.tokens is not None
        assert self.fusion is not None
        tau = self.tokens(situation.tokens, situation.token_mask, compute)
        return self.fusion(tau, rows_at(z, places(nodes, situation.token_site)))
