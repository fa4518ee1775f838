"""Full communication: the whole team shares one map and all goals. Only planners with a radio use it."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from decmarvel.core.config import Config
from decmarvel.core.lattice import site_mask
from decmarvel.core.types import FAR_MM, Graph, Key, Keys, LocalView, Proposal, Robot, Sight, Site
from decmarvel.robot.graph import from_sites, network, shortest_paths
from decmarvel.robot.planners.base import Memory, Planner
from decmarvel.robot.roads import Network
from decmarvel.robot.sight import look_again
from decmarvel.simulation.team_map import merge
from decmarvel.simulation.types import Progress, State


class RadioPlanner(Planner):
    """A planner whose robots share one map and tell each other their goals. It is a reference, not a competitor.

    The simulator merges the robots' maps after every decision (radio.py), so the views differ in pose and budget only.
    """

    communicates: ClassVar[bool] = True

    @abstractmethod
    def propose_team(
        self, config: Config, keys: Keys, views: LocalView, exploring: Bool[Array, "N"], memory: Memory
    ) -> tuple[Proposal, Memory]:
        """The proposals of a whole team; every argument has an axis of robots."""

    def propose(self, config: Config, key: Key, view: LocalView, memory: Memory) -> tuple[Proposal, Memory]:
        """The proposal of a single robot, as a team of one."""
        team = jax.tree.map(lambda leaf: leaf[None], (key, view, memory))
        proposals = self.propose_team(config, team[0], team[1], jnp.ones(1, bool), team[2])
        return jax.tree.map(lambda leaf: leaf[0], proposals)


def propose_all(
    config: Config, planner: Planner, keys: Keys, views: LocalView, exploring: Bool[Array, "N"], memory: Memory
) -> tuple[Proposal, Memory]:
    """The proposals of all robots: each proposes for itself, unless the planner has a radio."""
    if isinstance(planner, RadioPlanner):
        return planner.propose_team(config, keys, views, exploring, memory)
    return jax.vmap(lambda key, view, memory: planner.propose(config, key, view, memory))(keys, views, memory)


def share(config: Config, earlier: Robot, state: State) -> State:
    """Merge the robots' maps (Eq. 4) after a decision that started with the robots `earlier`.

    Update all that depends on the maps, too. Failed robots send nothing new, but the team keeps what they sent before.
    """
    robots, sites = state.robots, state.robots.visits.shape[-1]
    belief = merge(robots.belief)
    # All robots had one map and one network before the decision, so these differ only around its moves.
    first: Graph = jax.tree.map(lambda leaf: leaf[0], earlier.graph)
    range_mm, radius_mm = robots.range_mm.max(), robots.radius_mm.max()

    def look(shared: tuple[Network, Sight], middle: Site) -> tuple[tuple[Network, Sight], None]:
        net = network(config, belief, shared[0], middle, radius_mm)
        fresh = (net.cell[..., 0] >= 0) & (shared[0].cell[..., 0] < 0)
        sight = look_again(config, shared[1], earlier.belief[0], belief, net.cell, fresh, middle, range_mm)
        return (net, sight), None

    start = (Network(first.cell, first.age, first.length_mm), first.sight)
    (net, sight), _ = jax.lax.scan(look, start, (earlier.site + robots.site) // 2)
    sensed = robots.sensed.any(axis=0)

    def informed(robot: Robot) -> Robot:
        home_mm = jnp.where(site_mask(sites, robot.base), 0, robot.graph.home_mm)
        home_mm = shortest_paths(net.length_mm, home_mm)
        useful = (sight.utility > 0) & (home_mm < FAR_MM)
        graph = Graph(*net, home_mm, shortest_paths(net.length_mm, from_sites(useful)), sight)
        return eqx.tree_at(lambda r: (r.belief, r.graph, r.sensed), robot, (belief, graph, sensed))

    return State(state.world, jax.vmap(informed)(robots), state.fail_step, shared_progress(state), state.step)


def shared_progress(state: State) -> Progress:
    """The record if all robots of the mission know what one of them knows."""
    robots, progress = state.robots, state.progress
    members = robots.present
    first = (progress.own_success_mm < 0) & (progress.metres_to_success_mm >= 0) & members
    return eqx.tree_at(
        lambda p: (p.known_by, p.own_covered, p.own_success_mm),
        progress,
        (
            jnp.where(progress.known_by > 0, members.sum(), 0).astype(jnp.uint8),
            jnp.where(members, progress.covered, 0),
            jnp.where(first, robots.travelled_mm, progress.own_success_mm),
        ),
    )
