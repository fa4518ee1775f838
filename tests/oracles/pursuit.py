"""Views that are left to take, and the way to the nearest: "Never caught" of docs/model.md a second time."""

import heapq
from dataclasses import dataclass

import numpy as np

from oracles.lattice import OWN_SLOT, SLOTS, UNREACHABLE, Site, direction_hundredths, neighbour


@dataclass
class Roadmap:
    """What one robot knows of its graph, as arrays."""

    length_mm: np.ndarray
    home_mm: np.ndarray
    cell: np.ndarray
    """The viewpoint of each site."""
    frontier: np.ndarray
    """Whether a grouped frontier is in sight of each site in each bin."""


def distances(length_mm: np.ndarray, sources: list[Site]) -> np.ndarray:
    """Length of the shortest way from each site to the nearest source, by Dijkstra."""
    found = np.full(length_mm.shape[1:], UNREACHABLE, np.int64)
    heap = [(0, site) for site in sources]
    for site in sources:
        found[site] = 0
    while heap:
        so_far, here = heapq.heappop(heap)
        if so_far > found[here]:
            continue
        for slot in range(SLOTS):
            if length_mm[slot, *here] < UNREACHABLE:
                there = neighbour(here, slot)
                longer = so_far + int(length_mm[slot, *here])
                if longer < found[there]:
                    found[there] = longer
                    heapq.heappush(heap, (longer, there))
    return found


def open_views(roads: Roadmap, sensed: np.ndarray) -> np.ndarray:
    """Directions from nodes in which frontiers are in sight and in which the robot has not looked."""
    return roads.frontier & ~sensed & (roads.home_mm < UNREACHABLE)[..., None]


def turn_to(bin_: int, degrees_per_bin: int, heading: int) -> int:
    """Degrees between a heading and the middle of a bin, the short way round."""
    apart = (bin_ * degrees_per_bin - heading) % 360
    return min(apart, 360 - apart)


@dataclass
class Pursuit:
    slot: int
    heading: int
    left_mm: int


def pursue(
    roads: Roadmap, sensed: np.ndarray, site: Site, heading: int, budget_mm: int, margin_mm: int
) -> Pursuit | None:
    """The next move towards the nearest view that the budget allows; None if there is none."""
    here_mm = distances(roads.length_mm, [site])
    affordable = here_mm + roads.home_mm + margin_mm <= budget_mm
    views = open_views(roads, sensed) & affordable[..., None]
    if not views.any():
        return None
    left_mm = distances(roads.length_mm, [(int(i), int(j)) for i, j in np.argwhere(views.any(axis=-1))])
    if left_mm[site] >= UNREACHABLE:
        return None
    slot, shortest = OWN_SLOT, None
    for k in range(SLOTS):
        if left_mm[site] > 0 and roads.length_mm[k, *site] < UNREACHABLE:
            way = int(roads.length_mm[k, *site]) + int(left_mm[neighbour(site, k)])
            if shortest is None or way < shortest:
                slot, shortest = k, way
    there = neighbour(site, slot)
    dy, dx = (roads.cell[there] - roads.cell[site]).tolist()
    along = heading if slot == OWN_SLOT else (direction_hundredths(dy, dx) + 50) // 100 % 360
    per_bin = 360 // sensed.shape[-1]
    bins = np.flatnonzero(views[there]).tolist()
    if bins:
        along = per_bin * min(bins, key=lambda b: (turn_to(b, per_bin, along), b))
    return Pursuit(slot, along, int(left_mm[site]))
