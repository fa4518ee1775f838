"""The policy: from what one robot knows to a probability for each waypoint and heading."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32

from decmarvel.config import Config
from decmarvel.geometry import SELF_SLOT, SLOT_OFFSETS, SLOTS, direction_degrees
from decmarvel.learning.advice import Advisers
from decmarvel.learning.layers import Linear, relu
from decmarvel.learning.networks import (
    IDENTITY_FEATURES,
    PLAIN,
    WAY_FEATURES,
    ActionEncoder,
    Compute,
    Context,
    CrossAttention,
    Fusion,
    GraphEncoder,
    NetworkConfig,
    TokenEncoder,
    is_open,
    view_window,
    with_bearings,
    with_ways,
)
from decmarvel.learning.nodes import ADVISERS, Nodes, Situation, candidate_sites, places, rows_at
from decmarvel.types import Key, LocalView

IMPOSSIBLE = -1e9
"""Log-probability of an action that is not valid."""
GAZE_FEATURES = 4
MANY_FRONTIERS = 26.0
"""In view: as many as are worth 1 in Eq. 7."""
FIRST_TRUST = (0.0, 6.0, 1.0, 0.0)
"""In each adviser, before anything is learned."""
LEAST_SHARE = 1e-3
"""Of the probability of all goals, for a waypoint that leads to none."""


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


class GoalPointer(eqx.Module):
    """How well each goal fits the context. Not in the paper: six layers of attention cannot see to the far end of a
    building, and cannot tell the way there; here they need not.
    """

    query: Linear
    key: Linear

    def __init__(self, key: Key, config: NetworkConfig):
        key_query, key_key = jax.random.split(key)
        self.query = Linear(key_query, config.width, config.width, bias=False)
        self.key = Linear(key_key, config.width, config.width, bias=False)

    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], zeta: Float[Array, "D"]) -> Float32[Array, "K"]:
        """Log-probability that the way to the robot's goal begins with each waypoint; zeros if it has no goal."""
        sought = self.query(zeta.astype(jnp.float32)) @ self.key.weight / len(zeta) ** 0.5
        score = z.astype(jnp.float32) @ sought
        begins = nodes.ways.slot[:, None] == jnp.arange(SLOTS, dtype=jnp.int32)[None]
        goal = is_open(nodes) & (nodes.ways.slot != SELF_SLOT)
        leads = jax.nn.logsumexp(jnp.where(begins & goal[:, None], score[:, None], IMPOSSIBLE), axis=0)
        share = jax.nn.log_softmax(leads)
        return jnp.where(goal.any(), jnp.logaddexp(share, jnp.log(LEAST_SHARE)), 0.0)


class Gaze(eqx.Module):
    """How well a heading suits its waypoint. Not in the paper: Eq. 12 weighs the two one by one, but where to look
    depends on where one goes.
    """

    hidden: Linear
    value: Linear
    window: int = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        key_hidden, key_value = jax.random.split(key)
        self.hidden = Linear(key_hidden, 2 * config.width + GAZE_FEATURES, config.width)
        self.value = Linear(key_value, config.width, 1, bias=False)
        self.window = config.window

    def __call__(
        self, nodes: Nodes, zeta: Float[Array, "D"], rho: Float[Array, "K H D"], situation: Situation
    ) -> Float32[Array, "K H"]:
        bins = situation.sensed.shape[-1]
        view = view_window(situation.heading_bin, bins, self.window, jnp.dtype("float32"))
        histogram = rows_at(nodes.histogram.astype(jnp.float32), places(nodes, candidate_sites(situation.site)))
        new = jnp.where(situation.sensed, 0.0, histogram)
        motion = jnp.asarray(direction_degrees(SLOT_OFFSETS[:, 0], SLOT_OFFSETS[:, 1]), jnp.float32)
        away = situation.heading_bin.astype(jnp.float32) * (2 * np.pi / bins) - motion[:, None] * (np.pi / 180)
        seen = [(view * each[:, None]).sum(axis=-1) / MANY_FRONTIERS for each in (histogram, new)]
        facts = jnp.stack([jnp.cos(away), jnp.sin(away), *seen], axis=-1).astype(rho.dtype)
        context = jnp.broadcast_to(zeta, rho.shape)
        hidden = relu(self.hidden(jnp.concatenate([rho, context, facts], axis=-1)))
        return self.value(hidden)[..., 0].astype(jnp.float32)


