"""The planner SMMR: docs/planners.md a second time."""

from dataclasses import dataclass

import numpy as np

import oracles.graph
import oracles.lattice
from decmarvel.core.config import Config
from oracles.goals import Goal, seeing_sites, viewpoint
from oracles.lattice import SLOTS, UNREACHABLE, Cell, Site
from oracles.mind import Mind


@dataclass(frozen=True)
class Cluster:
    size: int
    centre: Cell


MOST_TARGETS, MOST_CLUSTERS = 512, 32


def clusters(frontier: np.ndarray) -> list[Cluster]:
    """The largest clusters of grouped frontiers, largest first: section "SMMR", 1."""
    targets = [(int(y), int(x)) for y, x in np.argwhere(frontier)][:MOST_TARGETS]
    waiting = set(targets)
    found = []
    for first in targets:
        if first not in waiting:
            continue
        waiting.discard(first)
        members, to_visit = [first], [first]
        while to_visit:
            y, x = to_visit.pop()
            for dy in (-2, -1, 0, 1, 2):
                for dx in (-2, -1, 0, 1, 2):
                    other = (y + dy, x + dx)
                    if abs(dy) + abs(dx) <= 2 and other in waiting:
                        waiting.discard(other)
                        members.append(other)
                        to_visit.append(other)
        found.append(Cluster(len(members), central(sorted(members))))
    found.sort(key=lambda cluster: -cluster.size)  # stable: ties to the cluster that comes first
    return found[:MOST_CLUSTERS]


def central(members: list[Cell]) -> Cell:
    """The member nearest to the mean in sixteenths of a cell, ties to the first: section "SMMR", 1."""
    count = len(members)
    mean_y = (2 * 16 * sum(y for y, _ in members) + count) // (2 * count)
    mean_x = (2 * 16 * sum(x for _, x in members) + count) // (2 * count)
    return min(members, key=lambda cell: (16 * cell[0] - mean_y) ** 2 + (16 * cell[1] - mean_x) ** 2)


@dataclass(frozen=True)
class Attractor:
    cluster: Cluster
    viewpoint: Site


def attractors(mind: Mind) -> list[Attractor]:
    """Clusters with their viewpoints; those without are dropped: section "SMMR", 2."""
    found = []
    for cluster in clusters(mind.frontier):
        site = viewpoint(mind, cluster.centre, far_sighted=True)
        if site is not None:
            found.append(Attractor(cluster, site))
    return found


def one_cell_mm(config: Config) -> int:
    return round(1000 * config.cell_m)


def cluster_mm(mind: Mind, attractor: Attractor) -> np.ndarray:
    """Distance of every site to a cluster: section "SMMR", 3."""
    best = np.full((mind.size, mind.size), UNREACHABLE, np.int64)
    for site, length in seeing_sites(mind, attractor.cluster.centre).items():
        if mind.affordable[site]:
            path = oracles.graph.distances(mind.config, mind.edge, [site])
            best = np.minimum(best, np.where(path < UNREACHABLE, length + path, UNREACHABLE))
    best[attractor.viewpoint] = one_cell_mm(mind.config)
    return best


def repulsion(mind: Mind, site: Site) -> int:
    """The push of the teammates in sight: section "SMMR", 4."""
    y, x = mind.cell(site)
    total = 0
    for iy, ix in mind.in_sight:
        total += 200 * max(0, 10_000 - one_cell_mm(mind.config) * (abs(iy - y) + abs(ix - x)))
    return total


def potential(mind: Mind, attracted: list[Attractor]) -> np.ndarray:
    """U at the affordable nodes, 0 elsewhere: section "SMMR", 4."""
    level = np.zeros((mind.size, mind.size), np.int64)
    cell = one_cell_mm(mind.config)
    far = [cluster_mm(mind, attractor) for attractor in attracted]
    for v in mind.sites():
        if not mind.affordable[v]:
            continue
        level[v] = repulsion(mind, v)
        for attractor, mm in zip(attracted, far, strict=True):
            if cell <= mm[v] < UNREACHABLE:
                level[v] -= 10_000 * attractor.cluster.size * cell // int(mm[v])
    return level


@dataclass(frozen=True)
class Descent:
    end: Site | None
    """The viewpoint that was reached."""
    last: Site
    """Where the steps ended, there or not."""


MOST_STEPS = 400


def descend(mind: Mind, level: np.ndarray, viewpoints: set[Site]) -> Descent:
    """Down the potential, raising it where one has been: section "SMMR", 5."""
    here, flow = mind.site, 0
    visits: dict[Site, int] = {}

    def level_of(site: Site) -> int:
        return int(level[site]) + 50_000 * min(flow * visits.get(site, 0), 20_000)

    for _ in range(MOST_STEPS):
        lowest = None
        for k in range(SLOTS):
            site = oracles.lattice.neighbour(here, k)
            if not mind.edge[k, here[0], here[1]] or not mind.affordable[site]:
                continue
            if lowest is None or level_of(site) < level_of(lowest):
                lowest = site
        goes = lowest is not None and level_of(lowest) < level_of(here)
        visits[here] = visits.get(here, 0) + 1
        if goes:
            here = lowest
            if here in viewpoints:
                return Descent(here, here)
        else:
            flow += 1
    return Descent(None, here)


def smmr_goal(mind: Mind) -> Goal | None:
    """The cluster to look at next: section "SMMR", 6."""
    attracted = attractors(mind)
    if not attracted:
        return None
    descent = descend(mind, potential(mind, attracted), {attractor.viewpoint for attractor in attracted})
    if descent.end is not None:
        reached = next(attractor for attractor in attracted if attractor.viewpoint == descent.end)
    else:
        reached = min(attracted, key=lambda attractor: mind.here[attractor.viewpoint])
    return Goal(reached.viewpoint, reached.cluster.centre)
