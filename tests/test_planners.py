"""Every stage and every proposal of the classical planners against the second version in planner_oracles.py."""

import dataclasses
from collections.abc import Iterator
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
import planner_oracles as slow
from cases import DEFAULT, FINE, SITES, SMALL, connected, draw_case
from decmarvel.core.config import Config
from decmarvel.core.types import (
    ABSENT,
    EXPLORING,
    FAR_MM,
    FREE,
    RETURN_HOME,
    Candidates,
    Graph,
    LocalView,
    Proposal,
    Sightings,
)
from decmarvel.robot.budget import affordable
from decmarvel.robot.planners import goals as goal
from decmarvel.robot.planners import nbvp, smmr
from decmarvel.robot.planners.base import Planner, by_slot
from decmarvel.robot.planners.goals import Goal
from decmarvel.robot.sight import empty_sight, nearest_frontiers, paste_window, sight_window
from decmarvel.simulation import roster
from decmarvel.simulation.environment import reset, views
from decmarvel.simulation.fleet import NEVER, Fleet
from decmarvel.simulation.mission import InFlight, decide
from decmarvel.simulation.radio import RadioPlanner, share
from decmarvel.simulation.shared_greedy import repulsion_mm
from decmarvel.simulation.types import Move, State
from decmarvel.worlds.world import World
from planner_oracles import Mind

ROBOTS = 3
"""Places in every team here; single robots leave the others empty."""
CLASSICAL = ("nearest", "sector", "smmr", "nbvp", "shared-greedy")
CLOSE = 1e-4
"""Where floats decide, two options whose values differ by less than this share may be taken for each other."""
MOST_CLOSE_CALLS = 0.02
"""Share of the decisions at which that may happen."""


# Random minds, and the views that say the same


@cache
def draw_mind(config: Config, seed: int) -> Mind:
    """A robot somewhere in the largest part of a random map, with a random budget, some of it too tight."""
    rng = np.random.default_rng([seed, 7])
    belief, edge, part = draw_map(config, rng, smallest=1 if seed % 10 == 0 else 8)
    base, site = (part[rng.integers(len(part))] for _ in range(2))
    sensed = rng.random((*edge.shape[1:], config.heading_bins)) < rng.choice([0.0, 0.2, 0.6, 0.97])
    budget = int(rng.choice([3, 10, 30, 500]) * config.spacing_mm + rng.integers(1000))
    mind = Mind(config, belief, sensed, site, base, budget, int(rng.integers(ROBOTS)), ROBOTS)
    mind.edge = edge
    for _ in range(rng.integers(ROBOTS)):  # teammates, mostly near enough to repel
        dy, dx = rng.integers(-3 * config.stride, 3 * config.stride + 1, 2)
        mind.in_sight.append((mind.cell(site)[0] + int(dy), mind.cell(site)[1] + int(dx)))
    return mind


def draw_map(config: Config, rng, smallest: int) -> tuple[np.ndarray, np.ndarray, list[oracles.Site]]:
    """A random belief, its edges, and the sites of its largest part, which is not too small."""
    while True:
        case = draw_case(config, int(rng.integers(2**32)))
        belief = case.belief.copy()
        belief[oracles.site_cell(config, *case.start)] = FREE
        places = [oracles.site_cell(config, i, j) for i in range(case.sites) for j in range(case.sites)]
        if sum(belief[place] == FREE for place in places) < smallest:
            continue
        edge = oracles.edges(config, belief)
        part = largest_part(config, edge)
        if len(part) >= smallest:
            return belief, edge, part


def largest_part(config: Config, edge: np.ndarray) -> list[oracles.Site]:
    """The sites of the largest connected part of a graph."""
    left = {(i, j) for i in range(edge.shape[1]) for j in range(edge.shape[2])}
    best: list[oracles.Site] = []
    while left:
        reached = oracles.distances(config, edge, [min(left)]) < oracles.UNREACHABLE
        part = [(int(i), int(j)) for i, j in np.argwhere(reached)]
        best = max(best, part, key=len)
        left -= set(part)
    return best


def whole(value) -> jax.Array:
    return jnp.asarray(value, jnp.int32)


@partial(jax.jit, static_argnums=0)
def whole_sight(config: Config, belief):
    """What is seen from all sites, window by window."""
    sites, step = oracles.sites_a_side(config, belief.shape[0]), config.window_sites // 2

    def look(sight, middle):
        window, first = sight_window(config, belief, sites, middle)
        return jax.tree.map(lambda full, part: paste_window(full, part, first), sight, window), None

    middles = np.array([(y, x) for y in range(0, sites + step, step) for x in range(0, sites + step, step)], np.int32)
    return jax.lax.scan(look, empty_sight(config, sites), jnp.asarray(middles))[0]


@cache
def draw_view(config: Config, seed: int) -> LocalView:
    return view_of(draw_mind(config, seed))


