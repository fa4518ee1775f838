"""`dec-marvel`: the paper's actor (Eq. 1, Eq. 9 to 12)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32

from decmarvel.core.types import Key
from decmarvel.robot.policy.actor import Actor, masked_log_softmax, of_all
from decmarvel.robot.policy.blocks import (
    PAPER_COLUMNS,
    ActionEncoder,
    CrossAttention,
    Fusion,
    GraphEncoder,
    GraphSizes,
    TokenEncoder,
    TokenSizes,
)
from decmarvel.robot.policy.compute import PLAIN, Compute
from decmarvel.robot.policy.contexts import BudgetContext, Context, IdentityContext
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation, places, rows_at


@dataclass(frozen=True)
class GraphActorConfig(TokenSizes):
    """The shape of the paper's actor. The defaults are the paper's."""

    identity: bool = False
    """For experiments: also read the robot's number, its team's size, and the bearings of nodes from its own angle."""
    max_budget_m: float = 1024.0

    def build(self, key: Key) -> "GraphActor":
        return GraphActor(key, self)


class Pointer(eqx.Module):
    """How well each action fits the context."""

    query: Linear
    key: Linear

    def __init__(self, key: Key, sizes: GraphSizes):
        key_query, key_key = jax.random.split(key)
        self.query = Linear(key_query, sizes.width, sizes.width, bias=False)
        self.key = Linear(key_key, sizes.width, sizes.width, bias=False)

    def logits(self, zeta: Float[Array, "D"], rho: Float[Array, "K H D"]) -> Float32[Array, "K H"]:
        """The argument of the softmax in Eq. 12. Computed in float32, whatever the type of the rest."""
        zeta, rho = zeta.astype(jnp.float32), rho.astype(jnp.float32)
        return self.key(rho) @ self.query(zeta) / len(zeta) ** 0.5

    def __call__(
        self, zeta: Float[Array, "D"], rho: Float[Array, "K H D"], mask: Bool[Array, "K H"]
    ) -> Float32[Array, "K H"]:
        """Eq. 12: masked log-probabilities."""
        return masked_log_softmax(self.logits(zeta, rho), mask)


class GraphActor(Actor):
    """The decentralised actor of Dec-MARVEL."""

    name: ClassVar[str] = "dec-marvel"
    graph: GraphEncoder
    tokens: TokenEncoder
    fusion: Fusion
    context: Context
    action: ActionEncoder
    cross: CrossAttention
    pointer: Pointer
    config: GraphActorConfig = eqx.field(static=True)

    def __init__(self, key: Key, config: GraphActorConfig):
        keys = jax.random.split(key, 7)
        self.context = IdentityContext(keys[3], config) if config.identity else BudgetContext(keys[3], config)
        more = range(len(PAPER_COLUMNS), len(PAPER_COLUMNS) + self.context.node_features)
        self.graph = GraphEncoder(keys[0], config, (*PAPER_COLUMNS, *more))
        self.tokens = TokenEncoder(keys[1], config)
        self.fusion = Fusion(keys[2], config)
        self.action = ActionEncoder(keys[4], config)
        self.cross = CrossAttention(keys[5], config)
        self.pointer = Pointer(keys[6], config)
        self.config = config

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n K H"]:
        """Eq. 1: the log-probability of each action, of one robot or many."""
        decide = of_all(partial(self.decide, compute=compute), situation)
        return decide(nodes, self.graph(self.context.read(nodes, situation), compute), situation)

    def decide(
        self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation, compute: Compute = PLAIN
    ) -> Float32[Array, "K H"]:
        """Log-probabilities of one robot's actions, from the embeddings z of its nodes."""
        rho = self.action(nodes, z, situation)
        tokens, seen = self.fused_tokens(nodes, z, situation, compute), situation.token_mask.reshape(-1)
        looked = self.cross(rho.reshape(-1, rho.shape[-1]), tokens.reshape(len(seen), -1), seen)
        zeta = self.context(nodes, z, situation)
        return self.pointer(zeta, looked.reshape(rho.shape), situation.action_mask)

    def fused_tokens(
        self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation, compute: Compute = PLAIN
    ) -> Float[Array, "N L D"]:
        """The sightings of teammates (Eq. 9), joined with the nodes where they were (Eq. 11)."""
        tau = self.tokens(situation.tokens, situation.token_mask, compute)
        return self.fusion(tau, rows_at(z, places(nodes, situation.token_site)))
