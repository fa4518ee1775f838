"""Reward, its scale, the curriculum and the replay memory, each against something plainer."""

import math
from dataclasses import fields, replace
from functools import cache, partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
from cases import SITES, SMALL, Case, draw_case
from decmarvel.core.types import EXPLORING, RETURNING
from decmarvel.robot.observation import observe
from decmarvel.robot.policy.nodes import Advice, compact, situation
from decmarvel.simulation import environment, roster
from decmarvel.simulation.environment import views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.mission import take_off
from decmarvel.simulation.privileged import privileged_view
from decmarvel.simulation.radio import propose_all
from decmarvel.training.codec import Inputs, decode, encode
from decmarvel.training.curriculum import Curriculum, CurriculumSettings, draw_budget_mm, learn, target_m
from decmarvel.training.memory import POST, PRE, Step, add, bytes_per_row, create, sample
from decmarvel.training.privileged_nodes import privileged_nodes, shares_at, true_nodes
from decmarvel.training.reward_normaliser import Spread, scaled, widen
from decmarvel.training.rewards import RewardSettings, RewardTerms, explores_on, reward
from decmarvel.training.stale import stale_nodes

NEVER = 2**30
ROBOTS = 4
TERMS = tuple(term.name for term in fields(RewardTerms))
ALL_TERMS = RewardSettings(fov=0.7, removed=1 / 39, step=-0.5, hurry=-0.25, covered=0.8)
"""The paper's, those of its predecessor, and ours."""


# Reward


