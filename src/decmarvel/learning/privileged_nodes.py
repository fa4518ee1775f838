"""The critic's nodes: the whole building with what the team has seen of it. Never imported by what runs on a robot."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from decmarvel.config import Config
from decmarvel.graph import edges, from_sites, shortest_paths, site_mask
from decmarvel.learning.nodes import NODE_FEATURES, Nodes, compact, fill_bucket
from decmarvel.observation import POSITION_SCALE_M, Observation
from decmarvel.privileged import PrivilegedView
from decmarvel.types import FAR_MM, FREE, OCCUPIED, Site, World

PRIVILEGED_FEATURES = 5
CRITIC_FEATURES = NODE_FEATURES + PRIVILEGED_FEATURES
CROWD = 2.0
"""Other robots at one site are counted in this unit."""


class TrueGraph(eqx.Module):
    """The graph of a robot that knew everything. It belongs to the world, so it is made once."""

    edge: Bool[Array, "*batch K S S"]
    linked: Bool[Array, "*batch S S"]
    """Sites that edges join with the start."""


def true_graph(config: Config, world: World) -> TrueGraph:
    edge = edges(config, jnp.where(world.free, FREE, OCCUPIED).astype(jnp.uint8))
    home_mm = shortest_paths(config, edge, from_sites(site_mask(edge.shape[1], world.start)))
    return TrueGraph(edge, home_mm < FAR_MM)


def privileged_nodes(
    config: Config, truth: TrueGraph, observation: Observation, privileged: PrivilegedView, bucket: int
) -> Nodes:
    """Every site that can be reached: the robot's features, the shares of Eq. 15, the other robots, and itself."""
    sites = truth.linked.shape[0]
    index = jnp.arange(sites, dtype=jnp.int32)
    at: Bool[Array, "N S S"] = (privileged.sites[:, 0, None, None] == index[None, :, None]) & (
        privileged.sites[:, 1, None, None] == index[None, None, :]
    )
    other = privileged.active & (jnp.arange(len(privileged.active)) != observation.number)
    others = (at & other[:, None, None]).sum(axis=0).astype(jnp.float32) / CROWD
    itself = site_mask(sites, observation.site).astype(jnp.float32)
    columns = [
        offsets(config, observation.site, index),
        observation.node_features[..., 2:],
        privileged.fractions,
        others[..., None],
        itself[..., None],
    ]
    features = jnp.concatenate(columns, axis=-1)
    histogram, sensed = observation.histogram, observation.sensed
    return fill_bucket(bucket, observation.site, truth.linked, truth.edge, features, histogram, sensed)


def offsets(config: Config, here: Site, index: Int32[Array, "S"]) -> Array:
    """The first two features of a node (x, y), here also of sites that are no nodes yet."""
    scaled = (index[:, None] - here[None, :]).astype(jnp.float32) * (config.spacing_m / POSITION_SCALE_M)
    shape = (len(index), len(index))
    return jnp.stack(
        [jnp.broadcast_to(scaled[None, :, 1], shape), jnp.broadcast_to(scaled[:, None, 0], shape)], axis=-1
    )


def unprivileged_nodes(observation: Observation, bucket: int) -> Nodes:
    """The same without privilege (`no-top`): the robot's own nodes, five features zero."""
    nodes = compact(observation, bucket)
    features = jnp.pad(nodes.features, ((0, 0), (0, PRIVILEGED_FEATURES)))
    return eqx.tree_at(lambda n: n.features, nodes, features)
