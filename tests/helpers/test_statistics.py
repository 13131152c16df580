"""The test tools are tested: they accept the truth and catch small errors."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from helpers.statistics import discrete_cdf, dkw_radius, ks_distance


def test_dkw_radius_is_massarts_formula():
    assert dkw_radius(20_000, false_alarm_probability=1e-9) == pytest.approx(
        math.sqrt(math.log(2e9) / 40_000)
    )


def test_ks_distance_of_one_draw_at_the_median_is_one_half():
    assert ks_distance(np.array([0.0]), norm.cdf) == pytest.approx(0.5)


def test_ks_distance_counts_ties_once():
    coin = discrete_cdf(lambda k: (np.abs(k - 0.5) < 1).astype(float), 1)
    assert ks_distance(np.array([0, 0, 1, 1]), coin) == 0.0
    assert ks_distance(np.array([0, 1, 1, 1]), coin) == pytest.approx(0.25)


def test_ks_distance_sees_what_the_radius_forbids():
    draws = np.random.default_rng(1).normal(size=20_000)
    radius = dkw_radius(draws.size, false_alarm_probability=1e-9)
    assert ks_distance(draws, norm.cdf) <= radius
    assert ks_distance(0.8 * draws, norm.cdf) > radius
    assert ks_distance(1.2 * draws, norm.cdf) > radius
    assert ks_distance(draws + 0.1, norm.cdf) > radius


def test_discrete_cdf_steps_at_whole_numbers_only():
    cdf = discrete_cdf(lambda k: np.exp(-np.abs(k)), 50)
    points = np.array([-60.0, -0.5, 0.0, 0.5, 60.0])
    below, middle = cdf(points)[1], cdf(points)[2]
    assert cdf(points)[0] == 0.0
    assert cdf(points)[-1] == pytest.approx(1.0)
    assert middle - below == pytest.approx(math.tanh(0.5))
    assert cdf(points)[3] == middle
