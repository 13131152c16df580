"""Renyi divergences against direct integration, and the conversion to epsilon."""

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import logsumexp

from corrdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
    gaussian_epsilon,
    renyi_divergence,
    renyi_epsilon,
)
from corrdp.accounting._sampled import log_sampled_delta
from corrdp.exceptions import BudgetError, CorrDPError

GRID = np.linspace(-25.0, 35.0, 240_001)


def log_normal(mean):
    return -((GRID - mean) ** 2) / 2 - 0.5 * math.log(2 * math.pi)


def integrated(log_p, log_q, order):
    """Return the divergence from its excess over 1, which does not cancel."""
    ratio = log_p - log_q
    excess = np.expm1(order * ratio) - order * np.expm1(ratio)
    moment = trapezoid(np.exp(log_q) * excess, GRID)
    return math.log1p(float(moment)) / (order - 1)


@pytest.mark.parametrize("order", [1.01, 2.0, 7.5])
@pytest.mark.parametrize("change", [0.05, 1.0, 2.0])
def test_sampled_divergence_bounds_the_collinear_pair_both_ways(order, change):
    rate, contribution = 0.1, 1.0
    absent = math.log1p(-rate) + log_normal(0.0)
    p = np.logaddexp(absent, math.log(rate) + log_normal(contribution))
    q = np.logaddexp(absent, math.log(rate) + log_normal(contribution - change))
    bound = renyi_divergence(SampledGaussianEvent(rate, contribution, change, 1), order)
    forward, backward = integrated(p, q, order), integrated(q, p, order)
    assert bound >= max(forward, backward)
    if change == 2.0:  # the pair is its own mirror image, so nothing is lost
        assert bound == pytest.approx(forward, rel=1e-7)
    else:
        assert bound > max(forward, backward) * (1 + 1e-6)


@pytest.mark.parametrize("order", [1.5, 4.0, 16.0])
def test_sampled_divergence_is_the_integral_of_the_profile(order):
    step = {"rate": 0.05, "contribution": 0.7, "change": 0.4}
    epsilons = np.linspace(0.0, 6.0, 6001)
    deltas = np.exp(log_sampled_delta(epsilons, **step))
    growth = np.exp((order - 1) * epsilons) + np.exp(-order * epsilons)
    moment = 1 + order * (order - 1) * trapezoid(growth * deltas, epsilons)
    expected = math.log(moment) / (order - 1)
    event = SampledGaussianEvent(n_steps=1, **step)
    assert renyi_divergence(event, order) == pytest.approx(expected, rel=1e-3)


def test_sampled_divergence_tends_to_the_unsampled_one():
    event = SampledGaussianEvent(1 - 1e-9, 1.0, 0.6, 1)
    assert renyi_divergence(event, 5.0) == pytest.approx(0.5 * 5.0 * 0.36, rel=1e-6)
    certain = SampledGaussianEvent(1.0, 1.0, 0.6, 3)
    assert renyi_divergence(certain, 5.0) == pytest.approx(3 * 0.5 * 5.0 * 0.36)


@pytest.mark.parametrize("order", [64.0, 1000.0])
@pytest.mark.parametrize(
    "step",
    [(1e-3, 3.0, 0.01), (0.2, 4.0, 8.0), (0.5, 0.01, 0.02), (1 - 1e-9, 0.1, 0.2)],
)
def test_high_orders_stay_between_the_collinear_pair_and_no_sampling(order, step):
    rate, contribution, change = step
    reach = order * contribution + 20.0
    grid = np.arange(-reach, reach, 0.01)

    def log_mixture(mean):
        shifted = math.log(rate) + mean * (grid - mean / 2)
        return np.logaddexp(math.log1p(-rate), shifted)

    log_p, log_q = log_mixture(contribution), log_mixture(contribution - change)
    log_base = -(grid**2) / 2 - 0.5 * math.log(2 * math.pi) + math.log(0.01)
    log_moment = logsumexp(log_base + order * log_p + (1 - order) * log_q)
    found = renyi_divergence(SampledGaussianEvent(*step, 1), order)
    assert found >= log_moment / (order - 1)
    assert found <= 0.5 * order * change**2 * (1 + 1e-8)


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 64.0])
def test_gaussian_divergence_is_half_the_order_times_mu_squared(order):
    event = GaussianEvent(mu=0.5, count=4)
    assert renyi_divergence(event, order) == pytest.approx(order / 2, rel=1e-12)


