"""The learned planner and what it takes to train it."""
