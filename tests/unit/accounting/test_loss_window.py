"""Windows of the composed loss: wrapped mass, round-off, and how much work there is."""

import math

import numpy as np
import pytest

from corrdp.accounting import _loss_window as window_module
from corrdp.accounting import compose_delta, compose_epsilon, sampled_epsilon
from corrdp.accounting._events import GaussianEvent, LaplaceEvent, SampledGaussianEvent
from corrdp.accounting._loss_distribution import PrivacyLossDistribution
from corrdp.accounting._loss_factor import tilt_for_epsilon
from corrdp.accounting._loss_window import LossWindow, clean_width


def rare_losses(count):
    """A step that is silent, but for a probability of 1e-5 of a loss near 1."""

    def profile(epsilons):
        gap = -np.expm1(np.minimum(epsilons - 1.0, 0.0))
        return 1e-5 * gap / (1 + math.exp(-1.0))

    loss = PrivacyLossDistribution.from_profile(profile, spacing=0.5, loss_bound=1.0)
    return loss.self_compose(count)


def rare_delta(epsilon, count):
    """Exact: the number of steps that speak is binomial, each right at 73 %."""
    silent = 1 - 1e-5
    single = {0: silent, 1: 1e-5 / (1 + math.exp(-1)), -1: 1e-5 / (1 + math.e)}
    masses = np.zeros(81)
    masses[40] = 1.0
    base = np.zeros(81)
    for loss, mass in single.items():
        base[40 + loss] = mass
    power = count
    while power:
        if power & 1:
            masses = np.convolve(masses, base)[40:121]
        base = np.convolve(base, base)[40:121]
        power >>= 1
    losses = np.arange(-40, 41)
    return float(masses @ -np.expm1(np.minimum(epsilon - losses, 0.0)))


@pytest.mark.parametrize("count", [1, 1000, 100_000])
@pytest.mark.parametrize("delta", [1e-4, 1e-7, 1e-10])
def test_rare_large_losses_are_exact_at_any_delta(count, delta):
    epsilon = rare_losses(count).epsilon(delta)
    exact = rare_delta(epsilon, count)
    if epsilon > 0.0:
        assert exact == pytest.approx(delta, rel=1e-6)
    assert exact <= delta * (1 + 1e-12)


def test_the_case_that_wrapped():
    found = sampled_epsilon(
        rate=1e-5, contribution=1 / 0.6, change=2 / 0.6, n_steps=100_000, delta=1e-8
    )
    # dp-accounting: 0.26561 with cells of 1e-4, 0.26475 with cells of 2e-5
    assert 0.2645 <= found <= 1.003 * 0.26475


@pytest.mark.parametrize("tilt", [2.0, 6.0, 12.0, 16.0])
@pytest.mark.parametrize("lowest", [0.0, 0.5, 3.0])
def test_no_tilt_and_no_width_is_below_the_exact_delta(tilt, lowest):
    loss = rare_losses(100_000)
    window = LossWindow.around(loss.factors, tilt, math.log(1e-9), lowest=lowest)
    for epsilon in (0.2, 1.3, 2.7):
        finite = window.weights @ -np.expm1(np.minimum(epsilon - window.losses, 0.0))
        bound = finite + window.mass_above + window.round_off(np.array([epsilon]))[0]
        # Powers of the exact one are rounded too: 100,000 steps, 1e-16 each.
        assert bound >= rare_delta(epsilon, 100_000) * (1 - 1e-10)


def test_a_clean_window_is_as_wide_as_tilted_tails():
    loss = rare_losses(100_000)
    narrow = clean_width(loss.factors, 12.0, math.log(1e-9), 8.0)
    wide = clean_width(loss.factors, 12.0, math.log(1e-9), 0.0)
    assert wide > narrow
    assert wide <= 100_000.0


def test_round_off_of_many_silent_steps_stays_small():
    loss = rare_losses(100_000)
    tilt = tilt_for_epsilon(loss.factors, 5.0)
    window = LossWindow.around(loss.factors, tilt, math.log(1e-5), lowest=5.0)
    error = window.round_off(np.array([5.0]))[0]
    assert 0.0 < error < 1e-6 * rare_delta(5.0, 100_000)


HARD = [
    {"rate": 1.04e-4, "noise": 0.45, "n_steps": 18, "delta": 2.6e-7},
    {"rate": 0.15, "noise": 0.51, "n_steps": 118_000, "delta": 2.3e-8},
    {"rate": 1e-6, "noise": 0.4, "n_steps": 10**6, "delta": 1e-9},
    {"rate": 0.5, "noise": 0.5, "n_steps": 10**7, "delta": 1e-6},
    {"rate": 1e-6, "noise": 0.3, "n_steps": 1, "delta": 1e-4},
    {"rate": 1e-6, "noise": 5.0, "n_steps": 10**6, "delta": 1e-12},
    {"rate": 3e-6, "noise": 0.5, "n_steps": 5000, "delta": 2.4e-5},
]


@pytest.mark.parametrize("setting", HARD)
def test_no_setting_needs_more_than_bounded_work(setting, monkeypatch):
    work = []
    convolve = window_module._circular_convolution

    def counted(factors, tilt, size):
        work.append((size, max(factor.n_cells for factor, _ in factors)))
        return convolve(factors, tilt, size)

    monkeypatch.setattr(window_module, "_circular_convolution", counted)
    noise = setting["noise"]
    event = SampledGaussianEvent(
        setting["rate"], 1 / noise, 2 / noise, setting["n_steps"]
    )
    assert compose_epsilon([event], delta=setting["delta"]) >= 0.0
    assert all(size <= 2**21 and cells <= 2**18 for size, cells in work)
    assert len(work) <= 8  # none where a step is rarer than delta


def test_delta_of_wide_losses_is_bounded_work_too(monkeypatch):
    sizes = []
    convolve = window_module._circular_convolution

    def counted(factors, tilt, size):
        sizes.append(size)
        return convolve(factors, tilt, size)

    monkeypatch.setattr(window_module, "_circular_convolution", counted)
    events = [GaussianEvent(30.0), LaplaceEvent(1e-9)]
    assert compose_delta(events, epsilon=600.0) > 0.0
    assert max(sizes) <= 2**21
