"""The types that several stages on board share, in the order of the data flow.

What one function makes has its type beside it: `Intent` in `robot.guard`, `Observation` and `Ways` in
`robot.observation`, `Goal` in `robot.planners.goals`. What only the simulator knows has its types in
`simulation.types`, the ground truth in `worlds.world`.

Y, X: rows and columns of the grid of cells. I, J: rows and columns of the lattice of sites. N: robots (a static
maximum). K: neighbour slots (25). H: headings per node (3). B: heading bins (36). L: remembered decisions (10).
Distances are millimetres, headings whole degrees. Classes describe one robot or one mission; `vmap` adds the other
axes.
"""

from dataclasses import fields
from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int16, Int32, PRNGKeyArray, UInt8
from jaxtyping import Key as KeyArray

UNKNOWN, FREE, OCCUPIED = 0, 1, 2
EXPLORING, RETURNING, HOME, FAILED, ABSENT = 0, 1, 2, 3, 4
MODE_NAMES = ("exploring", "returning", "home", "failed", "absent")
FAR_MM = 2**29
"""A distance that means unreachable; the sum of three still fits in 32 bits."""
PAPER_RANGE_MM = 10_000
RETURN_HOME = -1
"""The choice of a planner that has no goal left."""
Scalar: TypeAlias = Int32[Array, ""]
Site: TypeAlias = Int32[Array, "2"]
Key: TypeAlias = PRNGKeyArray
Keys: TypeAlias = KeyArray[Array, "N"]


class Sight(eqx.Module):
    """What could be seen from each site through the known-free cells, node or not."""

    utility: Int32[Array, "*batch I J"]
    histogram: UInt8[Array, "*batch I J B"]
    nearest_rank: Int16[Array, "*batch I J B"]
    """The nearest grouped frontier in each direction: its rank by distance among the cells around; see sight.py."""


class Graph(eqx.Module):
    """Where one robot can go, from its own belief alone."""

    cell: Int32[Array, "*batch I J 2"]
    """The viewpoint of each tile: where a robot stands that is there. With roads (-1, -1) where there is none."""
    age: Int32[Array, "*batch I J"]
    """With roads, the decisions for which a tile has been without a viewpoint though a robot could stand in it."""
    length_mm: Int32[Array, "*batch K I J"]
    """Length of the way to the neighbour in each slot; FAR_MM where there is no edge."""
    home_mm: Int32[Array, "*batch I J"]
    useful_mm: Int32[Array, "*batch I J"]
    sight: Sight

    @property
    def edge(self) -> Bool[Array, "*batch K I J"]:
        return self.length_mm < FAR_MM

    @property
    def node(self) -> Bool[Array, "*batch I J"]:
        return self.home_mm < FAR_MM

    @property
    def utility(self) -> Int32[Array, "*batch I J"]:
        return jnp.where(self.node, self.sight.utility, 0)


class Sightings(eqx.Module):
    """What one robot remembers of each teammate: the last L decisions, newest first."""

    seen: Bool[Array, "*batch N L"]
    cell: Int32[Array, "*batch N L 2"]
    heading: Int32[Array, "*batch N L"]


class Circling(eqx.Module):
    """What a robot has done since it last made progress (robot/pursuit.py)."""

    stood: Int32[Array, "*batch I J"]
    """How often it has stood at each node."""
    lost: Bool[Array, "*batch"]
    """Whether it goes to the nearest open view, whatever its planner proposes."""


class Candidates(eqx.Module):
    """The waypoint-heading actions of one robot at one decision."""

    heading_bin: Int32[Array, "*batch K H"]
    mask: Bool[Array, "*batch K"]
    """Slots with an edge that the budget guard admits (Eq. 2); with roads also the robot's own, if an open view is left
    there: it turns towards it."""


