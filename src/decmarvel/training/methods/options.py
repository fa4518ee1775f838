"""Our method: begin as a frontier planner, and take small steps towards actions with better results than expected."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import FREE, UNKNOWN, Key
from decmarvel.robot.policy.blocks import CrossAttention, GraphSizes
from decmarvel.robot.policy.contexts import (
    BUDGET_FEATURES,
    IDENTITY_FEATURES,
    Context,
    context_keys,
    identity,
    own_node,
    with_bearings,
)
from decmarvel.robot.policy.layers import Linear
from decmarvel.robot.policy.nodes import Nodes, Situation
from decmarvel.robot.policy.option_actor import OptionActorConfig
from decmarvel.simulation.team_map import merge
from decmarvel.simulation.types import Move, State
from decmarvel.training.algorithms.proximal import Proximal
from decmarvel.training.critic import PlainCritic, Trunk
from decmarvel.training.rewards import Reward
from decmarvel.training.settings import CollectSettings, TrainSettings


class LookingContext(Context):
    """For the critic: the robot's own node after attention to all others, budget, number and team size."""

    node_features: ClassVar[int] = 2
    budget: Linear
    join: Linear
    decoder: CrossAttention

    def __init__(self, key: Key, sizes: GraphSizes):
        key_budget, key_join, key_decoder = context_keys(key)
        self.budget = Linear(key_budget, BUDGET_FEATURES + IDENTITY_FEATURES, sizes.width)
        self.join = Linear(key_join, 2 * sizes.width, sizes.width)
        self.decoder = CrossAttention(key_decoder, sizes)

    def read(self, nodes: Nodes, situation: Situation) -> Nodes:
        return with_bearings(nodes, situation)

    def __call__(self, nodes: Nodes, z: Float[Array, "M D"], situation: Situation) -> Float[Array, "D"]:
        here = self.decoder(own_node(nodes, z, situation)[None], z, nodes.mask)[0]
        known = jnp.concatenate([situation.budget, identity(situation)])
        return self.join(jnp.concatenate([here, self.budget(known.astype(z.dtype))]))


@dataclass(frozen=True)
class OptionReward(Reward):
    """It rewards newly seen floor and penalises metres."""

    hurry: float = -0.5
    """Reward for each lattice spacing that a robot flies before the team succeeds."""
    covered: float = 1.0
    """Reward for each 100 free cells that a robot sees and no robot knew before."""

    def of_explorers(
        self, config: Config, before: State, move: Move, after: State, low_gains: Int32[Array, "N"]
    ) -> tuple[dict[str, Float32[Array, "N"]], Int32[Array, "N"]]:
        flown_mm = after.robots.travelled_mm - before.robots.travelled_mm
        flown = flown_mm.astype(jnp.float32) / config.spacing_mm
        return {
            "hurry": self.hurry * jnp.where(before.progress.metres_to_success_mm < 0, flown, 0.0),
            "covered": self.covered / 100 * newly_covered(before, after),
        }, low_gains


def newly_covered(before: State, after: State) -> Float32[Array, "N"]:
    """Number of free cells that each robot knows after a decision and no robot knew before."""
    unknown = merge(before.robots.belief) == UNKNOWN
    return ((after.robots.belief == FREE) & unknown[None]).sum(axis=(1, 2)).astype(jnp.float32)


@dataclass(frozen=True)
class OptionCriticConfig(GraphSizes):
    """The shape of our critic: small, as it learns from many transitions."""

    width: int = 64
    layers: int = 2
    feed: int = 128
    channels: int = 4

    def build(self, key: Key) -> PlainCritic:
        keys = jax.random.split(key, 5)
        trunk = Trunk((keys[0], keys[1], keys[2]), self, LookingContext(keys[1], self))
        return PlainCritic(trunk, keys[3], self)


OPTIONS = TrainSettings(
    capacity=120_000,
    first_rows=40_000,
    updates=12,
    collect=CollectSettings(team_sizes=(2, 4, 8), past_success=False),
    reward=OptionReward(),
    algorithm=Proximal(
        batch=4096,
        discount=0.995,
        steps=16,
        post_share=0.05,
        actor_rate=3e-4,
        critic_rate=1e-3,
        polyak_rate=0.03,
        clip=0.2,
        log_prior_weight=-3.0,
        staleness_rate=4e-3,
        critic_only=200,
        averaging=0.001,
    ),
    actor=OptionActorConfig(),
    critic=OptionCriticConfig(),
)
"""Small networks that learn from many transitions, and from recent ones only."""