def view_of(mind: Mind) -> LocalView:
    config, zeros = mind.config, np.zeros((mind.size, mind.size))
    belief = jnp.asarray(mind.belief)
    seen, cell = np.zeros((ROBOTS, config.history), bool), np.zeros((ROBOTS, config.history, 2))
    for number, mate in enumerate(mind.in_sight):
        seen[number, 0], cell[number, 0] = True, mate
    seen[:, 1], cell[:, 1] = True, mind.cell(mind.site)  # sightings before the last decision are no matter
    return LocalView(
        belief=belief,
        graph=Graph(jnp.asarray(mind.edge), whole(mind.home), whole(zeros), whole_sight(config, belief)),
        candidates=Candidates(whole(np.zeros((25, config.headings_per_node))), jnp.asarray(mind.feasible)),
        site=whole(mind.site),
        heading=whole(0),
        base=whole(mind.base),
        budget_mm=whole(mind.budget_mm),
        initial_budget_mm=whole(mind.budget_mm),
        visits=whole(zeros),
        sensed=jnp.asarray(mind.sensed),
        sightings=Sightings(jnp.asarray(seen), whole(cell), whole(np.zeros((ROBOTS, config.history)))),
        number=whole(mind.number),
        team_size=whole(mind.team_size),
    )


def draw_cells(mind: Mind, seed: int, count: int) -> list[oracles.Cell]:
    """Some cells to look at: mostly grouped frontiers, sometimes any known-free cell."""
    rng = np.random.default_rng([seed, 8])
    options = np.argwhere(mind.frontier)
    if not len(options) or rng.random() < 0.2:
        options = np.argwhere(mind.belief == FREE)
    return [(int(y), int(x)) for y, x in options[rng.integers(len(options), size=count)]]


def to_goal(found: slow.Goal | None) -> Goal:
    return Goal.none() if found is None else Goal(whole(found.viewpoint), whole(found.cell))


def from_goal(found: Goal) -> slow.Goal | None:
    cell = pair(found.cell)
    return None if cell[0] < 0 else slow.Goal(pair(found.site), cell)


def pair(values) -> tuple[int, int]:
    y, x = np.asarray(values).tolist()
    return y, x


worlds = pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(120)), (FINE, range(15)), (DEFAULT, range(5))])
fewer = pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(100)), (FINE, range(15)), (DEFAULT, range(5))])


# Goals


@partial(jax.jit, static_argnums=0)
def look(config: Config, view: LocalView, cells):
    """Who sees some cells, and the viewpoints of both kinds of robots; (-1, -1) where there is none."""
    here_mm = goal.distances_from_here(config, view)
    within = affordable(config, view, here_mm)
    travel_mm = jnp.where(within, here_mm, FAR_MM)

    def each(cell):
        return goal.seen_from(config, view, cell), [
            goal.viewpoint(config, view, travel_mm, cell, whole([-1, -1]), far_sighted) for far_sighted in (False, True)
        ]

    return within, jax.vmap(each)(cells)


@worlds
def test_viewpoints_equal_oracle(config, seeds):
    found = 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        cells = draw_cells(mind, seed, 4)
        within, ((sees, length_mm), (plain, far)) = jax.device_get(look(config, view, whole(cells)))
        np.testing.assert_array_equal(within, mind.affordable)
        for index, cell in enumerate(cells):
            expected = slow.seeing_sites(mind, cell)
            got = {(int(i), int(j)): int(length_mm[index, i, j]) for i, j in np.argwhere(sees[index])}
            assert got == expected, (seed, cell)
            for far_sighted, site in ((False, plain), (True, far)):
                wanted = slow.viewpoint(mind, cell, far_sighted)
                assert pair(site[index]) == (wanted or (-1, -1)), (seed, cell, far_sighted)
                found += wanted is not None
    assert found > len(seeds)


@partial(jax.jit, static_argnums=0)
def chase(config: Config, view: LocalView, wanted: Goal):
    proposals = [goal.towards(config, view, wanted, far) for far in (False, True)]
    return goal.still_wanted(config, view, wanted), proposals, goal.first_slots(config, view)[tuple(wanted.site)]


@fewer
def test_pursuit_equals_oracle(config, seeds):
    kept = 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        for cell in draw_cells(mind, seed, 2):
            sites = [site for site in slow.seeing_sites(mind, cell) if mind.affordable[site]]
            wanted = slow.Goal(sites[seed % len(sites)] if sites else mind.site, cell)
            still, proposals, first = chase(config, view, to_goal(wanted))
            expected = slow.still_wanted(mind, wanted)
            assert (bool(still) and bool(mind.affordable[wanted.viewpoint])) == expected, seed
            kept += expected
            for far_sighted, proposal in zip((False, True), proposals, strict=True):
                if mind.feasible.any() and mind.affordable[wanted.viewpoint]:
                    check_pursuit(mind, wanted, far_sighted, jax.device_get(proposal))
                    assert int(first) * config.headings_per_node == int(proposal.choice)
    assert kept > len(seeds) // 10


def check_pursuit(mind: Mind, wanted: slow.Goal | None, far_sighted: bool, proposal: Proposal) -> None:
    """Choice, and for every slot that the guard admits the heading and the score."""
    pursuit, per_slot = slow.pursue(mind, wanted, far_sighted), mind.config.headings_per_node
    if wanted is None:
        assert proposal.choice == RETURN_HOME
        return
    assert int(proposal.choice) == per_slot * pursuit.slot
    for slot, cost in pursuit.costs.items():
        assert (proposal.score[slot] == -cost).all()
        assert (proposal.heading[slot] == pursuit.headings[slot]).all()


# Nearest, sector


@partial(jax.jit, static_argnums=(0, 1))
def propose(config: Config, planner: Planner, view: LocalView, memory, key):
    return planner.propose(config, key, view, memory)


