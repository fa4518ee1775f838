"""Advice against a second version: what sector-frontier planners without a memory would do."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import planner_oracles as slow
from cases import SMALL
from decmarvel.environment import views
from decmarvel.learning.advice import FIRST_PREFERENCES_M, advise
from decmarvel.types import EXPLORING, LocalView
from planner_oracles import Mind, Offer
from test_planners import CLOSE, MOST_CLOSE_CALLS, ROBOTS, draw_mind, mind_of, mission, of, view_of

WEIGHTS_M = ((40, 0), (40, 40), (20, 40), (20, 80))
NO_ADVICE = -1

PREFERS_M = jnp.array(WEIGHTS_M, jnp.float32)

ask = jax.jit(advise, static_argnums=0)


def draw_known(seed: int, sites: int) -> np.ndarray:
    """How probably others know what each node still has to look at: some surely, some surely not, some perhaps."""
    rng = np.random.default_rng([seed, 11])
    return np.clip(rng.uniform(-0.5, 1.5, (sites, sites)), 0, 1).astype(np.float32)


def offers_with(mind: Mind, free: list[Offer], known: np.ndarray, sector_m: int, stale_m: int) -> list[Offer]:
    """What can be chosen, given what it costs without preferences."""
    found = []
    for offer in free:
        more = slow.sector_cost(mind, offer.cell, sector_m) + round(1000 * stale_m * float(known[offer.node]))
        found.append(dataclasses.replace(offer, cost=offer.cost + more))
    return found


def nearest_heading(offered: list[int], wanted: int) -> int:
    """The first of those that are the fewest whole steps of 30 degrees away."""
    best, best_steps = 0, 12
    for index, heading in enumerate(offered):
        away = (heading - wanted) % 360
        steps = min(away, 360 - away) // 30
        if steps < best_steps:
            best, best_steps = index, steps
    return best


def candidate(mind: Mind, heading_bin: np.ndarray, offer: Offer | None) -> int:
    """The candidate with which a far-sighted robot sets out for an offer."""
    if offer is None:
        return NO_ADVICE
    pursuit = slow.pursue(mind, slow.goal_of(mind, offer, far_sighted=True), far_sighted=True)
    offered = [int(towards) * mind.config.degrees_per_bin for towards in heading_bin[pursuit.slot]]
    return 3 * pursuit.slot + nearest_heading(offered, pursuit.headings[pursuit.slot])


def check(mind: Mind, heading_bin: np.ndarray, known: np.ndarray, got: list[int]) -> tuple[list[int], int]:
    """What all advisers should say, and how many of them say something else that costs the same up to rounding."""
    free, expected, different = slow.offers(mind, lambda cell: 0), [], 0
    for weights_m, said in zip(WEIGHTS_M, got, strict=True):
        found = offers_with(mind, free, known, *weights_m)
        best = slow.cheapest(found)
        expected.append(candidate(mind, heading_bin, best))
        if said == expected[-1]:
            continue
        assert best is not None
        close = [offer for offer in found if offer.cost <= best.cost + max(10, CLOSE * best.cost)]
        assert said in {candidate(mind, heading_bin, offer) for offer in close}
        different += 1
    return expected, different


def with_headings(view: LocalView, seed: int) -> LocalView:
    """Three different headings at random for each slot."""
    rng, bins = np.random.default_rng([seed, 9]), SMALL.heading_bins
    chosen = [rng.choice(bins, SMALL.headings_per_node, replace=False) for _ in range(25)]
    return eqx.tree_at(lambda v: v.candidates.heading_bin, view, jnp.asarray(np.stack(chosen), jnp.int32))


def test_advice_equals_oracle():
    """Over random maps and places: no goal, some, and more than one opinion."""
    assert FIRST_PREFERENCES_M == WEIGHTS_M
    different, checked, silent, disagreeing, later, opinions = 0, 0, 0, 0, 0, set()
    for seed in range(200):
        mind = draw_mind(SMALL, seed)
        view = with_headings(view_of(mind), seed)
        known = draw_known(seed, len(view.visits))
        got = ask(SMALL, view, known, PREFERS_M)
        assert got.dtype == jnp.int32
        expected, off = check(mind, np.asarray(view.candidates.heading_bin), known, got.tolist())
        different, checked = different + off, checked + len(expected)
        silent += expected == [NO_ADVICE] * 4
        disagreeing += len(set(expected)) > 1
        later += sum(action % 3 > 0 for action in expected if action >= 0)
        opinions |= {(i, j) for i in range(4) for j in range(4) if expected[i] != expected[j]}
    assert different <= MOST_CLOSE_CALLS * checked
    assert checked == 800
    assert silent > 20
    assert disagreeing > 60
    assert later > 200
    assert len(opinions) == 12, "any two of the advisers disagree somewhere"


@jax.jit
def told(state, known):
    seen = views(SMALL, state)
    return seen.candidates, jax.vmap(lambda view: advise(SMALL, view, known, PREFERS_M))(seen)


def test_advice_along_missions_equals_oracle():
    """With the headings that robots really have to choose from."""
    different, checked, disagreeing, later = 0, 0, 0, 0
    for seed in (0, 1, 3, 4):
        for before, *_ in mission(SMALL, "sector", seed, 8):
            known = draw_known(seed, before.state.robots.visits.shape[-1])
            candidates, advice = jax.device_get(told(before.state, known))
            robots = jax.device_get(before.state.robots)
            for number in range(ROBOTS):
                if robots.mode[number] != EXPLORING:
                    continue
                mind = mind_of(SMALL, robots, number)
                expected, off = check(mind, of(candidates, number).heading_bin, known, advice[number].tolist())
                different, checked = different + off, checked + len(expected)
                disagreeing += len(set(expected)) > 1
                later += sum(action % 3 > 0 for action in expected if action >= 0)
                assert all(action == NO_ADVICE or candidates.mask[number, action // 3] for action in expected)
    assert different <= MOST_CLOSE_CALLS * checked
    assert checked > 100
    assert disagreeing > 20
    assert later > 80


def test_headings_alike_are_taken_in_their_order():
    """By hand: how far three headings are from the wanted one, and which of them it is."""
    tried = 0
    for mind in (draw_mind(SMALL, seed) for seed in range(1, 40)):
        goal = slow.goal_of(
            mind, slow.cheapest(slow.offers(mind, partial(slow.sector_cost, mind, weight_m=40))), far_sighted=True
        )
        pursuit = slow.pursue(mind, goal, far_sighted=True)
        if pursuit.slot is None or pursuit.headings[pursuit.slot] % 10 or tried == 5:
            continue
        wanted, view, tried = pursuit.headings[pursuit.slot] // 10, view_of(mind), tried + 1
        for away, index in (
            ((9, 0, 18), 1),
            ((2, 0, -1), 0),  # alike: less than a step away
            ((3, 2, 0), 1),  # three bins are a whole step
            ((-3, 0, -2), 1),
            ((18, -9, 9), 1),
            ((6, -5, 3), 1),
            ((12, -12, 11), 2),
            ((3, 3, 3), 0),
        ):
            bins = view.candidates.heading_bin.at[pursuit.slot].set((wanted + jnp.array(away, jnp.int32)) % 36)
            known = jnp.zeros(view.visits.shape)
            said = ask(SMALL, eqx.tree_at(lambda v: v.candidates.heading_bin, view, bins), known, PREFERS_M)
            assert int(said[0]) == 3 * pursuit.slot + index, (wanted, away)
    assert tried == 5
