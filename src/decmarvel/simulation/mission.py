"""Missions from take-off to the last landing, as pure functions: to compile, and to map over many missions."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import EXPLORING, FAILED, HOME, CandidateProbabilities, Key, Proposal, Scalar
from decmarvel.robot.planners.base import Memory, Planner
from decmarvel.simulation.environment import reset, step, views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.progress import cumulative_overlap, mean_overlap
from decmarvel.simulation.radio import propose_all, share
from decmarvel.simulation.types import Move, State
from decmarvel.worlds.world import World

T = TypeVar("T", Move, CandidateProbabilities, "Moment")


class Outcome(eqx.Module):
    """The metrics of one finished (or interrupted) mission."""

    coverage: Float32[Array, "*batch"]
    """Share of the floor that the team has seen."""
    success: Bool[Array, "*batch"]
    """Whether the team has seen 99% of the floor."""
    strict_success: Bool[Array, "*batch"]
    """Whether the team has seen 99% of the floor and no robot is stranded."""
    metres_to_99: Float32[Array, "*batch"]
    """Longest distance in metres that a robot had flown when the team had seen 99%; NaN where it never did."""
    overlap: Float32[Array, "*batch"]
    """Of the cells that the cameras see at one time, the mean share that more than one camera sees."""
    overlap_cumulative: Float32[Array, "*batch"]
    """Share of the covered floor that more than one robot has seen."""
    individual_99: Float32[Array, "*batch N"]
    """Distance in metres that each robot had flown when it had seen 99% by itself; NaN where it never did."""
    travelled_m: Float32[Array, "*batch N"]
    remaining_m: Float32[Array, "*batch N"]
    """Remaining budget of each robot in metres."""
    home: Bool[Array, "*batch N"]
    failed: Bool[Array, "*batch N"]
    """Whether the robot failed."""
    stranded: Int32[Array, "*batch"]
    """Number of robots that did not fail, but are not home or have spent more than their budget."""
    decisions: Int32[Array, "*batch"]


class Moment(eqx.Module):
    """What is kept of the team after take-off and after each decision. Small, so that the device copies it quickly."""

    site: Int32[Array, "*batch N 2"]
    cell: Int32[Array, "*batch N 2"]
    """Where each robot is."""
    heading: Int32[Array, "*batch N"]
    """Where each camera points, in degrees."""
    mode: Int32[Array, "*batch N"]
    """An index of `decmarvel.core.types.MODE_NAMES`."""
    budget_mm: Int32[Array, "*batch N"]
    """Remaining budget."""
    covered: Int32[Array, "*batch"]
    """Free cells that the team has seen."""
    success_mm: Int32[Array, "*batch"]
    """Longest distance that a robot had flown when the team had seen 99%; -1 before."""
    overlap: Float32[Array, "*batch"]
    seen: Bool[Array, "*batch N N"]
    """Whether a robot (row) sees a teammate (column). The next two fields have the teammate's cell and heading."""
    seen_cell: Int32[Array, "*batch N N 2"]
    seen_heading: Int32[Array, "*batch N N"]


class MissionLog(eqx.Module):
    """A whole mission in arrays of a fixed length. Rows after its last decision are zero."""

    moments: Moment
    """Row 0 is the take-off, row t the team after decision t."""
    moves: Move
    """Row t leads from row t of the moments to row t + 1."""
    probabilities: CandidateProbabilities
    """Row t has the most probable candidates of the decision that led to row t of the moves."""


class InFlight(eqx.Module):
    """A running mission as arrays: the state, and each robot's planner memory."""

    state: State
    memory: Memory
    key: Key


def take_off(config: Config, planner: Planner, key: Key, world: World, fleet: Fleet) -> InFlight:
    """Reset a mission, with a fresh planner memory for every robot. One key decides all random numbers."""
    key_reset, key_flight = jax.random.split(key)
    state = reset(config, key_reset, world, fleet)
    count, sites = state.robots.visits.shape[:2]
    memory = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], count, axis=0), planner.start(config, sites))
    return InFlight(state, memory, key_flight)


def decide(config: Config, planner: Planner, flight: InFlight) -> tuple[InFlight, Move, CandidateProbabilities]:
    """One decision of the whole team, and the candidates that each robot found most probable."""
    key_planner, key_step = jax.random.split(jax.random.fold_in(flight.key, flight.state.step))
    count = flight.state.robots.mode.shape[0]
    keys = jax.vmap(lambda number: jax.random.fold_in(key_planner, number))(jnp.arange(count))
    exploring = flight.state.robots.mode == EXPLORING
    seen = views(config, flight.state)
    proposals, memory = propose_all(config, planner, keys, seen, exploring, flight.memory)
    state, move = step(config, key_step, flight.state, seen, proposals)
    if planner.communicates:
        state = share(config, flight.state.robots, state)
    return InFlight(state, memory, flight.key), move, most_probable(planner, proposals, move.mode == EXPLORING)