def check_nearest(mind: Mind, old: slow.Goal | None, sector: bool, got: slow.Goal | None, proposal: Proposal) -> bool:
    """Whether the goal is the oracle's own; if not, it must be one of equal cost."""
    expected, found = slow.nearest_goal(mind, old, sector)
    same = got == expected
    if not same:
        assert sector
        check_close(mind, found, got)
    if mind.feasible.any():
        check_pursuit(mind, got, sector, proposal)
    return same


def check_close(mind: Mind, found: list[slow.Offer], got: slow.Goal | None) -> None:
    """The goal is another than the oracle's, but its cell costs the same up to rounding."""
    least = slow.cheapest(found).cost
    alike = [offer for offer in found if slow.goal_of(mind, offer, True) == got]
    assert alike
    assert min(offer.cost for offer in alike) <= least + max(10, CLOSE * least)


@fewer
@pytest.mark.parametrize("name", ["nearest", "sector"])
def test_nearest_and_sector_equal_oracle(name, config, seeds):
    different, chosen = 0, 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        old = None
        if seed % 3 == 0:  # some goal of the past
            cell = draw_cells(mind, seed, 1)[0]
            old = slow.Goal(min(slow.seeing_sites(mind, cell), default=mind.site), cell)
        proposal, memory = jax.device_get(
            propose(config, roster.planner(name), view, to_goal(old), jax.random.key(seed))
        )
        got = from_goal(memory)
        chosen += got is not None
        different += not check_nearest(mind, old, name == "sector", got, proposal)
    assert different <= MOST_CLOSE_CALLS * len(seeds)
    assert len(seeds) // 4 < chosen < len(seeds)


# SMMR


@worlds
def test_clusters_equal_oracle(config, seeds):
    group = jax.jit(smmr.cluster)
    most = 0
    for seed in seeds:
        mind = draw_mind(config, seed)
        expected = slow.clusters(mind.frontier)
        got = jax.device_get(group(jnp.asarray(mind.frontier)))
        count = int((got.size > 0).sum())
        assert [(int(n), pair(cell)) for n, cell in zip(got.size[:count], got.centre[:count], strict=True)] == [
            (cluster.size, cluster.centre) for cluster in expected
        ], seed
        most = max(most, count)
    assert most >= (20 if config == SMALL else 3)


def test_clusters_of_too_many_targets():
    """More frontier cells and clusters than fit: the first cells count, and of those the largest clusters."""
    rng = np.random.default_rng(1)
    for density in (0.05, 0.1, 0.2, 0.4):
        frontier = rng.random((80, 80)) < density
        got = jax.device_get(jax.jit(smmr.cluster)(jnp.asarray(frontier)))
        expected = slow.clusters(frontier)
        assert got.size.tolist()[: len(expected)] == [cluster.size for cluster in expected]
        assert [pair(cell) for cell in got.centre][: len(expected)] == [cluster.centre for cluster in expected]


@partial(jax.jit, static_argnums=0)
def field(config: Config, view: LocalView, distance_mm, size):
    """The potential, given the distances."""
    pull = smmr.attraction(config, distance_mm, size)
    return pull + smmr.repulsion(config, view.sightings, SITES[config])


@partial(jax.jit, static_argnums=0)
def fall(config: Config, view: LocalView, potential, viewpoints):
    open_ = affordable(config, view, goal.distances_from_here(config, view))
    return smmr.descend(view, open_, potential, viewpoints)


@fewer
def test_potential_and_descent_equal_oracle(config, seeds):
    ends, repelled = 0, 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        attracted = slow.attractors(mind)
        shape = (slow.MOST_CLUSTERS, mind.size, mind.size)
        distance_mm, size, stops = np.full(shape, FAR_MM), np.zeros(shape[0]), np.full(shape[0], -1)
        for index, attractor in enumerate(attracted):
            distance_mm[index] = slow.cluster_mm(mind, attractor)
            size[index] = attractor.cluster.size
            stops[index] = attractor.viewpoint[0] * mind.size + attractor.viewpoint[1]
        level, reach = slow.potential(mind, attracted), mind.affordable
        got = np.asarray(field(config, view, whole(distance_mm), whole(size)))
        np.testing.assert_array_equal(got[reach], level[reach])
        repelled += bool(mind.in_sight)
        last = int(fall(config, view, whole(level), whole(stops)))
        descent = slow.descend(mind, level, {attractor.viewpoint for attractor in attracted})
        assert (last // mind.size, last % mind.size) == descent.last, seed
        ends += descent.end is not None
    assert ends > len(seeds) // 4
    assert repelled > len(seeds) // 4


@fewer
def test_descent_over_rough_ground_equals_oracle(config, seeds):
    """Levels at random: the descent is caught, and the flow sets it free again, often or until the steps run out."""
    reached = 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        rng = np.random.default_rng([seed, 12])
        level = rng.integers(-20, 20, mind.affordable.shape) * 25_000  # with ties
        stops = set()
        if seed % 2:  # some viewpoints, not too near; without any, all steps are taken
            stops = {s for s in mind.sites() if mind.affordable[s] and mind.here[s] > 3 * config.spacing_mm}
            stops = {s for s in sorted(stops)[: slow.MOST_CLUSTERS] if rng.random() < 0.3}
        flat = np.full(slow.MOST_CLUSTERS, -1)
        flat[: len(stops)] = [i * mind.size + j for i, j in sorted(stops)]
        last = int(fall(config, view, whole(level), whole(flat)))
        descent = slow.descend(mind, level, stops)
        assert (last // mind.size, last % mind.size) == descent.last, seed
        reached += descent.end is not None
    assert reached > len(seeds) // 10 or config == DEFAULT


@fewer
def test_smmr_equals_oracle(config, seeds):
    chosen = 0
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        proposal, _ = jax.device_get(propose(config, roster.planner("smmr"), view, None, jax.random.key(seed)))
        if mind.feasible.any():
            check_pursuit(mind, slow.smmr_goal(mind), True, proposal)
            chosen += int(proposal.choice) >= 0
    assert chosen > len(seeds) // 4


# NBVP


@partial(jax.jit, static_argnums=0)
def whole_gain(config: Config, belief):
    """The gains of all sites, window by window."""
    sites, step = oracles.sites_a_side(config, belief.shape[0]), config.window_sites // 2

    def look(fields, middle):
        *parts, first = nbvp.gain_window(config, belief, sites, middle)
        return tuple(paste_window(full, part, first) for full, part in zip(fields, parts, strict=True)), None

    middles = np.array([(y, x) for y in range(0, sites + step, step) for x in range(0, sites + step, step)], np.int32)
    empty = jnp.full((sites, sites), -1, jnp.int32)
    return jax.lax.scan(look, (empty, empty), jnp.asarray(middles))[0]


@pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(60)), (FINE, range(10)), (DEFAULT, range(1))])
def test_gains_equal_oracle(config, seeds):
    for seed in seeds:
        belief = draw_case(config, seed).belief
        got = jax.device_get(whole_gain(config, jnp.asarray(belief)))
        everywhere = np.ones(got[0].shape, bool)
        for field, expected in zip(got, slow.gains(config, belief, everywhere), strict=True):
            np.testing.assert_array_equal(field, expected)


