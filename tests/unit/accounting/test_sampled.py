"""The curve of one sampled step against direct integration of the collinear pair."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from corrdp.accounting import gaussian_delta, sampled_delta
from corrdp.accounting._sampled import curve_by_threshold, log_sampled_delta
from corrdp.exceptions import BudgetError, CorrDPError

STEPS = [
    {"rate": 0.01, "contribution": 1.0, "change": 0.1},
    {"rate": 0.01, "contribution": 1.0, "change": 2.0},
    {"rate": 0.3, "contribution": 0.2, "change": 0.3},
    {"rate": 0.9, "contribution": 3.0, "change": 0.05},
]


def collinear_delta(epsilon, *, rate, contribution, change):
    """Return P(S) - e^epsilon Q(S) for g = A, g' = A - Delta and the best half-line."""

    def log_ratio(x):
        log_absent = math.log1p(-rate)
        present = math.log(rate) + contribution * (x - contribution / 2)
        moved = contribution - change
        replaced = math.log(rate) + moved * (x - moved / 2)
        return np.logaddexp(log_absent, present) - np.logaddexp(log_absent, replaced)

    start = brentq(lambda x: log_ratio(x) - epsilon, -60.0, 200.0, xtol=1e-13)
    absent = (1 - rate) * norm.sf(start)
    present = absent + rate * norm.sf(start - contribution)
    replaced = absent + rate * norm.sf(start - contribution + change)
    return present - math.exp(epsilon) * replaced


@pytest.mark.parametrize("step", STEPS)
def test_formula_is_the_divergence_of_the_collinear_pair(step):
    for epsilon in (1e-3, 0.05, 0.4):
        expected = collinear_delta(epsilon, **step)
        assert sampled_delta(epsilon, **step) == pytest.approx(
            expected, rel=1e-9, abs=1e-15
        )


@pytest.mark.parametrize("step", STEPS)
def test_epsilon_zero_is_the_total_variation_distance(step):
    distance = step["rate"] * math.erf(step["change"] / math.sqrt(8))
    assert sampled_delta(0.0, **step) == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_negative_epsilon_by_the_stated_identity(step):
    for epsilon in (1e-3, 0.4, 5.0):
        mirrored = 1 - math.exp(-epsilon) * (1 - sampled_delta(epsilon, **step))
        assert sampled_delta(-epsilon, **step) == pytest.approx(mirrored, rel=1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_the_curve_is_convex_in_exp_epsilon_on_both_sides_of_zero(step):
    ratios = np.linspace(0.5, 2.0, 301)
    deltas = [sampled_delta(math.log(ratio), **step) for ratio in ratios]
    assert np.diff(deltas, 2).min() >= -1e-14


@pytest.mark.parametrize("step", STEPS)
def test_the_curve_along_thresholds_is_the_same_curve(step):
    points = np.linspace(-9.0, 0.5 * step["change"] - 1e-6, 50)
    epsilons, log_deltas, log_speeds = curve_by_threshold(points, **step)
    np.testing.assert_allclose(
        log_deltas, log_sampled_delta(epsilons, **step), rtol=1e-8, atol=1e-8
    )
    shifted, _, _ = curve_by_threshold(points - 1e-6, **step)
    np.testing.assert_allclose(
        (shifted - epsilons) / 1e-6, np.exp(log_speeds), rtol=1e-4, atol=1e-8
    )


def test_certain_sampling_is_the_gaussian_curve():
    for epsilon in (0.0, 0.7, 4.0):
        assert sampled_delta(
            epsilon, rate=1.0, contribution=5.0, change=0.8
        ) == pytest.approx(gaussian_delta(epsilon, mu=0.8), rel=1e-12)


def test_change_beyond_twice_the_contribution_cannot_occur():
    step = {"rate": 0.1, "contribution": 0.5}
    assert sampled_delta(0.2, change=7.0, **step) == sampled_delta(
        0.2, change=1.0, **step
    )


def test_nothing_is_revealed_without_rate_or_change():
    for step in (
        {"rate": 0.0, "contribution": 1.0, "change": 1.0},
        {"rate": 0.5, "contribution": 1.0, "change": 0.0},
        {"rate": 0.5, "contribution": 0.0, "change": 1.0},
    ):
        assert sampled_delta(0.0, **step) == 0.0
        assert sampled_delta(-1.0, **step) == pytest.approx(1 - math.exp(-1))


def test_extremes_stay_numbers():
    step = {"rate": 0.5, "contribution": 1.0, "change": 1.0}
    assert sampled_delta(math.inf, **step) == 0.0
    assert sampled_delta(1e4, **step) == 0.0
    wide = sampled_delta(3.0, rate=0.5, contribution=500.0, change=1000.0)
    assert wide == pytest.approx(0.5)
    assert sampled_delta(1e-3, rate=0.5, contribution=1e-200, change=1e-200) == 0.0


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("rate", 1.5),
        ("rate", -0.1),
        ("rate", math.nan),
        ("contribution", -1.0),
        ("contribution", math.inf),
        ("change", -1.0),
        ("change", None),
    ],
)
def test_arguments_out_of_range(argument, value):
    step = {"rate": 0.1, "contribution": 1.0, "change": 1.0} | {argument: value}
    with pytest.raises(CorrDPError, match=f"{argument} must be"):
        sampled_delta(1.0, **step)


def test_epsilon_out_of_range():
    with pytest.raises(BudgetError, match="epsilon must be"):
        sampled_delta(math.nan, rate=0.1, contribution=1.0, change=1.0)