class Trust(eqx.Module):
    """How far to follow each adviser. Not in the paper: a policy that begins as a planner has only to get better."""

    judge: Linear

    def __init__(self, config: NetworkConfig):
        self.judge = Linear.of(jnp.zeros((ADVISERS, config.width)), jnp.array(FIRST_TRUST, jnp.float32))

    def __call__(self, zeta: Float[Array, "D"], situation: Situation) -> Float32[Array, "K H"]:
        """To the logit of what an adviser says, the trust in it is added."""
        said = jax.nn.one_hot(situation.advice, situation.action_mask.size)
        return (self.judge(zeta.astype(jnp.float32)) @ said).reshape(situation.action_mask.shape)


class Actor(eqx.Module):
    """The decentralised actor. It reads one robot's own nodes and situation, nothing else."""

    graph: GraphEncoder
    tokens: TokenEncoder | None
    fusion: Fusion | None
    context: Context
    action: ActionEncoder
    cross: CrossAttention | None
    pointer: Pointer
    goal: GoalPointer | None
    gaze: Gaze | None
    advisers: Advisers | None
    trust: Trust | None
    config: NetworkConfig = eqx.field(static=True)

    def __init__(self, key: Key, config: NetworkConfig):
        keys = jax.random.split(key, 7)
        self.graph = GraphEncoder(keys[0], config, IDENTITY_FEATURES * config.identity + WAY_FEATURES * config.goals)
        self.tokens = TokenEncoder(keys[1], config) if config.trajectories else None
        self.fusion = Fusion(keys[2], config) if config.trajectories else None
        self.context = Context(keys[3], config)
        self.action = ActionEncoder(keys[4], config)
        self.cross = CrossAttention(keys[5], config) if config.trajectories else None
        self.pointer = Pointer(keys[6], config)
        self.goal = GoalPointer(jax.random.fold_in(key, 7), config) if config.goals else None
        self.gaze = Gaze(jax.random.fold_in(key, 8), config) if config.goals else None
        self.advisers = Advisers(jax.random.fold_in(key, 9)) if config.advice else None
        self.trust = Trust(config) if config.advice else None
        self.config = config

    def advised(self, config: Config, view: LocalView, nodes: Nodes, situation: Situation) -> Situation:
        """The situation of one robot with its advisers' opinions, if it has advisers."""
        if self.advisers is None:
            return situation
        return eqx.tree_at(lambda s: s.advice, situation, self.advisers(config, view, nodes, situation))

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n K H"]:
        """Eq. 1: the log-probability of each action, of one robot or many."""
        decide = partial(self.decide, compute=compute)
        for _ in nodes.mask.shape[:-1]:
            decide = jax.vmap(decide)
        read = with_bearings(nodes, situation) if self.config.identity else nodes
        read = with_ways(read) if self.config.goals else read
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
        if self.goal is not None and self.gaze is not None:
            prior += self.goal(nodes, z, zeta)[:, None] + self.gaze(nodes, zeta, rho, situation)
        if self.trust is not None:
            prior += self.trust(zeta, situation)
        return self.pointer(zeta, rho, situation.action_mask, prior)

    def fused_tokens(
        self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation, compute: Compute = PLAIN
    ) -> Float[Array, "N L D"]:
        """What was seen of the teammates (Eq. 9), with the nodes where it was (Eq. 11)."""
        assert self.tokens is not None
        assert self.fusion is not None
        tau = self.tokens(situation.tokens, situation.token_mask, compute)
        return self.fusion(tau, rows_at(z, places(nodes, situation.token_site)))
