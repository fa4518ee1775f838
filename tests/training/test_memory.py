"""The replay memory against a list of rows."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from decmarvel.training.memory import POST, PRE, Step, add, create, sample


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


@pytest.mark.slow
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
