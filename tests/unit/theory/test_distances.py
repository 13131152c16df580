"""Closed-form distances against integrals and the definition."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, wasserstein_distance

from corrdp.exceptions import CorrDPError
from corrdp.theory import (
    bounded_wasserstein,
    critic_total_variation_lower,
    discrete_total_variation,
    gaussian_total_variation,
)

FIRST = np.array([0.5, 0.3, 0.2, 0.0])
SECOND = np.array([0.1, 0.2, 0.3, 0.4])


def test_half_the_absolute_sum_is_the_supremum_over_events():
    events = itertools.product([0.0, 1.0], repeat=4)
    supremum = max(abs(float(np.dot(event, FIRST - SECOND))) for event in events)
    assert discrete_total_variation(FIRST, SECOND) == pytest.approx(supremum, rel=1e-14)


def test_gaussian_total_variation_is_half_the_integral():
    slope, scale, width = -0.4, 1.3, 3.0
    integral, _ = quad(
        lambda x: abs(norm.pdf(x, 0, scale) - norm.pdf(x, slope * width, scale)),
        -12,
        12,
        points=[slope * width / 2],
        epsabs=1e-12,
    )
    distance = gaussian_total_variation(
        slope=slope, conditional_scale=scale, width=width
    )
    assert distance == pytest.approx(integral / 2, abs=1e-10)


def test_gaussian_total_variation_on_an_unbounded_range_is_one():
    setting = {"conditional_scale": 1.0, "width": math.inf}
    assert gaussian_total_variation(slope=0.01, **setting) == 1.0
    assert gaussian_total_variation(slope=0.0, **setting) == 0.0


def test_critic_gap_is_halved_and_stays_below():
    best = float(np.sum(np.sign(FIRST - SECOND) * (FIRST - SECOND)))
    distance = discrete_total_variation(FIRST, SECOND)
    assert critic_total_variation_lower(best) == pytest.approx(distance, rel=1e-14)
    rng = np.random.default_rng(0)
    for critic in rng.uniform(-1, 1, size=(200, 4)):
        gap = float(critic @ (FIRST - SECOND))
        assert critic_total_variation_lower(gap) <= distance
    assert best > distance  # what Appendix D.2 prints would exceed it


def test_bounded_wasserstein_never_exceeds_total_variation():
    points = np.array([0.0, 3.0, 50.0, 80.0])
    raw = wasserstein_distance(points, points, FIRST, SECOND)
    assert raw > 1.0  # not a distance in the sense of Definition 2.3
    bounded = bounded_wasserstein(raw, diameter=80.0)
    assert bounded <= discrete_total_variation(FIRST, SECOND)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: discrete_total_variation([0.5, 0.6], [1, 0]), "first must sum to 1"),
        (lambda: discrete_total_variation([1.0], []), "second must sum to 1"),
        (lambda: discrete_total_variation([1.0], [0.5, 0.5]), "got 1 and 2"),
        (lambda: critic_total_variation_lower(2.5), "expectation_gap=2.5"),
        (lambda: bounded_wasserstein(2.0, diameter=1.0), "declared domain is wrong"),
        (lambda: bounded_wasserstein(0.0, diameter=0.0), "diameter=0.0"),
        (
            lambda: gaussian_total_variation(slope=1, conditional_scale=0, width=1),
            "conditional_scale=0",
        ),
    ],
)
def test_arguments_are_checked(call, match):
    with pytest.raises(CorrDPError, match=match):
        call()
