"""Training missions: many fly at once with the current policy, and a new one follows each that has ended."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32
from jaxtyping import Key as KeyArray

from decmarvel.core.config import Config
from decmarvel.core.types import EXPLORING, Key, LocalView, Proposal
from decmarvel.robot.policy.actor import Actor
from decmarvel.robot.policy.compute import Compute
from decmarvel.robot.policy.nodes import Nodes, Situation
from decmarvel.simulation.environment import reset, step, views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import outcome
from decmarvel.simulation.privileged import privileged_view
from decmarvel.simulation.types import Move, State
from decmarvel.training.codec import Snapshot, encode
from decmarvel.training.curriculum import Curriculum, CurriculumSettings, draw_budget_mm, learn
from decmarvel.training.devices import everyone, total
from decmarvel.training.maps import Maps
from decmarvel.training.memory import Memory, Step, add
from decmarvel.training.reward_normaliser import Spread, widen
from decmarvel.training.rewards import Terms, explores_on, total_reward
from decmarvel.training.settings import CollectSettings, TrainSettings
from decmarvel.training.size_batching import in_groups

FLIGHT, NEXT = 0, 1
"""Uses of a mission's key: its own decisions, and the mission that takes its place."""
ANY_VISITS = 2**30
"""Of `Config.most_visits`: nobody leads a robot out of circles while it learns, so that it learns what they cost."""


class RunningMissions(eqx.Module):
    """E running missions of N robots each."""

    state: State
    map: Int32[Array, "E"]
    budget_mm: Int32[Array, "E"]
    low_gains: Int32[Array, "E N"]
    begins: Bool[Array, "E"]
    """Whether the next decision is the first of a mission."""
    key: KeyArray[Array, "E"]


class Gathered(eqx.Module):
    """Sums over one decision of all missions, for the log."""

    terms: dict[str, Float32[Array, ""]]
    """Each reward term, summed over the robots that explored."""
    decisions: Int32[Array, ""]
    """Number of decisions of robots that explored."""
    finished: Int32[Array, ""]
    success: Int32[Array, ""]
    coverage: Float32[Array, ""]
    metres: Float32[Array, ""]
    """Metres to 99%; the budget where 99% was not reached."""
    overlap: Float32[Array, ""]


def launch(
    config: Config,
    settings: CollectSettings,
    curriculum_settings: CurriculumSettings,
    curriculum: Curriculum,
    maps: Maps,
    key: Key,
) -> tuple[State, Int32[Array, ""], Int32[Array, ""]]:
    """A new mission: its state at take-off, its map and its budget."""
    key_map, key_budget, key_team, key_reset = jax.random.split(key, 4)
    count = maps.world.start.shape[0]
    index = jax.random.randint(key_map, (), 0, count, jnp.int32)
    budget_mm = draw_budget_mm(curriculum_settings, curriculum, key_budget)
    team = jax.random.choice(key_team, jnp.array(settings.team_sizes, jnp.int32))
    fleet = Fleet.healthy(team, budget_mm, settings.robots)
    world = jax.tree.map(lambda leaf: leaf[index], maps.world)
    return reset(config, key_reset, world, fleet), index, budget_mm


def take_off_all(
    config: Config,
    settings: CollectSettings,
    curriculum_settings: CurriculumSettings,
    curriculum: Curriculum,
    maps: Maps,
    key: Key,
) -> RunningMissions:
    """All missions at their start."""
    keys = jax.random.split(key, (settings.missions, 2))
    state, index, budget_mm = jax.vmap(
        lambda key: launch(config, settings, curriculum_settings, curriculum, maps, key)
    )(keys[:, 0])
    return RunningMissions(
        state=state,
        map=index,
        budget_mm=budget_mm,
        low_gains=jnp.zeros((settings.missions, settings.robots), jnp.int32),
        begins=jnp.ones(settings.missions, bool),
        key=keys[:, 1],
    )


