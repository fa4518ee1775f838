"""Budget guard, return mode, conflict rule: each against its oracle."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles.graph
import oracles.guard
import oracles.lattice
from cases import SMALL, cases
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS
from decmarvel.robot.budget import must_return, return_feasible
from decmarvel.robot.graph import hop_costs, no_graph
from decmarvel.robot.sight import empty_sight
from decmarvel.simulation.conflicts import resolve_conflicts
from minds import lengths_mm
from oracles.lattice import UNREACHABLE

seeds = st.integers(0, 2**32 - 1)


@partial(jax.jit, static_argnums=0)
def guard(config, edge, home_mm, site, budget_mm):
    length_mm = lengths_mm(config, edge)
    nothing = no_graph(empty_sight(config, home_mm.shape[0]))
    graph = dataclasses.replace(nothing, length_mm=length_mm, home_mm=home_mm)
    return (
        return_feasible(config, graph, site, budget_mm),
        must_return(config, graph, site, budget_mm),
        jnp.argmin(hop_costs(length_mm, home_mm, site)),
    )


@given(cases(SMALL), seeds)
@settings(max_examples=200)
def test_guard_equals_oracle(case, seed):
    """Eq. 2 and 3, and the hop that a returning robot takes."""
    rng = np.random.default_rng(seed)
    edge = oracles.graph.edges(SMALL, case.belief)
    home = oracles.graph.distances(SMALL, edge, [case.start])
    here = tuple(rng.permutation(np.argwhere(home < UNREACHABLE))[0])
    budget = int(home[here] + rng.integers(0, 8000))
    feasible, turn_back, slot = guard(
        SMALL, jnp.asarray(edge), jnp.asarray(home, jnp.int32), jnp.asarray(here, jnp.int32), jnp.asarray(budget)
    )
    np.testing.assert_array_equal(feasible, oracles.guard.feasible_slots(SMALL, edge, home, here, budget))
    assert bool(turn_back) == oracles.guard.must_return(SMALL, home, here, budget)
    if edge[:, here[0], here[1]].any():
        assert int(slot) == oracles.guard.return_slot(SMALL, edge, home, here)


@given(cases(SMALL), seeds)
@settings(max_examples=100)
def test_a_feasible_move_never_needs_more_than_is_left(case, seed):
    """The theorem in one step: after any move that Eq. 2 admits, the way home and the margin still fit."""
    rng = np.random.default_rng(seed)
    edge = oracles.graph.edges(SMALL, case.belief)
    home = oracles.graph.distances(SMALL, edge, [case.start])
    here = tuple(rng.permutation(np.argwhere(home < UNREACHABLE))[0])
    budget = int(home[here] + rng.integers(0, 20000))
    feasible, _, _ = guard(
        SMALL, jnp.asarray(edge), jnp.asarray(home, jnp.int32), jnp.asarray(here, jnp.int32), jnp.asarray(budget)
    )
    for slot in np.flatnonzero(np.asarray(feasible)):
        there = (here[0] + SLOT_OFFSETS[slot, 0], here[1] + SLOT_OFFSETS[slot, 1])
        left = budget - oracles.lattice.slot_length_mm(SMALL, int(slot))
        assert oracles.graph.distances(SMALL, edge, [there])[case.start] + SMALL.safety_margin_mm <= left


@given(seeds, st.integers(2, 8))
@settings(max_examples=300)
def test_conflict_rule_equals_oracle(seed, count):
    """Robots crowded on a few sites, with random choices, feasible slots and modes."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(25)[:count]
    if rng.random() < 0.1:
        places[-1] = places[0]  # a shared start
    here = np.stack([places // 5, places % 5], axis=1) + 2
    active = rng.random(count) < 0.9
    returning = rng.random(count) < 0.3
    scores = rng.random((count, 75)).astype(np.float32)
    feasible = rng.random((count, 25)) < rng.choice([0.1, 0.5, 0.9])
    feasible[:, SELF_SLOT] = False
    choice = rng.integers(0, 75, count)
    for robot in range(count):
        options = np.flatnonzero(np.repeat(feasible[robot], 3))
        if returning[robot]:
            choice[robot] = 3 * rng.choice([k for k in range(25) if k != SELF_SLOT])
        elif len(options):
            choice[robot] = rng.choice(options)
        else:
            feasible[robot, (choice[robot] // 3 + (choice[robot] // 3 == SELF_SLOT)) % 25] = True
            choice[robot] = 3 * np.flatnonzero(feasible[robot])[0]
    order, waited = rng.permutation(count), rng.random(count) < 0.3
    expected = oracles.guard.resolve_conflicts(
        SMALL,
        [tuple(site) for site in here],
        list(active),
        list(returning),
        list(waited),
        list(choice),
        scores,
        feasible,
        list(order),
    )
    slot = np.where(active, choice // 3, SELF_SLOT)
    got_slot, got_choice = jitted_conflicts(
        SMALL,
        jnp.asarray(here, jnp.int32),
        jnp.asarray(active),
        LENGTHS_MM[:count],
        jnp.asarray(returning),
        jnp.asarray(waited),
        jnp.asarray(slot, jnp.int32),
        jnp.asarray(np.where(returning | ~active, -1, choice), jnp.int32),
        jnp.asarray(scores.reshape(count, 25, 3)),
        jnp.asarray(feasible),
        jnp.asarray(order, jnp.int32),
    )
    targets = here + SLOT_OFFSETS[np.asarray(got_slot)]
    assert [tuple(target) for target in targets] == [target for target, _ in expected]
    for robot in range(count):
        if active[robot] and not returning[robot]:
            assert int(got_choice[robot]) == expected[robot][1]
    moving = active & (np.asarray(got_slot) != SELF_SLOT)
    for robot in np.flatnonzero(moving):
        assert sum((targets[other] == targets[robot]).all() for other in np.flatnonzero(active)) == 1


LENGTHS_MM = jnp.stack([lengths_mm(SMALL, np.ones((25, 1, 1), bool))[:, 0, 0]] * 8)
"""Of the slots of up to eight robots."""
jitted_conflicts = jax.jit(resolve_conflicts, static_argnums=0)


def test_robots_in_a_circle_do_not_block_each_other_for_good():
    """Three robots want each other's nodes while a fourth presses in behind: by length alone nobody would ever move."""
    here = np.array([[0, 4], [0, 5], [0, 6], [0, 7]]) + 2
    slot = np.array([13, 13, 13, 10])  # one to the right each; the last two to the left
    scores = np.zeros((4, 25, 3), np.float32)
    feasible = np.zeros((4, 25), bool)
    feasible[np.arange(4), slot] = True
    none = jnp.zeros(4, bool)
    moved = []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(4)
        got, _ = jitted_conflicts(
            SMALL,
            jnp.asarray(here, jnp.int32),
            ~none,
            LENGTHS_MM[:4],
            none,
            ~none if seed else none,
            jnp.asarray(slot, jnp.int32),
            jnp.asarray(3 * slot, jnp.int32),
            jnp.asarray(scores),
            jnp.asarray(feasible),
            jnp.asarray(order, jnp.int32),
        )
        moved.append(int((np.asarray(got) != SELF_SLOT).sum()))
    assert moved[0] == 0
    assert max(moved) >= 3
