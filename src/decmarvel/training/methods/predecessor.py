"""MARVEL, the paper's predecessor, without communication: its reward, its critics, and settings for our simulator."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import Key
from decmarvel.robot.policy.blocks import GraphSizes
from decmarvel.robot.policy.predecessor import MARVEL_COLUMNS, MarvelConfig, MarvelContext
from decmarvel.robot.sight import frontiers, thin
from decmarvel.simulation.team_map import merge
from decmarvel.simulation.types import Move, State
from decmarvel.training.algorithms.sac import Sac
from decmarvel.training.critic import PlainCritic, Trunk
from decmarvel.training.methods.paper import FAST
from decmarvel.training.rewards import Reward, alignments, crossings, gains


@dataclass(frozen=True)
class MarvelReward(Reward):
    """The reward of MARVEL."""

    frontiers: float = 26.0
    """Number of frontiers in view that are worth 1."""
    fov: float = 1.0
    align: float = 1.0
    team: float = 10.0
    removed: float = 1 / 39
    """Reward for each frontier of the merged belief that a decision has resolved."""
    step: float = -0.5
    """Reward for each decision."""

    def of_explorers(
        self, config: Config, before: State, move: Move, after: State, low_gains: Int32[Array, "N"]
    ) -> tuple[dict[str, Float32[Array, "N"]], Int32[Array, "N"]]:
        fov = gains(config, before, move)[:, 0].astype(jnp.float32) / self.frontiers
        team = crossings(before, after)[1]
        return {
            "fov": self.fov * fov,
            "align": self.align * alignments(before, move),
            "team": jnp.broadcast_to(jnp.where(team, self.team, 0.0), fov.shape),
            "removed": jnp.broadcast_to(self.removed * removed_frontiers(before, after), fov.shape),
            "step": jnp.full_like(fov, self.step),
        }, low_gains


def removed_frontiers(before: State, after: State) -> Float32[Array, ""]:
    """Thinned frontiers of the merged belief that a decision has resolved."""
    corner = jnp.zeros(2, jnp.int32)
    was, is_ = (thin(frontiers(merge(state.robots.belief)), corner) for state in (before, after))
    return (was & ~is_).sum().astype(jnp.float32)


@dataclass(frozen=True)
class MarvelCriticConfig(GraphSizes):
    """The shape of the predecessor's critics."""

    def build(self, key: Key) -> PlainCritic:
        keys = jax.random.split(key, 5)
        context = MarvelContext(keys[1], self)
        trunk = Trunk((keys[0], keys[1], keys[2]), self, context, MARVEL_COLUMNS, gated=False)
        return PlainCritic(trunk, keys[3], self)


MARVEL = replace(
    FAST,
    privilege="team",
    reward=MarvelReward(),
    curriculum=replace(FAST.curriculum, adaptive=False),
    algorithm=Sac(steps=5, post_share=0.2, polyak_rate=0.01, discount=1.0, entropy_share=0.04),
    actor=MarvelConfig(),
    critic=MarvelCriticConfig(),
)
"""The predecessor as the paper compares with it, with our rates: its own are for slow simulators."""