@jax.jit
def draw_samples(key, open_):
    """What the planner draws, for the oracle to use."""
    logits = jnp.where(open_, 0.0, -jnp.inf).reshape(-1)
    return jax.random.categorical(key, logits, shape=(slow.MOST_SAMPLES,))


def samples_of(mind: Mind, key) -> list[oracles.Site]:
    """Two hundred affordable nodes."""
    flat = np.asarray(draw_samples(key, jnp.asarray(mind.affordable)))
    samples = [(int(index) // mind.size, int(index) % mind.size) for index in flat]
    assert all(mind.affordable[site] for site in samples)
    return samples


@partial(jax.jit, static_argnums=0)
def plant(config: Config, view: LocalView, promise, branch, key):
    open_ = affordable(config, view, goal.distances_from_here(config, view))
    young = nbvp.replant(config, view, open_, promise, branch)
    tree = nbvp.grow(config, key, view, open_, promise, young)
    return young, tree, nbvp.best_branch(tree, view.site)


def check_tree(mind: Mind, got: nbvp.Tree, expected: slow.Tree) -> None:
    assert int(got.size) == len(expected)
    assert {(int(i), int(j)) for i, j in np.argwhere(got.inside)} == set(expected)
    for site, vertex in expected.items():
        parent = vertex.parent or site
        assert int(got.parent[site]) == parent[0] * mind.size + parent[1]
        assert int(got.length_mm[site]) == vertex.path_mm
        assert float(got.worth[site]) == pytest.approx(vertex.worth, rel=1e-5, abs=1e-6)


def padded(branch: list[oracles.Site]) -> np.ndarray:
    """A branch as the planner keeps it."""
    rows = np.full((slow.REMEMBERED, 2), -1)
    for index, site in enumerate(branch[: slow.REMEMBERED]):
        rows[index] = site
    return rows


def walk(mind: Mind, seed: int) -> list[oracles.Site]:
    """A walk from the robot's node that holds for a while: as a branch of the past."""
    rng, here, branch = np.random.default_rng([seed, 9]), mind.site, []
    for _ in range(rng.integers(0, 8)):
        slots = np.flatnonzero(mind.edge[:, here[0], here[1]])
        slot = int(rng.choice(slots)) if len(slots) and rng.random() < 0.9 else int(rng.integers(25))
        here = oracles.neighbour(here, slot)
        if not oracles.inside((mind.size, mind.size), *here):
            break
        branch.append(here)
    return branch


@fewer
def test_trees_equal_oracle(config, seeds):
    """Replanting, growth, worth and the best branch, for promises that are many, few or none."""
    replanted, large, worthless = 0, 0, 0
    for seed in seeds:
        mind, view, key = draw_mind(config, seed), draw_view(config, seed), jax.random.key(seed)
        if not mind.affordable.any():
            continue
        rng = np.random.default_rng([seed, 10])
        some = mind.affordable & (rng.random(mind.affordable.shape) < rng.choice([0.0, 0.05, 0.8]))
        promise = np.where(some, rng.integers(10, 100, some.shape), 0)
        branch = walk(mind, seed)
        young, tree, best = jax.device_get(
            plant(config, view, jnp.asarray(promise, jnp.float32), whole(padded(branch)), key)
        )
        expected = slow.replant(mind, promise, branch)
        check_tree(mind, young, expected)
        replanted += len(expected) > 1
        expected = slow.grow(mind, promise, expected, samples_of(mind, key))
        check_tree(mind, tree, expected)
        large += len(expected) >= slow.ENOUGH_VERTICES
        if max(vertex.worth for vertex in expected.values()) > 0:
            np.testing.assert_array_equal(best, padded(slow.best_branch(expected)))
        else:
            worthless += 1
    assert replanted > len(seeds) // 4
    assert min(large, worthless) >= len(seeds) // 20


def check_gains(config: Config, belief, node, gain, heading_bin) -> tuple[np.ndarray, np.ndarray]:
    """The gains that were refreshed here and there are right at all nodes."""
    cells, view = slow.gains(config, belief, node)
    np.testing.assert_array_equal(gain[node], cells[node])
    np.testing.assert_array_equal(heading_bin[node], view[node])
    return cells, view


def check_nbvp(mind: Mind, old: nbvp.Plan, new: nbvp.Plan, proposal: Proposal, key) -> bool:
    """Whether the plan is the oracle's; if not, its branch must be worth the same."""
    cells, view = check_gains(mind.config, mind.belief, mind.home < FAR_MM, new.gain, new.heading_bin)
    promise = slow.promises(mind, cells, view)
    rest = [pair(site) for site in old.branch if site[0] >= 0]
    if not mind.affordable.any() or not mind.feasible.any():
        return True
    tree = slow.grow(mind, promise, slow.replant(mind, promise, rest), samples_of(mind, key))
    branch, same = slow.best_branch(tree), True
    slot = slow.first_hop(mind, promise) if not branch else slow.slot_between(mind.site, branch[0])
    if slot is None:
        assert int(proposal.choice) == RETURN_HOME
        return True
    got = int(proposal.choice) // mind.config.headings_per_node
    kept = [pair(site) for site in new.branch if site[0] >= 0]
    if branch:
        same = got == slot and kept == branch[1 : slow.REMEMBERED]
        taken = [oracles.neighbour(mind.site, got), *kept]
        assert same or slow.branch_to(tree, taken[-1]) == taken
        assert same or slow.difference(tree[taken[-1]].worth, tree[branch[-1]].worth) < CLOSE
    else:
        assert got == slot
    assert int(proposal.heading[got, 0]) == slow.nbvp_heading(mind, promise, view, got)
    return same


def one_view_left(mind: Mind, cells: np.ndarray, bins: np.ndarray, own: bool) -> Mind:
    """The same robot, which has looked everywhere but from one node: its own, or the farthest that promises much."""
    rich = [site for site in mind.sites() if mind.affordable[site] and cells[site] >= slow.LEAST_GAIN]
    left = mind.site if own else max(rich, key=lambda site: mind.here[site], default=mind.site)
    sensed = np.ones_like(mind.sensed)
    sensed[left][bins[left]] = False
    return dataclasses.replace(mind, sensed=sensed)


def test_nbvp_equals_oracle():
    """Whole proposals on random maps: with worth, with the only promise outside the tree, with none."""
    different, home, outside = 0, 0, 0
    for seed in range(60):
        mind, view, key = draw_mind(SMALL, seed), draw_view(SMALL, seed), jax.random.key(seed)
        if not mind.feasible.any() or not mind.affordable.any():
            continue
        cells, bins = slow.gains(SMALL, mind.belief, mind.home < FAR_MM)
        if seed % 3:
            mind = one_view_left(mind, cells, bins, own=seed % 3 == 1)
            view = dataclasses.replace(view, sensed=jnp.asarray(mind.sensed))
        old = nbvp.Plan(whole(cells), whole(bins), whole(padded(walk(mind, seed))), whole(mind.site))
        proposal, new = jax.device_get(propose(SMALL, roster.planner("nbvp"), view, old, key))
        different += not check_nbvp(mind, jax.device_get(old), new, proposal, key)
        home += int(proposal.choice) == RETURN_HOME
        outside += seed % 3 == 1 and int(proposal.choice) != RETURN_HOME
    assert different <= 1
    assert min(home, outside) > 3


# Shared greedy


@pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(60)), (FINE, range(10)), (DEFAULT, range(4))])
def test_repulsion_equals_oracle(config, seeds):
    repel = jax.jit(repulsion_mm, static_argnums=0)
    for seed in seeds:
        mind, view = draw_mind(config, seed), draw_view(config, seed)
        goals = draw_cells(mind, seed, ROBOTS)
        told = whole([*goals[:-1], (-1, -1)])
        mm, cell = jax.device_get(nearest_frontiers(config, view.graph.sight))
        got = np.asarray(repel(config, jnp.asarray(cell), told))
        for place in np.argwhere(mm < FAR_MM)[:: 1 + seed % 7]:
            expected = slow.crowding_cost(config, pair(cell[tuple(place)]), goals[:-1])
            assert abs(int(got[tuple(place)]) - expected) <= 10 * (ROBOTS - 1)  # each rounded to a centimetre


