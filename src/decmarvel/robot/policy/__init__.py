"""Learned planners: networks, their features and their weights."""
