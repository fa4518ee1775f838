"""SMMR-Explore's multi-robot potential field: frontiers attract, teammates in sight repel (Yu 2021)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from decmarvel.core.config import Config
from decmarvel.core.lattice import SLOT_OFFSETS, site_mask
from decmarvel.core.types import FAR_MM, Key, LocalView, Proposal, Scalar, Sightings, Site
from decmarvel.robot.budget import affordable
from decmarvel.robot.graph import neighbour_values, shortest_paths
from decmarvel.robot.planners.base import Planner
from decmarvel.robot.planners.goals import Goal, distances_from_here, seen_from, towards
from decmarvel.robot.sight import frontiers, grouped

TARGETS = 512
"""Number of frontier cells considered, row by row; more than occur on maps of 100 m."""
CLUSTERS = 32
"""Number of clusters considered, the largest ones; more than usually occur."""
CLUSTER_REACH = 2
"""Cells of one cluster are linked by steps of at most this L1 length."""
MEAN_STEPS = 16
"""Parts of a cell in which the mean of a cluster is kept."""
UNIT = 10_000
"""Potentials are whole numbers of 1 / 10,000, so that they are the same on every machine."""
REPULSION_RANGE_MM = 10_000
ORIGINAL_CELL_MM = 50
FLOW = 5
MOST_FLOW = 20_000
"""Upper limit of flow times visits, so that levels fit in 32 bits."""
MOST_STEPS = 400
HIGH = 2**31 - 1


class Clusters(eqx.Module):
    """Frontier clusters: the centre of each and the number of its cells, 0 where there is none."""

    centre: Int32[Array, "C 2"]
    size: Int32[Array, "C"]


class PotentialPlanner(Planner):
    """SMMR-Explore over the lattice.

    U(p) = - sum_j n_j / d_j(p) + 5 * flow * visits(p) + sum over teammates in sight of max(0, R - L1(p, teammate)),
    with n_j the cells of frontier cluster j and d_j the distance to its centre. The robot follows U downhill from node
    to node, raising the flow where it is stuck, until it stands at the viewpoint of a cluster: its goal, which it
    pursues as every frontier planner does. It plans again at every decision.

    The original descends over cells, up to the centre. Here d_j runs over the graph to a node that sees the centre and
    straight on from there, and is one cell at the cluster's viewpoint, where the robot would leave the graph. R is 10 m
    and counts in the original's cells of 0.05 m; n/d has no scale. Only teammates in sight repel: without a radio a
    robot knows of no others. Where the original says nothing, the stronger choice was taken: clusters that the budget
    does not admit or that were looked at in vain from everywhere do not attract, and the robot is far-sighted
    (goals.py).
    """

    def start(self, config: Config, sites: int) -> None:
        return None

    def propose(self, config: Config, key: Key, view: LocalView, memory: None) -> tuple[Proposal, None]:
        sites = view.visits.shape[0]
        clusters = cluster(grouped(frontiers(view.belief)))
        here_mm = distances_from_here(config, view)
        open_ = view.graph.node & affordable(config, view, here_mm)
        elsewhere = open_ & ~site_mask(sites, view.site)

        def reach(centre: Int32[Array, "2"], size: Scalar) -> tuple[Int32[Array, "I J"], Scalar]:
            """Distances to a cluster's centre, and its viewpoint as a flat index, -1 where it has none."""
            sees, length_mm = seen_from(config, view, centre)
            sees &= size > 0
            cost = jnp.where(sees & elsewhere, here_mm + length_mm // 2, FAR_MM).reshape(-1)
            viewpoint = jnp.where(cost.min() < FAR_MM, jnp.argmin(cost), -1).astype(jnp.int32)
            distance_mm = shortest_paths(view.graph.length_mm, jnp.where(sees & open_, length_mm, FAR_MM))
            at_viewpoint = jnp.arange(sites * sites, dtype=jnp.int32).reshape(sites, sites) == viewpoint
            return jnp.where(at_viewpoint, round(1000 * config.cell_m), distance_mm), viewpoint

        distance_mm, viewpoint = jax.vmap(reach)(clusters.centre, clusters.size)
        there = viewpoint >= 0
        potential = attraction(config, distance_mm, jnp.where(there, clusters.size, 0))
        end = descend(view, open_, potential + repulsion(config, view.sightings, view.graph.cell), viewpoint)
        # The cluster where the descent ended; the nearest one if it ended at none.
        travel_mm = jnp.where(there, here_mm.reshape(-1)[jnp.maximum(viewpoint, 0)], FAR_MM)
        chosen = jnp.argmin(jnp.where(viewpoint == end, -1, travel_mm))
        site = jnp.stack([viewpoint[chosen] // sites, viewpoint[chosen] % sites])
        goal = Goal(site, clusters.centre[chosen]).otherwise(there.any(), Goal.none())
        return towards(config, view, goal, far_sighted=True), None


def cluster(frontier: Bool[Array, "Y X"]) -> Clusters:
    """Frontier cells linked transitively by L1 steps below three cells; the largest clusters, biggest first."""
    row, column = jnp.nonzero(frontier, size=TARGETS, fill_value=-1)
    row, column = row.astype(jnp.int32), column.astype(jnp.int32)
    there = row >= 0
    apart = jnp.abs(row[:, None] - row[None]) + jnp.abs(column[:, None] - column[None])
    linked = (apart <= CLUSTER_REACH) & there[:, None] & there[None]
    own = jnp.arange(TARGETS, dtype=jnp.int32)

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        label, _ = carry
        lowest = jnp.where(linked, label[None], TARGETS).min(axis=1)
        lowest = jnp.where(there, lowest, own)
        lowest = lowest[lowest]  # also the lowest label that its root has found
        return lowest, (lowest != label).any()

    label, _ = jax.lax.while_loop(lambda carry: carry[1], spread, (own, jnp.array(True)))
    count = jnp.zeros(TARGETS, jnp.int32).at[label].add(there.astype(jnp.int32))
    size, root = jax.lax.top_k(count, CLUSTERS)
    member = (label[None] == root[:, None]) & there[None]

    def from_mean(values: Int32[Array, "M"]) -> Int32[Array, "C M"]:
        total, some = jnp.where(member, values[None], 0).sum(axis=1), jnp.maximum(size, 1)
        return MEAN_STEPS * values[None] - ((2 * MEAN_STEPS * total + some) // (2 * some))[:, None]

    away = from_mean(row) ** 2 + from_mean(column) ** 2
    centre = jnp.argmin(jnp.where(member, away, FAR_MM), axis=1)
    return Clusters(jnp.stack([row[centre], column[centre]], axis=-1), size)


def attraction(config: Config, distance_mm: Int32[Array, "C I J"], size: Int32[Array, "C"]) -> Int32[Array, "I J"]:
    """- sum_j n_j / d_j, in cells; nothing from a cluster nearer than a cell or out of reach."""
    cell_mm = round(1000 * config.cell_m)
    if UNIT * cell_mm * TARGETS >= 2**31:
        raise ValueError(f"cells of {config.cell_m} m are too coarse for SMMR; choose coarsest_cell_m=0.4 or less")
    pull = (UNIT * cell_mm * size)[:, None, None] // jnp.maximum(distance_mm, cell_mm)
    return -jnp.where((distance_mm < FAR_MM) & (distance_mm >= cell_mm), pull, 0).sum(axis=0)


def repulsion(config: Config, sightings: Sightings, cell: Int32[Array, "I J 2"]) -> Int32[Array, "I J"]:
    """Sum over the teammates seen at the last decision of max(0, R - L1 distance), in cells of the original's size."""
    seen, mate = sightings.seen[:, 0, None, None], sightings.cell[:, 0]
    apart = jnp.abs(cell[None] - mate[:, None, None]).sum(axis=-1)
    push_mm = jnp.maximum(REPULSION_RANGE_MM - round(1000 * config.cell_m) * apart, 0)
    return UNIT // ORIGINAL_CELL_MM * jnp.where(seen, push_mm, 0).sum(axis=0)


def descend(
    view: LocalView, open_: Bool[Array, "I J"], potential: Int32[Array, "I J"], viewpoint: Int32[Array, "C"]
) -> Scalar:
    """Walk downhill from the robot's node to a cluster's viewpoint; return its flat index, or that of the last node."""
    sites = view.visits.shape[0]
    stop = jnp.zeros(sites * sites + 1, bool).at[viewpoint].set(True)[:-1].reshape(sites, sites)
    slots = jnp.asarray(SLOT_OFFSETS)

    def going(carry: tuple[Site, Scalar, Int32[Array, "I J"], Scalar]) -> Bool[Array, ""]:
        site, _, _, count = carry
        return ~stop[site[0], site[1]] & (count < MOST_STEPS)

    def walk(
        carry: tuple[Site, Scalar, Int32[Array, "I J"], Scalar],
    ) -> tuple[Site, Scalar, Int32[Array, "I J"], Scalar]:
        site, flow, visits, count = carry
        level = potential + FLOW * UNIT * jnp.minimum(flow * visits, MOST_FLOW)
        admitted = view.graph.edge[:, site[0], site[1]] & (neighbour_values(open_.astype(jnp.int32), site, 0) > 0)
        around = jnp.where(admitted, neighbour_values(level, site, HIGH), HIGH)
        slot = jnp.argmin(around)
        falls = around[slot] < level[site[0], site[1]]
        visits = visits + site_mask(sites, site).astype(jnp.int32)
        return jnp.where(falls, site + slots[slot], site), jnp.where(falls, flow, flow + 1), visits, count + 1

    zero = jnp.array(0, jnp.int32)
    start = (view.site, zero, jnp.zeros((sites, sites), jnp.int32), zero)
    site = jax.lax.while_loop(going, walk, start)[0]
    return (site[0] * sites + site[1]).astype(jnp.int32)
