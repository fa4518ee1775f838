"""What a move would show, against a second version of docs/planners.md, and by hand."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mixed
import oracles.camera
import oracles.lattice
from cases import DEFAULT, FINE, SMALL
from decmarvel.core.config import Config
from decmarvel.core.types import LocalView
from decmarvel.robot.planners.preview import shown
from decmarvel.simulation.environment import views
from minds import draw_mind, draw_view, edges_of, of, pair, whole
from oracles.lattice import FREE, OCCUPIED, OWN_SLOT, SLOTS, UNKNOWN
from oracles.mind import cells_in_sight

DEPTH = 5
AHEAD, FAR_AHEAD, HOLD = 13, 14, OWN_SLOT
"""The slots one and two sites along +x, and none."""
MIDDLE, AT = (5, 5), 37
"""A site in the middle of SMALL; its cell is (AT, AT)."""

ask = jax.jit(shown, static_argnums=0)
see = jax.jit(views, static_argnums=0)


def guess(belief: np.ndarray, depth: int = DEPTH) -> np.ndarray:
    """The cells that are taken for clear."""
    (height, width), known = belief.shape, np.pad(belief == FREE, depth)
    near = np.zeros(belief.shape, bool)
    for y in range(2 * depth + 1):
        for x in range(2 * depth + 1):
            if abs(y - depth) + abs(x - depth) <= depth:
                near |= known[y : y + height, x : x + width]
    return (belief == FREE) | ((belief == UNKNOWN) & near)


def count(config: Config, view: LocalView, slot: int, clear: np.ndarray, limited: bool = True) -> list[int]:
    """What the move through a slot would show, for each of its headings, with the limit of the yaw rate or without."""
    site, heading = (int(view.site[0]), int(view.site[1])), int(view.heading)
    there = oracles.lattice.neighbour(site, slot)
    if config.roads:  # viewpoints and lengths of ways are the robot's own
        start, end = (pair(view.graph.cell[place]) for place in (site, there))
        length = 0 if slot == HOLD else int(view.graph.length_mm[slot, *site])
    else:
        start, end = (oracles.lattice.site_cell(config, *place) for place in (site, there))
        length = oracles.lattice.slot_length_mm(config, slot)
    new, fov_deg, range_mm = clear & (np.asarray(view.belief) == UNKNOWN), int(view.fov_deg), int(view.range_mm)
    speeds, counts = (int(view.yaw_rate_deg_s), int(view.speed_mm_s)), []
    for towards in np.asarray(view.candidates.heading_bin)[slot].tolist():
        wanted = towards * config.degrees_per_bin
        turn = oracles.camera.limited_turn(config, heading, wanted, length if limited else 10**6, *speeds)
        seen = set()
        for (y, x), now in oracles.camera.poses_between(config, start, end, heading, turn):
            for cell in cells_in_sight(clear, (y, x), config.sensor_radius_cells):
                dy, dx = cell[0] - y, cell[1] - x
                near = oracles.lattice.length_mm(config, dy, dx) <= range_mm
                if new[cell] and near and oracles.lattice.in_view(config, dy, dx, now, fov_deg):
                    seen.add(cell)
        counts.append(len(seen))
    return counts


def looking(view: LocalView, site, heading: int, bins: np.ndarray) -> LocalView:
    """The same knowledge, with another place, heading and choice of headings."""
    return eqx.tree_at(
        lambda v: (v.site, v.heading, v.candidates.heading_bin), view, (whole(site), whole(heading), whole(bins))
    )


def draw_looking(config: Config, seed: int) -> tuple[LocalView, np.ndarray]:
    """A robot at its node, anywhere or at the border, with any heading, and some slots with an edge, or its own."""
    rng, view = np.random.default_rng([seed, 13]), draw_view(config, seed)
    last = len(view.visits) - 1
    edge = edges_of(view.graph)
    linked = np.argwhere(edge.any(axis=0))
    rim = linked[((linked <= 1) | (linked >= last - 1)).any(axis=1)]
    own = np.array(draw_mind(config, seed).site)
    site = (own, *(rng.permutation(some if len(some) else [own])[0] for some in (linked, rim)))[seed % 3]
    bins = np.stack([rng.choice(config.heading_bins, config.headings_per_node, replace=False) for _ in range(SLOTS)])
    slots = rng.permutation([HOLD, *np.flatnonzero(edge[:, *site])])
    return looking(view, site, int(rng.integers(360)), bins), np.resize(slots, 6)


@pytest.mark.slow
@pytest.mark.parametrize(("config", "seeds"), [(SMALL, range(150)), (FINE, range(20)), (DEFAULT, range(1, 7))])
def test_what_a_move_shows_equals_oracle(config, seeds):
    """Over random beliefs, places and headings, for all slots that a robot can choose."""
    counts, edges, holds, rims, limits, depths = [], 0, 0, 0, 0, 0
    for seed in seeds:
        view, slots = draw_looking(config, seed)
        belief, site = np.asarray(view.belief), (int(view.site[0]), int(view.site[1]))
        got, clear = ask(config, view, whole(slots)), guess(belief)
        assert got.dtype == jnp.int32
        expected = [count(config, view, int(slot), clear) for slot in slots]
        np.testing.assert_array_equal(got, expected, err_msg=f"seed {seed}, slots {slots}")
        counts += expected
        edges += int(edges_of(view.graph)[slots, *site].sum())
        holds += HOLD in slots
        rims += min(site) <= 1 or max(site) >= len(view.visits) - 2
        if seed % 3 == 0:  # what it would be without the limit of the yaw rate, and with another depth
            first = int(slots[0])
            limits += count(config, view, first, clear, limited=False) != expected[0]
            others = [count(config, view, first, guess(belief, depth)) for depth in (DEPTH - 1, DEPTH + 1)]
            depths += expected[0] not in others
    assert np.mean(np.array(counts) > 0) > 0.4
    assert np.mean([len(set(each)) > 1 for each in counts]) > 0.4
    if config == SMALL:
        assert min(edges, holds, rims, limits, depths) > 10


@pytest.mark.slow
@pytest.mark.parametrize("range_m", [5.0, 3.0])
def test_what_a_move_shows_on_roads_equals_oracle(range_m):
    """Between viewpoints that lie aside, by robots that are not alike; a guess is a fifth of the longest range deep."""
    config = dataclasses.replace(mixed.CONFIG, sensor_range_m=range_m)
    depth, counts, depths, turns = round(range_m / 5 / config.cell_m), [], 0, 0
    for moment, state in enumerate(mixed.flown().states[1:13:3]):
        for number in range(3):
            view = of(see(mixed.CONFIG, state), number)
            site, belief = pair(view.site), np.asarray(view.belief)
            slots = np.resize([HOLD, *np.flatnonzero(edges_of(view.graph)[:, *site])[moment::2]], 6)
            expected = [count(config, view, int(slot), guess(belief, depth)) for slot in slots]
            np.testing.assert_array_equal(ask(config, view, whole(slots)), expected)
            counts += expected
            for slot in map(int, slots[:2]):
                depths += expected[slots.tolist().index(slot)] != count(config, view, slot, guess(belief, depth - 1))
                turns += expected[slots.tolist().index(slot)] != count(config, view, slot, guess(belief, depth), False)
    assert np.mean(np.array(counts) > 0) > 0.4
    assert min(depths, turns) > 5


# By hand


def say(belief: np.ndarray, slot: int, *towards: int) -> list[int]:
    """What is shown to a robot in the middle of SMALL that looks along +x, if it wants three headings in degrees."""
    view = looking(draw_view(SMALL, 1), MIDDLE, 0, np.tile(np.array(towards) // SMALL.degrees_per_bin, (SLOTS, 1)))
    view = eqx.tree_at(lambda v: v.belief, view, jnp.asarray(belief, jnp.uint8))
    return ask(SMALL, view, whole(np.arange(SLOTS)))[slot].tolist()


def everywhere(value: int) -> np.ndarray:
    return np.full((80, 80), value, np.uint8)


def test_nothing_new_is_shown_where_all_or_nothing_is_known():
    """Of what is unknown, only the surroundings of known-free cells are guessed to be clear."""
    mixed = np.random.default_rng(0).choice([FREE, OCCUPIED], (80, 80), p=[0.9, 0.1])
    for belief in (everywhere(FREE), everywhere(OCCUPIED), everywhere(UNKNOWN), mixed):
        for slot in (AHEAD, FAR_AHEAD, HOLD):
            assert say(belief, slot, 0, 90, 180) == [0, 0, 0]


def test_a_strip_on_the_left_is_shown_by_a_turn_to_the_left():
    """Beside the start, four cells aside: the camera never has it in view but at the end of a long turn."""
    left, right = everywhere(FREE), everywhere(FREE)
    left[AT + 4, AT - 1 : AT + 2] = right[AT - 4, AT - 1 : AT + 2] = UNKNOWN
    assert say(left, FAR_AHEAD, 140, 0, 220) == [3, 0, 0]
    assert say(right, FAR_AHEAD, 140, 0, 220) == [0, 0, 3]
    assert say(left, AHEAD, 140, 0, 220) == [0, 0, 0]  # turns by 70 degrees only, which leaves it behind
    assert say(left, HOLD, 140, 0, 220) == [3, 0, 0]  # turns by 70 as well, but beside it


def corridor(*unknown: int) -> np.ndarray:
    """A corridor ahead, known free up to the next site, with unknown cells at some distances from there."""
    belief = everywhere(OCCUPIED)
    belief[AT, AT : AT + 6] = FREE
    for cell in unknown:
        belief[AT, AT + 5 + cell] = UNKNOWN
    return belief


def test_a_corridor_is_shown_five_cells_deep():
    """Each cell once, though it is in sight from the first substep on, and none behind a known wall."""
    deep = corridor(*range(1, 20))
    assert say(deep, AHEAD, 0, 60, 180) == [5, 5, 5]
    assert say(corridor(1, 2, 4, 5), AHEAD, 0, 60, 180) == [2, 2, 2]
    deep[AT + 2, AT + 13] = FREE  # within five steps of the corridor's later cells, the wall in between no matter
    assert say(deep, AHEAD, 0, 60, 180) == [10, 10, 9]  # as far as the camera reaches, one less if it ends turned away


def test_only_belief_place_way_and_headings_matter():
    """Neither the rest of the graph, guard, budget, history nor teammates; a cell that is not clear is like a wall."""
    shown_at_all = 0
    for seed in range(40):
        (view, slots), (other, _) = draw_looking(SMALL, seed), draw_looking(SMALL, seed + 40)
        belief = np.asarray(view.belief)
        walled = jnp.asarray(np.where(guess(belief), belief, OCCUPIED).astype(np.uint8))
        stranger = looking(other, view.site, int(view.heading), np.asarray(view.candidates.heading_bin))
        here = np.s_[:, int(view.site[0]), int(view.site[1])]  # how far a robot turns depends on the length of the way
        length_mm = stranger.graph.length_mm.at[here].set(view.graph.length_mm[here])
        stranger = eqx.tree_at(lambda v: (v.belief, v.graph.length_mm), stranger, (walled, length_mm))
        counts = ask(SMALL, view, whole(slots))
        np.testing.assert_array_equal(counts, ask(SMALL, stranger, whole(slots)))
        shown_at_all += int((counts > 0).sum())
    assert shown_at_all > 200