def landed(settings: CollectSettings, state: State) -> Bool[Array, "E"]:
    """Whether each mission is over for training: `past_success` decides if it ends with the team's success."""
    over: Bool[Array, "E"] = state.done | (state.step >= settings.max_decisions)
    return over if settings.past_success else over | succeeded(state)


def succeeded(state: State) -> Bool[Array, "E"]:
    return state.progress.metres_to_success_mm >= 0


def renew(
    config: Config,
    settings: CollectSettings,
    curriculum_settings: CurriculumSettings,
    curriculum: Curriculum,
    maps: Maps,
    air: RunningMissions,
    axis: str | None = None,
) -> tuple[RunningMissions, Curriculum]:
    """Count the missions that have ended, and put new ones in their place."""
    over = landed(settings, air.state)
    results = jax.vmap(lambda state: outcome(config, state))(air.state)
    won = results.strict_success if settings.past_success else results.success  # the guard brings all robots home
    curriculum = learn(curriculum_settings, curriculum, *everyone((won, over), axis))
    keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, NEXT)))(air.key)
    state, index, budget_mm = jax.vmap(
        lambda key: launch(config, settings, curriculum_settings, curriculum, maps, key)
    )(keys[:, 0])

    def chosen(new: Array, old: Array) -> Array:
        return jnp.where(over.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return RunningMissions(
        state=jax.tree.map(chosen, state, air.state),
        map=chosen(index, air.map),
        budget_mm=chosen(budget_mm, air.budget_mm),
        low_gains=chosen(jnp.zeros_like(air.low_gains), air.low_gains),
        begins=over | air.begins,
        key=jnp.where(over, keys[:, 1], air.key),
    ), curriculum


def decide_all(
    config: Config,
    settings: TrainSettings,
    compute: Compute,
    actor: Actor,
    maps: Maps,
    air: RunningMissions,
    memory: Memory[Snapshot],
    spread: Spread,
) -> tuple[RunningMissions, Memory[Snapshot], Spread, Gathered]:
    """One decision of every running mission, sampled from the policy; its transitions go into the memory."""
    collect = settings.collect
    seen = jax.vmap(lambda state: views(config, state))(air.state)
    keys = jax.vmap(lambda key, step: jax.random.split(jax.random.fold_in(jax.random.fold_in(key, FLIGHT), step)))(
        air.key, air.state.step
    )
    proposals, nodes, situation = propose_all(config, collect, compute, actor, keys[:, 0], seen)
    stale = jax.vmap(lambda team_views: settings.algorithm.stale_labels(config, team_views))(seen)
    alone = replace(config, most_visits=ANY_VISITS)
    after, move = jax.vmap(lambda key, state, seen, proposed: step(alone, key, state, seen, proposed))(
        keys[:, 1], air.state, seen, proposals
    )
    terms, low_gains = jax.vmap(lambda *decision: settings.reward(config, *decision))(
        air.state, move, after, air.low_gains
    )
    over = landed(collect, air.state)
    exploring = (air.state.robots.mode == EXPLORING) & ~over[:, None] & (move.mode == EXPLORING)
    going_on = jax.vmap(lambda state: explores_on(config, state))(after)
    earned = total_reward(terms)
    stored = Step(
        state=snapshots(config, maps, air, nodes, situation, stale, chosen_log_probability(proposals, move)),
        exploring=exploring,
        action=move.choice,
        reward=earned,
        done=~going_on | landed(collect, after)[:, None],
        post=succeeded(air.state),
        begins=air.begins,
    )
    gathered = summed(config, air, after, terms, exploring, landed(collect, after) & ~over)
    air = RunningMissions(
        state=jax.tree.map(
            lambda new, old: jnp.where(over.reshape(-1, *[1] * (new.ndim - 1)), old, new), after, air.state
        ),
        map=air.map,
        budget_mm=air.budget_mm,
        low_gains=low_gains,
        begins=jnp.zeros_like(air.begins),
        key=air.key,
    )
    spread = widen(spread, *everyone((earned, exploring), compute.axis))
    return air, add(memory, stored), spread, total(gathered, compute.axis)


def chosen_log_probability(proposals: Proposal, move: Move) -> Float32[Array, "E N"]:
    """Log-probability of each robot's action by the policy; meaningless where a robot had nothing to choose."""
    score = proposals.score.reshape(*move.choice.shape, -1)
    return jnp.take_along_axis(score, jnp.maximum(move.choice, 0)[..., None], axis=-1)[..., 0]


def snapshots(
    config: Config,
    maps: Maps,
    air: RunningMissions,
    nodes: Nodes,
    situation: Situation,
    stale: Bool[Array, "E N I J"] | None,
    log_probability: Float32[Array, "E N"],
) -> Snapshot:
    """What the memory keeps of every robot of every mission."""
    numbers = jnp.arange(log_probability.shape[1], dtype=jnp.int32)

    def of_mission(index: Int32[Array, ""], state: State, *known: Any) -> Snapshot:
        truth = jax.tree.map(lambda leaf: leaf[index], maps.truth)

        def of_robot(
            number: Int32[Array, ""],
            nodes: Nodes,
            situation: Situation,
            stale: Bool[Array, "I J"] | None,
            log_probability: Float32[Array, ""],
        ) -> Snapshot:
            privileged, cell = privileged_view(config, state, number), state.robots.graph.cell[number]
            return encode(config, truth, index, nodes, situation, privileged, cell, stale, log_probability)

        return jax.vmap(of_robot)(numbers, *known)

    return jax.vmap(of_mission)(air.map, air.state, nodes, situation, stale, log_probability)


def summed(
    config: Config,
    air: RunningMissions,
    after: State,
    terms: Terms,
    exploring: Bool[Array, "E N"],
    now_over: Bool[Array, "E"],
) -> Gathered:
    """The sums over a decision. `now_over`: missions that ended with it."""
    results = jax.vmap(lambda state: outcome(config, state))(after)
    metres = jnp.where(results.success, results.metres_to_99, air.budget_mm.astype(jnp.float32) / 1000)

    def over_all(values: Array) -> Array:
        return jnp.where(now_over, values.astype(jnp.float32), 0.0).sum()

    return Gathered(
        terms=jax.tree.map(lambda term: jnp.where(exploring, term, 0.0).sum(), terms),
        decisions=exploring.sum().astype(jnp.int32),
        finished=now_over.sum().astype(jnp.int32),
        success=over_all(results.success).astype(jnp.int32),
        coverage=over_all(results.coverage),
        metres=over_all(metres),
        overlap=over_all(results.overlap),
    )


def propose_all(
    config: Config,
    settings: CollectSettings,
    compute: Compute,
    actor: Actor,
    keys: KeyArray[Array, "E"],
    views: LocalView,
) -> tuple[Proposal, Nodes, Situation]:
    """Actions drawn from the policy, for all robots of all missions; and what the actor read."""

    def scores(nodes: tuple[Nodes], situation: Situation) -> tuple[None, Float32[Array, "n K H"]]:
        return None, actor(nodes[0], situation, compute.without_gradient)

    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), views)
    nodes, situation = jax.vmap(lambda view: actor.read(config, view, settings.bucket))(flat)
    score = in_groups(compute.group, compute.actor_buckets, scores, (nodes,), situation)[1]
    each = jax.vmap(lambda key: jax.random.split(key, settings.robots))(keys).reshape(-1)
    choice = jax.vmap(lambda key, score: jax.random.categorical(key, score.reshape(-1)))(each, score)
    proposal = Proposal(score, situation.heading_bin * config.degrees_per_bin, choice.astype(jnp.int32))
    found: tuple[Proposal, Nodes, Situation] = jax.tree.map(
        lambda leaf: leaf.reshape(len(keys), settings.robots, *leaf.shape[1:]), (proposal, nodes, situation)
    )
    return found
