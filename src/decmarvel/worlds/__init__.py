"""Buildings to explore: generated from a seed, or loaded from a user's own map. Plain NumPy on the host."""

from decmarvel.worlds.building import Building, MapError
from decmarvel.worlds.generate import FAMILIES, generate
from decmarvel.worlds.mapfile import load, save

__all__ = ["FAMILIES", "Building", "MapError", "generate", "load", "save"]
