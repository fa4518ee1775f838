"""The PettingZoo environment: the interface's own tests, and that it flies the same missions as the simulator."""

import dataclasses
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import mixed
from decmarvel.core.colours import rgb, robot_colour
from decmarvel.core.lattice import SLOT_OFFSETS
from decmarvel.core.types import Own
from decmarvel.integrations.pettingzoo import ExplorationEnv
from decmarvel.robot.observation import Observation, Ways
from decmarvel.simulation.environment import reset
from decmarvel.simulation.fleet import NEVER, Fleet
from decmarvel.worlds import Building

pytestmark = pytest.mark.slow


def rooms(door: slice = slice(44, 56)) -> Building:
    """40 m x 40 m: two rooms with a door between them."""
    free = np.zeros((100, 100), bool)
    free[4:96, 4:96] = True
    free[:, 49:51] = False
    free[door, 49:51] = True
    return Building(free, (50, 20), 0.4, "rooms")


def make(**changes: object) -> ExplorationEnv:
    return ExplorationEnv(**{"building": rooms(), "robots": 3, "budget_m": 60.0, **changes})


def fly(env: ExplorationEnv, rng: np.random.Generator, decisions: int = 1000):
    """Random actions, allowed or not; every observation must lie in its space."""
    observations, infos = env.reset(seed=5)
    history = [(observations, {}, {}, {}, infos)]
    while env.agents and len(history) <= decisions:
        flying = set(env.agents)
        history.append(env.step({agent: int(rng.integers(75)) for agent in env.agents}))
        for part in history[-1]:
            assert set(part) == flying
        for agent, observation in history[-1][0].items():
            assert env.observation_space(agent).contains(observation)
    return history


def test_api():
    parallel_api_test(make(), num_cycles=100)


def test_seeds():
    parallel_seed_test(make, num_cycles=15)


def test_everything_that_a_robot_knows_is_observed():
    """All facts of `Own`, and no field without a space."""
    env = make()
    observations, _ = env.reset(seed=1)
    names = {field.name for kind in (Observation, Ways) for field in dataclasses.fields(kind)}
    assert {field.name for field in dataclasses.fields(Own)} < names
    for number, agent in enumerate(env.possible_agents):
        assert env.observation_space(agent).spaces.keys() == observations[agent].keys() == names
        for field in dataclasses.fields(Own):
            known = getattr(env._state.robots, field.name)[number]
            np.testing.assert_array_equal(observations[agent][field.name], known, field.name)
    robot = observations["robot_1"]
    assert (robot["number"], robot["team_size"], robot["budget_mm"]) == (1, 3, 60_000)


def test_a_mixed_team_on_roads():
    """What cameras and bodies are is observed, within its space; the picture has robots where they stand."""
    env = make(building=mixed.house(), robots=4, budget_m=mixed.BUDGET_M, config=mixed.CONFIG, render_mode="rgb_array")
    observations, _ = env.reset(seed=2, options={"fleet": mixed.team()})
    for _ in range(2):
        for number, agent in enumerate(env.agents):
            assert env.observation_space(agent).contains(observations[agent])
            for name, values in mixed.BODIES.items():
                assert observations[agent][name] == values[number]
        actions = {agent: int(np.flatnonzero(observations[agent]["action_mask"])[0]) for agent in env.agents}
        observations, *_ = env.step(actions)
    robots, picture = env._state.robots, env.render()[::-1]
    for number in range(3):
        y, x = robots.graph.cell[number, *robots.site[number]]
        assert (picture[y, x] == rgb(robot_colour(number))).all()


def test_every_robot_comes_home_whatever_the_actions():
    env = make()
    history = fly(env, np.random.default_rng(0))
    assert not env.agents
    last = {agent: step[4][agent] for step in history for agent in step[4]}
    assert {info["mode"] for info in last.values()} == {"home"}
    assert all(0 <= info["remaining_m"] < 60 for info in last.values())
    ended = [agent for step in history for agent, over in step[2].items() if over]
    assert sorted(ended) == env.possible_agents
    assert not any(over for step in history for over in step[3].values())


def test_default_reward_adds_up_to_the_coverage_gained():
    env = make()
    history = fly(env, np.random.default_rng(1))
    rewards = [set(step[1].values()) for step in history[1:]]
    assert all(len(values) == 1 for values in rewards)  # the same for everybody
    world, key = env._world, jax.random.split(jax.random.fold_in(jax.random.key(5), 0))[0]
    before = jax.jit(reset, static_argnums=0)(env.config, key, world, Fleet.of(3, 60.0)).progress.covered
    gained = (env._state.progress.covered - before) / world.free_count
    np.testing.assert_allclose(sum(values.pop() for values in rewards), gained, rtol=1e-5)


