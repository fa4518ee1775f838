"""The presets of `decmarvel train` by name."""

from decmarvel.robot.policy.graph_actor import GraphActor
from decmarvel.robot.policy.option_actor import OptionActor
from decmarvel.robot.policy.predecessor import MarvelActor
from decmarvel.training.critic import GraphCriticConfig
from decmarvel.training.methods.options import OPTIONS, OptionCriticConfig
from decmarvel.training.methods.paper import FAST, NO_CURRICULUM, NO_DUAL_HEAD, NO_TOP, PAPER
from decmarvel.training.methods.predecessor import MARVEL, MarvelCriticConfig
from decmarvel.training.settings import TrainSettings

PRESETS: dict[str, TrainSettings] = {
    "fast": FAST,
    "options": OPTIONS,
    "paper": PAPER,
    "marvel": MARVEL,
    "no-top": NO_TOP,
    "no-curriculum": NO_CURRICULUM,
    "no-dual-head": NO_DUAL_HEAD,
}
CRITIC_CONFIGS: dict[str, type] = {
    OptionActor.name: OptionCriticConfig,
    GraphActor.name: GraphCriticConfig,
    MarvelActor.name: MarvelCriticConfig,
}
"""Configuration class of the critics, by the name of the planner that they were trained for."""