def test_alone_a_robot_is_a_team_of_one():
    planner, chosen = roster.planner("shared-greedy"), 0

    @jax.jit
    def both_ways(view, key):
        keys, views, memory = jax.tree.map(lambda leaf: leaf[None], (key, view, Goal.none()))
        team = planner.propose_team(SMALL, keys, views, jnp.ones(1, bool), memory)
        return planner.propose(SMALL, key, view, Goal.none()), team

    for seed in range(20):
        mind = draw_mind(SMALL, seed)
        alone, together = both_ways(draw_view(SMALL, seed), jax.random.key(seed))
        for left, right in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            np.testing.assert_array_equal(left, right[0])
        wanted, _ = slow.shared_goal(mind, [])
        assert from_goal(alone[1]) == wanted
        chosen += wanted is not None
    assert 5 < chosen < 20


def test_only_shared_greedy_has_a_radio():
    planners = {name: roster.planner(name) for name, entry in roster.PLANNERS.items() if entry.packaged}
    assert {name for name, planner in planners.items() if planner.communicates} == {"shared-greedy"}
    for name, planner in planners.items():
        assert isinstance(planner, RadioPlanner) == planner.communicates == roster.needs_radio(name)


# Missions


class Noted(eqx.Module):
    """A planner's memory, with what it last proposed and the key that it had."""

    memory: object
    proposal: Proposal
    key: jax.Array

    @staticmethod
    def at_start(config: Config, planner: Planner, sites: int) -> "Noted":
        nothing = by_slot(config, jnp.zeros(25), jnp.zeros(25, jnp.int32), whole(0))
        return Noted(planner.start(config, sites), nothing, jax.random.key_data(jax.random.key(0)))


