"""The critic's nodes: the whole building with what the team has seen of it. Never imported by what runs on a robot."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Shaped, UInt32

from decmarvel.core.config import Config
from decmarvel.core.lattice import site_mask
from decmarvel.core.types import FAR_MM, FREE, OCCUPIED, Site
from decmarvel.robot.graph import from_sites, shortest_paths, whole_network
from decmarvel.robot.observation import POSITION_SCALE_M
from decmarvel.robot.policy.nodes import Nodes, at_sites, edge_bits, places, row_major
from decmarvel.simulation.privileged import PrivilegedView
from decmarvel.worlds.world import World

PRIVILEGED_FEATURES = 5
CROWD = 2.0
"""Unit in which other robots at one site are counted."""


class TrueNodes(eqx.Module):
    """The nodes of a robot that knew everything. They depend only on the world, so they are made once."""

    site: Int32[Array, "*batch M 2"]
    """-1 for padding."""
    edges: UInt32[Array, "*batch M"]
    cell: Int32[Array, "*batch M 2"]
    """The viewpoints; meaningless for padding."""


def linked_sites(length_mm: Int32[Array, "K I J"], start: Site) -> Bool[Array, "I J"]:
    """Sites that edges join with the start."""
    return shortest_paths(length_mm, from_sites(site_mask(length_mm.shape[1], start))) < FAR_MM


def true_nodes(config: Config, world: World, bucket: int) -> tuple[TrueNodes, Int32[Array, ""]]:
    """The nodes, and their number. A critic cannot read a building with more nodes than the bucket has places."""
    belief = jnp.where(world.free, FREE, OCCUPIED).astype(jnp.uint8)
    network = whole_network(config, belief, jnp.array(config.radius_mm, jnp.int32))
    linked = linked_sites(network.length_mm, world.start)
    flat, site = row_major(linked, bucket)
    edges = at_sites(edge_bits(network.length_mm < FAR_MM), flat)
    return TrueNodes(site, edges, at_sites(network.cell, flat)), linked.sum(dtype=jnp.int32)


def shares_at(truth: TrueNodes, privileged: PrivilegedView) -> Float32[Array, "M 3"]:
    """Eq. 15's shares at the true nodes."""
    rows, columns = truth.site[:, 0], truth.site[:, 1]
    return jnp.where(rows[:, None] >= 0, privileged.fractions[rows, columns], 0.0)


def privileged_nodes(
    config: Config,
    truth: TrueNodes,
    own: Nodes,
    here: Site,
    cell: Int32[Array, "2"],
    shares: Float32[Array, "M 3"],
    others: Int32[Array, "N 2"],
    other: Bool[Array, "N"],
) -> Nodes:
    """Every site that can be reached: the robot's features, the shares of Eq. 15, the other robots, and itself.

    The robot is `here`, at a cell.
    """
    place = places(own, truth.site)

    def of_robot(values: Shaped[Array, "M *n"]) -> Shaped[Array, "M *n"]:
        return values.at[jnp.where(place < 0, len(values), place)].get(mode="fill", fill_value=0)

    mask = truth.site[:, 0] >= 0
    crowd = ((truth.site[:, None] == others[None]).all(axis=-1) & other[None]).sum(axis=1).astype(jnp.float32) / CROWD
    itself = (truth.site == here[None]).all(axis=-1).astype(jnp.float32)
    columns = [
        offsets(config, cell, truth.cell),
        of_robot(own.features)[:, 2:],
        shares,
        crowd[:, None],
        itself[:, None],
    ]
    return Nodes(
        site=truth.site,
        mask=mask,
        features=jnp.where(mask[:, None], jnp.concatenate(columns, axis=-1), 0.0),
        histogram=of_robot(own.histogram),
        edges=truth.edges,
    )


def offsets(config: Config, here: Int32[Array, "2"], cell: Int32[Array, "M 2"]) -> Float32[Array, "M 2"]:
    """The first two features of a node (x, y) at a cell, here also of viewpoints that are no nodes yet."""
    away = (cell - here[None])[:, ::-1].astype(jnp.float32)
    return away / config.stride * (config.spacing_m / POSITION_SCALE_M)


def unprivileged_nodes(own: Nodes) -> Nodes:
    """A critic's nodes without privilege (`no-top`): the robot's own nodes, with five more features that are zero."""
    return eqx.tree_at(lambda n: n.features, own, jnp.pad(own.features, ((0, 0), (0, PRIVILEGED_FEATURES))))
