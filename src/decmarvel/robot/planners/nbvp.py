"""Next-best-view planning: the best branch of a random tree, by the unknown cells in view (Bircher 2016)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.angles import degrees_towards
from decmarvel.core.config import Config
from decmarvel.core.lattice import SLOT_OFFSETS, site_mask, slot_of
from decmarvel.core.types import FAR_MM, OCCUPIED, RETURN_HOME, UNKNOWN, Key, LocalView, Proposal, Scalar, Site
from decmarvel.robot.budget import affordable
from decmarvel.robot.graph import from_sites, hop_costs, neighbour_values, shortest_paths, way_offsets
from decmarvel.robot.planners.base import Planner, by_slot
from decmarvel.robot.planners.goals import NEARER_STOP_FIRST, distances_from_here
from decmarvel.robot.sight import at_viewpoints, count_bits, cut_window, for_sites, layout, looks

DISCOUNT_PER_M = 0.25
SMALLEST_GAIN = 10
"""Number of unknown cells; a view with fewer is worth nothing."""
ENOUGH_VERTICES, MOST_VERTICES = 50, 200
BRANCH = 24
"""Number of vertices of the last best branch that are remembered."""


class Plan(eqx.Module):
    """What a robot keeps between decisions: the gain of every site as known so far, and the rest of its branch."""

    gain: Int32[Array, "*batch I J"]
    """Unknown cells in the best view from each site."""
    heading_bin: Int32[Array, "*batch I J"]
    branch: Int32[Array, "*batch V 2"]
    """Sites that come next, (-1, -1) after the last."""
    site: Int32[Array, "*batch 2"]
    """The robot's site at the last decision, (-1, -1) before the first."""


class Tree(NamedTuple):
    """A tree over lattice sites, as arrays over sites."""

    inside: Bool[Array, "I J"]
    length_mm: Int32[Array, "I J"]
    worth: Float32[Array, "I J"]
    parent: Int32[Array, "I J"]
    """Flat index of the parent site; the root is its own parent."""
    size: Scalar


class NextBestViewPlanner(Planner):
    """NBVP over lattice edges.

    g(v) = g(parent) + gain(v) * exp(-0.25 / m * path length), the gain being the unknown cells within sensor range that
    no known wall hides, in the best of 36 views (one random yaw, as in the original, is far weaker). The rest of the
    last best branch is reinserted first, with fresh gains; then the tree grows to 50 vertices and a positive worth,
    with 200 samples at most. Samples are drawn among the robot's nodes, and only vertices that leave a way home enter:
    both make it stronger. If the tree finds nothing, the robot heads for the nearest node with a gain.

    A view that was taken at a node is not worth taking there again (its direction was sensed): without this the robot
    comes back for ever to cells it cannot see. Teammates do not matter.
    """

    def start(self, config: Config, sites: int) -> Plan:
        empty = jnp.zeros((sites, sites), jnp.int32)
        return Plan(empty, empty, jnp.full((BRANCH, 2), -1, jnp.int32), jnp.full(2, -1, jnp.int32))

    def propose(self, config: Config, key: Key, view: LocalView, memory: Plan) -> tuple[Proposal, Plan]:
        gain, heading_bin = refresh(config, view, memory)
        looked = jnp.take_along_axis(view.sensed, heading_bin[..., None], axis=-1)[..., 0]
        here_mm = distances_from_here(config, view)
        open_ = view.graph.node & affordable(config, view, here_mm)
        promise = jnp.where(open_ & ~looked & (gain >= SMALLEST_GAIN), gain, 0).astype(jnp.float32)
        tree = replant(config, view, open_, promise, memory.branch)
        tree = grow(config, key, view, open_, promise, tree)
        branch = best_branch(tree, view.site)

        found = tree.worth.max() > 0
        to_gain_mm = shortest_paths(view.graph.length_mm, from_sites(promise > 0))
        first_mm = view.graph.length_mm[:, view.site[0], view.site[1]]
        costs = hop_costs(view.graph.length_mm, to_gain_mm, view.site) + first_mm // NEARER_STOP_FIRST
        nearest_slot = jnp.argmin(jnp.where(view.candidates.mask, costs, 2 * FAR_MM))
        slot: Scalar = jnp.where(found, slot_of(branch[0] - view.site), nearest_slot).astype(jnp.int32)
        reachable = found | (to_gain_mm[view.site[0], view.site[1]] < FAR_MM)
        choice = jnp.where(reachable, slot * config.headings_per_node, RETURN_HOME).astype(jnp.int32)

        worth = neighbour_values(jnp.round(tree.worth * 1000).astype(jnp.int32), view.site, 0).astype(jnp.float32)
        score = jnp.where(found, worth, -costs.astype(jnp.float32))
        along = degrees_towards(way_offsets(view.graph, view.site), 3 * config.stride)
        best = neighbour_values(heading_bin, view.site, 0) * config.degrees_per_bin
        heading = jnp.where(neighbour_values(promise.astype(jnp.int32), view.site, 0) > 0, best, along)
        rest = jnp.where(found, jnp.concatenate([branch[1:], jnp.full((1, 2), -1, jnp.int32)]), -1)
        return by_slot(config, score, heading, choice), Plan(gain, heading_bin, rest, view.site)


