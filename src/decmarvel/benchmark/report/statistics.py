"""Intervals and paired tests, in NumPy and SciPy. Everything is a pure function of its arguments; seeds are fixed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 10_000
_SEED = 2026
_COUNTS_AT_ONCE = 4_000_000
"""Entries of the resampling matrix that are in memory at a time."""


class Interval(NamedTuple):
    """Of a confidence of 95%, unless said otherwise."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval, the standard deviation of the values, and how many there were."""

    mean: float
    low: float
    high: float
    std: float
    count: int

    @property
    def known(self) -> bool:
        return self.count > 0


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of a share. Without trials nothing is known: 0 to 1."""
    if trials == 0:
        return Interval(0.0, 1.0)
    low, high = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return Interval(float(low), float(high))


def bootstrap_band(
    values: Float[np.ndarray, "trials quantities"], confidence: float = CONFIDENCE, resamples: int = RESAMPLES
) -> Float[np.ndarray, "2 quantities"]:
    """Percentile intervals of the means of several quantities, from the same resampled trials."""
    trials, quantities = values.shape
    if trials == 0:
        return np.full((2, quantities), np.nan)
    rng = np.random.default_rng([_SEED, trials])
    means = np.empty((resamples, quantities))
    at_once = max(1, _COUNTS_AT_ONCE // trials)
    centre = values.mean(axis=0)  # taken off before the product, so that equal values give intervals of no width
    for begin in range(0, resamples, at_once):
        rows = min(at_once, resamples - begin)
        drawn = rng.integers(trials, size=(rows, trials)) + trials * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * trials).reshape(rows, trials)
        means[begin : begin + rows] = counts @ (values - centre) / trials
    tail = (1 - confidence) / 2
    return centre + np.quantile(means, [tail, 1 - tail], axis=0)


def estimate_means(values: Float[np.ndarray, "trials quantities"]) -> list[Estimate]:
    """Mean, bootstrap interval and deviation of each column. Columns have no gaps."""
    low, high = bootstrap_band(values)
    trials = len(values)
    mean = values.mean(axis=0) if trials else low
    std = values.std(axis=0, ddof=1) if trials > 1 else np.full(values.shape[1], np.nan)
    return [
        Estimate(float(mean[i]), float(low[i]), float(high[i]), float(std[i]), trials) for i in range(values.shape[1])
    ]


def estimate_mean(values: Float[np.ndarray, " trials"]) -> Estimate:
    """Of the values that are there; gaps are NaN and left out."""
    return estimate_means(values[np.isfinite(values)][:, None].astype(np.float64))[0]


def estimate_share(successes: int, trials: int) -> Estimate:
    """A share with Wilson's interval."""
    share = successes / trials if trials else np.nan
    std = float(np.sqrt(share * (1 - share) * trials / (trials - 1))) if trials > 1 else np.nan
    return Estimate(share, *wilson(successes, trials), std, trials)


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p of McNemar's test: would a fair coin divide the discordant pairs so unevenly?"""
    discordant = only_first + only_second
    if discordant == 0:
        return 1.0
    return float(stats.binomtest(only_first, discordant).pvalue)


def wilcoxon(differences: Float[np.ndarray, " pairs"]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test; pairs without a difference say nothing and are left out.

    Exact for up to 50 differences of distinct sizes, otherwise by the normal approximation, corrected for ties.
    """
    there = differences[differences != 0].astype(np.float64)
    if len(there) == 0:
        return 1.0
    distinct = len(np.unique(np.abs(there))) == len(there)
    method = "exact" if distinct and len(there) <= 50 else "asymptotic"
    return min(1.0, float(stats.wilcoxon(there, method=method).pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of a family of p, in the order given."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    adjusted = np.empty_like(p)
    adjusted[order] = stepped
    return [float(value) for value in adjusted]
