"""Glimpses of teammates: the only thing that one robot ever learns about another (the buffer behind Eq. 9)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from decmarvel.core.config import Config
from decmarvel.core.types import Key, Robot, Scalar, Sightings


class Glimpses(eqx.Module):
    """Which robot saw which during one decision, and the latest pose seen. Row: observer; column: teammate."""

    seen: Bool[Array, "N N"]
    cell: Int32[Array, "N N 2"]
    heading: Int32[Array, "N N"]

    @staticmethod
    def none(count: int) -> "Glimpses":
        return Glimpses(
            jnp.zeros((count, count), bool),
            jnp.zeros((count, count, 2), jnp.int32),
            jnp.zeros((count, count), jnp.int32),
        )


def visible_teammates(
    cells: Int32[Array, "N 2"], seen: Bool[Array, "N side side"], present: Bool[Array, "N"]
) -> Bool[Array, "N N"]:
    """Whether each robot (row) sees each other (column): range, field of view and line of sight decide."""
    reach = seen.shape[-1] // 2
    offset = cells[None, :] - cells[:, None] + reach
    inside = ((offset >= 0) & (offset < seen.shape[-1])).all(axis=-1)
    place = jnp.clip(offset, 0, seen.shape[-1] - 1)
    observer = jnp.arange(cells.shape[0])[:, None]
    others = ~jnp.eye(cells.shape[0], dtype=bool)
    return seen[observer, place[..., 0], place[..., 1]] & inside & others & present[None, :]


def note_glimpses(
    glimpses: Glimpses,
    cells: Int32[Array, "N 2"],
    headings: Int32[Array, "N"],
    seen: Bool[Array, "N side side"],
    present: Bool[Array, "N"],
) -> Glimpses:
    """Keep the latest glimpse of the decision."""
    now = visible_teammates(cells, seen, present)
    return Glimpses(
        seen=glimpses.seen | now,
        cell=jnp.where(now[..., None], cells[None, :], glimpses.cell),
        heading=jnp.where(now, headings[None, :], glimpses.heading),
    )


def no_sightings(config: Config, count: int) -> Sightings:
    return Sightings(
        seen=jnp.zeros((count, config.history), bool),
        cell=jnp.zeros((count, config.history, 2), jnp.int32),
        heading=jnp.zeros((count, config.history), jnp.int32),
    )


def remember_glimpses(config: Config, key: Key, robots: Robot, glimpses: Glimpses) -> Sightings:
    """Push this decision's glimpses into every robot's memory; the oldest falls out. Unseen entries stay zero."""

    def push(number: Scalar, robot: Robot, seen: Array, cell: Array, heading: Array) -> Sightings:
        if not config.noise.off:
            seen, cell, heading = blur(config, jax.random.fold_in(key, number), number, robot, seen, cell, heading)
        old = robot.sightings
        return Sightings(
            seen=jnp.concatenate([seen[:, None], old.seen[:, :-1]], axis=1),
            cell=jnp.concatenate([jnp.where(seen[:, None], cell, 0)[:, None], old.cell[:, :-1]], axis=1),
            heading=jnp.concatenate([jnp.where(seen, heading, 0)[:, None], old.heading[:, :-1]], axis=1),
        )

    number = jnp.arange(robots.mode.shape[0], dtype=jnp.int32)
    return jax.vmap(push)(number, robots, glimpses.seen, glimpses.cell, glimpses.heading)


def blur(
    config: Config, key: Key, number: Scalar, robot: Robot, seen: Array, cell: Array, heading: Array
) -> tuple[Array, Array, Array]:
    """Noise on one robot's glimpses: overlooked and imagined teammates, errors of position and heading."""
    noise, count = config.noise, seen.shape[0]
    key_miss, key_false, key_where, key_position, key_heading = jax.random.split(key, 5)
    missed = jax.random.bernoulli(key_miss, noise.miss_probability, (count,))
    imagined = jax.random.bernoulli(key_false, noise.false_probability, (count,))
    imagined &= ~seen & (jnp.arange(count) != number) & robot.active
    reach = int(config.sensor_radius_cells)
    somewhere = robot.graph.cell[robot.site[0], robot.site[1]][None] + jax.random.randint(
        key_where, (count, 2), -reach, reach + 1, jnp.int32
    )
    cell = jnp.where(imagined[:, None], somewhere, cell)
    drift = noise.sighting_position_sd_m / config.cell_m * jax.random.normal(key_position, (count, 2))
    turn = noise.sighting_heading_sd_deg * jax.random.normal(key_heading, (count,))
    cell = cell + jnp.round(drift).astype(jnp.int32)
    heading = (heading + jnp.round(turn).astype(jnp.int32)) % 360
    return (seen & ~missed) | imagined, cell, heading