def refresh(config: Config, view: LocalView, memory: Plan) -> tuple[Int32[Array, "I J"], Int32[Array, "I J"]]:
    """The gains and best headings of all sites; those that the last decision may have changed are computed again."""
    plan, sites = layout(config, config.sensor_radius_cells), view.visits.shape[0]
    before = jnp.where(memory.site >= 0, memory.site, view.site)
    known, first = cut_window(config, view.belief, sites, (before + view.site) // 2)
    count, corner = config.lattice.sites(known.shape[0]), config.stride * first
    window = jnp.ones((count, count), bool)
    needed = jax.lax.dynamic_update_slice(jnp.zeros((sites, sites), bool), window, (first[0], first[1]))
    layers = (known != OCCUPIED).astype(jnp.uint8) | (known == UNKNOWN).astype(jnp.uint8) << 1
    half = view.fov_deg // (2 * config.degrees_per_bin)

    def compute(some: Int32[Array, "32 2"]) -> tuple[Int32[Array, "32"], Int32[Array, "32"]]:
        """Unknown cells in the best view from each of 32 sites, and that view's bin."""
        see, _ = looks(plan, layers, view.graph.cell[some[:, 0], some[:, 1]] - corner[None], view.range_mm)
        histogram = count_bits(see(1))
        widest = config.window_bins // 2
        views = [jnp.where(abs(k) <= half, jnp.roll(histogram, -k, axis=1), 0) for k in range(-widest, widest + 1)]
        total = jnp.stack(views).sum(axis=0)
        return total.max(axis=1), jnp.argmax(total, axis=1).astype(jnp.int32)

    needed &= at_viewpoints(view.belief, view.graph.cell)
    return for_sites(needed, (memory.gain, memory.heading_bin), compute)


def worth_of(config: Config, promise: Float32[Array, ""], length_mm: Scalar) -> Float32[Array, ""]:
    return promise * jnp.exp(-DISCOUNT_PER_M / (1000 * config.scale) * length_mm.astype(jnp.float32))


def attach(
    config: Config,
    tree: Tree,
    promise: Float32[Array, "I J"],
    parent: Site,
    child: Site,
    hop_mm: Scalar,
    go: Bool[Array, ""],
) -> Tree:
    """The tree with one more vertex if `go` is true."""
    at = (child[0], child[1])
    length = tree.length_mm[parent[0], parent[1]] + hop_mm
    worth = tree.worth[parent[0], parent[1]] + worth_of(config, promise[at], length)
    sites = promise.shape[0]

    def put(values: Array, value: Array) -> Array:
        return values.at[at].set(jnp.where(go, value, values[at]))

    return Tree(
        inside=put(tree.inside, jnp.array(True)),
        length_mm=put(tree.length_mm, length),
        worth=put(tree.worth, worth),
        parent=put(tree.parent, (parent[0] * sites + parent[1]).astype(jnp.int32)),
        size=tree.size + go.astype(jnp.int32),
    )


def hop_mm(config: Config, view: LocalView, start: Site, end: Site) -> Scalar:
    """Length of the edge between two sites, FAR_MM where there is none."""
    offset = end - start
    near = (jnp.abs(offset) <= 2).all()
    slot = jnp.where(near, slot_of(offset), 12)
    return jnp.where(near, view.graph.length_mm[slot, start[0], start[1]], FAR_MM)


def replant(
    config: Config,
    view: LocalView,
    open_: Bool[Array, "I J"],
    promise: Float32[Array, "I J"],
    branch: Int32[Array, "V 2"],
) -> Tree:
    """A tree of the current site and the rest of the last best branch, as far as its edges and nodes still exist."""
    sites = promise.shape[0]
    root = site_mask(sites, view.site)
    flat = (view.site[0] * sites + view.site[1]).astype(jnp.int32)
    tree = Tree(
        inside=root,
        length_mm=jnp.zeros((sites, sites), jnp.int32),
        worth=jnp.zeros((sites, sites), jnp.float32),
        parent=jnp.full((sites, sites), flat, jnp.int32),
        size=jnp.array(1, jnp.int32),
    )

    def follow(carry: tuple[Tree, Site, Bool[Array, ""]], site: Site) -> tuple[tuple[Tree, Site, Array], None]:
        tree, last, holds = carry
        inside = jnp.maximum(site, 0)
        hop = hop_mm(config, view, last, inside)
        fresh = open_[inside[0], inside[1]] & ~tree.inside[inside[0], inside[1]]
        holds &= (site[0] >= 0) & (hop < FAR_MM) & fresh
        return (attach(config, tree, promise, last, inside, hop, holds), jnp.where(holds, inside, last), holds), None

    (tree, _, _), _ = jax.lax.scan(follow, (tree, view.site, jnp.array(True)), branch)
    return tree


def grow(
    config: Config, key: Key, view: LocalView, open_: Bool[Array, "I J"], promise: Float32[Array, "I J"], tree: Tree
) -> Tree:
    """Sample a node, take the nearest vertex, extend it by the edge that leads nearest to the sample."""
    sites = promise.shape[0]
    samples = jax.random.categorical(key, jnp.where(open_, 0.0, -jnp.inf).reshape(-1), shape=(MOST_VERTICES,))
    index = jnp.arange(sites, dtype=jnp.int32)
    row, column = index[:, None], index[None, :]
    slots = jnp.asarray(SLOT_OFFSETS)
    nowhere = jnp.array(FAR_MM, jnp.int32)

    def going(carry: tuple[Tree, Scalar]) -> Bool[Array, ""]:
        tree, count = carry
        return (count < MOST_VERTICES) & ((tree.size < ENOUGH_VERTICES) | (tree.worth.max() <= 0))

    def extend(carry: tuple[Tree, Scalar]) -> tuple[Tree, Scalar]:
        tree, count = carry
        sample = samples[count]
        away = (row - sample // sites) ** 2 + (column - sample % sites) ** 2
        nearest = jnp.argmin(jnp.where(tree.inside, away, nowhere)).astype(jnp.int32)
        vertex = jnp.stack([nearest // sites, nearest % sites])
        free = view.graph.edge[:, vertex[0], vertex[1]]
        taken = neighbour_values((tree.inside | ~open_).astype(jnp.int32), vertex, 1)
        reach = jnp.where(free & (taken == 0), neighbour_values(away, vertex, FAR_MM), nowhere)
        slot = jnp.argmin(reach)
        go = reach[slot] < nowhere
        return attach(
            config, tree, promise, vertex, vertex + slots[slot], view.graph.length_mm[slot, vertex[0], vertex[1]], go
        ), count + 1

    return jax.lax.while_loop(going, extend, (tree, jnp.array(0, jnp.int32)))[0]


def best_branch(tree: Tree, root: Site) -> Int32[Array, "V 2"]:
    """The sites from the root (left out) to the vertex of highest worth; the first BRANCH if there are more."""
    sites = tree.worth.shape[0]
    flat_root = root[0] * sites + root[1]
    parent = tree.parent.reshape(-1)
    leaf = jnp.argmax(jnp.where(tree.inside, tree.worth, -1.0)).astype(jnp.int32)

    def below(carry: tuple[Array, Array]) -> Bool[Array, ""]:
        return carry[0] != flat_root

    def climb(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        vertex, path = carry
        site = jnp.stack([vertex // sites, vertex % sites])
        return parent[vertex], jnp.concatenate([site[None], path[:-1]])

    empty = jnp.full((BRANCH, 2), -1, jnp.int32)
    return jax.lax.while_loop(below, climb, (leaf, empty))[1]
