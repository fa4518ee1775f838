"""Compare the generated indoor maps with a folder of maps of the same kind, as a Markdown table.

python benchmarks/map_statistics.py [--maps DIR] [--count 300]
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from decmarvel.worlds import Building, generate, load
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=Path, help="folder of map files to compare with")
    parser.add_argument("--count", type=int, default=300, help="maps to generate of each split")
    arguments = parser.parse_args()

    columns: dict[str, list[Building]] = {}
    for split in ("train", "heldout"):
        began = time.perf_counter()
        columns[f"{split} ({arguments.count})"] = [generate("indoor", split, k) for k in range(arguments.count)]
        print(f"{split}: {1000 * (time.perf_counter() - began) / arguments.count:.1f} ms a map")
    if arguments.maps is not None:
        maps = [load(path) for path in sorted(arguments.maps.iterdir()) if path.suffix in (".png", ".yaml", ".npy")]
        columns[f"{arguments.maps.name} ({len(maps)})"] = maps
    print_table({name: [block_statistics(building) for building in maps] for name, maps in columns.items()})


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
