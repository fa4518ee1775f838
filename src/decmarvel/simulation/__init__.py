"""Missions: the ground truth, the team, and the simulation of physics and chance."""
