"""A run that begins with published weights: the next leg of a long training, elsewhere or with other settings.

Unlike `--resume` it takes the networks alone. Memory, missions and optimisers begin anew.
"""

import dataclasses
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from decmarvel.learning.actor import Actor
from decmarvel.learning.critic import Critic
from decmarvel.learning.networks import NetworkConfig
from decmarvel.learning.sac import Learner, SacSettings, begin_with
from decmarvel.learning.weights import Card, WeightsError, critic_paths, load_weights, read_card, save_weights

Network = TypeVar("Network", Actor, Critic)


def save_networks(path: Path, learner: Learner, card: Card) -> None:
    """The actor, and the critics beside it."""
    save_weights(path, learner.actor, card)
    for number, place in enumerate(critic_paths(path)):
        twin = jax.tree.map(lambda leaf: leaf[number], learner.critics)  # noqa: B023
        save_weights(place, twin, dataclasses.replace(card, kind="critic"))


def load_learner(settings: SacSettings, network: NetworkConfig, path: Path) -> Learner:
    """The networks that `save_networks` wrote. Those that do not know their robot's number may learn to read it."""

    def read(place: Path, kind: type[Network]) -> Network:
        card = read_card(place, "actor" if kind is Actor else "critic")
        known = load_weights(place, eqx.filter_eval_shape(kind, jax.random.key(0), card.network))
        if card.network == network:
            return known
        if dataclasses.replace(card.network, identity=True) != network:
            raise WeightsError(
                f"{place}: made for another network; give --set network.… as its card says, or train anew"
            )
        return with_identity(known, eqx.filter_eval_shape(kind, jax.random.key(0), network))

    critics = [read(place, Critic) for place in critic_paths(path)]
    twins = jax.tree.map(lambda *leaves: jnp.stack(leaves), *critics)
    return begin_with(settings, read(path, Actor), twins, post_begun=True)


def with_identity(known: Network, like: Network) -> Network:
    """A network that also reads what a robot knows of itself, and makes nothing of it yet."""

    def grown(leaf: Array, wanted: jax.ShapeDtypeStruct) -> Array:
        return jnp.pad(leaf, [(0, more - has) for has, more in zip(leaf.shape, wanted.shape, strict=True)])

    leaves = map(grown, jax.tree.leaves(known), jax.tree.leaves(like))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
