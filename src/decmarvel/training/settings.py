"""Everything that makes a training run what it is."""

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
    """Side by side, on all devices together."""
    team_sizes: tuple[int, ...] = (4,)
    """A mission draws one of these. The paper trains with 4."""
    bucket: int = 320
    """Places for nodes; the generated maps have up to 312."""
    max_decisions: int = 512
    renew_every: int = 16
    """Finished missions are followed by new ones every so many decisions: starting anew costs as much as a decision."""
    past_success: bool = True
    """Whether a mission goes on when the team has explored 99%. Robots cannot know, but nothing is at stake then."""

    @property
    def robots(self) -> int:
        return max(self.team_sizes)


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """A method: reward, algorithm and networks; and the sizes of a run."""

    maps: int = 2048
    """Generated training buildings."""
    capacity: int = 400_000
    """Rows of the memory."""
    first_rows: int = 50_000
    """Learning begins when the memory holds this many transitions."""
    updates: int = 16
    """Each round, after `collect.renew_every` decisions of every mission."""
    privilege: Privilege = "own and team"
    """"none" (`no-top`): the critics see no more than the actor. "team": they are not told who has seen what."""
    collect: CollectSettings = field(default_factory=CollectSettings)
    curriculum: CurriculumSettings = field(default_factory=CurriculumSettings)
    reward: Reward
    algorithm: Algorithm
    actor: Any
    """The actor's sizes: a configuration that builds it (`robot.policy.actor.ActorConfig`)."""
    critic: Any
    """The critics' sizes, likewise."""
