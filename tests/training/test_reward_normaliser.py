"""The scale of rewards against the whole history."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from decmarvel.training.reward_normaliser import Spread, scaled, widen


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
