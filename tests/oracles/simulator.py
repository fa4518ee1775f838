"""The model of docs/model.md a second time: plain loops over NumPy arrays, slow on purpose, to check the simulator."""

import heapq
import math
from functools import cache

import numpy as np

from decmarvel.core.config import Config

UNKNOWN, FREE, OCCUPIED = 0, 1, 2
UNREACHABLE = 2**29
SLOTS = 25
OWN_SLOT = 12

Cell = tuple[int, int]
Site = tuple[int, int]


# Grid and lattice


def slot_offset(k: int) -> tuple[int, int]:
    """Site offset (dy, dx) of neighbour slot k: section "Grid and lattice"."""
    return k // 5 - 2, k % 5 - 2


@cache
def slot_length_mm(config: Config, k: int) -> int:
    """Length of slot k, ceil(spacing_mm * sqrt(dy^2 + dx^2)) in integer arithmetic: section "Grid and lattice"."""
    dy, dx = slot_offset(k)
    squared = config.spacing_mm**2 * (dy * dy + dx * dx)
    root = math.isqrt(squared)
    return root if root * root == squared else root + 1


@cache
def site_cell(config: Config, i: int, j: int) -> Cell:
    """Cell of site (i, j): section "Grid and lattice"."""
    iy = config.margin_cells + config.stride * i + config.stride // 2
    ix = config.margin_cells + config.stride * j + config.stride // 2
    return iy, ix


def sites_a_side(config: Config, height: int) -> int:
    """Number of sites along one side of a grid of this height: section "Grid and lattice"."""
    return config.lattice.sites(height)


def neighbour(here: Site, k: int) -> Site:
    """Site that slot k leads to, perhaps outside the lattice: section "Grid and lattice"."""
    dy, dx = slot_offset(k)
    return here[0] + dy, here[1] + dx


def inside(shape: tuple[int, ...], y: int, x: int) -> bool:
    """Whether (y, x) is an index of an array of this shape: section "Grid and lattice"."""
    return 0 <= y < shape[0] and 0 <= x < shape[1]


# Angles


def direction_hundredths(dy: int, dx: int) -> int:
    """Direction of an offset in hundredths of a degree: section "Angles"."""
    return round(100 * math.degrees(math.atan2(dy, dx))) % 36000


