"""Options against a second version: what a sector-frontier planner without a memory could do, and where it looks.

How much each heading shows is `shown`'s to say, which has an oracle of its own (test_preview.py).
"""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles.goals
from cases import DEFAULT, FINE, SMALL
from decmarvel.core.config import Config
from decmarvel.core.types import EXPLORING, LocalView
from decmarvel.robot.planners.preview import shown
from decmarvel.robot.policy.nodes import Options
from decmarvel.robot.policy.options import find_options, most_shown_heading
from decmarvel.simulation.environment import views
from minds import CLOSE, MOST_CLOSE_CALLS, ROBOTS, draw_mind, of, view_of
from missions import mind_of, mission
from oracles.goals import Offer
from oracles.mind import Mind

pytestmark = pytest.mark.slow

SECTOR_M, STALE_M, APART_M, COUNT = 20, 80, 8.0, 6
NO_OPTION = -1

ask = jax.jit(lambda config, view, stale: find_options(config, view, stale, COUNT)[1], static_argnums=0)


@partial(jax.jit, static_argnums=0)
def shown_everywhere(config: Config, view: LocalView):
    """For all slots and their candidate headings."""
    return shown(config, view, jnp.arange(25, dtype=jnp.int32))


def draw_stale(seed: int, sites: int) -> np.ndarray:
    """How probably others know what each node still has to look at: some surely, some surely not, some perhaps."""
    rng = np.random.default_rng([seed, 11])
    return np.clip(rng.uniform(-0.5, 1.5, (sites, sites)), 0, 1).astype(np.float32)


def all_offers(mind: Mind, stale: np.ndarray) -> list[Offer]:
    """What can be chosen, with the sector and the stale frontiers in the costs; a robot alone has neither."""
    if mind.team_size == 1:
        return oracles.goals.offers(mind, lambda cell: 0)
    found = []
    for offer in oracles.goals.offers(mind, lambda cell: oracles.goals.sector_cost(mind, cell, SECTOR_M)):
        stale_mm = round(1000 * STALE_M * oracles.goals.unit(mind) * float(stale[offer.node]))
        found.append(dataclasses.replace(offer, cost=offer.cost + stale_mm))
    return found


def most_shown(shows: list[int], offered: list[int], wanted: int) -> int:
    """The first of those that show most and, among these, are the fewest whole steps of 30 degrees away."""
    best, best_steps = None, 12
    for index, heading in enumerate(offered):
        away = (heading - wanted) % 360
        steps = min(away, 360 - away) // 30
        if best is None or shows[index] > shows[best] or (shows[index] == shows[best] and steps < best_steps):
            best, best_steps = index, steps
    assert best is not None
    return best


def option(
    mind: Mind, heading_bin: np.ndarray, shows: np.ndarray, offer: Offer | None
) -> tuple[int, tuple[int, int], int]:
    """The candidate with which a far-sighted robot sets out for an offer, the node that it goes to, what it shows."""
    if offer is None:
        return NO_OPTION, (-1, -1), 0
    goal = oracles.goals.goal_of(mind, offer, far_sighted=True)
    pursuit = oracles.goals.pursue(mind, goal, far_sighted=True)
    offered = [int(towards) * mind.config.degrees_per_bin for towards in heading_bin[pursuit.slot]]
    site = (int(goal.viewpoint[0]), int(goal.viewpoint[1]))
    there = shows[pursuit.slot].tolist()
    heading = most_shown(there, offered, pursuit.headings[pursuit.slot])
    return 3 * pursuit.slot + heading, site, there[heading]


def apart(mind: Mind, one: Offer, two: Offer) -> bool:
    """Whether two offers are different options: the square of their distance, in whole cells, decides."""
    squared = (one.cell[0] - two.cell[0]) ** 2 + (one.cell[1] - two.cell[1]) ** 2
    return squared >= round((APART_M * oracles.goals.unit(mind) / mind.config.cell_m) ** 2)


def check(
    mind: Mind, heading_bin: np.ndarray, shows: np.ndarray, stale: np.ndarray, got: Options
) -> tuple[list[int], int]:
    """The actions of all options, and how many of them others would do as well that cost the same up to rounding."""
    left, actions, different = all_offers(mind, stale), [], 0
    for action, site, cost_m, seen in zip(*(part.tolist() for part in parts(got)), strict=True):
        said, taken = (action, tuple(site), seen), oracles.goals.cheapest(left)
        if said != option(mind, heading_bin, shows, taken):
            assert taken is not None
            close = [offer for offer in left if offer.cost <= taken.cost + max(10, CLOSE * taken.cost)]
            taken = next(offer for offer in close if option(mind, heading_bin, shows, offer) == said)
            different += 1
        actions.append(action)
        if taken is None:
            assert cost_m == 0
        else:
            assert abs(1000 * cost_m * oracles.goals.unit(mind) - taken.cost) <= max(10, CLOSE * taken.cost)
            left = [offer for offer in left if apart(mind, offer, taken)]
    return actions, different


