"""The critics: the value of every action. They read the privileged nodes and exist in training only."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32

from decmarvel.core.types import Key
from decmarvel.robot.policy.blocks import PAPER_COLUMNS, ActionEncoder, GraphEncoder, GraphSizes
from decmarvel.robot.policy.compute import PLAIN, Compute
from decmarvel.robot.policy.contexts import BudgetContext, Context, IdentityContext
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation
from decmarvel.training.privileged_nodes import PRIVILEGED_FEATURES

AnyCritic = TypeVar("AnyCritic", bound="Critic")


@runtime_checkable
class CriticConfig(Protocol):
    """The sizes of one kind of critic: a frozen dataclass, which is on the card of the critic's weights."""

    def build(self, key: Key) -> "Critic":
        """A critic of these sizes with fresh weights."""
        ...


class ValueHead(eqx.Module):
    """Maps a context and an action to a value."""

    hidden: Linear
    value: Linear

    def __init__(self, key: Key, width: int):
        key_hidden, key_value = jax.random.split(key)
        self.hidden = Linear(key_hidden, 2 * width, width)
        self.value = Linear(key_value, width, 1)

    def __call__(self, both: Float32[Array, "*n D2"]) -> Float32[Array, "*n"]:
        return self.value(jax.nn.relu(self.hidden(both)))[..., 0]


class Trunk(eqx.Module):
    """The input of every head: the context and the action, concatenated."""

    graph: GraphEncoder
    context: Context
    action: ActionEncoder

    def __init__(
        self,
        keys: tuple[Key, Key, Key],
        sizes: GraphSizes,
        context: Context,
        columns: tuple[int, ...] = PAPER_COLUMNS,
        gated: bool = True,
    ):
        """The graph encoder reads `columns` of a robot's own features, and all features that only critics have."""
        key_graph, _, key_action = keys
        more = PRIVILEGED_FEATURES + context.node_features
        told = range(len(PAPER_COLUMNS), len(PAPER_COLUMNS) + more)
        self.graph = GraphEncoder(key_graph, sizes, (*columns, *told), gated)
        self.context = context
        self.action = ActionEncoder(key_action, sizes)

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute) -> Float32[Array, "*n K H D2"]:
        """Context and action for each action, of one robot or many."""
        pair = self.pair
        for _ in nodes.mask.shape[:-1]:
            pair = jax.vmap(pair)
        return pair(nodes, self.graph(self.context.read(nodes, situation), compute), situation)

    def pair(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float32[Array, "K H D2"]:
        """Context and action for each action of one robot, from the embeddings z of its nodes."""
        rho = self.action(nodes, z, situation)
        zeta = jnp.broadcast_to(self.context(nodes, z, situation), rho.shape)
        return jnp.concatenate([zeta, rho], axis=-1).astype(jnp.float32)


class Critic(eqx.Module):
    """One critic of a learner."""

    @abstractmethod
    def __call__(
        self, nodes: Nodes, situation: Situation, post: Bool[Array, "*n"], compute: Compute = PLAIN
    ) -> Float32[Array, "*n K H"]:
        """Values of all actions of one robot or many; `post`: whether the team has succeeded."""

    def enter_post(self: AnyCritic) -> AnyCritic:
        """The critic to use once the first samples from after the team's success arrive."""
        return self


class PhaseCritic(Critic):
    """One of the paper's twins: a head for each phase of a mission."""

    trunk: Trunk
    pre: ValueHead
    post: ValueHead
    config: Any = eqx.field(static=True)

    def __init__(self, trunk: Trunk, keys: tuple[Key, Key], config: GraphSizes):
        self.trunk, self.config = trunk, config
        self.pre, self.post = (ValueHead(key, config.width) for key in keys)

    def __call__(
        self, nodes: Nodes, situation: Situation, post: Bool[Array, "*n"], compute: Compute = PLAIN
    ) -> Float32[Array, "*n K H"]:
        """Eq. 14: the values by the head of the state's phase."""
        pair = self.trunk(nodes, situation, compute)
        both = jnp.stack([self.pre(pair), self.post(pair)], axis=-3)
        return jnp.where(post[..., None, None], both[..., 1, :, :], both[..., 0, :, :])

    def enter_post(self) -> "PhaseCritic":
        """The post head starts as a copy of the pre head; a real copy, so that both can be donated to an update."""
        return eqx.tree_at(lambda critic: critic.post, self, jax.tree.map(jnp.array, self.pre))


class PlainCritic(Critic):
    """A critic with one head for both phases."""

    trunk: Trunk
    head: ValueHead
    config: Any = eqx.field(static=True)

    def __init__(self, trunk: Trunk, key: Key, config: GraphSizes):
        self.trunk, self.config = trunk, config
        self.head = ValueHead(key, config.width)

    def __call__(
        self, nodes: Nodes, situation: Situation, post: Bool[Array, "*n"], compute: Compute = PLAIN
    ) -> Float32[Array, "*n K H"]:
        return self.head(self.trunk(nodes, situation, compute))


@dataclass(frozen=True)
class GraphCriticConfig(GraphSizes):
    """The shape of the paper's critics."""

    dual_head: bool = True
    """False (`no-dual-head`): one head for both phases."""
    identity: bool = False
    """For experiments: also read the robot's number, as the actor does."""

    def build(self, key: Key) -> PhaseCritic | PlainCritic:
        keys = jax.random.split(key, 5)
        context = IdentityContext(keys[1], self) if self.identity else BudgetContext(keys[1], self)
        trunk = Trunk((keys[0], keys[1], keys[2]), self, context)
        if self.dual_head:
            return PhaseCritic(trunk, (keys[3], keys[4]), self)
        return PlainCritic(trunk, keys[3], self)


def stacked_critics(config: CriticConfig, key: Key, count: int) -> Critic:
    """`count` critics with fresh weights, stacked along a leading axis."""
    made: Critic = eqx.filter_vmap(config.build)(jax.random.split(key)[:count])
    return made
