"""A run that begins with published weights: the next leg of a long training, elsewhere or with other settings.

Unlike `--resume` it takes the networks alone. Memory, missions and optimisers begin anew.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from decmarvel.core.types import Key
from decmarvel.robot.policy.actor import AnyActor, new_actor
from decmarvel.robot.policy.blocks import NetworkConfig
from decmarvel.robot.policy.weights import (
    Card,
    WeightsError,
    critic_paths,
    load_weights,
    named_arrays,
    read_card,
    save_weights,
)
from decmarvel.training.critic import Critic
from decmarvel.training.sac import Learner, SacSettings, begin_with

Network = TypeVar("Network", AnyActor, Critic)
GROWING = ("identity",)
"""Extensions that a network can get after it has learned without."""


def save_networks(path: Path, learner: Learner, card: Card) -> None:
    """The actor, and the critics beside it."""
    save_weights(path, learner.steady, card)
    for number, place in enumerate(critic_paths(path)):
        twin = jax.tree.map(lambda leaf: leaf[number], learner.critics)  # noqa: B023
        save_weights(place, twin, dataclasses.replace(card, kind="critic"))


def load_learner(settings: SacSettings, network: NetworkConfig, path: Path) -> Learner:
    """The networks that `save_networks` wrote. They may learn to read their robot's number."""

    def read(place: Path, kind: Literal["actor", "critic"], new: Callable[[Key, NetworkConfig], Network]) -> Network:
        card = read_card(place, kind)
        known = load_weights(place, eqx.filter_eval_shape(new, jax.random.key(0), card.network))
        if card.network == network:
            return known
        more = {name: True for name in GROWING if getattr(network, name)}
        if dataclasses.replace(card.network, **more) != network:
            raise WeightsError(
                f"{place}: made for another network; give --set network.… as its card says, or train anew"
            )
        return grown(known, new(jax.random.key(0), network))

    critics = [read(place, "critic", Critic) for place in critic_paths(path)]
    twins = jax.tree.map(lambda *leaves: jnp.stack(leaves), *critics)
    return begin_with(settings, read(path, "actor", new_actor), twins, post_begun=True)


def grown(known: Network, larger: Network) -> Network:
    """The larger network with what the other knows: of more inputs it makes nothing yet, more parts are as they are."""
    arrays = named_arrays(known)

    def taught(name: str, fresh: Array) -> Array:
        has = arrays.get(name, fresh)
        return jnp.pad(has, [(0, more - there) for there, more in zip(has.shape, fresh.shape, strict=True)])

    leaves = [taught(name, fresh) for name, fresh in named_arrays(larger).items()]
    return jax.tree.unflatten(jax.tree.structure(larger), leaves)
