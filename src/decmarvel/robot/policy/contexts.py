"""Contexts: what a network reads of its robot's situation beside the graph, and the node features that this needs."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from decmarvel.core.types import Key
from decmarvel.robot.policy.blocks import GraphSizes
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation, places, rows_at

BUDGET_FEATURES = 4
IDENTITY_FEATURES = 3


class Context(eqx.Module):
    """One vector for the whole situation of a robot."""

    node_features: ClassVar[int] = 0
    """Number of features that `read` adds to those of a node."""

    def read(self, nodes: Nodes, situation: Situation) -> Nodes:
        """The nodes as the graph's encoder reads them; of one robot or many."""
        return nodes

    @abstractmethod
    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "D"]:
        """The context of one robot whose nodes have the embeddings z."""


class BudgetContext(Context):
    """The paper's context: the robot's own node and its budget."""

    budget: Linear
    join: Linear

    def __init__(self, key: Key, sizes: GraphSizes):
        key_budget, key_join = context_keys(key)[:2]
        self.budget = Linear(key_budget, BUDGET_FEATURES, sizes.width)
        self.join = Linear(key_join, 2 * sizes.width, sizes.width)

    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "D"]:
        known = self.budget(situation.budget.astype(z.dtype))
        return self.join(jnp.concatenate([own_node(nodes, z, situation), known]))


class IdentityContext(Context):
    """Not in the paper: also the robot's number, its team's size, and the bearings of nodes from its own angle."""

    node_features: ClassVar[int] = 2
    budget: Linear
    join: Linear

    def __init__(self, key: Key, sizes: GraphSizes):
        key_budget, key_join = context_keys(key)[:2]
        self.budget = Linear(key_budget, BUDGET_FEATURES + IDENTITY_FEATURES, sizes.width)
        self.join = Linear(key_join, 2 * sizes.width, sizes.width)

    def read(self, nodes: Nodes, situation: Situation) -> Nodes:
        return with_bearings(nodes, situation)

    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "D"]:
        known = jnp.concatenate([situation.budget, identity(situation)])
        here = own_node(nodes, z, situation)
        return self.join(jnp.concatenate([here, self.budget(known.astype(z.dtype))]))


def context_keys(key: Key) -> tuple[Key, Key, Key]:
    """Keys for the weights of budget, join and decoder; a context uses those that it has."""
    key_budget, key_join, key_decoder = jax.random.split(key, 3)
    return key_budget, key_join, key_decoder


def own_node(nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "D"]:
    """The embedding of the node that the robot is at."""
    return rows_at(z, places(nodes, situation.site))


def identity(situation: Situation) -> Float32[Array, "*n 3"]:
    """What a robot knows of itself before take-off: its number, as an angle, and the size of its team."""
    share = 1 / jnp.maximum(situation.team_size, 1).astype(jnp.float32)
    angle = 2 * np.pi * situation.number.astype(jnp.float32) * share
    return jnp.stack([jnp.cos(angle), jnp.sin(angle), share], axis=-1)


def with_bearings(nodes: Nodes, situation: Situation) -> Nodes:
    """Two more features: the bearing of a node from the base, relative to the robot's own angle, as a unit vector."""
    away = (nodes.site - situation.base[..., None, :]).astype(jnp.float32)
    length = jnp.maximum(jnp.sqrt((away**2).sum(axis=-1)), 1.0)
    own = identity(situation)[..., None, :]
    along = (away[..., 1] * own[..., 0] + away[..., 0] * own[..., 1]) / length
    across = (away[..., 0] * own[..., 0] - away[..., 1] * own[..., 1]) / length
    more = jnp.stack([along, across], axis=-1)
    return eqx.tree_at(lambda n: n.features, nodes, jnp.concatenate([nodes.features, more], axis=-1))