class Spy(Planner):
    """Does what another planner does, and remembers what that was."""

    planner: Planner

    def start(self, config, sites):
        return Noted.at_start(config, self.planner, sites)

    def propose(self, config, key, view, memory):
        proposal, inner = self.planner.propose(config, key, view, memory.memory)
        return proposal, Noted(inner, proposal, jax.random.key_data(key))


class RadioSpy(RadioPlanner):
    """The same for a planner with a radio."""

    planner: RadioPlanner

    def start(self, config, sites):
        return Noted.at_start(config, self.planner, sites)

    def propose_team(self, config, keys, views, exploring, memory):
        proposals, inner = self.planner.propose_team(config, keys, views, exploring, memory.memory)
        return proposals, Noted(inner, proposals, jax.random.key_data(keys))


jitted_reset = jax.jit(reset, static_argnums=0)
advance = jax.jit(decide, static_argnums=(0, 1))
FLEETS = {
    "rich": ([90, 80, 70], [NEVER, NEVER, NEVER]),
    "mixed": ([60, 45, 25], [NEVER, 6, NEVER]),
    "tight": ([16, 12, 20], [NEVER, NEVER, NEVER]),
    "alone": ([60, 0, 0], [NEVER, NEVER, NEVER]),
}


def wide_world(config: Config, seed: int) -> World:
    """A random world with something to explore: one in four is small."""
    rng = np.random.default_rng([seed, 11])
    while True:
        case = draw_case(config, int(rng.integers(2**32)))
        if case.free.mean() > (0.02 if seed % 4 == 3 else 0.2):
            return case.world


def mission(config: Config, name: str, seed: int, decisions: int) -> Iterator[tuple[InFlight, InFlight, object]]:
    """A mission decision by decision: before, after, and the moves; everything as NumPy arrays."""
    planner = roster.planner(name)
    spy = RadioSpy(planner) if isinstance(planner, RadioPlanner) else Spy(planner)
    budget_m, fail_step = list(FLEETS.values())[seed % len(FLEETS)]
    fleet = Fleet(
        present=jnp.asarray([metres > 0 for metres in budget_m]),
        budget_mm=whole([1000 * metres for metres in budget_m]),
        fail_step=whole(fail_step),
    )
    state = jitted_reset(config, jax.random.key(seed), wide_world(config, seed), fleet)
    fresh = jax.tree.map(lambda leaf: jnp.stack([leaf] * ROBOTS), spy.start(config, SITES[config]))
    flight = InFlight(state, fresh, jax.random.key(seed + 100))
    for _ in range(decisions):
        after, move, _ = advance(config, spy, flight)
        yield flight, after, move
        flight = after
        if bool(flight.state.done):
            break


def mind_of(config: Config, robots, number: int) -> Mind:
    """What one robot of a mission knows. Its graph was compared with the oracles elsewhere."""
    team_size = int((robots.mode != ABSENT).sum())
    site, base = pair(robots.site[number]), pair(robots.base[number])
    mind = Mind(
        config,
        robots.belief[number],
        robots.sensed[number],
        site,
        base,
        int(robots.budget_mm[number]),
        number,
        team_size,
    )
    mind.edge, mind.home = robots.graph.edge[number], robots.graph.home_mm[number].astype(np.int64)
    for mate in np.flatnonzero(robots.sightings.seen[number, :, 0]):
        mind.in_sight.append(pair(robots.sightings.cell[number, mate, 0]))
    return mind


def of(tree, number: int):
    return jax.tree.map(lambda leaf: leaf[number], tree)


def check_alone(name: str, mind: Mind, before: Noted, after: Noted) -> bool:
    """One robot's proposal, by a planner that has no radio."""
    if name == "smmr":
        if mind.feasible.any():
            check_pursuit(mind, slow.smmr_goal(mind), True, after.proposal)
        return True
    if name == "nbvp":
        return check_nbvp(mind, before.memory, after.memory, after.proposal, jax.random.wrap_key_data(after.key))
    return check_nearest(mind, from_goal(before.memory), name == "sector", from_goal(after.memory), after.proposal)


