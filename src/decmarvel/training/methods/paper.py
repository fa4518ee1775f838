"""The paper's method: its reward (Eq. 7), and the settings for a fast simulator and as printed."""

from dataclasses import dataclass, replace

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import EXPLORING
from decmarvel.robot.policy.graph_actor import GraphActorConfig
from decmarvel.simulation.types import Move, State
from decmarvel.training.algorithms.sac import Sac
from decmarvel.training.critic import GraphCriticConfig
from decmarvel.training.rewards import Reward, alignments, crossings, gains, trails
from decmarvel.training.settings import TrainSettings


@dataclass(frozen=True)
class PaperReward(Reward):
    """The reward of Eq. 7."""

    frontiers: float = 26.0
    """Number of frontiers in view that are worth 1."""
    fov: float = 1.0
    """Weight of frontiers in the robot's own map; `merged` is that of frontiers in the merged map."""
    merged: float = 1.0
    align: float = 0.1
    """Small, so that it cannot outweigh sensing."""
    trail: float = 0.15
    repeat: float = 0.05
    own_share: float = 0.5
    low_gain: float = 0.05
    """A waypoint with `own_share * fov + merged` below this adds to the count of repeated low gains."""
    team: float = 5.0
    individual: float = 2.5

    def of_explorers(
        self, config: Config, before: State, move: Move, after: State, low_gains: Int32[Array, "N"]
    ) -> tuple[dict[str, Float32[Array, "N"]], Int32[Array, "N"]]:
        """The terms of Eq. 7."""
        counts = gains(config, before, move).astype(jnp.float32) / self.frontiers
        fov, merged = counts[:, 0], counts[:, 1]
        low = self.own_share * fov + merged < self.low_gain
        low_gains = jnp.where((move.mode == EXPLORING) & low, low_gains + 1, 0)
        own, team = crossings(before, after)
        return {
            "fov": self.fov * fov,
            "merged": self.merged * merged,
            "align": self.align * alignments(before, move),
            "trail": -self.trail * trails(config, before, move),
            "repeat": -self.repeat * jnp.maximum(low_gains - 1, 0).astype(jnp.float32),
            "team": jnp.broadcast_to(jnp.where(team, self.team, 0.0), fov.shape),
            "individual": jnp.where(own, self.individual, 0.0),
        }, low_gains


FAST = TrainSettings(
    reward=PaperReward(),
    algorithm=Sac(steps=5, post_share=0.2, polyak_rate=0.01),
    actor=GraphActorConfig(),
    critic=GraphCriticConfig(),
)
"""The paper's method, with critics that learn long-term values within minutes: see docs/training-log.md."""
PAPER = replace(
    FAST,
    capacity=10_000,
    first_rows=2_000,
    collect=replace(FAST.collect, missions=32),
    algorithm=Sac(batch=256, actor_rate=1e-5, critic_rate=1e-5, alpha_rate=1e-4),
)
"""The paper's settings; where it has none, its predecessor's rates: nearly four updates of 256 samples an episode."""
NO_TOP = replace(FAST, privilege="none")
NO_CURRICULUM = replace(FAST, curriculum=replace(FAST.curriculum, adaptive=False))
NO_DUAL_HEAD = replace(FAST, critic=GraphCriticConfig(dual_head=False))