def test_nothing_sampled_costs_nothing():
    assert renyi_divergence(SampledGaussianEvent(0.0, 1.0, 1.0, 5), 3.0) == 0.0
    assert renyi_divergence(SampledGaussianEvent(0.5, 0.0, 1.0, 5), 3.0) == 0.0


@pytest.mark.parametrize("order", [1.2, 3.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_laplace_divergence(order, epsilon):
    grid = np.linspace(-60.0, 60.0, 1_200_001)
    log_p = -np.abs(grid) - math.log(2)
    log_q = -np.abs(grid - epsilon) - math.log(2)
    moment = trapezoid(np.exp(order * log_p + (1 - order) * log_q), grid)
    expected = math.log(float(moment)) / (order - 1)
    found = renyi_divergence(LaplaceEvent(epsilon), order)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("order", [1.2, 3.0, 20.0])
def test_pure_divergence_is_that_of_randomized_response(order):
    truth = 1 / (1 + math.exp(-0.8))
    moment = truth**order * (1 - truth) ** (1 - order)
    moment += (1 - truth) ** order * truth ** (1 - order)
    found = renyi_divergence(ApproximateEvent(0.8, 0.0, 2), order)
    assert found == pytest.approx(2 * math.log(moment) / (order - 1), rel=1e-12)


@pytest.mark.parametrize("event", [LaplaceEvent(1e-9), ApproximateEvent(1e-9, 0.0)])
def test_tiny_divergences_are_rounded_up_not_away(event):
    assert renyi_divergence(event, 2.0) == pytest.approx(1e-18, rel=1e-6)


@pytest.mark.parametrize("event", [LaplaceEvent(900.0), ApproximateEvent(900.0, 0.0)])
def test_huge_divergences_stay_finite(event):
    assert renyi_divergence(event, 2.0) == pytest.approx(900.0, rel=1e-2)


def test_a_positive_delta_has_no_divergence():
    assert renyi_divergence(ApproximateEvent(0.1, 1e-9), 2.0) == math.inf


def test_conversion_is_close_to_the_gaussian_curve():
    orders = np.linspace(1.5, 60.0, 500)
    divergences = [renyi_divergence(GaussianEvent(0.5), order) for order in orders]
    exact = gaussian_epsilon(mu=0.5, delta=1e-6)
    assert exact <= renyi_epsilon(orders, divergences, 1e-6) <= 1.1 * exact


def test_a_conversion_with_one_factor_too_many_would_be_caught():
    orders = np.linspace(1.5, 60.0, 500)
    divergences = np.array(
        [renyi_divergence(GaussianEvent(0.5), order) for order in orders]
    )
    wrong = divergences + np.log1p(-1 / orders)
    wrong -= (math.log(1e-6) + orders * np.log(orders)) / (orders - 1)
    assert wrong.min() < gaussian_epsilon(mu=0.5, delta=1e-6)


def test_conversion_at_the_limits():
    assert renyi_epsilon([2.0, 4.0], [math.inf, math.inf], 1e-5) == math.inf
    assert renyi_epsilon([2.0, 4.0], [0.0, 0.0], 0.5) == 0.0


@pytest.mark.parametrize("order", [1.0, 0.5, math.inf, math.nan, None])
def test_order_out_of_range(order):
    with pytest.raises(CorrDPError, match="order must be"):
        renyi_divergence(GaussianEvent(1.0), order)


def test_conversion_arguments_out_of_range():
    with pytest.raises(CorrDPError, match="one for each divergence"):
        renyi_epsilon([2.0, 4.0], [1.0], 1e-5)
    with pytest.raises(CorrDPError, match="orders must be"):
        renyi_epsilon([], [], 1e-5)
    with pytest.raises(CorrDPError, match="orders must be"):
        renyi_epsilon([1.0], [1.0], 1e-5)
    with pytest.raises(CorrDPError, match="divergences must hold"):
        renyi_epsilon([2.0], [-1.0], 1e-5)
    with pytest.raises(BudgetError, match="delta must be"):
        renyi_epsilon([2.0], [1.0], 0.0)
