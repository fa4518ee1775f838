"""The planners of docs/planners.md a second time: plain loops over NumPy arrays, slow on purpose."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from decmarvel.core.config import Config
from oracles import simulator as oracles
from oracles.simulator import FREE, OCCUPIED, SLOTS, UNKNOWN, UNREACHABLE, Cell, Site


@dataclass
class Mind:
    """What one robot knows, and what every planner works out from it first."""

    config: Config
    belief: np.ndarray
    sensed: np.ndarray
    site: Site
    base: Site
    budget_mm: int
    number: int = 0
    team_size: int = 1
    in_sight: list[Cell] = field(default_factory=list)
    """Cells of the teammates that it saw at the last decision."""

    @cached_property
    def size(self) -> int:
        return oracles.sites_a_side(self.config, self.belief.shape[0])

    @cached_property
    def edge(self) -> np.ndarray:
        return oracles.edges(self.config, self.belief)

    @cached_property
    def home(self) -> np.ndarray:
        return oracles.distances(self.config, self.edge, [self.base])

    @cached_property
    def here(self) -> np.ndarray:
        return oracles.distances(self.config, self.edge, [self.site])

    @cached_property
    def affordable(self) -> np.ndarray:
        """Nodes that can be visited on the way home: section "Goals and how they are pursued"."""
        return self.here + self.home + self.config.safety_margin_mm <= self.budget_mm

    @cached_property
    def feasible(self) -> np.ndarray:
        """Slots that the guard admits: "Guard, modes, conflicts" of the model."""
        return oracles.feasible_slots(self.config, self.edge, self.home, self.site, self.budget_mm)

    @cached_property
    def frontier(self) -> np.ndarray:
        """Grouped frontiers: "Graph" of the model."""
        return oracles.grouped(oracles.frontiers(self.belief))

    def sites(self) -> list[Site]:
        """All sites in row-major order."""
        return [(i, j) for i in range(self.size) for j in range(self.size)]

    def cell(self, site: Site) -> Cell:
        return oracles.site_cell(self.config, *site)


@lru_cache(maxsize=200_000)
def offsets_in_sight(window: bytes, side: int, radius_cells: float) -> frozenset[tuple[int, int]]:
    """Visible offsets around the middle of a square window, remembered: most windows stay as they were."""
    see_through = np.frombuffer(window, bool).reshape(side, side)
    half = side // 2
    seen = oracles.visible_cells(see_through, half, half, radius_cells)
    return frozenset((y - half, x - half) for y, x in seen)


def cells_in_sight(see_through: np.ndarray, cell: Cell, radius_cells: float) -> set[Cell]:
    """`oracles.visible_cells` with a memory; what lies outside the grid is no cell and not see-through."""
    reach = math.ceil(radius_cells)
    side = 2 * reach + 1
    window = np.zeros((side, side), bool)
    top, left = cell[0] - reach, cell[1] - reach
    y0, x0 = max(0, top), max(0, left)
    part = see_through[y0 : top + side, x0 : left + side]
    window[y0 - top : y0 - top + part.shape[0], x0 - left : x0 - left + part.shape[1]] = part
    seen = set()
    for dy, dx in offsets_in_sight(window.tobytes(), side, radius_cells):
        if oracles.inside(see_through.shape, cell[0] + dy, cell[1] + dx):
            seen.add((cell[0] + dy, cell[1] + dx))
    return seen


def whole_degrees(dy: int, dx: int) -> int:
    """Direction of an offset as a heading: "Angles" of the model."""
    return (oracles.direction_hundredths(dy, dx) + 50) // 100 % 360


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
    found = {}
    for site in mind.sites():
        y, x = mind.cell(site)
        if (y, x) not in seen:
            continue
        dy, dx = cell[0] - y, cell[1] - x
        if not mind.sensed[site][oracles.direction_bin(config, dy, dx)]:
            found[site] = round(1000 * config.cell_m * math.hypot(dy, dx))
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
    to_viewpoint = oracles.distances(config, mind.edge, [goal.viewpoint])
    square = math.floor(config.utility_radius_cells)
    slot, headings, costs = None, {}, {}
    for k in range(SLOTS):
        if not mind.feasible[k]:
            continue
        site = oracles.neighbour(mind.site, k)
        length = oracles.slot_length_mm(config, k)
        costs[k] = length + int(to_viewpoint[site]) + length // 1000
        y, x = mind.cell(site)
        dy, dx = goal.cell[0] - y, goal.cell[1] - x
        near = max(abs(dy), abs(dx)) <= square
        if site == goal.viewpoint or (far_sighted and near):
            headings[k] = whole_degrees(dy, dx)
        else:
            headings[k] = whole_degrees(*oracles.slot_offset(k))
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
    ranked: dict[int, tuple] = {}
    for iy, ix in cells_in_sight(mind.belief == FREE, (cy, cx), config.utility_radius_cells) - {(cy, cx)}:
        if not mind.frontier[iy, ix]:
            continue
        dy, dx = iy - cy, ix - cx
        towards = oracles.direction_bin(config, dy, dx)
        rank = (dy * dy + dx * dx, max(abs(dy), abs(dx)), iy, ix)
        if not mind.sensed[site][towards] and (towards not in ranked or rank < ranked[towards]):
            ranked[towards] = rank
    nearest = {}
    for towards, (squared, _, iy, ix) in ranked.items():
        mm = math.isqrt(config.spacing_mm**2 * squared // config.stride**2)
        nearest[towards] = (mm, (iy, ix))
    return nearest


def sector_cost(mind: Mind, cell: Cell, weight_m: int = 30) -> int:
    """What it costs to look outside one's own sector: section "Nearest and sector"."""
    y, x = mind.cell(mind.base)
    bearing = math.atan2(cell[0] - y, cell[1] - x)
    own = 2 * math.pi * mind.number / mind.team_size + 0.3
    agreement = 0.0 if cell == (y, x) else math.cos(bearing - own)  # the base itself lies in no direction
    return 10 * round(100 * weight_m * (1 - agreement))


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


