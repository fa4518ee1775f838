"""Buildings to explore: generated from a seed or read from a map file, and placed on the lattice as a `World`.

May know: the ground truth. May import: `core`, and the graph of `robot` to compute what robots can reach.
Here belongs what is known of a building before a mission. Buildings are NumPy arrays on the host.
"""

from decmarvel.worlds.building import Building, MapError
from decmarvel.worlds.generate import FAMILIES, generate
from decmarvel.worlds.mapfile import load, save

__all__ = ["FAMILIES", "Building", "MapError", "generate", "load", "save"]
