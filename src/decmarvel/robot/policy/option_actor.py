"""`options`: our own actor. It weighs the goals of a frontier planner by facts about each, and encodes no graph.

The policy begins as a frontier planner and only has to improve. To choose among a few good goals can be learned; to
find such goals cannot.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float32

from decmarvel.core.config import Config
from decmarvel.core.types import Key, LocalView
from decmarvel.robot.observation import observe, ways
from decmarvel.robot.policy.actor import Actor, masked_log_softmax, of_all
from decmarvel.robot.policy.compute import PLAIN, Compute
from decmarvel.robot.policy.nodes import Nodes, Situation, compact, on_lattice, situation_of
from decmarvel.robot.policy.options import find_options
from decmarvel.robot.policy.scorer import OptionScorer, prior_logits
from decmarvel.robot.policy.staleness import StalenessPredictor


@dataclass(frozen=True)
class OptionActorConfig:
    """The shape of our actor."""

    options: int = 6
    """Number of goals that are weighed."""
    staleness_width: int = 64
    """Width of the two hidden layers of the staleness predictor."""
    scorer_width: int = 64
    """Width of the two hidden layers of the option scorer."""
    bins: int = 36
    window: int = 13
    max_budget_m: float = 1024.0

    def build(self, key: Key) -> "OptionActor":
        return OptionActor(key, self)


class OptionActor(Actor):
    """A staleness predictor, a planner that uses it, and a scorer of the planner's options."""

    name: ClassVar[str] = "options"
    staleness: StalenessPredictor
    scorer: OptionScorer
    config: OptionActorConfig = eqx.field(static=True)

    def __init__(self, key: Key, config: OptionActorConfig):
        key_staleness, key_scorer = jax.random.split(key)
        self.staleness = StalenessPredictor(key_staleness, config.staleness_width, config.max_budget_m)
        self.scorer = OptionScorer(key_scorer, config.scorer_width, config.max_budget_m)
        self.config = config

    def __call__(self, nodes: Nodes, situation: Situation, compute: Compute = PLAIN) -> Float32[Array, "*n K H"]:
        return of_all(self.decide, situation)(nodes, situation)

    def decide(self, nodes: Nodes, situation: Situation) -> Float32[Array, "K H"]:
        """The policy of one robot. Without any option, all valid actions are equally probable.

        Where only one is asked for, there is nothing to weigh.
        """
        if situation.known_options.action.shape[-1] == 1:
            return self.prior(situation)
        logits = self.scorer(nodes, situation, self.stale(nodes, situation))
        return masked_log_softmax(logits, situation.action_mask)

    def prior(self, situation: Situation) -> Float32[Array, "*n K H"]:
        """The policy of an actor that has learned nothing, of one robot or many."""

        def decide(situation: Situation) -> Float32[Array, "K H"]:
            return masked_log_softmax(prior_logits(situation), situation.action_mask)

        return of_all(decide, situation)(situation)

    def places(self, config: Config, sites: int) -> int:
        """One place per site: the facts of options depend on all nodes. In rooms half: most tiles there are walls."""
        return sites * sites // 2 if config.short_moves else sites * sites

    def read(self, config: Config, view: LocalView, places: int) -> tuple[Nodes, Situation]:
        """The robot's nodes with the ways to them, and its situation with its options."""
        observation = observe(config, view)
        nodes, situation = compact(observation, places, ways(config, view)), situation_of(observation)
        stale = on_lattice(nodes, self.stale(nodes, situation), view.visits.shape[0])
        found = find_options(config, view, stale, 1 if config.short_moves else self.config.options)
        return nodes, eqx.tree_at(
            lambda s: (s.heading_bin, s.options), situation, found, is_leaf=lambda leaf: leaf is None
        )

    def has_goal(self, situation: Situation) -> Bool[Array, ""]:
        return (situation.known_options.action >= 0).any()

    def stale(self, nodes: Nodes, situation: Situation) -> Float32[Array, "M"]:
        """For each node, the probability that teammates have explored behind its nearest frontier still to see.

        No gradient flows through it: the predictor learns only from its own labels.
        """
        return jax.lax.stop_gradient(jax.nn.sigmoid(self.staleness(nodes, situation)))
