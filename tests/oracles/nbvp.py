"""The planner NBVP: docs/planners.md a second time."""

import math
from dataclasses import dataclass

import numpy as np

import oracles.graph
import oracles.lattice
from decmarvel.core.config import Config
from oracles.goals import Goal, pursue, whole_degrees
from oracles.lattice import OCCUPIED, SLOTS, UNKNOWN, Site
from oracles.mind import Mind, cells_in_sight

LEAST_GAIN, MOST_SAMPLES, ENOUGH_VERTICES, DECAY = 10, 200, 50, 0.25
REMEMBERED = 24
"""Vertices of a branch, from the root on, that a robot keeps."""


def gain(
    config: Config, belief: np.ndarray, site: Site, fov_deg: int | None = None, range_mm: int | None = None
) -> tuple[int, int]:
    """Unknown cells in the best view of a site, and the bin of that view: section "NBVP", 1."""
    bins, half = config.heading_bins, oracles.graph.half_window(config, fov_deg)
    limit = round(1000 * config.sensor_range_m) if range_mm is None else range_mm
    cy, cx = oracles.lattice.site_cell(config, *site)
    histogram = [0] * bins
    for iy, ix in cells_in_sight(belief != OCCUPIED, (cy, cx), config.sensor_radius_cells) - {(cy, cx)}:
        if belief[iy, ix] == UNKNOWN and oracles.lattice.length_mm(config, iy - cy, ix - cx) <= limit:
            histogram[oracles.lattice.direction_bin(config, iy - cy, ix - cx)] += 1
    views = [sum(histogram[(b + k) % bins] for k in range(-half, half + 1)) for b in range(bins)]
    return max(views), views.index(max(views))


def gains(
    config: Config, belief: np.ndarray, where: np.ndarray, fov_deg: int | None = None, range_mm: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Gain and heading bin of the sites that are asked for, 0 elsewhere: section "NBVP", 1."""
    cells, view = np.zeros(where.shape, np.int64), np.zeros(where.shape, np.int64)
    for i, j in np.argwhere(where):
        cells[i, j], view[i, j] = gain(config, belief, (int(i), int(j)), fov_deg, range_mm)
    return cells, view


def promises(mind: Mind, cells: np.ndarray, view: np.ndarray) -> np.ndarray:
    """The gains that count: section "NBVP", 1."""
    promise = np.zeros((mind.size, mind.size), np.int64)
    for site in mind.sites():
        if cells[site] >= LEAST_GAIN and mind.affordable[site] and not mind.sensed[site][view[site]]:
            promise[site] = cells[site]
    return promise


@dataclass(frozen=True)
class Vertex:
    parent: Site | None
    path_mm: int
    worth: float


Tree = dict[Site, Vertex]


def attach(mind: Mind, promise: np.ndarray, tree: Tree, parent: Site, slot: int) -> Site:
    """A new vertex at the end of an edge, with its worth: section "NBVP", 3."""
    site = oracles.lattice.neighbour(parent, slot)
    path_mm = tree[parent].path_mm + oracles.lattice.slot_length_mm(mind.config, slot)
    worth = tree[parent].worth + int(promise[site]) * math.exp(-DECAY * path_mm / mind.config.sensor_range_m / 100)
    tree[site] = Vertex(parent, path_mm, worth)
    return site


def difference(one: float, two: float) -> float:
    """Relative difference of two numbers."""
    return abs(one - two) / max(abs(one), abs(two), 1e-9)


def slot_between(a: Site, b: Site) -> int | None:
    """The slot that leads from a to b, if they are neighbours."""
    for k in range(SLOTS):
        if k != oracles.lattice.OWN_SLOT and oracles.lattice.neighbour(a, k) == b:
            return k
    return None


def replant(mind: Mind, promise: np.ndarray, branch: list[Site]) -> Tree:
    """The root and what still holds of the rest of the last best branch: section "NBVP", 2."""
    tree: Tree = {mind.site: Vertex(None, 0, 0.0)}
    here = mind.site
    for site in branch:
        slot = slot_between(here, site)
        if slot is None or not mind.edge[slot, here[0], here[1]] or not mind.affordable[site] or site in tree:
            break
        here = attach(mind, promise, tree, here, slot)
    return tree


def grow(mind: Mind, promise: np.ndarray, tree: Tree, samples: list[Site]) -> Tree:
    """The tree after the samples: section "NBVP", 2."""
    tree = dict(tree)
    for sample in samples[:MOST_SAMPLES]:
        if len(tree) >= ENOUGH_VERTICES and max(vertex.worth for vertex in tree.values()) > 0:
            break

        def straight(site: Site, to: Site = sample) -> int:
            return (site[0] - to[0]) ** 2 + (site[1] - to[1]) ** 2

        vertex = min(tree, key=lambda site: (straight(site), site))
        best = None
        for k in range(SLOTS):
            site = oracles.lattice.neighbour(vertex, k)
            if not mind.edge[k, vertex[0], vertex[1]] or not mind.affordable[site] or site in tree:
                continue
            if best is None or straight(site) < straight(oracles.lattice.neighbour(vertex, best)):
                best = k
        if best is not None:
            attach(mind, promise, tree, vertex, best)
    return tree


def branch_to(tree: Tree, site: Site) -> list[Site]:
    """The vertices from the root, which is left out, to a vertex."""
    branch = []
    while tree[site].parent is not None:
        branch.append(site)
        site = tree[site].parent
    return branch[::-1]


def best_branch(tree: Tree) -> list[Site]:
    """The branch to the vertex of most worth (ties in row-major order), empty without worth: section "NBVP", 3."""
    best = min(tree, key=lambda site: (-tree[site].worth, site))
    return branch_to(tree, best) if tree[best].worth > 0 else []


def first_hop(mind: Mind, promise: np.ndarray) -> int | None:
    """The first hop towards the nearest promise: section "NBVP", 4."""
    nearest = None
    for site in mind.sites():
        if promise[site] > 0 and (nearest is None or mind.here[site] < mind.here[nearest]):
            nearest = site
    if nearest is None:
        return None
    return pursue(mind, Goal(nearest, mind.cell(nearest)), far_sighted=False).slot


def nbvp_heading(mind: Mind, promise: np.ndarray, view: np.ndarray, slot: int) -> int:
    """Where to look at the end of a hop: section "NBVP", 3."""
    site = oracles.lattice.neighbour(mind.site, slot)
    if promise[site] > 0:
        return int(view[site]) * mind.config.degrees_per_bin
    return whole_degrees(*oracles.lattice.slot_offset(slot))