def check_shared(minds: list[Mind], exploring: list[bool], before: Noted, after: Noted) -> list[bool]:
    """Everybody's goal in the order of their numbers, each given the goals that were chosen before."""
    goals = slow.kept_goals(minds, exploring, [from_goal(of(before.memory, n)) for n in range(len(minds))])
    same = []
    for number, mind in enumerate(minds):
        got = from_goal(of(after.memory, number))
        found: list[slow.Offer] = []
        expected = goals[number]
        if exploring[number] and expected is None:
            expected, found = slow.shared_goal(mind, goals)
        if got != expected:
            check_close(mind, found, got)
        same.append(got == expected)
        goals[number] = got
        if mind.feasible.any():
            check_pursuit(mind, got, True, of(after.proposal, number))
    return same


@pytest.mark.parametrize("name", CLASSICAL)
def test_missions_equal_oracle(name):
    """Every proposal of every exploring robot along whole missions."""
    different, checked, in_sight, away = 0, 0, 0, 0
    for seed in range(8):
        for before, after, move in mission(SMALL, name, seed, 16):
            before, after, move = jax.device_get((eqx.tree_at(lambda f: f.key, before, None), after.memory, move))
            robots = before.state.robots
            minds = [mind_of(SMALL, robots, number) for number in range(ROBOTS)]
            exploring = [bool(mode == EXPLORING) for mode in robots.mode]
            if name == "shared-greedy":
                same = check_shared(minds, exploring, before.memory, after)
            else:
                same = [
                    not exploring[n] or check_alone(name, minds[n], of(before.memory, n), of(after, n))
                    for n in range(ROBOTS)
                ]
            different += same.count(False)
            for number, mind in enumerate(minds):
                if exploring[number]:
                    checked += 1
                    in_sight += bool(mind.in_sight)
                    away += check_move(mind, of(after.proposal, number), of(move, number))
    assert different <= MOST_CLOSE_CALLS * checked
    assert checked > 100
    assert in_sight > 10
    assert away <= checked // 4


def check_move(mind: Mind, proposal: Proposal, move) -> bool:
    """An exploring robot flies what it proposed, unless another robot took the node. Whether one did."""
    if int(move.mode) != EXPLORING:
        return False
    if int(move.choice) != int(proposal.choice):
        return True
    slot = int(proposal.choice) // mind.config.headings_per_node
    assert pair(move.target) == oracles.neighbour(mind.site, slot)
    assert int(move.heading) == int(proposal.heading[slot, 0])
    return False


# Radio


