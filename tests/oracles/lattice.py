"""Cells, sites, slots and angles: docs/model.md a second time."""

import math
from functools import cache

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


def length_mm(config: Config, dy: int, dx: int) -> int:
    """Length of an offset in cells, rounded down, in integer arithmetic: section "Graph"."""
    return math.isqrt(config.spacing_mm**2 * (dy * dy + dx * dx) // config.stride**2)


def in_view(config: Config, dy: int, dx: int, heading: int, fov_deg: int | None = None) -> bool:
    """Whether an offset lies in the field of view of a heading (the own cell does): section "Angles".

    The field of view is that of the configuration where none is given.
    """
    if dy == 0 and dx == 0:
        return True
    difference = (direction_hundredths(dy, dx) - 100 * int(heading)) % 36000
    difference = min(difference, 36000 - difference)
    return 2 * difference <= 100 * (config.fov_deg if fov_deg is None else fov_deg)
