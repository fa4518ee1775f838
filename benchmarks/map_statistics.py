"""Compare generated maps with others, as a Markdown table.

python benchmarks/map_statistics.py [--maps DIR] [--count 300]    # indoor maps in blocks, and a folder of such maps
python benchmarks/map_statistics.py --real DIR [--count 30]       # all families in metres, and maps of real places
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from decmarvel.worlds import FAMILIES, Building, MapError, generate, load
from decmarvel.worlds.measures import RADII_M, Measures, measure
from decmarvel.worlds.statistics import BlockStatistics, block_statistics

COUNTS: dict[str, Callable[[BlockStatistics], float]] = {
    "free area, m2": lambda s: s.free_area_m2,
    "free blocks": lambda s: s.free_blocks,
    "components": lambda s: s.components,
    "loops": lambda s: s.loops,
    "share of blocks in a 2 x 2": lambda s: s.share_in_2x2,
    "share of blocks in a 3 x 3": lambda s: s.share_in_3x3,
    "3 x 3 cores": lambda s: s.cores_3x3,
    "rooms": lambda s: s.rooms,
    "leaf rooms": lambda s: s.leaf_rooms,
    "rooms on the loop": lambda s: s.rooms_on_loops,
    "4 m nodes": lambda s: s.nodes,
}
"""One number a map; the table gives mean, sd and range."""

DISTRIBUTIONS: dict[str, tuple[Callable[[BlockStatistics], Sequence[int]], Sequence[tuple[int, int]]]] = {
    "room side 2 / 3 / 4 / 5+": (lambda s: s.room_sides, ((2, 2), (3, 3), (4, 4), (5, 20))),
    "doors of a room 1 / 2 / 3 / 4+": (lambda s: s.room_degrees, ((1, 1), (2, 2), (3, 3), (4, 20))),
    "rooms on the loop 2 / 3-4 / 5-8 / 9+": (lambda s: (s.rooms_on_loops,), ((2, 2), (3, 4), (5, 8), (9, 400))),
}
"""Values pooled over all maps; the table gives the share in each range."""

SIZES: dict[str, Callable[[Measures], float]] = {
    "longer side, m": lambda m: m.size_m[0],
    "shorter side, m": lambda m: m.size_m[1],
    "floor, m2": lambda m: m.floor_m2,
} | {f"reached, radius {radius_m:g} m": lambda m, k=k: m.reached[k] for k, radius_m in enumerate(RADII_M)}
"""One number a map; the table gives mean and range."""

WIDTHS: dict[str, Callable[[Measures], Sequence[float]]] = {
    "openings up to 2.2 m, m": lambda m: m.openings_m,
    "corridors, width, m": lambda m: m.corridors_m,
    "rooms, m2": lambda m: m.rooms_m2,
}
"""Values pooled over all maps; the table gives the median and the middle half."""

MEASURED_CELL_M = 0.1
FLOOR_MAPS = (".png", ".pgm", ".yaml", ".npy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=Path, help="folder of map files to compare with")
    parser.add_argument("--real", type=Path, help="folder of maps of real places to compare all families with")
    parser.add_argument("--count", type=int, help="maps to generate (default: 300 of each split; 30 with --real)")
    arguments = parser.parse_args()
    if arguments.real is not None:
        compare_with_real(arguments.real, arguments.count or 30)
        return
    arguments.count = arguments.count or 300

    columns: dict[str, list[Building]] = {}
    for split in ("train", "heldout"):
        began = time.perf_counter()
        columns[f"{split} ({arguments.count})"] = [generate("indoor", split, k) for k in range(arguments.count)]
        print(f"{split}: {1000 * (time.perf_counter() - began) / arguments.count:.1f} ms a map")
    if arguments.maps is not None:
        maps = [load(path) for path in sorted(arguments.maps.iterdir()) if path.suffix in (".png", ".yaml", ".npy")]
        columns[f"{arguments.maps.name} ({len(maps)})"] = maps
    print_table({name: [block_statistics(building) for building in maps] for name, maps in columns.items()})


def compare_with_real(folder: Path, count: int) -> None:
    """Print the table of maps of real places beside training maps of all families, all in cells of 0.1 m."""
    columns: dict[str, list[Measures]] = {}
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in FLOOR_MAPS]
    described = {path.stem for path in paths if path.suffix == ".yaml"}
    for path in paths:
        if path.suffix == ".yaml" or path.stem not in described:
            try:
                columns[path.stem] = [measure(load(path, cell_m=MEASURED_CELL_M))]
            except MapError as problem:
                print(problem)
    for family in FAMILIES:
        began = time.perf_counter()
        maps = [generate(family, "train", k, MEASURED_CELL_M) for k in range(count)]
        print(f"{family}: {1000 * (time.perf_counter() - began) / count:.0f} ms a map")
        columns[f"{family} ({count})"] = [measure(building) for building in maps]

    print("\n| mean (min..max) | " + " | ".join(columns) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for name, size in SIZES.items():
        cells = [mean_and_range([size(m) for m in column]) for column in columns.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")
    for name, widths in WIDTHS.items():
        cells = [middle_half([width for m in column for width in widths(m)]) for column in columns.values()]
        print(f"| {name}: median (middle half) | " + " | ".join(cells) + " |")


def mean_and_range(values: Sequence[float]) -> str:
    digits = 2 if max(values) <= 1 else 0
    mean, low, high = (f"{f(values):.{digits}f}" for f in (np.mean, np.min, np.max))
    return mean if len(values) == 1 else f"{mean} ({low}..{high})"


def middle_half(values: Sequence[float]) -> str:
    if not values:
        return "none"
    low, median, high = (f"{value:.1f}" for value in np.percentile(values, (25, 50, 75)))
    return f"{median} ({low}..{high})"


def print_table(columns: dict[str, list[BlockStatistics]]) -> None:
    print("\n| mean (sd) min..max | " + " | ".join(columns) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for name, count in COUNTS.items():
        cells = [summary([count(s) for s in column]) for column in columns.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")
    for name, (values, ranges) in DISTRIBUTIONS.items():
        cells = [shares([v for s in column for v in values(s)], ranges) for column in columns.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")


def summary(values: Sequence[float]) -> str:
    digits = 2 if max(values) < 1 else 0 if min(values) > 100 else 1
    mean, sd, low, high = (f"{f(values):.{digits}f}" for f in (np.mean, np.std, np.min, np.max))
    return f"{mean} ({sd}) {low}..{high}"


def shares(values: Sequence[int], ranges: Sequence[tuple[int, int]]) -> str:
    array = np.asarray(values)
    return " / ".join(f"{((array >= low) & (array <= high)).mean():.2f}" for low, high in ranges)


if __name__ == "__main__":
    main()