def only_for_the_first(before, after):
    return jnp.zeros(3, jnp.float32).at[0].set(after.step.astype(jnp.float32))


def test_another_reward():
    history = fly(make(reward=only_for_the_first), np.random.default_rng(1), decisions=2)
    assert history[1][1] == {"robot_0": 1.0, "robot_1": 0.0, "robot_2": 0.0}
    assert history[2][1]["robot_0"] == 2.0


ALONE = {"fleet": Fleet.of(1, 60.0, slots=3)}


def test_a_forbidden_action_becomes_the_closest_permitted_one():
    env = make()
    for seed in range(5):
        observation = env.reset(seed=seed, options=ALONE)[0]["robot_0"]
        mask = observation["action_mask"].astype(bool)
        before = observation["site"]
        forbidden = int(np.flatnonzero(~mask)[0])
        away = ((SLOT_OFFSETS - SLOT_OFFSETS[forbidden // 3]) ** 2).sum(axis=1)
        closest = away[np.flatnonzero(mask) // 3].min()
        after = env.step({"robot_0": forbidden})[0]["robot_0"]["site"]
        moved = np.flatnonzero((after - before == SLOT_OFFSETS).all(axis=1))[0]
        assert mask[3 * moved]
        assert away[moved] == closest
        assert (after != before).any()


def test_a_permitted_action_is_done():
    env = make()
    observation = env.reset(seed=3, options=ALONE)[0]["robot_0"]
    for action in np.flatnonzero(observation["action_mask"])[::7]:
        env.reset(seed=3, options=ALONE)
        after = env.step({"robot_0": action})[0]["robot_0"]["site"]
        np.testing.assert_array_equal(after - observation["site"], SLOT_OFFSETS[action // 3])


@pytest.mark.parametrize("action", [-1, 75, None])
def test_an_action_that_is_none_is_refused(action):
    env = make()
    env.reset(seed=1)
    actions = {"robot_0": 0, "robot_1": 0, "robot_2": action}
    with pytest.raises(ValueError, match=f"robot_2 needs an action from Discrete.75., not {action}"):
        env.step({agent: action for agent, action in actions.items() if action is not None})


def test_failed_robots_leave_and_resets_go_on_from_the_seed():
    env = make()
    fleet = Fleet(jnp.ones(3, bool), jnp.full(3, 60000, jnp.int32), jnp.array([NEVER, 1, NEVER], jnp.int32))
    first, _ = env.reset(seed=7, options={"fleet": fleet})
    wait_for_failure = dict.fromkeys(env.agents, 0)
    env.step(wait_for_failure)
    _, _, terminated, _, infos = env.step(wait_for_failure)
    assert terminated == {"robot_0": False, "robot_1": True, "robot_2": False}
    assert infos["robot_1"]["mode"] == "failed"
    assert env.agents == ["robot_0", "robot_2"]
    second, _ = env.reset()
    again, _ = env.reset(seed=7)
    third, _ = env.reset()
    for agent in env.agents:
        np.testing.assert_array_equal(first[agent]["site"], again[agent]["site"])
        np.testing.assert_array_equal(second[agent]["site"], third[agent]["site"])
    assert any((first[agent]["site"] != second[agent]["site"]).any() for agent in env.agents)


def test_truncation(monkeypatch):
    env = make()
    env.reset(seed=1)
    monkeypatch.setattr(env, "_max_decisions", 2)
    actions = dict.fromkeys(env.agents, 0)
    assert not any(env.step(actions)[3].values())
    _, _, terminated, truncated, _ = env.step(actions)
    assert all(truncated[agent] != terminated[agent] for agent in truncated)
    assert not env.agents


def test_another_building_and_its_picture():
    env = make(render_mode="rgb_array")
    env.reset(seed=1)
    plain = env.render()
    assert plain.dtype == np.uint8
    assert plain.shape == (*env._world.free.shape, 3)
    env.reset(seed=1, options={"building": rooms(door=slice(20, 24))})
    assert (env.render() != plain).any()
    silent = make()
    silent.reset()
    assert silent.render() is None
    with pytest.raises(ValueError, match="rgb_array"):
        make(render_mode="human")


def test_without_pettingzoo_the_message_names_the_extra():
    code = "import sys; sys.modules['pettingzoo'] = None; import decmarvel.integrations.pettingzoo"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install decmarvel[pettingzoo]" in done.stderr
