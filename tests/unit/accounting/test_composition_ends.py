"""Compositions at the ends: deltas near 1, tiny rates, losses larger than any grid."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from corrdp.accounting import (
    WHOLE_RECORD,
    ApproximateEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
    SensitivityTable,
    attack_risk,
    compose_delta,
    compose_epsilon,
    epsilon_within,
    gaussian_epsilon,
    gaussian_steps,
    plan_noise,
    renyi_divergence,
    sampled_delta,
    true_positive_rate,
)
from corrdp.exceptions import BudgetError, CorrDPError

EXTREME = [
    SampledGaussianEvent(1e-9, 0.5, 1.0, 1_796_808),
    SampledGaussianEvent(2e-5, 5e5, 1e6, 24_507),
    SampledGaussianEvent(0.5, 0.03, 0.06, 10**5),
    SampledGaussianEvent(1.0 - 1e-12, 0.024, 1.8e-5, 10**7),
    LaplaceEvent(0.13, 3),
    ApproximateEvent(2.0, 0.5, 1000),
]


def randomized_response_delta(epsilon, parts):
    """Compose pairs (epsilon, delta, count) exactly, outcome by outcome."""
    with mpmath.workdps(50):
        masses, kept = {mpmath.mpf(0): mpmath.mpf(1)}, mpmath.mpf(1)
        for own, delta, count in parts:
            right = 1 / (1 + mpmath.exp(-mpmath.mpf(own)))
            for _ in range(count):
                kept *= 1 - mpmath.mpf(delta)
                after = {}
                for loss, mass in masses.items():
                    for moved, share in ((own, right), (-own, 1 - right)):
                        place = loss + mpmath.mpf(moved)
                        after[place] = after.get(place, 0) + mass * share
                masses = after
        finite = sum(
            mass * (1 - mpmath.exp(epsilon - loss))
            for loss, mass in masses.items()
            if loss > epsilon
        )
        return 1 - kept + kept * finite


@pytest.mark.parametrize("delta", [1e-5, 0.5, 0.99, 0.999])
@pytest.mark.parametrize("event", EXTREME)
def test_every_delta_has_an_answer(event, delta):
    assert compose_epsilon([event], delta=delta) >= 0.0


@pytest.mark.parametrize("delta", [0.3, 0.9, 0.999])
def test_large_deltas_are_answered_sharply_and_never_below_the_truth(delta):
    # Sampled at a rate of almost 1: the truth is below by less than the grid's error.
    event = SampledGaussianEvent(1.0 - 1e-13, 0.03, 0.06, 10**4)
    exact = gaussian_epsilon(mu=6.0, delta=delta)
    assert exact * (1 - 1e-9) <= compose_epsilon([event], delta=delta)
    assert compose_epsilon([event], delta=delta) <= 1.001 * exact + 1e-3


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("parts", [[(0.105, 0.0, 2)], [(2.0, 1e-6, 2), (0.4, 0.5, 3)]])
def test_delta_near_epsilon_0_is_at_least_that_of_all_outcomes(parts, epsilon):
    found = compose_delta([ApproximateEvent(*part) for part in parts], epsilon=epsilon)
    exact = randomized_response_delta(epsilon, parts)
    assert exact <= found <= float(exact) * 1.01


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        ([(256.56, 0.0028, 1)], 22.3),  # was 1 - 1e-10 for 1 - 1e-102
        ([(0.0277, 0.0, 3), (217.9, 1.5e-11, 5)], 1100.0),  # was 1
        ([(0.0277, 0.0, 3), (217.9, 1.5e-11, 5)], 1088.0),
    ],
)
def test_delta_far_below_large_losses_is_sharp_and_never_below(parts, epsilon):
    found = compose_delta([ApproximateEvent(*part) for part in parts], epsilon=epsilon)
    exact = randomized_response_delta(epsilon, parts)
    assert float(exact) <= found <= min(float(exact) * 1.1, 1.0)


def test_large_losses_beside_sampled_steps_are_never_below():
    """Randomized response, then a sampled step: the exact sum of its two outcomes."""
    sampled = SampledGaussianEvent(7.7e-5, 0.125, 0.195, 1)
    for delta in (3e-70, 1e-20):
        found = compose_epsilon([ApproximateEvent(13.64, 0.0), sampled], delta=delta)
        right = 1 / (1 + math.exp(-13.64))
        moved = {13.64: right, -13.64: 1 - right}
        exact = sum(
            share
            * sampled_delta(found - loss, rate=7.7e-5, contribution=0.125, change=0.195)
            for loss, share in moved.items()
        )
        assert exact <= delta


def test_pure_epsilons_are_added_and_rounded_up():
    parts = [(0.69018346, 3), (361.51173640307971, 3)]
    exact = sum(count * Fraction(epsilon) for epsilon, count in parts)
    events = [ApproximateEvent(epsilon, 0.0, count) for epsilon, count in parts]
    for delta in (0.0, 6e-46):
        found = epsilon_within(events, delta=delta, allowed_epsilon=math.inf)
        assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**15))


def test_distances_add_up_where_the_answer_is_zero():
    parts = [(0.1, 0.0, 4), (0.02, 1e-3, 2)]
    events = [ApproximateEvent(*part) for part in parts]
    enough = 4 * math.tanh(0.05) + 2 * (1e-3 + 0.999 * math.tanh(0.01))
    assert compose_epsilon(events, delta=enough * 1.0001) == 0.0
    few = float(randomized_response_delta(0, parts)) * 0.9
    assert compose_epsilon(events, delta=few) > 0.0


def test_losses_beyond_every_grid_are_priced_without_one():
    events = [GaussianEvent(27.0, 10**6), SampledGaussianEvent(0.5, 1e5, 2e5, 10**7)]
    found = compose_epsilon([*events, ApproximateEvent(2.0, 1e-7)], delta=1e-5)
    mu = math.hypot(27e3, 2e5 * math.sqrt(1e7))
    exact = gaussian_epsilon(mu=mu, delta=1e-5 - 1e-7) + 2.0
    assert exact <= found <= exact * (1 + 1e-8)
    assert compose_delta(events, epsilon=1.0) == 1.0
    assert compose_delta([GaussianEvent(4e3), LaplaceEvent(1.0)], epsilon=0.0) == 1.0
    assert attack_risk(events).advantage == 1.0
    assert compose_delta([*events, LaplaceEvent(3.0)], epsilon=1e18) < 1e-300


@pytest.mark.parametrize(
    "events",
    [
        [SampledGaussianEvent(0.5, 0.03, 0.06, 10**7)],
        [GaussianEvent(94.0), ApproximateEvent(8e-4, 1e-300)],
        [LaplaceEvent(310.0, 3), SelectedGaussianEvent(0.03, 2.0)],
    ],
)
def test_risk_of_a_release_without_protection_can_be_shown(events):
    assert attack_risk(events).advantage == pytest.approx(1.0)


def test_rates_below_every_exponential_are_not_understated():
    # Randomized response of so large an epsilon is always right.
    rates = [1e-306, 1e-310, 0.0]
    found = [
        true_positive_rate([ApproximateEvent(800.0, 0.0)], false_positive_rate=rate)
        for rate in rates
    ]
    assert found[:2] == [1.0, 1.0]


@pytest.mark.parametrize("delta", [1e-284, 1e-285, 1e-295, 1e-300])
def test_plans_at_deltas_smaller_than_every_tail_fit(delta):
    names, bounds = ("sensitive", WHOLE_RECORD), np.array([[1.0], [1.0]])
    table = SensitivityTable((Group("x", 1),), names, bounds, np.array([1.0]))
    allowed = {"sensitive": 0.01, WHOLE_RECORD: math.inf}
    plan = plan_noise(table, allowed_epsilon=allowed, delta=delta, n_steps=9, rate=0.01)
    assert plan.fits
    assert plan.epsilon("sensitive") > 1e-3


@pytest.mark.parametrize(
    ("rate", "contribution", "change", "order"),
    [(0.5, 634.0, 634.0, 1024.0), (1e-9, 2e4, 1.0, 2.0), (1e-3, 3e4, 1e-2, 8.0)],
)
def test_divergences_of_long_contributions_are_bounded_work(
    rate, contribution, change, order
):
    """Who took part is plain there, so that coin and step are the whole release."""
    event = SampledGaussianEvent(rate, contribution, change, 2)
    with mpmath.workdps(60):
        moment = mpmath.exp(
            mpmath.mpf(order) * (order - 1) * mpmath.mpf(change) ** 2 / 2
        )
        exact = 2 * mpmath.log(1 - mpmath.mpf(rate) + rate * moment) / (order - 1)
    found = renyi_divergence(event, order)
    assert exact <= found <= exact * (1 + 3e-9)


def test_more_runs_than_numbers_are_refused():
    with pytest.raises(CorrDPError, match="mean_runs"):
        SelectedGaussianEvent(0.3, 1e30)


def test_what_is_larger_than_any_number_is_infinite_or_refused():
    assert math.isinf(renyi_divergence(GaussianEvent(1e200), 2.0))
    for step_mu in (1e-200, 5e-324):
        with pytest.raises(BudgetError, match="counted"):
            gaussian_steps(epsilon=1.0, delta=1e-5, step_mu=step_mu)


@pytest.mark.parametrize(
    "event",
    [
        LaplaceEvent(1e308, 10),
        LaplaceEvent(1e160),
        ApproximateEvent(1e200, 1e-9, 3),
        GaussianEvent(1e100),
        SampledGaussianEvent(0.5, 1e100, 1e100, 7),
    ],
)
def test_losses_without_squares_are_priced(event):
    events = [event, LaplaceEvent(0.1)]
    assert compose_epsilon(events, delta=1e-6) >= 1e100
    assert compose_delta(events, epsilon=1.0) == 1.0


def test_sums_beyond_floats_are_infinite():
    event = LaplaceEvent(1e308, 10)
    assert epsilon_within([event], delta=0.0, allowed_epsilon=1.0) == math.inf
    with pytest.raises(CorrDPError, match=r"1e\+150.*add noise"):
        SampledGaussianEvent(0.5, 1e160, 1e160, 1)


@pytest.mark.parametrize(
    ("events", "delta"),
    [
        ([LaplaceEvent(1e-300, 2)], 1e-320),  # squares of losses are 0
        ([LaplaceEvent(1e-20, 2**62), LaplaceEvent(1e-3)], 1e-310),  # of 1e21 cells
    ],
)
def test_losses_for_which_there_is_no_grid_add_up(events, delta):
    epsilon = compose_epsilon(events, delta=delta)
    pure = math.fsum(event.count * event.epsilon for event in events)
    assert 0.0 < epsilon <= pure * (1 + 1e-12)


def test_more_releases_than_can_be_counted_are_refused_with_the_most():
    events = [LaplaceEvent(1e-9, 2**62), LaplaceEvent(1e-9, 2**62)]
    with pytest.raises(CorrDPError, match="at most 9223372036854775807"):
        compose_epsilon(events, delta=1e-6)
