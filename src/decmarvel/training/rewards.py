"""What a robot's decision was worth, term by term. Looks at the merged belief: training only."""

from dataclasses import dataclass, fields

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from decmarvel.core.angles import direction_bins, direction_hundredths, heading_bin
from decmarvel.core.config import FREE_MARGIN_CELLS, Config
from decmarvel.core.lattice import SLOT_OFFSETS, SLOTS, slot_of
from decmarvel.core.types import EXPLORING, FREE, UNKNOWN, Proposal, Scalar, Site
from decmarvel.core.visibility import line_of_sight
from decmarvel.core.windows import cut
from decmarvel.robot.guard import intend
from decmarvel.robot.observation import trail_evidence
from decmarvel.robot.sight import frontiers, thin, utility_layout
from decmarvel.simulation.environment import fail, views
from decmarvel.simulation.team_map import merge
from decmarvel.simulation.types import Move, State


@dataclass(frozen=True)
class RewardSettings:
    """What the terms weigh: as in the paper."""

    frontiers: float = 26.0
    """So many frontiers in view are worth 1."""
    fov: float = 1.0
    """Of those in the robot's own map, and next of those in the merged one."""
    merged: float = 1.0
    align: float = 0.1
    """Small, so that it cannot outweigh sensing."""
    trail: float = 0.15
    repeat: float = 0.05
    own_share: float = 0.5
    low_gain: float = 0.05
    """A waypoint with `own_share * fov + merged` below this adds to the count of repeated low gains."""
    team: float = 5.0
    individual: float = 2.5
    removed: float = 0.0
    """For each frontier of the merged belief that is none any more. This and the next: for the predecessor."""
    step: float = 0.0
    """For each decision."""
    hurry: float = 0.0
    """For each spacing of the lattice that a robot flies until the team succeeds. This and the next: in no paper."""
    covered: float = 0.0
    """For each 100 free cells that a robot sees before anybody else."""

    @property
    def looks(self) -> bool:
        """Whether it matters what is in view of a waypoint."""
        return any((self.fov, self.merged, self.repeat))


class RewardTerms(eqx.Module):
    """The terms of Eq. 7 with their signs, two of the predecessor, two of ours; zero for robots that do not explore."""

    fov: Float32[Array, "*batch N"]
    merged: Float32[Array, "*batch N"]
    align: Float32[Array, "*batch N"]
    trail: Float32[Array, "*batch N"]
    repeat: Float32[Array, "*batch N"]
    team: Float32[Array, "*batch N"]
    individual: Float32[Array, "*batch N"]
    removed: Float32[Array, "*batch N"]
    step: Float32[Array, "*batch N"]
    hurry: Float32[Array, "*batch N"]
    covered: Float32[Array, "*batch N"]

    @property
    def total(self) -> Float32[Array, "*batch N"]:
        """Eq. 7."""
        return sum((getattr(self, term.name) for term in fields(self)[1:]), self.fov)


