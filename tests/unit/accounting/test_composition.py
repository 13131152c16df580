"""Composition across events against closed forms, and why it is not a filter."""

import math

import numpy as np
import pytest
from scipy.integrate import quad, trapezoid

from corrdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
    compose_delta,
    compose_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    sampled_delta,
)


def laplace_delta(epsilon, scale_ratio):
    """Hockey-stick divergence of Laplace noise, any real epsilon, by integration."""

    def density(loss):  # of the privacy loss inside its bounds
        return math.exp((loss - scale_ratio) / 2) / 4

    inside, _ = quad(
        lambda loss: density(loss) * max(-math.expm1(epsilon - loss), 0.0),
        -scale_ratio,
        scale_ratio,
        points=[min(max(epsilon, -scale_ratio), scale_ratio)],
    )
    top = 0.5 * max(-math.expm1(epsilon - scale_ratio), 0.0)
    bottom = 0.5 * math.exp(-scale_ratio) * max(-math.expm1(epsilon + scale_ratio), 0.0)
    return inside + top + bottom


def test_gaussian_events_compose_exactly():
    events = [
        GaussianEvent(0.3, 4),
        GaussianEvent(0.8),
        SampledGaussianEvent(1, 1, 1, 3),
    ]
    mu = math.sqrt(4 * 0.09 + 0.64 + 3)
    assert compose_epsilon(events, delta=1e-7) == gaussian_epsilon(
        mu=pytest.approx(mu, rel=1e-15).expected, delta=1e-7
    )
    assert compose_delta(events, epsilon=2.0) == pytest.approx(
        gaussian_delta(2.0, mu=mu), rel=1e-13
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7])
def test_one_laplace_release(epsilon):
    found = compose_delta([LaplaceEvent(0.8)], epsilon=epsilon)
    exact = laplace_delta(epsilon, 0.8)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 0.6, 1.1])
def test_two_laplace_releases(epsilon):
    scale_ratio = 0.7

    def given_first(loss):
        return laplace_delta(epsilon - loss, scale_ratio)

    inside, _ = quad(
        lambda loss: math.exp((loss - scale_ratio) / 2) / 4 * given_first(loss),
        -scale_ratio,
        scale_ratio,
        epsabs=1e-11,
    )
    exact = (
        inside
        + 0.5 * given_first(scale_ratio)
        + 0.5 * math.exp(-scale_ratio) * given_first(-scale_ratio)
    )
    found = compose_delta([LaplaceEvent(scale_ratio, 2)], epsilon=epsilon)
    assert exact * (1 - 1e-8) <= found <= exact * (1 + 1e-5)


def test_vector_laplace_costs_no_more_than_its_total():
    for epsilon in (0.0, 0.3, 0.9):
        parts = compose_delta([LaplaceEvent(0.3), LaplaceEvent(0.7)], epsilon=epsilon)
        whole = compose_delta([LaplaceEvent(1.0)], epsilon=epsilon)
        assert parts <= whole * (1 + 1e-5)


def test_laplace_and_gaussian_together():
    exact, _ = quad(
        lambda loss: math.exp((loss - 0.5) / 2) / 4 * gaussian_delta(1 - loss, mu=0.4),
        -0.5,
        0.5,
    )
    exact += 0.5 * gaussian_delta(0.5, mu=0.4)
    exact += 0.5 * math.exp(-0.5) * gaussian_delta(1.5, mu=0.4)
    found = compose_delta([LaplaceEvent(0.5), GaussianEvent(0.4)], epsilon=1.0)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-5)


def test_one_sampled_step_is_its_curve():
    event = SampledGaussianEvent(0.2, 1.0, 0.6, 1)
    for epsilon in (0.05, 0.2, 0.5):
        exact = sampled_delta(epsilon, rate=0.2, contribution=1.0, change=0.6)
        found = compose_delta([event], epsilon=epsilon)
        assert exact <= found <= exact * (1 + 1e-4)


def test_fixed_size_sampling_is_poisson_with_twice_the_contribution():
    fixed = SampledGaussianEvent(0.1, 0.5, 0.3, 20, sampling="fixed_size")
    doubled = SampledGaussianEvent(0.1, 1.0, 0.3, 20)
    assert compose_epsilon([fixed], delta=1e-6) == compose_epsilon(
        [doubled], delta=1e-6
    )


def test_fixed_size_keeps_the_largest_possible_change():
    fixed = SampledGaussianEvent(0.1, 0.5, 9.0, 20, sampling="fixed_size")
    doubled = SampledGaussianEvent(0.1, 1.0, 1.0, 20)
    assert compose_epsilon([fixed], delta=1e-6) == compose_epsilon(
        [doubled], delta=1e-6
    )


