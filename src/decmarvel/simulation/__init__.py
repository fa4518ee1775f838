"""Missions: the truth, the team, and what physics and chance do to them."""
