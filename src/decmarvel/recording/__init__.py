"""Recorded missions: the file, and what can be worked out from it."""
