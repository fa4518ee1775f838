"""Limits of one mission's settings. Plain numbers, because the command line reads them before JAX is loaded."""

MAX_ROBOTS = 16
BUDGET_LIMITS_M = (1.0, 20_000.0)
MAX_SEED = 2**32 - 1