# SMMR


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
            path = oracles.distances(mind.config, mind.edge, [site])
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
            site = oracles.neighbour(here, k)
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


# NBVP

LEAST_GAIN, MOST_SAMPLES, ENOUGH_VERTICES, DECAY = 10, 200, 50, 0.25
REMEMBERED = 24
"""Vertices of a branch, from the root on, that a robot keeps."""


def gain(config: Config, belief: np.ndarray, site: Site) -> tuple[int, int]:
    """Unknown cells in the best view of a site, and the bin of that view: section "NBVP", 1."""
    bins, half = config.heading_bins, config.window_bins // 2
    cy, cx = oracles.site_cell(config, *site)
    histogram = [0] * bins
    for iy, ix in cells_in_sight(belief != OCCUPIED, (cy, cx), config.sensor_radius_cells) - {(cy, cx)}:
        if belief[iy, ix] == UNKNOWN:
            histogram[oracles.direction_bin(config, iy - cy, ix - cx)] += 1
    views = [sum(histogram[(b + k) % bins] for k in range(-half, half + 1)) for b in range(bins)]
    return max(views), views.index(max(views))


def gains(config: Config, belief: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gain and heading bin of the sites that are asked for, 0 elsewhere: section "NBVP", 1."""
    cells, view = np.zeros(where.shape, np.int64), np.zeros(where.shape, np.int64)
    for i, j in np.argwhere(where):
        cells[i, j], view[i, j] = gain(config, belief, (int(i), int(j)))
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
    site = oracles.neighbour(parent, slot)
    path_mm = tree[parent].path_mm + oracles.slot_length_mm(mind.config, slot)
    worth = tree[parent].worth + int(promise[site]) * math.exp(-DECAY * path_mm / 1000)
    tree[site] = Vertex(parent, path_mm, worth)
    return site


def difference(one: float, two: float) -> float:
    """Relative difference of two numbers."""
    return abs(one - two) / max(abs(one), abs(two), 1e-9)


def slot_between(a: Site, b: Site) -> int | None:
    """The slot that leads from a to b, if they are neighbours."""
    for k in range(SLOTS):
        if k != oracles.OWN_SLOT and oracles.neighbour(a, k) == b:
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
            site = oracles.neighbour(vertex, k)
            if not mind.edge[k, vertex[0], vertex[1]] or not mind.affordable[site] or site in tree:
                continue
            if best is None or straight(site) < straight(oracles.neighbour(vertex, best)):
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
    site = oracles.neighbour(mind.site, slot)
    if promise[site] > 0:
        return int(view[site]) * mind.config.degrees_per_bin
    return whole_degrees(*oracles.slot_offset(slot))


# Shared greedy


def crowding_cost(config: Config, cell: Cell, goals: list[Cell]) -> int:
    """What is added to the cost of a cell for the goals of others: section "Shared greedy"."""
    total = 0
    for goal in goals:
        metres = config.cell_m * math.hypot(cell[0] - goal[0], cell[1] - goal[1])
        total += 10 * round(100 * 60 * max(0.0, 1 - metres / 30))
    return total


def kept_goals(minds: list[Mind], exploring: list[bool], old: list[Goal | None]) -> list[Goal | None]:
    """The goals that stay: those still wanted of the robots that explore. Section "Shared greedy"."""
    kept = []
    for mind, explores, goal in zip(minds, exploring, old, strict=True):
        kept.append(goal if explores and still_wanted(mind, goal) else None)
    return kept


def shared_goal(mind: Mind, known: list[Goal | None]) -> tuple[Goal | None, list[Offer]]:
    """The goal of one robot that has none, and what it was chosen from: section "Shared greedy"."""
    cells = [goal.cell for goal in known if goal is not None]
    found = offers(mind, lambda cell: crowding_cost(mind.config, cell, cells))
    return goal_of(mind, cheapest(found), far_sighted=True), found


def shared_map(beliefs: np.ndarray, sensed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The belief and the sensed headings that everybody has after a decision: section "Shared greedy"."""
    known = np.zeros(sensed.shape[1:], bool)
    for robot in range(len(sensed)):
        known |= sensed[robot]
    return oracles.merged_belief(beliefs), known
