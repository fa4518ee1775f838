"""`marvel`: the actor of the predecessor (Chiun 2025), without communication, as the paper compares with it.

It reads six of the nine node features, has no gates, and reads neither its budget nor earlier sightings of teammates.
The robot's own node attends to all others, and the logits are bounded.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32

from decmarvel.core.types import Key
from decmarvel.robot.observation import Feature
from decmarvel.robot.policy.actor import Actor, masked_log_softmax, of_all
from decmarvel.robot.policy.blocks import ActionEncoder, CrossAttention, GraphEncoder, GraphSizes
from decmarvel.robot.policy.compute import PLAIN, Compute
from decmarvel.robot.policy.contexts import Context, context_keys, own_node
from decmarvel.robot.policy.graph_actor import Pointer
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation

MARVEL_COLUMNS = tuple(feature for feature in Feature if feature <= Feature.HEADING)
"""Offset, utility, guidepost, occupancy and best heading of a node."""
LARGEST_LOGIT = 10.0


@dataclass(frozen=True)
class MarvelConfig(GraphSizes):
    """The shape of the predecessor's actor."""

    max_budget_m: float = 1024.0

    def build(self, key: Key) -> "MarvelActor":
        return MarvelActor(key, self)


class MarvelContext(Context):
    """The robot's own node after attention to all others."""

    join: Linear
    decoder: CrossAttention

    def __init__(self, key: Key, sizes: GraphSizes):
        _, key_join, key_decoder = context_keys(key)
        self.join = Linear(key_join, sizes.width, sizes.width)
        self.decoder = CrossAttention(key_decoder, sizes)

    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "D"]:
        here = own_node(nodes, z, situation)
        return self.join(self.decoder(here[None], z, nodes.mask)[0])


class MarvelActor(Actor):
    """The actor of MARVEL."""

    name: ClassVar[str] = "marvel"
    graph: GraphEncoder
    context: MarvelContext
    action: ActionEncoder
    pointer: Pointer
    config: MarvelConfig = eqx.field(static=True)

    def __init__(self, key: Key, config: MarvelConfig):
        keys = jax.random.split(key, 7)  # as for the paper's actor, which has more parts
        self.graph = GraphEncoder(keys[0], config, MARVEL_COLUMNS, gated=False)
        self.context = MarvelContext(keys[3], config)
        self.action = ActionEncoder(keys[4], config)
        self.pointer = Pointer(keys[6], config)
        self.config = config

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n K H"]:
        decide = of_all(self.decide, situation)
        return decide(nodes, self.graph(nodes, compute), situation)

    def decide(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float32[Array, "K H"]:
        """Log-probabilities of one robot's actions, from the embeddings z of its nodes."""
        rho, zeta = self.action(nodes, z, situation), self.context(nodes, z, situation)
        logits = LARGEST_LOGIT * jnp.tanh(self.pointer.logits(zeta, rho))
        return masked_log_softmax(logits, situation.action_mask)
