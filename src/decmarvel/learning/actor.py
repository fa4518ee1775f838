"""The policy: from what one robot knows to a probability for each waypoint and heading."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32

from decmarvel.learning.networks import (
    PLAIN,
    ActionEncoder,
    Compute,
    Context,
    CrossAttention,
    Fusion,
    GraphEncoder,
    Linear,
    NetworkConfig,
    TokenEncoder,
)
from decmarvel.learning.nodes import NODE_FEATURES, Nodes, Situation, places, rows_at
from decmarvel.types import Key

IMPOSSIBLE = -1e9
"""Log-probability of an action that is not valid."""


class Pointer(eqx.Module):
    """How well each action fits the context."""

    query: Linear
    key: Linear

    def __init__(self, key: Key, width: int):
        key_query, key_key = jax.random.split(key)
        self.query = Linear(key_query, width, width, bias=False)
        self.key = Linear(key_key, width, width, bias=False)

    def __call__(
        self, zeta: Float[Array, "D"], rho: Float[Array, "K H D"], mask: Bool[Array, "K H"]
    ) -> Float32[Array, "K H"]:
        """Eq. 12: masked log-probabilities. In float32 whatever the rest is computed in."""
        zeta, rho = zeta.astype(jnp.float32), rho.astype(jnp.float32)
        logits = self.key(rho) @ self.query(zeta) / len(zeta) ** 0.5
        logits = jnp.where(mask, logits, IMPOSSIBLE)
        return jnp.where(mask, jax.nn.log_softmax(logits, axis=(0, 1)), IMPOSSIBLE)


class Actor(eqx.Module):
    """The decentralised actor. It reads one robot's own nodes and situation, nothing else."""

    graph: GraphEncoder
    tokens: TokenEncoder
    fusion: Fusion
    context: Context
    action: ActionEncoder
    cross: CrossAttention
    pointer: Pointer
    config: NetworkConfig = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        keys = jax.random.split(key, 7)
        self.graph = GraphEncoder(keys[0], config, NODE_FEATURES)
        self.tokens = TokenEncoder(keys[1], config)
        self.fusion = Fusion(keys[2], config)
        self.context = Context(keys[3], config)
        self.action = ActionEncoder(keys[4], config)
        self.cross = CrossAttention(keys[5], config)
        self.pointer = Pointer(keys[6], config.width)
        self.config = config

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "K H"]:
        """Eq. 1: the log-probability of each action."""
        z = self.graph(nodes, compute)
        tokens = self.fused_tokens(nodes, z, situation, compute)
        rho = self.action(nodes, z, situation)
        seen = situation.token_mask.reshape(-1)
        looked = self.cross(rho.reshape(-1, rho.shape[-1]), tokens.reshape(len(seen), -1), seen)
        return self.pointer(self.context(nodes, z, situation), looked.reshape(rho.shape), situation.action_mask)

    def fused_tokens(
        self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation, compute: Compute = PLAIN
    ) -> Float[Array, "N L D"]:
        """What was seen of the teammates (Eq. 9), with the nodes where it was (Eq. 11)."""
        tau = self.tokens(situation.tokens, situation.token_mask, compute)
        return self.fusion(tau, rows_at(z, places(nodes, situation.token_site)))