def frontiers_in_view(
    config: Config, patches: UInt8[Array, "V side side"], cell: Int32[Array, "2"], heading: Scalar
) -> Int32[Array, "V"]:
    """Thinned frontiers that can be seen from a cell in the window around a heading, in each of some maps of the place.

    Patches are centred on the cell and reach two cells beyond the disc, so that its frontiers are known.
    """
    view, margin = utility_layout(config).view, FREE_MARGIN_CELLS
    corner = cell - view.reach - margin
    frontier = jax.vmap(lambda patch: thin(frontiers(patch), corner))(patches)
    place = view.offsets + view.reach + margin
    ringed = jnp.stack([frontier, patches == FREE])[..., place[..., 0], place[..., 1]]
    seen = line_of_sight(view, jnp.moveaxis(ringed[1], 0, -1)) & jnp.moveaxis(ringed[0], 0, -1)
    bins = jnp.asarray(direction_bins(config, view.offsets[..., 0], view.offsets[..., 1]))
    away = (bins - heading_bin(config, heading) + config.heading_bins // 2) % config.heading_bins
    window = jnp.abs(away - config.heading_bins // 2) <= config.window_bins // 2
    return (seen & window[..., None]).sum(axis=(0, 1)).astype(jnp.int32)


def gains(config: Config, state: State, move: Move) -> Int32[Array, "N 2"]:
    """Frontiers in view of each robot's waypoint: by its own belief, and by the merged one."""
    reach = utility_layout(config).view.reach + FREE_MARGIN_CELLS

    def gain(number: Scalar, target: Site, heading: Scalar) -> Int32[Array, "2"]:
        cell = config.lattice.cell(target)
        patches = jax.vmap(lambda belief: cut(belief, cell, reach))(state.robots.belief)
        return frontiers_in_view(config, jnp.stack([patches[number], merge(patches)]), cell, heading)

    number = jnp.arange(move.mode.shape[0], dtype=jnp.int32)
    return jax.vmap(gain)(number, move.target, move.heading)


def alignment(site: Site, target: Site, heading: Scalar) -> Float32[Array, ""]:
    """Cosine between the camera and the motion; 0 when holding."""
    motion = jnp.asarray(direction_hundredths(SLOT_OFFSETS[:, 0], SLOT_OFFSETS[:, 1]))
    away = (100 * heading - motion[slot_of(target - site)]).astype(jnp.float32)
    return jnp.where((target == site).all(), 0.0, jnp.cos(away * (np.pi / 18000)))


def reward(
    config: Config, settings: RewardSettings, before: State, move: Move, after: State, low_gains: Int32[Array, "N"]
) -> tuple[RewardTerms, Int32[Array, "N"]]:
    """Eq. 7 for each robot of a mission: what was decided `before`, and the coverage that it led to.

    `low_gains` is q, the number of waypoints with little to see in a row; zero at take-off, handed on from decision to
    decision.
    """
    robots, exploring = before.robots, move.mode == EXPLORING
    counts = jnp.zeros((len(exploring), 2))
    if settings.looks:
        counts = gains(config, before, move).astype(jnp.float32) / settings.frontiers
    fov, merged = counts[:, 0], counts[:, 1]
    low = settings.own_share * fov + merged < settings.low_gain
    low_gains = jnp.where(exploring & low, low_gains + 1, 0)
    trail = jax.vmap(
        lambda sightings, graph, target: trail_evidence(config, sightings, graph.node)[target[0], target[1]]
    )(robots.sightings, robots.graph, move.target)
    own, team = (
        (was < 0) & (now >= 0)
        for was, now in (
            (before.progress.own_success_mm, after.progress.own_success_mm),
            (before.progress.metres_to_success_mm, after.progress.metres_to_success_mm),
        )
    )
    flown = (after.robots.travelled_mm - robots.travelled_mm).astype(jnp.float32) / config.spacing_mm
    terms = RewardTerms(
        fov=settings.fov * fov,
        merged=settings.merged * merged,
        align=settings.align * jax.vmap(alignment)(robots.site, move.target, move.heading),
        trail=-settings.trail * trail,
        repeat=-settings.repeat * jnp.maximum(low_gains - 1, 0).astype(jnp.float32),
        team=jnp.broadcast_to(jnp.where(team, settings.team, 0.0), fov.shape),
        individual=jnp.where(own, settings.individual, 0.0),
        removed=jnp.broadcast_to(settings.removed * removed_frontiers(before, after), fov.shape)
        if settings.removed
        else jnp.zeros_like(fov),
        step=jnp.full_like(fov, settings.step),
        hurry=settings.hurry * jnp.where(before.progress.metres_to_success_mm < 0, flown, 0.0),
        covered=settings.covered / 100 * newly_covered(before, after) if settings.covered else jnp.zeros_like(fov),
    )
    return jax.tree.map(lambda term: jnp.where(exploring, term, 0.0), terms), low_gains


def removed_frontiers(before: State, after: State) -> Float32[Array, ""]:
    """Thinned frontiers of the merged belief that a decision has resolved."""
    corner = jnp.zeros(2, jnp.int32)
    was, is_ = (thin(frontiers(merge(state.robots.belief)), corner) for state in (before, after))
    return (was & ~is_).sum().astype(jnp.float32)


def newly_covered(before: State, after: State) -> Float32[Array, "N"]:
    """Free cells that each robot knows after a decision, and nobody knew before."""
    unknown = merge(before.robots.belief) == UNKNOWN
    return ((after.robots.belief == FREE) & unknown[None]).sum(axis=(1, 2)).astype(jnp.float32)


def explores_on(config: Config, state: State) -> Bool[Array, "N"]:
    """Whether each robot has another decision to make: it explores, and neither the guard nor a failure stops it now.

    A transition into a state where this is false ends there.
    """
    robots = fail(state.robots, state.step)
    shape = (len(robots.mode), SLOTS, config.headings_per_node)
    anything = Proposal(jnp.zeros(shape), jnp.zeros(shape, jnp.int32), jnp.zeros(shape[0], jnp.int32))
    intents = jax.vmap(lambda mode, waits, view, proposal: intend(config, mode, waits, view, proposal))(
        robots.mode, robots.waits, views(config, state), anything
    )
    return intents.mode == EXPLORING
