"""The memory of transitions: a ring of rows on the device, where a new step overwrites the oldest rows.

A row has what one robot knew at one decision, its action and its reward. The state that follows is the row of its
next decision, so nothing is stored twice. Rows of a step stand side by side in the order of missions and robots, with
none for a robot that did not explore. A transition is complete when the next step is added; it joins the queue of its
phase then, and leaves it when its row is overwritten. Both happen in the order of the rows, so a queue is a ring, too,
and a uniform draw from it is one random number.
"""

from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int8, Int32

from decmarvel.core.errors import TrainingError
from decmarvel.core.types import Key

Row = TypeVar("Row")
"""A pytree of arrays: what is stored of a state."""

PRE, POST = 0, 1
"""The phases: before and after the team has reached 99%."""


class Step(eqx.Module, Generic[Row]):
    """One decision of E missions of N robots each."""

    state: Row
    """The stored form of each state; arrays are (E, N, ...)."""
    exploring: Bool[Array, "E N"]
    """Robots that had a decision to make. The others leave no row."""
    action: Int32[Array, "E N"]
    """The executed candidate; -1 for a robot that had to hold: its row begins no transition, but may end one."""
    reward: Float32[Array, "E N"]
    done: Bool[Array, "E N"]
    """Whether the robot has nothing to decide in the next state."""
    post: Bool[Array, "E"]
    """Whether the team had reached 99% before the decision."""
    begins: Bool[Array, "E"]
    """Whether this is the first decision of a mission."""


class Sample(eqx.Module, Generic[Row]):
    """Transitions drawn from the memory."""

    state: Row
    action: Int32[Array, "n"]
    reward: Float32[Array, "n steps"]
    """Rewards of this decision and those that followed it, not scaled; zero after the last that counts."""
    steps: Int32[Array, "n"]
    """Number that count: all, unless the robot had nothing to decide, had to hold, or has not decided yet."""
    done: Bool[Array, "n"]
    """Whether the robot has nothing to decide after them."""
    post: Bool[Array, "n"]
    following: Row
    """The state of the same robot after them; meaningless where `done`."""
    following_post: Bool[Array, "n"]


class Memory(eqx.Module, Generic[Row]):
    """C rows, and which of them begin a complete transition."""

    state: Row
    action: Int8[Array, "C"]
    reward: Float32[Array, "C"]
    done: Bool[Array, "C"]
    post: Bool[Array, "C"]
    following: Int32[Array, "C"]
    """Row of the next state of the same robot. Meaningless where `queued` is not set."""
    queued: Bool[Array, "C"]
    """Whether the row begins a complete transition, and so stands in the queue of its phase."""
    head: Int32[Array, ""]
    """The row that is written next: the oldest one, once the ring is full."""
    newest: Int32[Array, "E N"]
    """Row of each robot's last decision; -1 where it made none in the last step."""
    queue: Int32[Array, "2 C"]
    """The rows of complete transitions in each phase, oldest first from `tail` on."""
    tail: Int32[Array, "2"]
    count: Int32[Array, "2"]

    @property
    def capacity(self) -> int:
        return self.reward.shape[0]

    @property
    def complete(self) -> Int32[Array, ""]:
        """Number of transitions to draw from."""
        return self.count.sum().astype(jnp.int32)


def create(capacity: int, missions: int, robots: int, example: Row) -> Memory[Row]:
    """An empty memory for states like the example, which is that of one robot."""
    if capacity < 2 * missions * robots:
        raise TrainingError(
            f"capacity: {capacity} rows cannot hold two steps of {missions} x {robots} robots; raise it"
        )

    def room(leaf: Array) -> Array:
        return jnp.zeros((capacity, *leaf.shape), leaf.dtype)

    return Memory(
        state=jax.tree.map(room, example),
        action=jnp.full(capacity, -1, jnp.int8),
        reward=jnp.zeros(capacity),
        done=jnp.zeros(capacity, bool),
        post=jnp.zeros(capacity, bool),
        following=jnp.zeros(capacity, jnp.int32),
        queued=jnp.zeros(capacity, bool),
        head=jnp.array(0, jnp.int32),
        newest=jnp.full((missions, robots), -1, jnp.int32),
        queue=jnp.zeros((2, capacity), jnp.int32),
        tail=jnp.zeros(2, jnp.int32),
        count=jnp.zeros(2, jnp.int32),
    )


