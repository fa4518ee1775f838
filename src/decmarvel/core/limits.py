"""Limits of one mission's settings. Plain numbers, because the command line reads them before JAX is loaded."""

MAX_ROBOTS = 16
BUDGET_LIMITS_M = (1.0, 20_000.0)
MAX_SEED = 2**32 - 1
MEMBER_LIMITS = {
    "fov_deg": (int, 30, 360),
    "range_m": (float, 0.5, 20.0),
    "speed_m_s": (float, 0.05, 5.0),
    "yaw_rate_deg_s": (int, 5, 360),
    "radius_m": (float, 0.0, 1.0),
    "budget_m": (float, *BUDGET_LIMITS_M),
}
"""What a robot can be like: kind of number, least and largest value."""
