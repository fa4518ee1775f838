"""The critics: the value of every action, before and after the team has succeeded. They exist in training only."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32

from decmarvel.core.types import Key
from decmarvel.robot.policy.blocks import (
    IDENTITY_FEATURES,
    PLAIN,
    ActionEncoder,
    Compute,
    Context,
    GraphEncoder,
    NetworkConfig,
    with_bearings,
)
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation
from decmarvel.training.privileged_nodes import PRIVILEGED_FEATURES

POLYAK_RATE = 0.003
"""How far a target follows its critic at each update."""

Network = TypeVar("Network", bound=eqx.Module)


class ValueHead(eqx.Module):
    """From context and action to a value."""

    hidden: Linear
    value: Linear

    def __init__(self, key: Key, width: int):
        key_hidden, key_value = jax.random.split(key)
        self.hidden = Linear(key_hidden, 2 * width, width)
        self.value = Linear(key_value, width, 1)

    def __call__(self, both: Float32[Array, "*n D2"]) -> Float32[Array, "*n"]:
        return self.value(jax.nn.relu(self.hidden(both)))[..., 0]


class Critic(eqx.Module):
    """One of the twins. It reads the privileged nodes."""

    graph: GraphEncoder
    context: Context
    action: ActionEncoder
    pre: ValueHead
    post: ValueHead
    config: NetworkConfig = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        keys = jax.random.split(key, 5)
        self.graph = GraphEncoder(keys[0], config, PRIVILEGED_FEATURES + IDENTITY_FEATURES * config.identity)
        self.context = Context(keys[1], config)
        self.action = ActionEncoder(keys[2], config)
        self.pre, self.post = ValueHead(keys[3], config.width), ValueHead(keys[4], config.width)
        self.config = config

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n 2 K H"]:
        """Values of all actions by both heads of Eq. 14, pre and post; of one robot or many."""
        judge = self.judge
        for _ in nodes.mask.shape[:-1]:
            judge = jax.vmap(judge)
        read = with_bearings(nodes, situation) if self.config.identity else nodes
        return judge(nodes, self.graph(read, compute), situation)

    def judge(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float32[Array, "2 K H"]:
        """The values of one robot whose graph is encoded."""
        rho = self.action(nodes, z, situation)
        zeta = jnp.broadcast_to(self.context(nodes, z, situation), rho.shape)
        both = jnp.concatenate([zeta, rho], axis=-1).astype(jnp.float32)
        return jnp.stack([self.pre(both), self.post(both)])


def by_phase(values: Float32[Array, "2 K H"], post: Bool[Array, ""]) -> Float32[Array, "K H"]:
    """Eq. 14: the head of the state's phase."""
    return jnp.where(post, values[1], values[0])


def begin_post_head(critic: Critic) -> Critic:
    """The post head starts as a copy of the pre head; a real copy, so that both can be donated to an update."""
    return eqx.tree_at(lambda c: c.post, critic, jax.tree.map(jnp.array, critic.pre))


def polyak(target: Network, online: Network, rate: float = POLYAK_RATE) -> Network:
    """Move a target network a little towards the one that is trained."""

    def follow(old: Array, new: Array) -> Array:
        return old + rate * (new - old)

    return jax.tree.map(follow, target, online)