def test_a_fixed_batch_of_one_in_two_attains_the_bound():
    """Two records, one drawn: the other one sits opposite. Poisson would miss it."""
    contribution, change, epsilon = 0.8, 0.5, 0.2
    grid = np.linspace(-14.0, 14.0, 400_001)

    def density(mean):
        return np.exp(-((grid - mean) ** 2) / 2) / math.sqrt(2 * math.pi)

    present = 0.5 * (density(-contribution) + density(contribution))
    replaced = 0.5 * (density(-contribution) + density(contribution - change))
    gap = np.maximum(present - math.exp(epsilon) * replaced, 0.0)
    exact = float(trapezoid(gap, grid))
    step = {"rate": 0.5, "change": change}
    assert sampled_delta(
        epsilon, contribution=2 * contribution, **step
    ) == pytest.approx(exact, rel=1e-7)
    assert sampled_delta(epsilon, contribution=contribution, **step) < 0.9 * exact


def test_generic_events_compose_no_worse_than_by_adding_up():
    assert compose_epsilon([ApproximateEvent(1.0, 1e-6)], delta=1e-6) == 1.0
    assert compose_epsilon([ApproximateEvent(0.5, 0.0, 3)], delta=1e-30) <= 1.5
    many = compose_epsilon([ApproximateEvent(0.1, 1e-9, 200)], delta=1e-6)
    assert many < 0.5 * 200 * 0.1
    assert compose_delta([ApproximateEvent(0.5, 1e-7, 2)], epsilon=1.0) <= 2e-7


def test_generic_events_cannot_hide_their_delta():
    events = [ApproximateEvent(0.1, 1e-6, 3)]
    assert compose_epsilon(events, delta=2e-6) == math.inf
    assert compose_epsilon([*events, GaussianEvent(0.1)], delta=2e-6) == math.inf
    assert compose_delta(events, epsilon=50.0) >= 2.9e-6


def test_events_that_reveal_nothing_cost_nothing():
    nothing = [
        LaplaceEvent(0.0),
        ApproximateEvent(0.0, 0.0),
        SampledGaussianEvent(0.0, 1.0, 1.0, 10),
        SampledGaussianEvent(0.3, 1.0, 0.0, 10),
        GaussianEvent(0.0),
    ]
    assert compose_epsilon(nothing, delta=1e-9) == 0.0
    assert compose_epsilon([], delta=1e-9) == 0.0
    assert compose_delta(nothing, epsilon=0.0) == 0.0


def test_equal_events_listed_apart_cost_as_much_as_counted():
    event = SampledGaussianEvent(0.05, 1.0, 0.5, 40)
    apart = [LaplaceEvent(0.3), event, LaplaceEvent(0.3), event]
    counted = [LaplaceEvent(0.3, count=2), SampledGaussianEvent(0.05, 1.0, 0.5, 80)]
    assert compose_epsilon(apart, delta=1e-6) == pytest.approx(
        compose_epsilon(counted, delta=1e-6), rel=1e-12
    )


@pytest.mark.parametrize("epsilon", [1.0, 1.5, 40.0])
def test_beyond_the_largest_loss_delta_is_zero(epsilon):
    events = [LaplaceEvent(0.5, count=2)]
    assert compose_delta(events, epsilon=epsilon) == 0.0


@pytest.mark.parametrize("epsilon", [4.0, 9.0, 14.0])
def test_small_deltas_stay_accurate(epsilon):
    events = [GaussianEvent(0.5), LaplaceEvent(1e-9)]
    exact = gaussian_delta(epsilon, mu=0.5)
    found = compose_delta(events, epsilon=epsilon)
    assert exact <= found <= exact * (1 + 1e-3)


def test_very_wide_losses_get_a_coarser_grid_and_stay_pessimistic():
    events = [GaussianEvent(30.0), LaplaceEvent(1e-9)]
    exact = gaussian_epsilon(mu=30.0, delta=1e-6)
    assert exact <= compose_epsilon(events, delta=1e-6) <= exact * (1 + 1e-3)


def test_a_coarse_grid_is_only_ever_pessimistic():
    event = [SampledGaussianEvent(0.05, 1.0, 1.0, 200)]
    fine = compose_epsilon(event, delta=1e-6)
    coarse = compose_epsilon(event, delta=1e-6, grid=0.05)
    assert fine <= coarse <= 1.01 * fine


def test_choosing_the_next_event_by_the_last_answer_breaks_this_composition():
    """The counterexample of the theory note: each branch fits, the choice does not."""
    first = ApproximateEvent(1.0, 0.0)
    spread = ApproximateEvent(1.0, 0.0)
    delta = compose_delta([first, spread], epsilon=1.5)
    failing = ApproximateEvent(0.0, delta)
    assert compose_delta([first, failing], epsilon=1.5) <= delta * (1 + 1e-9)
    likely = 1 / (1 + math.exp(-1.0))
    chosen = likely * compose_delta([spread], epsilon=0.5) + (1 - likely) * delta
    assert chosen > 1.2 * delta
