"""Exploration of unknown buildings by teams of robots that never talk to each other."""

__version__ = "0.1.0"
