"""The curriculum of budgets against a plain loop."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from decmarvel.training.curriculum import Curriculum, CurriculumSettings, draw_budget_mm, learn, target_m


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
