"""Missions from take-off to the last landing: decision by decision for people, all at once for statistics."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.config import Config
from decmarvel.environment import Fleet, reset, step, views
from decmarvel.planners.base import Memory, Planner
from decmarvel.progress import cumulative_overlap, mean_overlap
from decmarvel.types import FAILED, HOME, Key, Move, Scalar, State, World


class Outcome(eqx.Module):
    """The metrics of one finished (or interrupted) mission."""

    coverage: Float32[Array, "*batch"]
    success: Bool[Array, "*batch"]
    strict_success: Bool[Array, "*batch"]
    metres_to_99: Float32[Array, "*batch"]
    """NaN where 99% was not reached."""
    overlap: Float32[Array, "*batch"]
    overlap_cumulative: Float32[Array, "*batch"]
    individual_99: Float32[Array, "*batch N"]
    travelled_m: Float32[Array, "*batch N"]
    remaining_m: Float32[Array, "*batch N"]
    home: Bool[Array, "*batch N"]
    failed: Bool[Array, "*batch N"]
    stranded: Int32[Array, "*batch"]
    """Unfailed robots that are not home, or overspent."""
    decisions: Int32[Array, "*batch"]


class Flight(eqx.Module):
    """A mission in the air: the state, and each robot's planner memory."""

    state: State
    memory: Memory
    key: Key


def take_off(config: Config, planner: Planner, key: Key, world: World, fleet: Fleet) -> Flight:
    """Reset, with a fresh planner memory for every robot. One key makes the whole mission."""
    key_reset, key_flight = jax.random.split(key)
    state = reset(config, key_reset, world, fleet)
    count, sites = state.robots.visits.shape[:2]
    memory = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], count, axis=0), planner.start(config, sites))
    return Flight(state, memory, key_flight)


def decide(config: Config, planner: Planner, flight: Flight) -> tuple[Flight, Move]:
    """One decision of everybody."""
    key_planner, key_step = jax.random.split(jax.random.fold_in(flight.key, flight.state.step))
    count = flight.state.robots.mode.shape[0]
    keys = jax.vmap(lambda number: jax.random.fold_in(key_planner, number))(jnp.arange(count))
    proposals, memory = jax.vmap(lambda key, view, memory: planner.propose(config, key, view, memory))(
        keys, views(config, flight.state), flight.memory
    )
    state, move = step(config, key_step, flight.state, proposals)
    return Flight(state, memory, flight.key), move


def fly(config: Config, planner: Planner, flight: Flight, max_decisions: Scalar | int) -> Flight:
    """Decide until everybody is home or failed."""

    def going(flight: Flight) -> Bool[Array, ""]:
        return ~flight.state.done & (flight.state.step < max_decisions)

    return jax.lax.while_loop(going, lambda flight: decide(config, planner, flight)[0], flight)


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
