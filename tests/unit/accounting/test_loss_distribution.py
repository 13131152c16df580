"""Composition by FFT against compositions that are known exactly."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln

from corrdp.accounting import (
    PrivacyLossDistribution,
    gaussian_delta,
    gaussian_epsilon,
)
from corrdp.accounting._sampled import log_sampled_delta
from corrdp.exceptions import BudgetError, CorrDPError


def gaussian_profile(mu):
    def profile(epsilons):
        return np.exp(log_sampled_delta(epsilons, rate=1.0, contribution=mu, change=mu))

    return profile


def gaussian_loss(mu, *, spacing=1e-3, tail=1e-250):
    return PrivacyLossDistribution.from_profile(
        gaussian_profile(mu),
        spacing=spacing,
        loss_bound=gaussian_epsilon(mu=mu, delta=tail),
    )


def randomized_response(epsilon, *, spacing):
    def profile(epsilons):
        gap = -np.expm1(np.minimum(epsilons - epsilon, 0.0))
        return gap / (1 + math.exp(-epsilon))

    return PrivacyLossDistribution.from_profile(
        profile, spacing=spacing, loss_bound=epsilon
    )


def randomized_response_delta(epsilon, *, step, count):
    """Sum over the number of true answers (Kairouz, Oh and Viswanath 2015)."""
    truths = np.arange(count + 1)
    losses = (2 * truths - count) * step
    log_mass = (
        gammaln(count + 1)
        - gammaln(truths + 1)
        - gammaln(count - truths + 1)
        - truths * math.log1p(math.exp(-step))
        - (count - truths) * math.log1p(math.exp(step))
    )
    return float(np.exp(log_mass) @ -np.expm1(np.minimum(epsilon - losses, 0.0)))


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-40, 1e-120])
@pytest.mark.parametrize("count", [1, 30, 2000])
def test_gaussian_composition_is_tight_and_never_below(delta, count):
    loss = gaussian_loss(0.05).self_compose(count)
    exact = gaussian_epsilon(mu=0.05 * math.sqrt(count), delta=delta)
    found = loss.epsilon(delta)
    assert exact <= found <= exact * (1 + 1e-4)
    exact_delta = gaussian_delta(exact, mu=0.05 * math.sqrt(count))
    # The grid adds about spacing^2 / 6 to each variance, and log delta falls like
    # the inverse of the variance.
    growth = math.exp(2 * (1e-3 / 0.05) ** 2 / 6 * (2 - math.log(delta)))
    assert exact_delta <= loss.delta(exact) <= exact_delta * growth


@pytest.mark.parametrize("count", [1, 2, 17, 400])
def test_randomized_response_on_its_own_grid_is_exact(count):
    loss = randomized_response(0.1, spacing=0.1).self_compose(count)
    for epsilon in (0.0, 0.05, 0.3, 2.0, 5.0):
        exact = randomized_response_delta(epsilon, step=0.1, count=count)
        found = loss.delta(epsilon)
        assert found >= exact * (1 - 1e-12)
        assert found == pytest.approx(exact, rel=1e-8, abs=1e-290)


def test_epsilon_inverts_delta():
    loss = randomized_response(0.1, spacing=0.1).self_compose(50)
    for delta in (0.2, 1e-3, 1e-9, 1e-14):
        epsilon = loss.epsilon(delta)
        assert loss.delta(epsilon) == pytest.approx(delta, rel=1e-6)


def test_negative_epsilon_by_symmetry():
    loss = gaussian_loss(0.5)
    assert loss.delta(-1.0) == pytest.approx(gaussian_delta(-1.0, mu=0.5), rel=1e-5)


def test_composition_of_different_factors_adds_up():
    loss = gaussian_loss(0.3).compose(gaussian_loss(0.4).self_compose(4))
    exact = gaussian_epsilon(mu=math.hypot(0.3, 0.8), delta=1e-8)
    assert exact <= loss.epsilon(1e-8) <= exact * (1 + 1e-4)


def test_a_finer_grid_is_never_worse_and_converges():
    exact = gaussian_epsilon(mu=0.5, delta=1e-6)
    found = [
        gaussian_loss(0.05, spacing=spacing).self_compose(100).epsilon(1e-6)
        for spacing in (0.04, 0.02, 0.01, 0.005)
    ]
    excess = np.array(found) - exact
    assert np.all(excess > 0)
    assert np.all(excess[1:] < 0.5 * excess[:-1])


def with_masses(loss, change):
    factors = tuple(
        (replace(factor, **change(factor)), count) for factor, count in loss.factors
    )
    return replace(loss, factors=factors)


def test_rounding_losses_down_would_be_caught():
    loss = gaussian_loss(0.05)
    optimistic = with_masses(
        loss, lambda factor: {"masses": np.roll(factor.masses, -1)}
    )
    exact = gaussian_epsilon(mu=0.5, delta=1e-6)
    assert optimistic.self_compose(100).epsilon(1e-6) < exact
    assert loss.self_compose(100).epsilon(1e-6) >= exact


def test_forgetting_the_truncated_mass_would_be_caught():
    loss = gaussian_loss(1.0, tail=1e-4)
    forgetful = with_masses(loss, lambda _: {"infinity_mass": 0.0})
    exact = gaussian_delta(4.0, mu=1.0)
    assert forgetful.delta(4.0) < exact <= loss.delta(4.0)


def test_without_tilting_round_off_would_swamp_a_small_delta():
    loss = gaussian_loss(0.05, tail=1e-60)
    (factor, _), count = loss.factors[0], 100
    size = 2**16
    spectrum = np.fft.rfft(np.pad(factor.masses, (0, size - factor.masses.size)))
    masses = np.fft.irfft(spectrum**count, n=size)
    losses = factor.spacing * (np.arange(size) - count * factor.n_cells % size)
    losses[losses < -0.5 * size * factor.spacing] += size * factor.spacing
    epsilon = gaussian_epsilon(mu=0.5, delta=1e-30)
    plain = float(masses @ -np.expm1(np.minimum(epsilon - losses, 0.0)))
    assert not 0.99e-30 < plain < 1.02e-30
    assert loss.self_compose(count).delta(epsilon) == pytest.approx(1e-30, rel=0.02)


def test_infinite_loss_is_a_floor_under_delta():
    loss = gaussian_loss(1.0, tail=1e-4).self_compose(10)
    assert loss.infinity_mass == pytest.approx(1e-3, rel=1e-2)
    assert loss.epsilon(0.9e-3) == math.inf
    assert loss.epsilon(1.1e-3) < math.inf
    assert loss.delta(100.0) >= loss.infinity_mass


def test_a_large_delta_needs_no_epsilon():
    assert gaussian_loss(0.5).epsilon(0.5) == 0.0


def test_nothing_released_costs_nothing():
    loss = PrivacyLossDistribution.from_profile(
        np.zeros_like, spacing=0.1, loss_bound=1.0
    )
    assert loss.self_compose(3).epsilon(1e-9) == 0.0


def test_a_profile_that_is_not_convex_is_refused():
    def with_a_step(epsilons):
        return np.where(epsilons < 0.5, 0.4, 0.1) * np.exp(-epsilons)

    with pytest.raises(CorrDPError, match="convex"):
        PrivacyLossDistribution.from_profile(with_a_step, spacing=0.01, loss_bound=3.0)


def test_a_profile_too_steep_at_zero_is_refused():
    # Convex for epsilon >= 0, but its mirror image meets it in a concave corner.
    def steep(epsilons):
        return 0.2 - 0.9 * np.minimum(np.expm1(epsilons), 0.2)

    with pytest.raises(CorrDPError, match="both sides of 0"):
        PrivacyLossDistribution.from_profile(steep, spacing=0.01, loss_bound=3.0)


def test_masses_cannot_be_changed():
    (factor, _), *_ = gaussian_loss(0.5).factors
    with pytest.raises(ValueError, match="read-only"):
        factor.masses[0] = 1.0


def test_arguments_out_of_range():
    loss = gaussian_loss(0.5, tail=1e-20)
    with pytest.raises(CorrDPError, match="same grid"):
        loss.compose(gaussian_loss(0.5, spacing=2e-3, tail=1e-20))
    with pytest.raises(CorrDPError, match="count must be"):
        loss.self_compose(0)
    with pytest.raises(BudgetError, match="delta must be"):
        loss.epsilon(0.0)
    with pytest.raises(BudgetError, match="epsilon must be"):
        loss.delta(math.nan)
    with pytest.raises(CorrDPError, match="spacing must be"):
        gaussian_loss(0.5, spacing=0.0)
    with pytest.raises(CorrDPError, match="loss_bound must be"):
        PrivacyLossDistribution.from_profile(
            gaussian_profile(1.0), spacing=0.1, loss_bound=math.inf
        )


def test_a_grid_too_fine_for_memory_is_refused_with_a_remedy():
    loss = randomized_response(1e-6, spacing=1e-6).self_compose(10**13)
    with pytest.raises(CorrDPError, match="larger grid"):
        loss.epsilon(1e-6)