def bytes_per_row(memory: Memory) -> float:
    """Bytes of one row, its places in the queues included."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(memory)) / memory.capacity


def add(memory: Memory[Row], step: Step[Row]) -> Memory[Row]:
    """Store one step and complete the transitions of the step before. Donate the memory: it changes in place."""
    capacity = memory.capacity
    stored = step.exploring.reshape(-1)
    place = (memory.head + jnp.cumsum(stored).astype(jnp.int32) - 1) % capacity
    rows = jnp.where(stored, place, capacity + jnp.arange(len(stored), dtype=jnp.int32))  # beyond the last: dropped
    memory = forget(memory, stored.sum().astype(jnp.int32), len(stored))
    memory = link(memory, rows, step.begins)

    def put(memory: Array, values: Array) -> Array:
        values = values.reshape(len(stored), *memory.shape[1:]).astype(memory.dtype)
        return memory.at[rows].set(values, mode="drop", unique_indices=True)

    return Memory(
        state=jax.tree.map(put, memory.state, step.state),
        action=put(memory.action, step.action),
        reward=put(memory.reward, step.reward),
        done=put(memory.done, step.done),
        post=put(memory.post, jnp.broadcast_to(step.post[:, None], step.exploring.shape)),
        following=memory.following,
        queued=memory.queued,
        head=(memory.head + stored.sum().astype(jnp.int32)) % capacity,
        newest=jnp.where(stored, place, -1).reshape(step.exploring.shape),
        queue=memory.queue,
        tail=memory.tail,
        count=memory.count,
    )


def forget(memory: Memory[Row], number: Int32[Array, ""], most: int) -> Memory[Row]:
    """Take the oldest rows, which are about to be overwritten, out of the queues. They are the first in the queues."""
    index = jnp.arange(most, dtype=jnp.int32)
    oldest = jnp.where(index < number, (memory.head + index) % memory.capacity, memory.capacity)
    queued = memory.queued.at[oldest].get(mode="fill", fill_value=False)
    post = memory.post.at[oldest].get(mode="fill", fill_value=False)
    gone = jnp.stack([(queued & ~post).sum(), (queued & post).sum()]).astype(jnp.int32)
    return eqx.tree_at(
        lambda r: (r.queued, r.tail, r.count),
        memory,
        (
            memory.queued.at[oldest].set(False, mode="drop"),
            (memory.tail + gone) % memory.capacity,
            memory.count - gone,
        ),
    )


def link(memory: Memory[Row], rows: Int32[Array, "n"], begins: Bool[Array, "E"]) -> Memory[Row]:
    """Link the rows of the step before to those of this one, and queue the transitions that are complete now.

    A transition needs an action, and either ends there or has a next state in the same mission.
    """
    capacity = memory.capacity
    before = memory.newest.reshape(-1)
    begins = jnp.repeat(begins, memory.newest.shape[1])
    action, done, post = memory.action[before], memory.done[before], memory.post[before]
    complete = (before >= 0) & (action >= 0) & (done | ((rows < capacity) & ~begins))
    source = jnp.where(complete, before, capacity)
    queue, count = memory.queue, memory.count
    for phase, belongs in ((PRE, complete & ~post), (POST, complete & post)):
        place = (memory.tail[phase] + count[phase] + jnp.cumsum(belongs).astype(jnp.int32) - 1) % capacity
        queue = queue.at[phase, jnp.where(belongs, place, capacity)].set(before, mode="drop")
        count = count.at[phase].add(belongs.sum().astype(jnp.int32))
    return eqx.tree_at(
        lambda r: (r.following, r.queued, r.queue, r.count),
        memory,
        (
            memory.following.at[source].set(jnp.where(done, before, rows), mode="drop"),
            memory.queued.at[source].set(True, mode="drop"),
            queue,
            count,
        ),
    )


def draw(memory: Memory[Row], key: Key, batch: int, post_share: float = 0.5) -> Int32[Array, "n"]:
    """Rows of complete transitions, uniformly with replacement; `post_share` are post once that phase fills a batch."""
    pre, post = memory.count[PRE], memory.count[POST]
    apart = (post >= batch) & (pre > 0)
    second = jnp.arange(batch) >= batch - round(post_share * batch)
    low = jnp.where(apart & second, pre, 0)
    high = jnp.where(apart & ~second, pre, pre + post)
    number = jax.random.randint(key, (batch,), low, jnp.maximum(high, 1), jnp.int32)
    phase = (number >= pre).astype(jnp.int32)
    place = memory.tail[phase] + number - jnp.where(phase == POST, pre, 0)
    return memory.queue[phase, place % memory.capacity]


def sample(memory: Memory[Row], key: Key, batch: int, steps: int = 1, post_share: float = 0.5) -> Sample[Row]:
    """Draw transitions of up to `steps` decisions, in their stored form. The memory must have at least one."""
    rows = draw(memory, key, batch, post_share)

    def follow(
        carry: tuple[Int32[Array, "n"], Bool[Array, "n"], Bool[Array, "n"]], _: None
    ) -> tuple[tuple[Int32[Array, "n"], Bool[Array, "n"], Bool[Array, "n"]], tuple[Array, Array]]:
        row, going, done = carry
        going = going & ~done & memory.queued[row]
        earned = jnp.where(going, memory.reward[row], 0.0)
        done = done | (going & memory.done[row])
        return (jnp.where(going, memory.following[row], row), going, done), (earned, going)

    every = jnp.ones(batch, bool)
    (last, _, done), (rewards, counted) = jax.lax.scan(follow, (rows, every, ~every), None, length=steps)
    return Sample(
        state=jax.tree.map(lambda leaf: leaf[rows], memory.state),
        action=memory.action[rows].astype(jnp.int32),
        reward=rewards.T,
        steps=counted.sum(axis=0).astype(jnp.int32),
        done=done,
        post=memory.post[rows],
        following=jax.tree.map(lambda leaf: leaf[last], memory.state),
        following_post=memory.post[last],
    )