def learned(config: Config, world, robots, move) -> tuple[np.ndarray, np.ndarray]:
    """Everybody's own belief and sensed headings after a decision, before they are shared."""
    beliefs, sensed = robots.belief.copy(), robots.sensed.copy()
    for number in range(ROBOTS):
        if int(move.mode[number]) > 1:
            continue
        here, there, heading = pair(robots.site[number]), pair(move.target[number]), int(robots.heading[number])
        slot = slow.slot_between(here, there)
        length = 0 if slot is None else oracles.slot_length_mm(config, slot)
        turn = oracles.limited_turn(config, heading, int(move.heading[number]), length)
        for cell, now in oracles.substep_poses(config, here, there, heading, turn):
            seen = oracles.footprint(config, world.free, *cell, now)
            beliefs[number] = oracles.update_belief(beliefs[number], world.free, seen)
        middle = (heading + turn) % 360
        for shift in range(-config.surely_seen_bins, config.surely_seen_bins + 1):
            bin_ = ((middle + config.degrees_per_bin // 2) // config.degrees_per_bin + shift) % config.heading_bins
            sensed[number, there[0], there[1], bin_] = True
    return beliefs, sensed


def check_radio(config: Config, before, after, move) -> None:
    """One map for all, and graphs that follow from all of it although only parts were worked out again."""
    robots = after.robots
    belief, sensed = slow.shared_map(*learned(config, before.world, before.robots, move))
    edge = oracles.edges(config, belief)
    mm, cell = jax.device_get(nearest_frontiers(config, of(jax.tree.map(jnp.asarray, robots.graph.sight), 0)))
    for number in range(ROBOTS):
        graph, base = of(robots.graph, number), pair(robots.base[number])
        np.testing.assert_array_equal(robots.belief[number], belief)
        np.testing.assert_array_equal(robots.sensed[number], sensed)
        for leaf, first in zip(jax.tree.leaves(graph.sight), jax.tree.leaves(of(robots.graph.sight, 0)), strict=True):
            np.testing.assert_array_equal(leaf, first)
        home = oracles.distances(config, edge, [base])
        np.testing.assert_array_equal(graph.edge, edge)
        np.testing.assert_array_equal(graph.home_mm, home)
        if number:  # all nodes are connected, so the rest is the same for everybody
            continue
        node = home < FAR_MM
        utility, histogram = oracles.utilities(config, belief, node)
        useful = [pair(site) for site in np.argwhere(utility > 0)]
        np.testing.assert_array_equal(np.where(node, graph.sight.utility, 0), utility)
        np.testing.assert_array_equal(graph.sight.histogram * node[..., None], histogram)
        np.testing.assert_array_equal(graph.useful_mm, oracles.distances(config, edge, useful))
        mind = Mind(config, belief, np.zeros_like(sensed), base, base, FAR_MM)
        for site in np.argwhere(node):
            expected = slow.nearest_by_bin(mind, pair(site))
            for towards in range(config.heading_bins):
                place = (*pair(site), towards)
                assert (int(mm[place]), pair(cell[place])) == expected.get(towards, (FAR_MM, pair(cell[place])))


def test_radio_equals_a_full_recomputation():
    """Along missions: one map, and everything that follows from it, for all robots after every decision."""
    learned_more = 0
    for seed in range(6):
        for before, after, move in mission(SMALL, "shared-greedy", seed, 12):
            before, after, move = jax.device_get((before.state, after.state, move))
            check_radio(SMALL, before, after, move)
            known = (after.robots.belief[0] == FREE).sum()
            assert (after.progress.own_covered == np.where(after.robots.mode != ABSENT, known, 0)).all()
            learned_more += (before.robots.belief[0] != after.robots.belief[0]).any()
    assert learned_more > 20


def test_without_a_radio_maps_differ():
    """What the test above would say of a planner that does not communicate."""
    (_, after, _), *_ = mission(SMALL, "nearest", 0, 1)
    beliefs = np.asarray(after.state.robots.belief)
    assert (beliefs[0] != beliefs[1]).any()


jitted_share = jax.jit(share, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def refresh(config: Config, state: State, belief, plan: nbvp.Plan) -> nbvp.Plan:
    """The first robot's gains, should it hold this belief."""
    view = dataclasses.replace(of(views(config, state), 0), belief=belief)
    return nbvp.Plan(*nbvp.refresh(config, view, plan), plan.branch, view.site)


def rough_field(config: Config, sites: int, rng) -> World:
    """Open ground with clutter, much wider than what a decision can change."""
    size, margin = config.lattice.grid_cells(sites), config.margin_cells
    free = np.zeros((size, size), bool)
    free[margin:-margin, margin:-margin] = rng.random((size - 2 * margin,) * 2) > 0.02
    y, x = oracles.site_cell(config, sites // 2, sites // 2)
    free[y - 1 : y + 2, x - 1 : x + 2] = True
    free = connected(free, (y, x))
    return World(jnp.asarray(free), whole([sites // 2] * 2), whole(free.sum()))


def with_patches(state: State, config: Config, rng) -> State:
    """Everybody knows the same patches all over the field, so that nodes and the unknown are everywhere."""
    belief, size = np.array(state.robots.belief[0]), state.world.free.shape[0]
    truth = np.where(state.world.free, FREE, oracles.OCCUPIED)
    for _ in range(60):
        y, x = rng.integers(config.margin_cells, size - config.margin_cells, 2)
        part = np.s_[y : y + rng.integers(size // 4), x : x + rng.integers(size // 4)]
        belief[part] = truth[part]
    belief[-config.margin_cells :] = belief[:, -config.margin_cells :] = oracles.UNKNOWN
    holes = rng.random(belief.shape) < 0.02
    belief = jnp.asarray(np.where(holes & (np.array(state.robots.belief[0]) == 0), 0, belief), jnp.uint8)
    sight = whole_sight(config, belief)
    team = jax.tree.map(lambda leaf: jnp.stack([leaf] * ROBOTS), (belief, sight))
    return eqx.tree_at(lambda s: (s.robots.belief, s.robots.graph.sight), state, team)


def scatter(robots, rng) -> Move:
    """Each robot takes an edge, mostly away from its base, and looks somewhere."""
    target, heading = robots.site.copy(), rng.integers(0, 360, ROBOTS)
    for number in range(ROBOTS):
        here, base = pair(robots.site[number]), robots.base[number]
        slots = np.flatnonzero(robots.graph.edge[number, :, here[0], here[1]])
        ends = [oracles.neighbour(here, int(slot)) for slot in rng.permutation(slots)]
        if ends:
            far = max(ends, key=lambda end: np.abs(end - base).sum())
            target[number] = far if rng.random() < 0.5 else ends[0]
    return Move(whole(target), whole(heading), whole([EXPLORING] * ROBOTS), whole([0] * ROBOTS))


@pytest.mark.parametrize(("config", "sites", "steps"), [(SMALL, 24, 6), (FINE, 30, 4)])
def test_what_is_updated_in_parts_is_right_everywhere(config, sites, steps):
    """A team in a wide field: its shared map, and the gains of its first robot as if that were alone."""
    assert config.window_sites < 0.55 * sites
    rng = np.random.default_rng(5)
    state = jitted_reset(config, jax.random.key(5), rough_field(config, sites, rng), Fleet.of(ROBOTS, 500.0))
    state = with_patches(state, config, rng)
    state = jitted_share(config, state.robots.site, state)
    alone, everywhere = np.array(state.robots.belief[0]), np.ones((sites, sites), bool)
    start = roster.planner("nbvp").start(config, sites)
    plan = nbvp.Plan(*whole_gain(config, jnp.asarray(alone)), start.branch, start.site)
    for _ in range(steps):
        before = jax.device_get(state)
        move = scatter(before.robots, rng)

        plan = refresh(config, state, jnp.asarray(alone), plan)
        check_gains(config, alone, everywhere, np.asarray(plan.gain), np.asarray(plan.heading_bin))
        own = eqx.tree_at(lambda robots: robots.belief, before.robots, np.stack([alone] * ROBOTS))
        alone = learned(config, before.world, own, move)[0][0]

        beliefs, sensed = learned(config, before.world, before.robots, move)
        news = (jnp.asarray(beliefs), jnp.asarray(sensed), whole(move.target))
        moved = eqx.tree_at(lambda s: (s.robots.belief, s.robots.sensed, s.robots.site), state, news)
        state = jitted_share(config, state.robots.site, moved)
        check_radio(config, before, jax.device_get(state), move)