def most_probable(planner: Planner, proposals: Proposal, exploring: Bool[Array, "N"]) -> CandidateProbabilities:
    """The most probable candidates of each robot; probabilities are zero where it had nothing to decide."""
    scores, headings = (leaf.reshape(len(leaf), -1) for leaf in (proposals.score, proposals.heading))
    score, choice = jax.lax.top_k(scores, planner.shown_candidates)
    heading = jnp.take_along_axis(headings, choice, axis=1)
    return CandidateProbabilities(choice, heading, jnp.where(exploring[:, None], jnp.exp(score), 0.0))


def fly(config: Config, planner: Planner, flight: InFlight, max_decisions: Scalar | int) -> InFlight:
    """Make decisions until every robot is home or has failed, `max_decisions` at most."""

    def going(flight: InFlight) -> Bool[Array, ""]:
        return ~flight.state.done & (flight.state.step < max_decisions)

    return jax.lax.while_loop(going, lambda flight: decide(config, planner, flight)[0], flight)


def moment(state: State) -> Moment:
    """Pick out of a state what a recording keeps; part of the compiled decision."""
    robots, progress, sightings = state.robots, state.progress, state.robots.sightings
    return Moment(
        site=robots.site,
        cell=jax.vmap(lambda robot: robot.graph.cell[robot.site[0], robot.site[1]])(robots),
        heading=robots.heading,
        mode=robots.mode,
        budget_mm=robots.budget_mm,
        covered=progress.covered,
        success_mm=progress.metres_to_success_mm,
        overlap=mean_overlap(progress),
        seen=sightings.seen[:, :, 0],
        seen_cell=sightings.cell[:, :, 0],
        seen_heading=sightings.heading[:, :, 0],
    )


def fly_logged(config: Config, planner: Planner, flight: InFlight, length: int) -> tuple[InFlight, MissionLog]:
    """Fly for `length` decisions at most; keep the moves and probabilities of each, and the moment after it."""

    def put(rows: T, at: Scalar, row: T) -> T:
        return jax.tree.map(lambda rows, row: rows.at[at].set(row), rows, row)

    def empty(*shape: int) -> Int32[Array, "..."]:
        return jnp.zeros(shape, jnp.int32)

    def going(carry: tuple[InFlight, MissionLog]) -> Bool[Array, ""]:
        state = carry[0].state
        return ~state.done & (state.step < length)

    def go_on(carry: tuple[InFlight, MissionLog]) -> tuple[InFlight, MissionLog]:
        flight, log = carry
        before = flight.state.step
        flight, move, probabilities = decide(config, planner, flight)
        return flight, MissionLog(
            put(log.moments, before + 1, moment(flight.state)),
            put(log.moves, before, move),
            put(log.probabilities, before, probabilities),
        )

    first, count = moment(flight.state), flight.state.robots.mode.shape[0]
    moments = jax.tree.map(lambda row: jnp.zeros((length + 1, *row.shape), row.dtype), first)
    moves = Move(
        empty(length, count, 2),
        empty(length, count),
        empty(length, count),
        empty(length, count),
        empty(length, count, config.substeps, 2),
    )
    probabilities = CandidateProbabilities(
        *(jnp.zeros((length, count, planner.shown_candidates), kind) for kind in (int, int, float))
    )
    return jax.lax.while_loop(
        going, go_on, (flight, MissionLog(put(moments, flight.state.step, first), moves, probabilities))
    )


def outcome(config: Config, state: State) -> Outcome:
    """The metrics of a mission, from its state at the end."""
    robots, progress = state.robots, state.progress
    present, failed, home = robots.present, robots.mode == FAILED, robots.mode == HOME
    stranded = present & ~failed & (~home | (robots.budget_mm < 0))
    reached = progress.metres_to_success_mm >= 0
    own = progress.own_success_mm
    return Outcome(
        coverage=progress.covered / state.world.free_count,
        success=reached,
        strict_success=reached & ~stranded.any(),
        metres_to_99=jnp.where(reached, progress.metres_to_success_mm / 1000, jnp.nan),
        overlap=mean_overlap(progress),
        overlap_cumulative=cumulative_overlap(progress),
        individual_99=jnp.where(own >= 0, own / 1000, jnp.nan),
        travelled_m=jnp.where(present, robots.travelled_mm, 0) / 1000,
        remaining_m=jnp.where(present, robots.budget_mm, 0) / 1000,
        home=home,
        failed=failed,
        stranded=stranded.sum().astype(jnp.int32),
        decisions=state.step,
    )


def run_mission(
    config: Config, planner: Planner, key: Key, world: World, fleet: Fleet, max_decisions: Scalar | int
) -> Outcome:
    """A whole mission as one compiled program."""
    flight = take_off(config, planner, key, world, fleet)
    return outcome(config, fly(config, planner, flight, max_decisions).state)
