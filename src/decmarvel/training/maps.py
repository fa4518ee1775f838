"""The buildings that are trained on, with their true graphs for the critics."""

import equinox as eqx
import jax
import numpy as np

from decmarvel.core.config import Config
from decmarvel.core.errors import TrainingError
from decmarvel.training.privileged_nodes import TrueNodes, true_nodes
from decmarvel.worlds import generate
from decmarvel.worlds.place import place_all
from decmarvel.worlds.world import World


class Maps(eqx.Module):
    """The training buildings, all of one size, with their true graphs for the critics."""

    world: World
    truth: TrueNodes


def training_maps(config: Config, count: int, bucket: int) -> Maps:
    """Generated buildings of the training series."""
    buildings = [generate("indoor", "train", index, config.cell_m) for index in range(count)]
    return fitting_maps(config, place_all(buildings, config), bucket)


def fitting_maps(config: Config, worlds: World, bucket: int) -> Maps:
    """Buildings to train on: all but those with more nodes than the bucket has places."""
    truth, nodes = jax.lax.map(lambda world: true_nodes(config, world, bucket), worlds, batch_size=64)
    fits = np.flatnonzero(np.asarray(nodes) <= bucket)
    if 2 * len(fits) < len(nodes):
        raise TrainingError(f"most training maps have more than {bucket} nodes; raise collect.bucket")
    return jax.tree.map(lambda leaf: leaf[fits], Maps(worlds, truth))
