"""Sight, sensing, beliefs and sightings: docs/model.md a second time."""

import math
from functools import cache

import numpy as np

from decmarvel.core.config import Config
from oracles.lattice import FREE, OCCUPIED, Cell, Site, in_view, inside, length_mm, site_cell

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


def full_scan(config: Config, truth_free: np.ndarray, cy: int, cx: int, range_mm: int | None = None) -> set[Cell]:
    """Cells that a 360 degree scan senses: sections "Sensing and belief" and "Start"."""
    seen = visible_cells(truth_free, cy, cx, config.sensor_radius_cells)
    if range_mm is None:
        return seen
    return {(iy, ix) for iy, ix in seen if length_mm(config, iy - cy, ix - cx) <= range_mm}


def footprint(
    config: Config,
    truth_free: np.ndarray,
    cy: int,
    cx: int,
    heading: int,
    fov_deg: int | None = None,
    range_mm: int | None = None,
) -> set[Cell]:
    """Cells that a robot at a cell with a heading senses: sections "Sensing and belief" and "Bodies and cameras".

    The camera is that of the configuration where nothing else is given.
    """
    cells = {(cy, cx)}
    for iy, ix in full_scan(config, truth_free, cy, cx, range_mm):
        if in_view(config, iy - cy, ix - cx, heading, fov_deg):
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
    start, end = (site_cell(config, int(site[0]), int(site[1])) for site in (a_site, b_site))
    return poses_between(config, start, end, heading, turn)


def poses_between(config: Config, start: Cell, end: Cell, heading: int, turn: int) -> list[tuple[Cell, int]]:
    """Cell and heading at the substeps of a straight move between two cells: section "Sensing and belief"."""
    (ay, ax), (by, bx) = start, end
    poses = []
    for k in range(1, config.substeps + 1):
        cell = (ay + share_of(by - ay, k, config.substeps), ax + share_of(bx - ax, k, config.substeps))
        poses.append((cell, (int(heading) + share_of(int(turn), k, config.substeps)) % 360))
    return poses


def limited_turn(
    config: Config, current: int, wanted: int, length_mm: int, yaw_rate_deg_s: int = 35, speed_mm_s: int = 1000
) -> int:
    """Signed turn of one decision, a length of 0 being a hold: section "Sensing and belief"."""
    if length_mm == 0:
        length_mm = round(1000 * config.hold_turn_m)
    limit = (yaw_rate_deg_s * int(length_mm)) // speed_mm_s
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


# Sightings


def sees(config: Config, truth_free: np.ndarray, observer_cell: Cell, observer_heading: int, other_cell: Cell) -> bool:
    """Whether a robot's cell is among the cells that another senses: section "Sightings"."""
    other = (int(other_cell[0]), int(other_cell[1]))
    return other in footprint(config, truth_free, int(observer_cell[0]), int(observer_cell[1]), observer_heading)


def surely_seen_bins(config: Config, heading: int, fov_deg: int) -> set[int]:
    """Bins that lie wholly in view, wherever in its bin the heading is: section "Graph"."""
    width, bins = config.degrees_per_bin, config.heading_bins
    own = (int(heading) + width // 2) // width % bins
    if fov_deg >= 360:
        return set(range(bins))
    surely = {own}
    for b in range(bins):
        away = min((b - own) % bins, (own - b) % bins)
        # The heading is up to half a bin from the middle of its own, and the far side of b is half a bin beyond its.
        if away * width + width <= fov_deg / 2:
            surely.add(b)
    return surely
