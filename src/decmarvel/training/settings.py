"""All settings that determine a training run."""

from dataclasses import dataclass, field
from typing import Any

from decmarvel.training.algorithms.base import Algorithm
from decmarvel.training.codec import Privilege
from decmarvel.training.curriculum import CurriculumSettings
from decmarvel.training.rewards import Reward


@dataclass(frozen=True)
class CollectSettings:
    """How training missions are flown."""

    missions: int = 512
    """Number of missions that fly at once, on all devices together."""
    team_sizes: tuple[int, ...] = (4,)
    """A mission draws one of these. The paper trains with 4."""
    bucket: int = 320
    """Number of places for nodes; the generated maps have up to 312 nodes."""
    max_decisions: int = 512
    renew_every: int = 16
    """New missions replace finished ones after this many decisions: a start costs as much as a decision."""
    past_success: bool = True
    """Whether a mission goes on when the team has explored 99%. Robots do not know it; nothing depends on it."""

    @property
    def robots(self) -> int:
        return max(self.team_sizes)


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """A method: reward, algorithm and networks; and the sizes of a run."""

    maps: int = 2048
    """Number of generated training buildings."""
    capacity: int = 400_000
    """Number of rows of the memory."""
    first_rows: int = 50_000
    """Learning begins when the memory holds this many transitions."""
    updates: int = 16
    """Number of updates per round, after `collect.renew_every` decisions of every mission."""
    privilege: Privilege = "own and team"
    """"none" (`no-top`): the critics see no more than the actor. "team": they do not read who has seen what."""
    collect: CollectSettings = field(default_factory=CollectSettings)
    curriculum: CurriculumSettings = field(default_factory=CurriculumSettings)
    reward: Reward
    algorithm: Algorithm
    actor: Any
    """The actor's sizes: a configuration that builds it (`robot.policy.actor.ActorConfig`)."""
    critic: Any
    """The critics' sizes: a configuration that builds them (`training.critic.CriticConfig`)."""