@cache
def direction_bin(config: Config, dy: int, dx: int) -> int:
    """Heading bin of the direction of an offset: section "Angles"."""
    width = 100 * config.degrees_per_bin
    return ((direction_hundredths(dy, dx) + width // 2) // width) % config.heading_bins


def in_view(config: Config, dy: int, dx: int, heading: int) -> bool:
    """Whether an offset lies in the field of view of a heading (the own cell does): section "Angles"."""
    if dy == 0 and dx == 0:
        return True
    difference = (direction_hundredths(dy, dx) - 100 * int(heading)) % 36000
    difference = min(difference, 36000 - difference)
    return 2 * difference <= 100 * config.fov_deg


# Line of sight


def round_half_to_zero(numerator: int, denominator: int) -> int:
    """n(numerator / denominator), nearest integer with halves towards zero: section "Line of sight"."""
    quotient, remainder = divmod(abs(numerator), denominator)
    if 2 * remainder > denominator:
        quotient += 1
    return quotient if numerator >= 0 else -quotient


@cache
def disc_offsets(radius_cells: float) -> list[tuple[int, int]]:
    """Offsets with dy^2 + dx^2 <= radius^2, row-major, the own cell included: section "Sensing and belief"."""
    reach = math.ceil(radius_cells)
    offsets = []
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            if dy * dy + dx * dx <= radius_cells**2:
                offsets.append((dy, dx))
    return offsets


PARENTS: dict[tuple[int, int], tuple[int, int]] = {}


def sight_line(dy: int, dx: int) -> list[tuple[int, int]]:
    """Line of a cell, its parent first, without the observer: section "Line of sight"."""
    line = []
    y, x = parent_cell(dy, dx)
    while (y, x) != (0, 0):
        line.append((y, x))
        y, x = parent_cell(y, x)
    return line


def parent_cell(dy: int, dx: int) -> tuple[int, int]:
    """Parent of a cell, one ring closer: section "Line of sight"."""
    if (dy, dx) in PARENTS:
        return PARENTS[dy, dx]
    ring = max(abs(dy), abs(dx))
    digital = set()
    for k in range(1, ring):
        digital.add((round_half_to_zero(dy * k, ring), round_half_to_zero(dx * k, ring)))
    best, best_misfit = None, None
    for py in range(dy - 2, dy + 3):
        for px in range(dx - 2, dx + 3):
            if max(abs(py), abs(px)) != ring - 1:
                continue
            if abs(py * ring - dy * (ring - 1)) >= ring or abs(px * ring - dx * (ring - 1)) >= ring:
                continue
            line = set()
            if (py, px) != (0, 0):
                line = {(py, px), *sight_line(py, px)}
            difference = 0
            for y, x in line.symmetric_difference(digital):
                difference += max(abs(y), abs(x))
            misfit = (difference, abs(py * dx - px * dy))
            if best is None or misfit < best_misfit:
                best, best_misfit = (py, px), misfit
    PARENTS[dy, dx] = best
    return best


def visible_cells(see_through: np.ndarray, cy: int, cx: int, radius_cells: float) -> set[Cell]:
    """Cells of the disc in line of sight from (cy, cx): section "Line of sight"."""
    memo = {(0, 0): True}

    def clear(dy: int, dx: int) -> bool:
        if (dy, dx) == (0, 0):
            return True
        return inside(see_through.shape, cy + dy, cx + dx) and bool(see_through[cy + dy, cx + dx])

    def visible(dy: int, dx: int) -> bool:
        if (dy, dx) in memo:
            return memo[dy, dx]
        py, px = parent_cell(dy, dx)
        answer = visible(py, px) and clear(py, px)
        if py != dy and px != dx:
            answer = answer and (clear(py, dx) or clear(dy, px))
        memo[dy, dx] = answer
        return answer

    cells = set()
    for dy, dx in disc_offsets(radius_cells):
        if inside(see_through.shape, cy + dy, cx + dx) and visible(dy, dx):
            cells.add((cy + dy, cx + dx))
    return cells


def bresenham_line(y0: int, x0: int, y1: int, x1: int) -> list[Cell]:
    """Cells of the classical Bresenham line, both ends included: no section, compared with "Line of sight"."""
    dx, dy = abs(x1 - x0), abs(y1 - y0)
    step_x = 1 if x1 > x0 else -1
    step_y = 1 if y1 > y0 else -1
    error = dx - dy
    y, x = y0, x0
    line = [(y, x)]
    while (y, x) != (y1, x1):
        doubled = 2 * error
        if doubled > -dy:
            error -= dy
            x += step_x
        if doubled < dx:
            error += dx
            y += step_y
        line.append((y, x))
    return line


def bresenham_visible_cells(see_through: np.ndarray, cy: int, cx: int, radius_cells: float) -> set[Cell]:
    """Cells of the disc that a plain Bresenham line reaches: no section, compared with "Line of sight"."""
    cells = set()
    for dy, dx in disc_offsets(radius_cells):
        if not inside(see_through.shape, cy + dy, cx + dx):
            continue
        between = bresenham_line(cy, cx, cy + dy, cx + dx)[1:-1]
        if all(see_through[y, x] for y, x in between):
            cells.add((cy + dy, cx + dx))
    return cells


# Sensing and belief


def full_scan(config: Config, truth_free: np.ndarray, cy: int, cx: int) -> set[Cell]:
    """Cells that a 360 degree scan senses: sections "Sensing and belief" and "Start"."""
    return visible_cells(truth_free, cy, cx, config.sensor_radius_cells)


def footprint(config: Config, truth_free: np.ndarray, cy: int, cx: int, heading: int) -> set[Cell]:
    """Cells that a robot at a cell with a heading senses: section "Sensing and belief"."""
    cells = {(cy, cx)}
    for iy, ix in full_scan(config, truth_free, cy, cx):
        if in_view(config, iy - cy, ix - cx, heading):
            cells.add((iy, ix))
    return cells


def update_belief(belief: np.ndarray, truth_free: np.ndarray, cells: set[Cell]) -> np.ndarray:
    """Belief with the sensed cells at their true values: section "Sensing and belief"."""
    updated = belief.copy()
    for iy, ix in cells:
        updated[iy, ix] = FREE if truth_free[iy, ix] else OCCUPIED
    return updated


def share_of(total: int, k: int, substeps: int) -> int:
    """Part k/substeps of a signed whole, halves away from zero: section "Sensing and belief"."""
    sign = 1 if total >= 0 else -1
    return sign * ((2 * abs(total) * k + substeps) // (2 * substeps))


def substep_poses(config: Config, a_site: Site, b_site: Site, heading: int, turn: int) -> list[tuple[Cell, int]]:
    """Cell and heading at the substeps of a move from a to b: section "Sensing and belief"."""
    ay, ax = site_cell(config, int(a_site[0]), int(a_site[1]))
    by, bx = site_cell(config, int(b_site[0]), int(b_site[1]))
    poses = []
    for k in range(1, config.substeps + 1):
        cell = (ay + share_of(by - ay, k, config.substeps), ax + share_of(bx - ax, k, config.substeps))
        poses.append((cell, (int(heading) + share_of(int(turn), k, config.substeps)) % 360))
    return poses


def limited_turn(config: Config, current: int, wanted: int, length_mm: int) -> int:
    """Signed turn of one decision, a length of 0 being a hold: section "Sensing and belief"."""
    if length_mm == 0:
        length_mm = round(1000 * config.hold_turn_m)
    limit = (config.yaw_rate_deg_s * int(length_mm)) // 1000
    turn = (int(wanted) - int(current) + 180) % 360 - 180
    return max(-limit, min(limit, turn))


def merged_belief(beliefs: np.ndarray) -> np.ndarray:
    """Team belief, Eq. 4: section "Sensing and belief"."""
    robots, height, width = beliefs.shape
    merged = np.zeros((height, width), dtype=beliefs.dtype)
    for iy in range(height):
        for ix in range(width):
            said = {int(beliefs[n, iy, ix]) for n in range(robots)}
            if OCCUPIED in said:
                merged[iy, ix] = OCCUPIED
            elif FREE in said:
                merged[iy, ix] = FREE
    return merged


def coverage(merged: np.ndarray, truth_free: np.ndarray) -> tuple[int, int]:
    """Merged free cells and all free cells (as loaded, all connected): section "Sensing and belief"."""
    covered = 0
    total = 0
    for iy in range(merged.shape[0]):
        for ix in range(merged.shape[1]):
            if merged[iy, ix] == FREE:
                covered += 1
            if truth_free[iy, ix]:
                total += 1
    return covered, total


def overlap(footprints: list[set[Cell]]) -> tuple[int, int]:
    """Cells sensed by two or more robots, and by one or more: section "Sensing and belief"."""
    seen = {}
    for cells in footprints:
        for cell in cells:
            seen[cell] = seen.get(cell, 0) + 1
    twice = [cell for cell, times in seen.items() if times >= 2]
    return len(twice), len(seen)


# Graph


@cache
def segment_offsets(config: Config, k: int) -> list[tuple[int, int]]:
    """Cell offsets that the segment of slot k touches: section "Graph"."""
    dy, dx = slot_offset(k)
    end_y, end_x = config.stride * dy, config.stride * dx
    offsets = []
    for cy in range(min(0, end_y), max(0, end_y) + 1):
        for cx in range(min(0, end_x), max(0, end_x) + 1):
            if 2 * abs(end_y * cx - end_x * cy) <= abs(end_x) + abs(end_y):
                offsets.append((cy, cx))
    return offsets


def edges(config: Config, belief: np.ndarray) -> np.ndarray:
    """Edges edge[k, i, j] from site (i, j) in slot k: section "Graph"."""
    size = sites_a_side(config, belief.shape[0])
    edge = np.zeros((SLOTS, size, size), dtype=bool)
    for k in range(SLOTS):
        if k == OWN_SLOT:
            continue
        offsets = segment_offsets(config, k)
        for i in range(size):
            for j in range(size):
                if not inside((size, size), *neighbour((i, j), k)):
                    continue
                iy, ix = site_cell(config, i, j)
                edge[k, i, j] = all(belief[iy + dy, ix + dx] == FREE for dy, dx in offsets)
    return edge


def distances(config: Config, edge: np.ndarray, sources: list[Site]) -> np.ndarray:
    """Shortest distance in mm from the nearest source to each site, by Dijkstra: section "Graph"."""
    size = edge.shape[1]
    mm = np.full((size, size), UNREACHABLE, dtype=np.int64)
    heap = []
    for i, j in sources:
        mm[i, j] = 0
        heapq.heappush(heap, (0, int(i), int(j)))
    while heap:
        so_far, i, j = heapq.heappop(heap)
        if so_far > mm[i, j]:
            continue
        for k in range(SLOTS):
            if not edge[k, i, j]:
                continue
            vi, vj = neighbour((i, j), k)
            longer = so_far + slot_length_mm(config, k)
            if longer < mm[vi, vj]:
                mm[vi, vj] = longer
                heapq.heappush(heap, (longer, vi, vj))
    return mm


def around(shape: tuple[int, ...], iy: int, ix: int) -> list[Cell]:
    """The up to 8 neighbours of a cell that are inside the grid: section "Graph"."""
    cells = []
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if (dy, dx) != (0, 0) and inside(shape, iy + dy, ix + dx):
                cells.append((iy + dy, ix + dx))
    return cells


def frontiers(belief: np.ndarray) -> np.ndarray:
    """Known-free cells with 2 to 7 unknown neighbours: section "Graph"."""
    frontier = np.zeros(belief.shape, dtype=bool)
    for iy in range(belief.shape[0]):
        for ix in range(belief.shape[1]):
            if belief[iy, ix] == FREE:
                unknown = 0
                for y, x in around(belief.shape, iy, ix):
                    if belief[y, x] == UNKNOWN:
                        unknown += 1
                frontier[iy, ix] = 2 <= unknown <= 7
    return frontier


def thinned(frontier: np.ndarray) -> np.ndarray:
    """The first frontier of each 2 x 2 voxel: section "Graph"."""
    kept = np.zeros(frontier.shape, dtype=bool)
    taken = set()
    for iy in range(frontier.shape[0]):
        for ix in range(frontier.shape[1]):
            voxel = (iy // 2, ix // 2)
            if frontier[iy, ix] and voxel not in taken:
                taken.add(voxel)
                kept[iy, ix] = True
    return kept


def grouped(frontier: np.ndarray) -> np.ndarray:
    """Frontiers in 8-connected groups of 3 cells or more, by flood fill: section "Graph"."""
    kept = np.zeros(frontier.shape, dtype=bool)
    done = set()
    for iy in range(frontier.shape[0]):
        for ix in range(frontier.shape[1]):
            if not frontier[iy, ix] or (iy, ix) in done:
                continue
            group = {(iy, ix)}
            to_visit = [(iy, ix)]
            while to_visit:
                y, x = to_visit.pop()
                for other in around(frontier.shape, y, x):
                    if frontier[other] and other not in group:
                        group.add(other)
                        to_visit.append(other)
            done |= group
            if len(group) >= 3:
                for cell in group:
                    kept[cell] = True
    return kept


def utilities(config: Config, belief: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Utility of each node and its frontiers by direction bin: section "Graph"."""
    size = node.shape[0]
    utility = np.zeros((size, size), dtype=np.int64)
    histogram = np.zeros((size, size, config.heading_bins), dtype=np.int64)
    frontier = thinned(frontiers(belief))
    for i in range(size):
        for j in range(size):
            if not node[i, j]:
                continue
            cy, cx = site_cell(config, i, j)
            seen = visible_cells(belief == FREE, cy, cx, config.utility_radius_cells) - {(cy, cx)}
            counted = [cell for cell in seen if frontier[cell]]
            if len(counted) <= 1:
                continue
            utility[i, j] = len(counted)
            for iy, ix in counted:
                histogram[i, j, direction_bin(config, iy - cy, ix - cx)] += 1
    return utility, histogram


def nearest_frontiers(
    config: Config, belief: np.ndarray, node: np.ndarray, sensed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distance in mm and flat cell index of each node's nearest frontier: section "Graph"."""
    size = node.shape[0]
    width = belief.shape[1]
    nearest_mm = np.full((size, size), UNREACHABLE, dtype=np.int64)
    nearest_cell = np.full((size, size), -1, dtype=np.int64)
    frontier = grouped(frontiers(belief))
    for i in range(size):
        for j in range(size):
            if not node[i, j]:
                continue
            cy, cx = site_cell(config, i, j)
            ranked = []
            for iy, ix in visible_cells(belief == FREE, cy, cx, config.utility_radius_cells) - {(cy, cx)}:
                dy, dx = iy - cy, ix - cx
                if frontier[iy, ix] and not sensed[i, j, direction_bin(config, dy, dx)]:
                    ranked.append((dy * dy + dx * dx, max(abs(dy), abs(dx)), iy, ix))
            if ranked:
                squared, _, iy, ix = min(ranked)
                # 1000 * cell_m is spacing_mm / stride, so the floor is exact in integers.
                nearest_mm[i, j] = math.isqrt(config.spacing_mm**2 * squared // config.stride**2)
                nearest_cell[i, j] = iy * width + ix
    return nearest_mm, nearest_cell


# Candidates


def window_headings(config: Config, hist: np.ndarray) -> list[int]:
    """Three heading bins whose windows cover the most frontiers, greedily: section "Candidates"."""
    bins = config.heading_bins
    half = config.window_bins // 2
    left = [int(count) for count in hist]
    headings = []
    while len(headings) < config.headings_per_node and (sum(left) > 0 or not headings):
        best_bin, best_score = -1, -1
        for b in range(bins):
            covered = 0
            centred = 0
            for k in range(-half, half + 1):
                covered += left[(b + k) % bins]
                centred += (half + 1 - abs(k)) * left[(b + k) % bins]
            score = 2048 * covered + centred
            if score > best_score:
                best_bin, best_score = b, score
        headings.append(best_bin)
        for k in range(-half, half + 1):
            left[(best_bin + k) % bins] = 0
    for position, shift in ((1, 3), (2, -3)):
        if len(headings) == position:
            headings.append((headings[0] + shift) % bins)
    return headings


def candidate_headings(
    config: Config, edge: np.ndarray, utility: np.ndarray, histogram: np.ndarray, useful_mm: np.ndarray, here: Site
) -> np.ndarray:
    """Three heading bins for each neighbour slot with an edge, -1 elsewhere: section "Candidates"."""
    headings = np.full((SLOTS, config.headings_per_node), -1, dtype=np.int64)
    for k in range(SLOTS):
        if not edge[k, here[0], here[1]]:
            continue
        v = neighbour(here, k)
        if utility[v] > 0:
            headings[k] = window_headings(config, histogram[v])
            continue
        way = k  # the direction of motion
        if useful_mm[v] < UNREACHABLE:
            way = best_edge_slot(config, edge, useful_mm, v)
        g = direction_bin(config, *slot_offset(way))
        headings[k] = [g, (g + 1) % config.heading_bins, (g - 1) % config.heading_bins]
    return headings


# Guard, modes, conflicts


def best_edge_slot(config: Config, edge: np.ndarray, mm: np.ndarray, here: Site) -> int:
    """Edge slot of least length + mm, ties to the lower, 12 if no edge: section "Guard, modes, conflicts"."""
    best_slot, best_mm = OWN_SLOT, None
    for k in range(SLOTS):
        if not edge[k, here[0], here[1]]:
            continue
        total = slot_length_mm(config, k) + int(mm[neighbour(here, k)])
        if best_mm is None or total < best_mm:
            best_slot, best_mm = k, total
    return best_slot


def feasible_slots(config: Config, edge: np.ndarray, home_mm: np.ndarray, here: Site, budget_mm: int) -> np.ndarray:
    """Slots that have an edge and that Eq. 2 admits: section "Guard, modes, conflicts"."""
    feasible = np.zeros(SLOTS, dtype=bool)
    for k in range(SLOTS):
        if edge[k, here[0], here[1]]:
            needed = slot_length_mm(config, k) + int(home_mm[neighbour(here, k)]) + config.safety_margin_mm
            feasible[k] = needed <= int(budget_mm)
    return feasible


def must_return(config: Config, home_mm: np.ndarray, here: Site, budget_mm: int) -> bool:
    """Eq. 3: section "Guard, modes, conflicts"."""
    return int(home_mm[here[0], here[1]]) + config.safety_margin_mm >= int(budget_mm)


def return_slot(config: Config, edge: np.ndarray, home_mm: np.ndarray, here: Site) -> int:
    """Edge slot of a returning robot: section "Guard, modes, conflicts"."""
    return best_edge_slot(config, edge, home_mm, here)


def resolve_conflicts(
    config: Config,
    here: list[Site],
    active: list[bool],
    returning: list[bool],
    waited: list[bool],
    choice: list[int],
    scores: np.ndarray,
    feasible: np.ndarray,
    order: list[int],
) -> list[tuple[Site, int]]:
    """Target site and candidate of each robot after conflicts (-1: holds): section "Guard, modes, conflicts"."""
    per_slot = config.headings_per_node
    robots = [n for n in range(len(here)) if active[n]]
    here = [(int(i), int(j)) for i, j in here]
    used = []
    for n in range(len(here)):
        holds = not active[n] or choice[n] < 0 or choice[n] // per_slot == OWN_SLOT
        used.append(-1 if holds else int(choice[n]))
    banned = [set() for _ in here]

    def target(n: int) -> Site:
        return here[n] if used[n] == -1 else neighbour(here[n], used[n] // per_slot)

    def rank(n: int) -> tuple[int, int, int, int]:
        length = 0 if used[n] == -1 else slot_length_mm(config, used[n] // per_slot)
        return (
            0 if used[n] == -1 else 1,
            0 if returning[n] else 1,
            order[n] if returning[n] or waited[n] else length,
            n,
        )

    while True:
        groups = {}
        for n in robots:
            groups.setdefault(target(n), []).append(n)
        losers = []
        for group in groups.values():
            keeper = min(group, key=rank)
            for n in group:
                if n != keeper and used[n] != -1:
                    losers.append(n)
        if not losers:
            break
        loser = min(losers)
        banned[loser].add(target(loser))
        taken = {target(n) for n in robots if n != loser}
        best = -1
        if not returning[loser]:
            for candidate in range(SLOTS * per_slot):
                slot = candidate // per_slot
                site = neighbour(here[loser], slot)
                if not feasible[loser][slot] or site in banned[loser] or site in taken:
                    continue
                if best == -1 or scores[loser][candidate] > scores[loser][best]:
                    best = candidate
        used[loser] = best

    return [(target(n), used[n]) for n in range(len(here))]


# Sightings


def sees(config: Config, truth_free: np.ndarray, observer_cell: Cell, observer_heading: int, other_cell: Cell) -> bool:
    """Whether a robot's cell is among the cells that another senses: section "Sightings"."""
    other = (int(other_cell[0]), int(other_cell[1]))
    return other in footprint(config, truth_free, int(observer_cell[0]), int(observer_cell[1]), observer_heading)
