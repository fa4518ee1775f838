"""What only the critic may see: the team's coverage seen from one robot. Never imported by what runs on a robot."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from decmarvel.core.config import Config
from decmarvel.core.types import UNKNOWN, Scalar
from decmarvel.simulation.types import State

NONE, SELF, TEAM, UNEXPLORED = 0, 1, 2, 3


class PrivilegedView(eqx.Module):
    """The critic's extra input for one robot."""

    fractions: Float32[Array, "*batch I J 3"]
    """Share of each site's tile that the robot knows, that only teammates know, and that no robot has explored."""
    sites: Int32[Array, "*batch N 2"]
    active: Bool[Array, "*batch N"]
    post_success: Bool[Array, "*batch"]


def decompose(beliefs: UInt8[Array, "N Y X"], free: Bool[Array, "Y X"], number: Scalar) -> UInt8[Array, "Y X"]:
    """Eq. 15: label each cell as known to the robot itself, known to a teammate only, or unexplored free space."""
    known = beliefs != UNKNOWN
    own, team = known[number], known.any(axis=0)
    return jnp.where(own, SELF, jnp.where(team, TEAM, jnp.where(free, UNEXPLORED, NONE))).astype(jnp.uint8)


def privileged_view(config: Config, state: State, number: Scalar) -> PrivilegedView:
    """Eq. 15, averaged over each site's tile."""
    label = decompose(state.robots.belief, state.world.free, number)
    margin, stride = config.margin_cells, config.stride
    inner = label[margin:-margin, margin:-margin]
    sites = inner.shape[0] // stride
    tiles = inner.reshape(sites, stride, sites, stride)
    shares = [(tiles == kind).mean(axis=(1, 3), dtype=jnp.float32) for kind in (SELF, TEAM, UNEXPLORED)]
    return PrivilegedView(
        fractions=jnp.stack(shares, axis=-1),
        sites=state.robots.site,
        active=state.robots.active,
        post_success=state.progress.metres_to_success_mm >= 0,
    )