class Own(eqx.Module):
    """What one robot knows of itself, as single numbers.

    The simulator's robot, the planner's view, the networks' input and the memory of training all extend this class. So
    a fact that is added here reaches all of them. It has its first value where a robot takes off
    (`simulation.environment.reset`) and keeps it, unless `simulation.environment.arrive` gives it another.
    """

    number: Int32[Array, "*batch"]
    """The robot's number in its team, from 0; known before take-off, as is the team's size."""
    team_size: Int32[Array, "*batch"]
    base: Int32[Array, "*batch 2"]
    site: Int32[Array, "*batch 2"]
    heading: Int32[Array, "*batch"]
    budget_mm: Int32[Array, "*batch"]
    """Remaining budget."""
    initial_budget_mm: Int32[Array, "*batch"]
    fov_deg: Int32[Array, "*batch"]
    """Horizontal field of view of its camera; 360 for a lidar."""
    range_mm: Int32[Array, "*batch"]
    """Range of its camera."""
    speed_mm_s: Int32[Array, "*batch"]
    yaw_rate_deg_s: Int32[Array, "*batch"]
    radius_mm: Int32[Array, "*batch"]
    """Radius of its body."""
    spacing_mm: Int32[Array, "*batch"]
    """Distance between the sites of its lattice."""
    cell_mm: Int32[Array, "*batch"]
    """Side of a cell of its map."""

    @property
    def unit(self) -> Float32[Array, "*batch"]:
        """The sensing range in units of the paper's, 10 m. What depends on lengths is relative to it."""
        return self.range_mm.astype(jnp.float32) / PAPER_RANGE_MM

    @property
    def node_share(self) -> Float32[Array, "*batch"]:
        """How much of one of the paper's nodes one node stands for: 1 if they are 0.4 sensing ranges apart."""
        apart = 5 * self.spacing_mm.astype(jnp.float32) / (2 * self.range_mm.astype(jnp.float32))
        return apart * apart

    @property
    def cell_share(self) -> Float32[Array, "*batch"]:
        """Side of a cell in units of the paper's, 0.04 sensing ranges."""
        return 25 * self.cell_mm.astype(jnp.float32) / self.range_mm.astype(jnp.float32)

    @property
    def own(self) -> dict[str, Any]:
        """These facts by name, to construct another class that extends this one."""
        return {field.name: getattr(self, field.name) for field in fields(Own)}


class Robot(Own):
    """Everything that one robot carries through a mission."""

    mode: Int32[Array, "*batch"]
    waits: Int32[Array, "*batch"]
    """Number of decisions in a row at which it had to hold, because others took the nodes it could go to."""
    belief: UInt8[Array, "*batch Y X"]
    graph: Graph
    visits: Int32[Array, "*batch I J"]
    sensed: Bool[Array, "*batch I J B"]
    circling: Circling
    sightings: Sightings

    @property
    def active(self) -> Bool[Array, "*batch"]:
        """Whether the robot flies: it moves, senses, and can block others."""
        return self.mode <= RETURNING

    @property
    def present(self) -> Bool[Array, "*batch"]:
        """Whether others can see the robot; landed and failed robots too."""
        return self.mode != ABSENT

    @property
    def travelled_mm(self) -> Int32[Array, "*batch"]:
        return self.initial_budget_mm - self.budget_mm


class LocalView(Own):
    """All that a planner may read: one robot's own knowledge. Nothing here can carry a teammate's map or goal."""

    belief: UInt8[Array, "*batch Y X"]
    graph: Graph
    candidates: Candidates
    visits: Int32[Array, "*batch I J"]
    sensed: Bool[Array, "*batch I J B"]
    sightings: Sightings


class Proposal(eqx.Module):
    """A planner's answer: a score for each candidate, where to look there, and its choice.

    After a conflict the robot gets its best-scored free candidate. The learned actor keeps the candidates' headings; a
    classical planner may point the camera elsewhere.
    """

    score: Array
    """Float32 (*batch, K, H)."""
    heading: Int32[Array, "*batch K H"]
    choice: Int32[Array, "*batch"]
    """Flat index slot * H + h, or RETURN_HOME."""


class CandidateProbabilities(eqx.Module):
    """The candidates that a robot found most probable, best first; empty for a planner without probabilities."""

    choice: Int32[Array, "*batch C"]
    heading: Int32[Array, "*batch C"]
    probability: Float32[Array, "*batch C"]
    """Zero where the robot had nothing to decide."""
