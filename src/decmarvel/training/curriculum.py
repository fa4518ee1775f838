"""How much budget the next training mission gets: less, the more often missions succeed."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from decmarvel.core.types import Key


@dataclass(frozen=True)
class CurriculumSettings:
    """The paper's values."""

    largest_m: float = 1024.0
    """First value of the target (B_start)."""
    smallest_m: float = 640.0
    """Last value of the target if every mission succeeds (B_end)."""
    rate: float = 0.002
    window: int = 8
    """Number of episodes whose success is averaged before the moving average."""
    warm_up: int = 1500
    """Number of episodes before success counts."""
    uniform_share: float = 0.6
    around_m: float = 128.0
    """Budgets that are not uniform lie within this of the target."""
    adaptive: bool = True
    """False (`no-curriculum`): all budgets are uniform."""


class Curriculum(eqx.Module):
    """The state that the budgets depend on."""

    success: Float32[Array, ""]
    """The moving average of strict success."""
    recent: Bool[Array, "window"]
    """Strict success of the last episodes, as a ring."""
    episodes: Int32[Array, ""]

    @staticmethod
    def begin(settings: CurriculumSettings) -> "Curriculum":
        return Curriculum(jnp.array(0, jnp.float32), jnp.zeros(settings.window, bool), jnp.array(0, jnp.int32))


def learn(
    settings: CurriculumSettings, state: Curriculum, success: Bool[Array, "n"], finished: Bool[Array, "n"]
) -> Curriculum:
    """Update the state with the episodes that have finished, one after the other by their place in the batch."""

    def one(state: Curriculum, episode: tuple[Array, Array]) -> tuple[Curriculum, None]:
        success, finished = episode
        recent = state.recent.at[state.episodes % settings.window].set(success)
        episodes = state.episodes + 1
        rate = recent.sum().astype(jnp.float32) / jnp.minimum(episodes, settings.window).astype(jnp.float32)
        average = (1 - settings.rate) * state.success + settings.rate * rate
        average = jnp.where(episodes > settings.warm_up, average, 0.0)
        now = Curriculum(average, recent, episodes)
        return jax.tree.map(lambda new, old: jnp.where(finished, new, old), now, state), None

    return jax.lax.scan(one, state, (success, finished))[0]


def target_m(settings: CurriculumSettings, state: Curriculum) -> Float32[Array, ""]:
    """Eq. 16: the target of the budgets in metres."""
    return settings.smallest_m + (settings.largest_m - settings.smallest_m) * (1 - state.success)


def draw_budget_mm(settings: CurriculumSettings, state: Curriculum, key: Key) -> Int32[Array, ""]:
    """Eq. 17: the budget of one mission, the same for all of its robots."""
    key_kind, key_uniform, key_around = jax.random.split(key, 3)
    low, high = settings.smallest_m, settings.largest_m
    anywhere = jax.random.uniform(key_uniform, minval=low, maxval=high)
    away = jax.random.uniform(key_around, minval=-settings.around_m, maxval=settings.around_m)
    near = jnp.clip(target_m(settings, state) + away, low, high)
    uniform = jax.random.uniform(key_kind) < settings.uniform_share
    metres = jnp.where(uniform, anywhere, near) if settings.adaptive else anywhere
    return jnp.round(1000 * metres).astype(jnp.int32)
