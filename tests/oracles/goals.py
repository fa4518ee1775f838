"""Goals, their pursuit, and the planners Nearest and Sector: docs/planners.md a second time."""

import math
from dataclasses import dataclass

import oracles.graph
import oracles.lattice
from oracles.lattice import FREE, SLOTS, Cell, Site
from oracles.mind import Mind, cells_in_sight


def whole_degrees(dy: int, dx: int) -> int:
    """Direction of an offset as a heading: "Angles" of the model."""
    return (oracles.lattice.direction_hundredths(dy, dx) + 50) // 100 % 360


# Goals and how they are pursued


@dataclass(frozen=True)
class Goal:
    viewpoint: Site
    cell: Cell


def seeing_sites(mind: Mind, cell: Cell) -> dict[Site, int]:
    """Sites that see a cell, with the length of the look: section "Goals and how they are pursued".

    A site that is the cell sees it too, in direction 0, which is what atan2 says of no offset.
    """
    config = mind.config
    seen = cells_in_sight(mind.belief == FREE, cell, config.utility_radius_cells)
    limit = oracles.graph.utility_range_mm(config, mind.range_mm)
    found = {}
    for site in mind.sites():
        y, x = mind.cell(site)
        if (y, x) not in seen:
            continue
        dy, dx = cell[0] - y, cell[1] - x
        length = round(1000 * config.cell_m * math.hypot(dy, dx))
        if length <= limit and not mind.sensed[site][oracles.lattice.direction_bin(config, dy, dx)]:
            found[site] = length
    return found


def viewpoint(mind: Mind, cell: Cell, far_sighted: bool) -> Site | None:
    """Viewpoint of a cell: section "Goals and how they are pursued"."""
    best, best_cost = None, None
    for site, length in seeing_sites(mind, cell).items():
        if site == mind.site or not mind.affordable[site]:
            continue
        cost = int(mind.here[site]) + (length // 2 if far_sighted else 1000 * length)
        if best is None or cost < best_cost:
            best, best_cost = site, cost
    return best


@dataclass
class Pursuit:
    slot: int | None
    """None: return home."""
    headings: dict[int, int]
    """Where to look, for each slot that the guard admits."""
    costs: dict[int, int]


def pursue(mind: Mind, goal: Goal | None, far_sighted: bool) -> Pursuit:
    """Slot, headings and costs on the way to a goal: section "Goals and how they are pursued"."""
    if goal is None:
        return Pursuit(None, {}, {})
    config = mind.config
    to_viewpoint = oracles.graph.distances(config, mind.edge, [goal.viewpoint])
    square = oracles.graph.utility_range_mm(config, mind.range_mm) // round(1000 * config.cell_m)
    slot, headings, costs = None, {}, {}
    for k in range(SLOTS):
        if not mind.feasible[k]:
            continue
        site = oracles.lattice.neighbour(mind.site, k)
        length = oracles.lattice.slot_length_mm(config, k)
        costs[k] = length + int(to_viewpoint[site]) + length // 1000
        y, x = mind.cell(site)
        dy, dx = goal.cell[0] - y, goal.cell[1] - x
        near = max(abs(dy), abs(dx)) <= square
        if site == goal.viewpoint or (far_sighted and near):
            headings[k] = whole_degrees(dy, dx)
        else:
            headings[k] = whole_degrees(*oracles.lattice.slot_offset(k))
        if slot is None or costs[k] < costs[slot]:
            slot = k
    return Pursuit(slot, headings, costs)


def still_wanted(mind: Mind, goal: Goal | None) -> bool:
    """Whether a goal is kept: section "Goals and how they are pursued"."""
    if goal is None:
        return False
    return bool(mind.frontier[goal.cell]) and mind.site != goal.viewpoint and bool(mind.affordable[goal.viewpoint])


# Nearest and sector


def nearest_by_bin(mind: Mind, site: Site) -> dict[int, tuple[int, Cell]]:
    """Distance and cell of the nearest grouped frontier in each open bin of a site: "Graph" of the model."""
    config = mind.config
    cy, cx = mind.cell(site)
    limit = oracles.graph.utility_range_mm(config, mind.range_mm)
    ranked: dict[int, tuple] = {}
    for iy, ix in cells_in_sight(mind.belief == FREE, (cy, cx), config.utility_radius_cells) - {(cy, cx)}:
        if not mind.frontier[iy, ix]:
            continue
        dy, dx = iy - cy, ix - cx
        if oracles.lattice.length_mm(config, dy, dx) > limit:
            continue
        towards = oracles.lattice.direction_bin(config, dy, dx)
        rank = (dy * dy + dx * dx, max(abs(dy), abs(dx)), iy, ix)
        if not mind.sensed[site][towards] and (towards not in ranked or rank < ranked[towards]):
            ranked[towards] = rank
    nearest = {}
    for towards, (_, _, iy, ix) in ranked.items():
        nearest[towards] = (oracles.lattice.length_mm(config, iy - cy, ix - cx), (iy, ix))
    return nearest


def unit(mind: Mind) -> float:
    """Sensing range in units of 10 m, to which weights in metres are relative: section "Other ranges"."""
    range_mm = 1000 * mind.config.sensor_range_m if mind.range_mm is None else mind.range_mm
    return range_mm / 10_000


def sector_cost(mind: Mind, cell: Cell, weight_m: int = 30) -> int:
    """What it costs to look outside one's own sector: section "Nearest and sector"."""
    y, x = mind.cell(mind.base)
    bearing = math.atan2(cell[0] - y, cell[1] - x)
    own = 2 * math.pi * mind.number / mind.team_size + 0.3
    agreement = 0.0 if cell == (y, x) else math.cos(bearing - own)  # the base itself lies in no direction
    return 10 * round(100 * weight_m * unit(mind) * (1 - agreement))


@dataclass(frozen=True)
class Offer:
    """A frontier that some node sees, and what it costs."""

    cost: int
    node: Site
    bin: int
    cell: Cell


def offers(mind: Mind, extra) -> list[Offer]:
    """Every frontier that can be chosen, in the order row, column, bin: section "Nearest and sector"."""
    found = []
    for site in mind.sites():
        if not mind.affordable[site]:
            continue
        nearest = nearest_by_bin(mind, site)
        for towards in sorted(nearest):
            mm, cell = nearest[towards]
            found.append(Offer(int(mind.here[site]) + mm + extra(cell), site, towards, cell))
    return found


def goal_of(mind: Mind, offer: Offer | None, far_sighted: bool) -> Goal | None:
    """The cell and its viewpoint, or else the node that saw it: section "Nearest and sector"."""
    if offer is None:
        return None
    return Goal(viewpoint(mind, offer.cell, far_sighted) or offer.node, offer.cell)


def cheapest(found: list[Offer]) -> Offer | None:
    best = None
    for offer in found:
        if best is None or offer.cost < best.cost:
            best = offer
    return best


def nearest_goal(mind: Mind, old: Goal | None, sector: bool) -> tuple[Goal | None, list[Offer]]:
    """The goal of nearest or sector, and what it was chosen from: section "Nearest and sector"."""
    if still_wanted(mind, old):
        return old, []
    found = offers(mind, lambda cell: sector_cost(mind, cell) if sector else 0)
    return goal_of(mind, cheapest(found), sector), found
