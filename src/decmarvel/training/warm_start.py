"""A run that begins with published weights, elsewhere or with other settings.

Unlike `--resume` it takes the networks alone. Memory, missions and optimisers begin anew.
"""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from decmarvel.robot.policy.planner import ACTOR_CONFIGS
from decmarvel.robot.policy.weights import (
    Card,
    WeightsError,
    critic_paths,
    load_weights,
    read_card,
    save_weights,
)
from decmarvel.training.algorithms.base import Learner
from decmarvel.training.methods.presets import CRITIC_CONFIGS
from decmarvel.training.settings import TrainSettings


def save_networks(path: Path, settings: TrainSettings, learner: Learner, card: Card) -> None:
    """Save the actor, and the critics beside it."""
    save_weights(path, learner.published, card)
    of_critic = dataclasses.replace(card, kind="critic", network=settings.critic)
    for number, place in enumerate(critic_paths(path, settings.algorithm.critics)):
        critic = jax.tree.map(lambda leaf: leaf[number], learner.critics)  # noqa: B023
        save_weights(place, critic, of_critic)


def load_learner(settings: TrainSettings, path: Path) -> Any:
    """The networks that `save_networks` wrote."""
    actor = read_network(path, read_card(path, "actor", ACTOR_CONFIGS), settings.actor)
    critics = [
        read_network(place, read_card(place, "critic", CRITIC_CONFIGS), settings.critic)
        for place in critic_paths(path, settings.algorithm.critics)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *critics)
    return settings.algorithm.begin(actor, stacked, post_begun=True)


def read_network(place: Path, card: Card, wanted: Any) -> Any:
    """A network from its file, which must have the wanted sizes."""
    if card.network != wanted:
        raise WeightsError(f"{place}: made for another network; give --set with the sizes of its card, or train anew")
    return load_weights(place, eqx.filter_eval_shape(card.network.build, jax.random.key(0)))
