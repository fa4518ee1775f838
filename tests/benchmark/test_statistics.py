"""Intervals and paired tests against independent references."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from decmarvel.benchmark.report.statistics import (
    bootstrap_band,
    estimate_mean,
    estimate_share,
    holm,
    mcnemar,
    wilcoxon,
    wilson,
)


def test_wilson_known_values():
    """Newcombe 1998, Table I: 81/263, 15/148, 0/20, 1/29."""
    cases = {(81, 263): (0.2553, 0.3662), (15, 148): (0.0624, 0.1605), (0, 20): (0, 0.1611), (1, 29): (0.0061, 0.1718)}
    for (successes, trials), expected in cases.items():
        assert wilson(successes, trials) == pytest.approx(expected, abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(7, 7).high == 1.0


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (3, 10), (50, 100), (99, 100), (12, 12)])
def test_wilson_inverts_the_score_test(successes, trials):
    """The interval is the set of shares that the score test does not reject."""
    share = np.linspace(0, 1, 200_001)[1:-1]
    z = np.abs(successes / trials - share) / np.sqrt(share * (1 - share) / trials)
    kept = share[z <= stats.norm.ppf(0.975)]
    assert wilson(successes, trials) == pytest.approx((kept[0], kept[-1]), abs=2e-5)


def test_bootstrap_covers_the_mean():
    """About 95% of the intervals of skewed samples contain the true mean; fewer would be wrong, all of them as well."""
    rng = np.random.default_rng(1)
    samples = rng.gamma(4.0, 25.0, (100, 400))
    low, high = bootstrap_band(samples, resamples=2000)
    assert 0.91 <= np.mean((low <= 100) & (high >= 100)) <= 0.975
    normal = 1.96 * samples.std(axis=0, ddof=1) / 10
    np.testing.assert_allclose((high - low) / 2, normal, rtol=0.12)


def test_bootstrap_in_parts_and_exact_for_two_values():
    """Of two values, the resampled mean is the lower, the middle or the upper one with chances 1/4, 1/2, 1/4."""
    np.testing.assert_array_equal(bootstrap_band(np.array([[0.0], [1.0]])), [[0.0], [1.0]])
    np.testing.assert_array_equal(bootstrap_band(np.array([[0.0], [1.0]]), confidence=0.4), [[0.5], [0.5]])
    np.testing.assert_array_equal(bootstrap_band(np.full((7, 1), 0.1)), [[0.1], [0.1]])
    big = np.random.default_rng(0).normal(size=(6000, 1))  # more than fits in one part
    low, high = bootstrap_band(big, resamples=1500)
    assert low < big.mean() < high
    np.testing.assert_array_equal(bootstrap_band(big, resamples=1500), [low, high])


def test_estimates_leave_gaps_out():
    found = estimate_mean(np.array([1.0, np.nan, 3.0]))
    assert (found.mean, found.std, found.count) == (2.0, pytest.approx(math.sqrt(2)), 2)
    nothing = estimate_mean(np.array([np.nan]))
    assert not nothing.known
    assert np.isnan([nothing.mean, nothing.low, nothing.std]).all()
    assert np.isnan(estimate_mean(np.array([5.0])).std)
    assert estimate_share(1, 4).mean == 0.25
    assert estimate_share(1, 4).std == pytest.approx(np.std([1, 0, 0, 0], ddof=1))


def test_wilson_is_the_formula():
    for trials in (1, 2, 7, 100, 4500):
        for successes in {0, 1, trials // 3, trials - 1, trials}:
            z, share = stats.norm.ppf(0.975), successes / trials
            centre = (share + z * z / trials / 2) / (1 + z * z / trials)
            reach = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / trials**2 / 4)
            low, high = wilson(successes, trials)
            assert low == pytest.approx(centre - reach, abs=1e-12)
            assert high == pytest.approx(centre + reach, abs=1e-12)


def test_mcnemar_is_the_sum_of_binomial_terms():
    for first, second in itertools.product((0, 1, 3, 8, 21, 60), repeat=2):
        pairs = first + second
        tail = sum(math.comb(pairs, k) for k in range(min(first, second) + 1)) / 2**pairs
        assert mcnemar(first, second) == pytest.approx(min(1.0, 2 * tail), abs=1e-12)


def test_mcnemar_by_hand():
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(3, 3) == 1.0
    assert mcnemar(5, 0) == pytest.approx(2 / 32)
    assert mcnemar(1, 7) == pytest.approx(2 * (1 + 8) / 256)
    assert mcnemar(7, 1) == mcnemar(1, 7)
    assert mcnemar(20, 9) == pytest.approx(stats.binomtest(9, 29).pvalue)


def test_wilcoxon_by_hand():
    assert wilcoxon(np.zeros(4)) == 1.0
    assert wilcoxon(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) == pytest.approx(2 / 32)
    assert wilcoxon(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 0.0])) == pytest.approx(2 / 32)
    rng = np.random.default_rng(4)
    few = rng.normal(0.3, 1, 9)
    ranks = stats.rankdata(np.abs(few))
    sums = [np.dot(signs, ranks) for signs in itertools.product((0, 1), repeat=9)]
    smaller = min(ranks[few > 0].sum(), ranks[few < 0].sum())
    assert wilcoxon(few) == pytest.approx(2 * np.mean(np.array(sums) <= smaller))
    many = rng.normal(0.2, 1, 200).round(1)  # ties and zeros
    expected = stats.wilcoxon(many, zero_method="wilcox", method="asymptotic").pvalue
    assert wilcoxon(many) == pytest.approx(expected)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


# The paper's figures