def hall(width: int, height: int, start: tuple[int, int]) -> Case:
    """Two rooms with a door between them: small enough that a team explores them and gets in its own way."""
    sites, margin = SITES[SMALL], SMALL.margin_cells
    size = SMALL.lattice.grid_cells(sites)
    free = np.zeros((size, size), bool)
    free[margin : margin + height, margin : margin + width] = True
    free[margin : margin + height, margin + width // 2] = False
    free[margin + height // 2 - 2 : margin + height // 2 + 3, margin + width // 2] = True
    return Case(SMALL, free, start, np.zeros_like(free, np.uint8))


@partial(jax.jit, static_argnums=(0, 1))
def begin(config, planner, key, world, fleet):
    return take_off(config, planner, key, world, fleet)


@partial(jax.jit, static_argnums=(0, 1))
def advance(config, planner, flight, low_gains):
    """One decision as `decide` makes it, but the proposals are kept."""
    key_planner, key_step = jax.random.split(jax.random.fold_in(flight.key, flight.state.step))
    keys = jax.vmap(lambda number: jax.random.fold_in(key_planner, number))(jnp.arange(ROBOTS))
    exploring = flight.state.robots.mode == EXPLORING
    proposals, memory = propose_all(config, planner, keys, views(config, flight.state), exploring, flight.memory)
    after, move = environment.step(config, key_step, flight.state, proposals)
    terms, low_gains = reward(config, ALL_TERMS, flight.state, move, after, low_gains)
    return type(flight)(after, memory, flight.key), proposals, move, terms, low_gains, explores_on(config, after)


MISSIONS = {
    "corridor": (hall(40, 5, (0, 3)), [60, 50, 40, 30], [NEVER] * 4, 3, 14),
    "rooms": (hall(24, 14, (1, 1)), [60, 60, 40, 30], [NEVER, NEVER, 3, NEVER], 4, 14),
    "narrow": (hall(50, 7, (0, 4)), [80, 80, 80, 80], [NEVER] * 4, 4, 18),
    "clutter": (draw_case(SMALL, 1003), [60, 45, 30, 0], [NEVER] * 4, 3, 8),
}
"""World, budgets in metres, failures, seed, decisions."""
PLANNER = roster.planner("random")


@cache
def mission(name):
    """(before, proposals, move, after, terms, explores on) of each decision, as NumPy."""
    case, budgets, fail_steps, seed, decisions = MISSIONS[name]
    fleet = Fleet(
        present=jnp.asarray([budget > 0 for budget in budgets]),
        budget_mm=jnp.asarray([1000 * budget for budget in budgets], jnp.int32),
        fail_step=jnp.asarray(fail_steps, jnp.int32),
    )
    flight = begin(SMALL, PLANNER, jax.random.key(seed), case.world, fleet)
    low_gains, found = jnp.zeros(ROBOTS, jnp.int32), []
    for _ in range(decisions):
        before = flight.state
        flight, proposals, move, terms, low_gains, on = advance(SMALL, PLANNER, flight, low_gains)
        found.append(jax.tree.map(np.asarray, (before, proposals, move, flight.state, terms, on)))
    return found


def every_decision():
    return [decision for name in MISSIONS for decision in mission(name)]


def frontiers_in_view(belief: np.ndarray, target: tuple[int, int], heading: int) -> int:
    """How many thinned frontiers a robot with this map sees at a site, in the 13 bins around a heading."""
    cell = oracles.site_cell(SMALL, *target)
    frontier = oracles.thinned(oracles.frontiers(belief))
    middle, count = (heading + 5) // 10 % 36, 0
    for y, x in oracles.visible_cells(belief == oracles.FREE, *cell, SMALL.utility_radius_cells) - {cell}:
        away = (oracles.direction_bin(SMALL, y - cell[0], x - cell[1]) - middle) % 36
        count += bool(frontier[y, x]) and min(away, 36 - away) <= 6
    return count


def trail_at(robot_sightings, number: int, target: tuple[int, int]) -> float:
    """Freshness of the latest sighting of a teammate in the tile of a site."""
    best = 0.0
    for mate in range(ROBOTS):
        for age in range(SMALL.history):
            away = robot_sightings.cell[number, mate, age] - oracles.site_cell(SMALL, *target) + SMALL.stride // 2
            if robot_sightings.seen[number, mate, age] and (away >= 0).all() and (away < SMALL.stride).all():
                best = max(best, 1 - age / SMALL.history)
    return best


def expected_terms(name):
    """Decision by decision and robot by robot, the terms by plain loops over the recorded states."""
    low_gains, free = [0] * ROBOTS, MISSIONS[name][0].free
    team_done, own_done = False, [False] * ROBOTS
    for index, (before, _, move, after, _, _) in enumerate(mission(name)):
        merged = oracles.merged_belief(before.robots.belief)
        if index == 0:
            team_done = 100 * (merged == oracles.FREE).sum() >= 99 * free.sum()
            own_done = [100 * (belief == oracles.FREE).sum() >= 99 * free.sum() for belief in before.robots.belief]
        merged_after = oracles.merged_belief(after.robots.belief)
        was, is_ = (oracles.thinned(oracles.frontiers(belief)) for belief in (merged, merged_after))
        removed = (was & ~is_).sum() / 39
        covered = (merged_after == oracles.FREE).sum()
        hurry = 0.0 if team_done else -0.25
        crossing = not team_done and 100 * covered >= 99 * free.sum()
        team_done = team_done or crossing
        rows = []
        for robot in range(ROBOTS):
            own_covered = (after.robots.belief[robot] == oracles.FREE).sum()
            own_crossing = not own_done[robot] and 100 * own_covered >= 99 * free.sum()
            own_done[robot] = own_done[robot] or own_crossing
            if move.mode[robot] != EXPLORING:
                rows.append([0.0] * 11)
                continue
            target, heading = tuple(move.target[robot].tolist()), int(move.heading[robot])
            fov = frontiers_in_view(before.robots.belief[robot], target, heading) / 26
            team = frontiers_in_view(merged, target, heading) / 26
            dy, dx = move.target[robot] - before.robots.site[robot]
            align = 0.1 * math.cos(math.radians(heading) - math.atan2(dy, dx)) if dy or dx else 0.0
            low_gains[robot] = low_gains[robot] + 1 if 0.5 * fov + team < 0.05 else 0
            trail = -0.15 * trail_at(before.robots.sightings, robot, target)
            repeat = -0.05 * max(low_gains[robot] - 1, 0)
            bonuses = 5.0 * crossing, 2.5 * own_crossing
            flown = math.ceil(SMALL.spacing_mm * math.hypot(dy, dx)) / SMALL.spacing_mm
            news = ((after.robots.belief[robot] == oracles.FREE) & (merged == oracles.UNKNOWN)).sum() / 100
            rows.append([0.7 * fov, team, align, trail, repeat, *bonuses, removed, -0.5, hurry * flown, 0.8 * news])
        yield np.array(rows)


@pytest.mark.parametrize("name", MISSIONS)
def test_reward_terms(name):
    """Eq. 7."""
    for (*_, terms, _), expected in zip(mission(name), expected_terms(name), strict=True):
        for column, term in enumerate(TERMS):
            np.testing.assert_allclose(getattr(terms, term), expected[:, column], atol=2e-5, err_msg=term)
        total = jax.tree.map(jnp.asarray, terms).total
        np.testing.assert_allclose(total, expected.sum(axis=1), atol=1e-4)


def test_every_term_is_put_to_the_test():
    """The missions hold gains that differ between own and merged maps, trails, repeats and both crossings."""
    terms = [terms for *_, terms, _ in every_decision()]
    for name in TERMS:
        assert len({round(float(v), 4) for term in terms for v in getattr(term, name)}) >= 2, name
    assert any((np.abs(term.fov - 0.7 * term.merged) > 0.01).any() for term in terms)
    assert min(term.repeat.min() for term in terms) < -0.06
    assert any(((term.align < 0).any() and (term.align > 0).any()) for term in terms)


def test_bonuses_are_paid_once():
    """Each team crosses 99% once, each robot once; a robot that turned home before gets neither."""
    paid = 0
    for name in MISSIONS:
        team = np.array([terms.team for *_, terms, _ in mission(name)])
        own = np.array([terms.individual for *_, terms, _ in mission(name)])
        exploring = np.array([move.mode == EXPLORING for _, _, move, *_ in mission(name)])
        assert team.any(axis=1).sum() <= 1
        assert ((own > 0).sum(axis=0) <= 1).all()
        assert (team[team.any(axis=1)] == 5.0 * exploring[team.any(axis=1)]).all()
        paid += team.any()
    assert paid >= 2


def test_the_executed_choice_counts():
    """Where a conflict sent a robot elsewhere, fov is what it sees there and not where it wanted to go."""
    moved = held = different = 0
    for before, proposals, move, _, terms, _ in every_decision():
        for robot in np.flatnonzero((move.mode == EXPLORING) & (move.choice != proposals.choice)):
            site, wanted = before.robots.site[robot], int(proposals.choice[robot])
            target = tuple((site + oracles.slot_offset(wanted // 3)).tolist())
            heading = int(proposals.heading[robot].reshape(-1)[wanted])
            instead = frontiers_in_view(before.robots.belief[robot], target, heading) / 26
            moved, held = moved + (move.choice[robot] >= 0), held + (move.choice[robot] < 0)
            different += abs(0.7 * instead - terms.fov[robot]) > 0.01
            if move.choice[robot] < 0:
                assert terms.align[robot] == 0
    assert min(moved, held, different) >= 1


def test_robots_that_do_not_explore_earn_nothing():
    modes = set()
    for _, _, move, _, terms, _ in every_decision():
        for robot in np.flatnonzero(move.mode != EXPLORING):
            modes.add(int(move.mode[robot]))
            assert all(getattr(terms, term)[robot] == 0 for term in TERMS)
    assert modes == {1, 2, 3, 4}


def test_a_transition_ends_where_the_robot_explores_no_more():
    """`explores_on` after a decision tells which robots explore at the next one."""
    stops = 0
    for name in MISSIONS:
        decisions = mission(name)
        for (_, _, move, *_, on), (_, proposals, onward, *_) in pairwise(decisions):
            gave_up = (onward.mode == RETURNING) & (proposals.choice < 0)
            np.testing.assert_array_equal(on & ~gave_up, onward.mode == EXPLORING)
            stops += ((move.mode == EXPLORING) & ~on).sum()
    assert stops >= 4


def test_rewards_of_many_missions_at_once():
    """Mapped over missions, the reward is what it is alone."""
    pairs = [(before, move, after) for before, _, move, after, *_ in mission("rooms")[2:6]]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)
    none = jnp.zeros((4, ROBOTS), jnp.int32)
    score = jax.jit(jax.vmap(lambda b, m, a, q: reward(SMALL, ALL_TERMS, b, m, a, q)))
    terms, _ = score(*states, none)
    for index in range(4):
        alone = mission("rooms")[2 + index][4]
        for term in ("fov", "merged", "align", "trail", "team", "individual", "removed", "step", "hurry"):
            np.testing.assert_allclose(getattr(terms, term)[index], getattr(alone, term), atol=1e-6)


# Scale


def test_spread_of_the_whole_history():
    """Batch by batch, with masks and an offset that would spoil a naive sum of squares; divided, not shifted."""
    rng = np.random.default_rng(0)
    spread, history = Spread.none(), np.zeros(0)
    assert float(spread.deviation) == 1
    for size in (1, 7, 0, 64, 300):
        values = rng.normal(30.0, 0.7, (4, 128)).astype(np.float32)
        mask = (np.arange(512) < size).reshape(4, 128)
        rng.shuffle(mask.reshape(-1))
        spread = jax.jit(widen)(spread, jnp.asarray(np.where(mask, values, np.nan)), jnp.asarray(mask))
        history = np.concatenate([history, values[mask]])
        assert int(spread.count) == len(history)
        assert float(spread.mean) == pytest.approx(history.mean(), rel=1e-6)
        assert float(spread.variance) == pytest.approx(history.var(), rel=1e-4)
    rewards = jnp.array([0.0, 1.0, -0.5, 100.0, -100.0])
    expected = np.clip(np.asarray(rewards) / history.std(), -10, 10)
    np.testing.assert_allclose(scaled(spread, rewards), expected, rtol=1e-4)


# Curriculum


@pytest.mark.parametrize("settings", [CurriculumSettings(), CurriculumSettings(warm_up=3, rate=0.1, window=5)])
def test_curriculum_equals_a_plain_loop(settings):
    """Eq. 16, with many episodes finishing at once: warm-up, window, moving average, target."""
    rng = np.random.default_rng(1)
    state, outcomes, average = Curriculum.begin(settings), [], 0.0
    take_in = jax.jit(partial(learn, settings))
    assert float(target_m(settings, state)) == 1024
    for _ in range(60):
        finished = rng.random(64) < rng.choice([0.0, 0.1, 1.0], p=[0.1, 0.2, 0.7])
        success = rng.random(64) < 0.8
        state = take_in(state, jnp.asarray(success), jnp.asarray(finished))
        for outcome in success[finished]:
            outcomes.append(bool(outcome))
            if len(outcomes) > settings.warm_up:
                last = outcomes[-settings.window :]
                average = (1 - settings.rate) * average + settings.rate * sum(last) / len(last)
        assert int(state.episodes) == len(outcomes)
        assert float(state.success) == pytest.approx(average, abs=1e-5)
        assert float(target_m(settings, state)) == pytest.approx(640 + 384 * (1 - average), abs=1e-2)
    assert len(outcomes) > 1.5 * settings.warm_up
    assert 0.3 < average < 0.9


def budgets(settings, success, count=20_000):
    state = Curriculum(jnp.array(success, jnp.float32), jnp.zeros(settings.window, bool), jnp.array(2000, jnp.int32))
    keys = jax.random.split(jax.random.key(2), count)
    return np.asarray(jax.jit(jax.vmap(lambda key: draw_budget_mm(settings, state, key)))(keys)) / 1000


@pytest.mark.parametrize("success", [0.0, 0.5, 1.0])
def test_budgets_are_a_mixture(success):
    """Eq. 17: 60% uniform, the rest around the target and clipped: the distribution function at several places."""
    settings = CurriculumSettings()
    drawn, target = budgets(settings, success), 640 + 384 * (1 - success)
    assert (drawn >= 640).all()
    assert (drawn <= 1024).all()
    for place in (640.0, 650.0, 700.0, 800.0, 832.0, 900.0, 1000.0, 1023.9):
        near = np.clip((place - (target - 128)) / 256, 0, 1)
        expected = 0.6 * (place - 640) / 384 + 0.4 * near
        assert (drawn <= place).mean() == pytest.approx(expected, abs=0.015)
    around = replace(settings, uniform_share=0.0)
    assert (np.abs(budgets(around, 0.5, 1000) - 832) <= 128).all()


def test_without_curriculum_budgets_are_uniform():
    drawn = budgets(CurriculumSettings(adaptive=False), 1.0)
    counts, _ = np.histogram(drawn, bins=16, range=(640, 1024))
    expected = len(drawn) / 16
    assert ((counts - expected) ** 2 / expected).sum() < 37.7  # chi-square, 15 degrees, 0.1%


# Replay


class PlainMemory:
    """The memory as a list of rows, of which the last ones stay, and a search through all of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.rows = capacity, []

    def add(self, step: dict, missions: int, robots: int) -> None:
        for mission in range(missions):
            for robot in range(robots):
                if step["exploring"][mission, robot]:
                    row = {name: step[name][mission, robot] for name in ("name", "action", "reward", "done")}
                    row |= {"robot": (mission, robot), "time": step["time"], "post": step["post"][mission]}
                    self.rows.append(row | {"episode": step["episode"][mission]})
        self.rows = self.rows[-self.capacity :]

    def transitions(self, now: int) -> dict:
        """By the name of the state: what is complete, which the newest step never is."""
        found, place = {}, {(row["robot"], row["time"]): row for row in self.rows}
        for row in self.rows:
            following = place.get((row["robot"], row["time"] + 1))
            if following is not None and following["episode"] != row["episode"]:
                following = None
            if row["action"] >= 0 and row["time"] < now and (row["done"] or following):
                found[int(row["name"])] = (row, row if row["done"] else following)
        return found


def play(seed: int, missions: int, robots: int, steps: int):
    """Missions that end, are cut off and start again; robots that hold, stop for good, or give up without notice."""
    rng = np.random.default_rng(seed)
    episode, age = np.arange(missions), np.zeros(missions, int)
    exploring = np.ones((missions, robots), bool)
    for time in range(steps):
        begins = age == 0
        exploring[begins] = rng.random((begins.sum(), robots)) < 0.9
        done = exploring & (rng.random(exploring.shape) < 0.1)
        shape = exploring.shape
        yield {
            "time": time,
            "episode": episode.copy(),
            "name": np.arange(time * missions * robots, (time + 1) * missions * robots, dtype=np.int32).reshape(shape),
            "exploring": exploring.copy(),
            "action": np.where(rng.random(shape) < 0.1, -1, rng.integers(0, 75, shape)).astype(np.int32),
            "reward": rng.normal(size=shape).astype(np.float32),
            "done": done,
            "post": age > 9,
            "begins": begins,
        }
        exploring = exploring & ~done & (rng.random(exploring.shape) > 0.02)
        over = ~exploring.any(axis=1) | (rng.random(missions) < 0.04)
        episode, age = np.where(over, episode + missions, episode), np.where(over, 0, age + 1)


def as_step(step: dict) -> Step:
    names = ("exploring", "action", "reward", "done", "post", "begins")
    state = {"name": jnp.asarray(step["name"]), "wide": jnp.asarray(step["name"] % 251, jnp.uint8)[..., None]}
    return Step(state, *(jnp.asarray(step[name]) for name in names))


EXAMPLE = {"name": jnp.array(0, jnp.int32), "wide": jnp.zeros(1, jnp.uint8)}
put = jax.jit(add, donate_argnums=0)
take = jax.jit(sample, static_argnums=(2, 3))


def queued(replay) -> list[list[int]]:
    """Names of the states in the queues, oldest first."""
    name, queue = np.asarray(replay.state["name"]), np.asarray(replay.queue)
    tail, count = np.asarray(replay.tail), np.asarray(replay.count)
    return [[int(name[queue[q, (tail[q] + k) % replay.capacity]]) for k in range(count[q])] for q in (PRE, POST)]


def after(transitions: dict, name: int, steps: int) -> tuple[list[float], bool, dict]:
    """The rewards of a decision and of those that follow it, whether the robot is done then, and where it is."""
    rewards, done, row = [], False, {"name": name}
    while len(rewards) < steps and not done and int(row["name"]) in transitions:
        own, row = transitions[int(row["name"])]
        rewards.append(own["reward"])
        done = own["done"]
    return rewards, done, row


@pytest.mark.parametrize(("capacity", "seed", "steps"), [(24, 0, 1), (97, 1, 2), (1000, 2, 5)])
def test_memory_holds_the_complete_transitions(capacity, seed, steps):
    """After every step, around the seam many times: the queues, and for each transition what it leads from and to."""
    missions, robots = 4, 3
    replay, plain = create(capacity, missions, robots, EXAMPLE), PlainMemory(capacity)
    for step in play(seed, missions, robots, 120):
        replay = put(replay, as_step(step))
        plain.add(step, missions, robots)
        expected = plain.transitions(step["time"])
        phases = [[name for name, (row, _) in expected.items() if row["post"] == phase] for phase in (False, True)]
        assert queued(replay) == phases
        assert int(replay.complete) == len(expected)
        if not expected or step["time"] % 8:
            continue
        drawn = jax.tree.map(np.asarray, take(replay, jax.random.key(step["time"]), 256, steps))
        np.testing.assert_array_equal(drawn.state["wide"][:, 0], drawn.state["name"] % 251)
        for index, name in enumerate(drawn.state["name"].tolist()):
            row, _ = expected[name]
            rewards, done, following = after(expected, name, steps)
            for field in ("action", "post"):
                assert getattr(drawn, field)[index] == row[field]
            assert drawn.reward[index].tolist() == rewards + [0.0] * (steps - len(rewards))
            assert (drawn.steps[index], drawn.done[index]) == (len(rewards), done)
            assert drawn.following["name"][index] == following["name"]
            assert drawn.following_post[index] == following["post"]


def filled(steps: int, seed: int = 5):
    replay, plain = create(600, 8, 3, EXAMPLE), PlainMemory(600)
    for step in play(seed, 8, 3, steps):
        replay = put(replay, as_step(step))
        plain.add(step, 8, 3)
    return replay, plain.transitions(steps - 1)


def chi_square(names: np.ndarray, among: list[int]) -> float:
    """Deviation from equal frequencies in standard deviations of the chi-square distribution."""
    counts = np.array([(names == name).sum() for name in among])
    assert counts.sum() == len(names)
    expected = len(names) / len(among)
    return (((counts - expected) ** 2 / expected).sum() - (len(among) - 1)) / math.sqrt(2 * (len(among) - 1))


def test_draws_are_uniform_and_half_of_each_phase():
    """Uniform over all until the post transitions fill a batch; from then on half and half, uniform in each."""
    replay, expected = filled(80)
    pre, post = ([name for name, (row, _) in expected.items() if row["post"] == phase] for phase in (False, True))
    assert 16 < len(post) < 200 < len(pre)
    keys = jax.random.split(jax.random.key(9), 400)

    def names(batch):
        drawn = jax.lax.map(lambda key: sample(replay, key, batch), keys)
        return np.asarray(drawn.state["name"]), np.asarray(drawn.post)

    drawn, was_post = names(len(post) + 1)
    assert abs(chi_square(drawn.reshape(-1), pre + post)) < 4
    assert was_post.mean() == pytest.approx(len(post) / len(expected), abs=0.02)
    drawn, was_post = names(len(post) // 2 * 2)
    assert (was_post.sum(axis=1) == drawn.shape[1] // 2).all()
    assert abs(chi_square(drawn[was_post], post)) < 4
    assert abs(chi_square(drawn[~was_post], pre)) < 4
    assert (np.asarray(sample(replay, keys[0], 16, post_share=0.25).post).sum()) == 4


def test_a_memory_needs_room_for_two_steps():
    with pytest.raises(ValueError, match="two steps"):
        create(23, 4, 3, EXAMPLE)


ADVICE = Advice(
    jnp.array([74, 5, 0, -1, -1, -1], jnp.int32),
    jnp.array([[3, 4], [0, 9], [5, 5], [-1, -1], [-1, -1], [-1, -1]], jnp.int32),
    jnp.array([0.123, 20.5, 300.25, 0, 0, 0], jnp.float32),
    jnp.array([0, 1, 2601, 0, 0, 0], jnp.int32),
)


@partial(jax.jit, static_argnums=(0, 3))
def there_and_back(config, state, worlds, bucket):
    """The inputs of all robots of a state, as they are and out of a snapshot. The state's world is the second."""
    truths = jax.vmap(lambda world: true_nodes(config, world, bucket)[0])(worlds)
    truth = jax.tree.map(lambda leaf: leaf[1], truths)
    observations = jax.vmap(lambda view: observe(config, view))(views(config, state))
    privileged = jax.vmap(lambda number: privileged_view(config, state, number))(jnp.arange(ROBOTS, dtype=jnp.int32))
    number = jnp.array(1, jnp.int32)
    stale = stale_nodes(config, views(config, state))
    kept = jax.vmap(lambda o, p, s: encode(config, truth, number, o, ADVICE, p, s, -0.5 * jnp.ones(())))(
        observations, privileged, stale
    )

    def direct(observation, seen, stale):
        own = compact(observation, bucket)
        other = seen.active & (jnp.arange(ROBOTS) != observation.number)
        shares = shares_at(truth, seen)
        nodes = privileged_nodes(config, truth, own, observation.site, shares, seen.sites, other)
        known = replace(situation(observation), advice=ADVICE)
        return Inputs(own, known, nodes, own.mask & stale[own.site[:, 0], own.site[:, 1]], -0.5 * jnp.ones(()))

    back = jax.vmap(lambda snapshot: decode(config, truths, snapshot))(kept)
    return jax.vmap(direct)(observations, privileged, stale), back, kept


def test_a_snapshot_gives_the_inputs_again():
    """Eq. 5, 6, 9 and 15 as the networks read them."""
    tokens = sensed = goals = stale = 0
    for name in ("rooms", "clutter"):
        worlds = jax.tree.map(lambda *leaves: jnp.stack(leaves), hall(30, 9, (0, 1)).world, MISSIONS[name][0].world)
        for before, *_ in mission(name)[::2]:
            state = jax.tree.map(jnp.asarray, before)
            direct, back, _ = jax.tree.map(np.asarray, there_and_back(SMALL, state, worlds, 144))
            for kind in ("nodes", "critic_nodes"):
                one, two = getattr(direct, kind), getattr(back, kind)
                for field in ("site", "mask", "edges", "histogram"):
                    np.testing.assert_array_equal(getattr(two, field), getattr(one, field), err_msg=field)
                np.testing.assert_allclose(two.features, one.features, atol=2e-5)
            for field in ("way_cm", "open_cm"):
                one, two = (getattr(inputs.nodes.ways, field) for inputs in (direct, back))
                np.testing.assert_array_equal(two, one, err_msg=field)
            goals += (direct.nodes.mask & (direct.nodes.ways.open_cm < 65535)).sum()
            np.testing.assert_array_equal(back.stale, direct.stale)
            stale += direct.stale.sum()
            np.testing.assert_array_equal(back.log_probability, direct.log_probability)
            for field in ("site", "base", "budget", "heading_bin", "action_mask", "sensed", "token_mask", "token_site"):
                np.testing.assert_array_equal(
                    getattr(back.situation, field), getattr(direct.situation, field), err_msg=field
                )
            np.testing.assert_array_equal(back.situation.number, direct.situation.number)
            np.testing.assert_array_equal(back.situation.team_size, direct.situation.team_size)
            jax.tree.map(np.testing.assert_array_equal, back.situation.advice, direct.situation.advice)
            np.testing.assert_allclose(back.situation.tokens, direct.situation.tokens, atol=1e-6)
            tokens += direct.situation.token_mask.sum()
            sensed += direct.situation.sensed.sum()
    assert tokens > 20
    assert sensed > 20
    assert goals > 20
    assert stale > 20


def test_a_million_transitions_fit():
    """With 384 places and four robots: far below what a GPU holds."""
    state = jax.tree.map(jnp.asarray, mission("rooms")[0][0])
    world = jax.tree.map(lambda leaf: leaf[None].repeat(2, axis=0), MISSIONS["rooms"][0].world)
    kept = jax.eval_shape(lambda state, world: there_and_back(SMALL, state, world, 384), state, world)[2]
    one = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), kept)
    assert 21_000 < bytes_per_row(create(2, 1, 1, one)) < 24_000
