"""The walk that says how fine a lattice must be: from viewpoint to viewpoint, as robots come to know them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import ROADS
from decmarvel.core.lattice import site_mask
from decmarvel.core.types import FAR_MM, FREE
from decmarvel.robot.graph import from_sites, shortest_paths
from decmarvel.robot.roads import PATIENCE, grow_network, no_network
from decmarvel.simulation.team import Member, Team
from decmarvel.worlds import Building, generate
from decmarvel.worlds.fit import fit
from decmarvel.worlds.reach import ENOUGH, look_around, walked_cells
from missions import wide_world

grown = jax.jit(grow_network, static_argnums=0)


@pytest.mark.slow
def test_a_lattice_on_which_a_walk_misses_doors_is_too_coarse():
    """Of this building half can be seen only by somebody who knows before where the doors are, with sites 4 m apart."""
    team = Team.alike(1, Member(radius_m=0.25))

    def build(cell_m: float) -> Building:
        return generate("floorplan", "train", 8, cell_m)

    coarse = fit(build, team.config(), 4.0)
    assert coarse.seen > ENOUGH
    assert coarse.walked < 0.6


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_walk_equals_a_plain_one(seed):
    """The same walk viewpoint by viewpoint, with the network that a robot has after each look."""
    config = ROADS[1]
    world = wide_world(config, seed)
    belief, radius_mm = np.zeros(world.free.shape, np.uint8), jnp.array(config.radius_mm, jnp.int32)
    sites = config.lattice.sites(len(belief))
    site = tuple(np.asarray(world.start).tolist())
    network = no_network(sites)
    network = network._replace(age=network.age.at[site].set(PATIENCE))
    cells, looked, idle = np.asarray(config.lattice.cell(world.start)), {site}, 0
    while idle <= PATIENCE + 1:
        look_around(config, world, cells[None], belief)
        network = grown(config, jnp.asarray(belief), network, jnp.array(site, jnp.int32), radius_mm)
        away = np.asarray(shortest_paths(network.length_mm, from_sites(site_mask(sites, jnp.array(site)))))
        left = {there: mm for there, mm in np.ndenumerate(away) if mm < FAR_MM and there not in looked}
        site = min(left, key=left.__getitem__, default=site)
        idle = 0 if left else idle + 1
        cells, looked = np.asarray(network.cell[site]), looked | {site}
    assert (np.asarray(walked_cells(config, world)) == (belief == FREE)).all()
    assert (belief == FREE).any()
    assert len(looked) > 3