def parts(options: Options) -> tuple[np.ndarray, ...]:
    return options.action, options.site, options.cost_m, options.shown_cells


def with_headings(config: Config, view: LocalView, seed: int) -> LocalView:
    """Three different headings at random for each slot."""
    rng, bins = np.random.default_rng([seed, 9]), config.heading_bins
    chosen = [rng.choice(bins, config.headings_per_node, replace=False) for _ in range(25)]
    return eqx.tree_at(lambda v: v.candidates.heading_bin, view, jnp.asarray(np.stack(chosen), jnp.int32))


@pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(200)), (FINE, range(20)), (DEFAULT, range(6))])
def test_options_equal_oracle(config, seeds):
    """Over random maps and places: no goal, some, and more than there are options. Ranges are from 1.9 to 10 m."""
    different, checked, later, counts, units = 0, 0, 0, [], set()
    for seed in seeds:
        mind = draw_mind(config, seed)
        view = with_headings(config, view_of(mind), seed)
        stale = draw_stale(seed, len(view.visits))
        got = jax.device_get(ask(config, view, stale))
        assert got.action.dtype == got.site.dtype == got.shown_cells.dtype == np.int32
        shows = np.asarray(shown_everywhere(config, view))
        actions, off = check(mind, np.asarray(view.candidates.heading_bin), shows, stale, got)
        different, checked = different + off, checked + len(actions)
        later += sum(action % 3 > 0 for action in actions if action >= 0)
        counts.append(sum(action >= 0 for action in actions))
        units.add(oracles.goals.unit(mind))
    assert different <= MOST_CLOSE_CALLS * checked
    assert checked == len(seeds) * COUNT
    assert len(units) == 3
    assert later > len(seeds) // 2
    assert len(set(counts)) >= 3
    if config == SMALL:
        assert min(counts) == 0


@jax.jit
def weighed(state, stale):
    seen = views(SMALL, state)
    options = jax.vmap(lambda view: find_options(SMALL, view, stale, COUNT)[1])(seen)
    return seen.candidates, jax.vmap(lambda view: shown_everywhere(SMALL, view))(seen), options


def test_options_along_missions_equal_oracle():
    """With the headings that robots really have to choose from."""
    different, checked, several, later = 0, 0, 0, 0
    for seed in (0, 1, 3, 4):
        for before, *_ in mission(SMALL, "sector", seed, 8):
            stale = draw_stale(seed, before.state.robots.visits.shape[-1])
            candidates, shows, options = jax.device_get(weighed(before.state, stale))
            robots = jax.device_get(before.state.robots)
            for number in range(ROBOTS):
                if robots.mode[number] != EXPLORING:
                    continue
                mind = mind_of(SMALL, robots, number)
                bins, own = of(candidates, number).heading_bin, of(options, number)
                actions, off = check(mind, bins, shows[number], stale, own)
                different, checked = different + off, checked + len(actions)
                several += sum(action >= 0 for action in actions) > 1
                later += sum(action % 3 > 0 for action in actions if action >= 0)
                assert all(action == NO_OPTION or candidates.mask[number, action // 3] for action in actions)
    assert different <= MOST_CLOSE_CALLS * checked
    assert checked > 300
    assert several > 20
    assert later > 20


def test_where_to_look_by_hand():
    """What shows most wins, however far away; among equals the nearest, in steps of 30 degrees; then the first."""
    bins = jax.jit(lambda shows, away: most_shown_heading(SMALL, shows, (17 + away) % 36, jnp.array(170, jnp.int32)))
    for shows, away, index in (
        ((5, 6, 5), (0, 18, 1), 1),
        ((7, 7, 7), (9, 0, 18), 1),
        ((0, 0, 0), (2, 0, -1), 0),  # alike: less than a step away
        ((3, 3, 3), (3, 2, 0), 1),  # three bins are a whole step
        ((3, 3, 3), (-3, 0, -2), 1),
        ((9, 3, 9), (12, -12, 11), 2),
        ((4, 4, 4), (3, 3, 3), 0),
    ):
        assert int(bins(jnp.array(shows, jnp.int32), jnp.array(away, jnp.int32))) == index, (shows, away)
