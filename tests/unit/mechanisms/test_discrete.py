"""Exact discrete noise: grid, exactness, refusals, privacy loss."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from corrdp._random import noise_generator
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.mechanisms.noise import (
    concentrated_epsilon,
    concentrated_rho,
    discrete_gaussian,
    discrete_laplace,
    grid_scale,
)
from corrdp.mechanisms.noise._discrete import LARGEST_SCALE, _keeps_fraction


@pytest.mark.parametrize("scale", [1e-9, 0.1, 0.5, 1.0, 4095.99, 8191.7, 1e6, 2.0**45])
def test_grid_scale_is_never_below_and_hardly_above(scale):
    exact = grid_scale(scale)
    assert exact >= Fraction(scale)
    assert exact - Fraction(scale) <= Fraction(max(scale, 1.0)) / 4096
    assert grid_scale(float(exact)) == exact


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0 * LARGEST_SCALE])
def test_scales_that_are_no_noise_are_refused(scale):
    with pytest.raises(GuaranteeVoidError, match=r"above 0 and at most 2\*\*45"):
        grid_scale(scale)


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_a_scale_off_the_grid_is_refused(draw):
    with pytest.raises(GuaranteeVoidError, match="come from grid_scale"):
        draw(Fraction(1, 3), size=1, generator=noise_generator(0))


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
@pytest.mark.parametrize("scale", [2.0**-30, 2.0**44])
def test_extreme_scales_draw_whole_numbers_without_overflow(draw, scale):
    draws = draw(grid_scale(scale), size=200, generator=noise_generator(0))
    assert draws.dtype == np.int64
    assert np.abs(draws).max() <= 60 * max(scale, 1.0)
    assert draws.size == 200
    assert draw(grid_scale(scale), size=0, generator=noise_generator(0)).size == 0


def test_coins_that_cannot_fail_never_do():
    coins = _keeps_fraction(np.zeros(1000, dtype=np.int64), 7, noise_generator(0))
    assert coins.all()


@pytest.mark.parametrize("shift", [1, 3, 20])
@pytest.mark.parametrize("scale", [0.7, 2.5, 10.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_discrete_gaussian_is_within_its_stated_curve(shift, scale, delta):
    """Exact hockey-stick divergence of the shifted pair, in 50 digits."""
    rho = shift**2 / (2 * scale**2)
    epsilon = concentrated_epsilon(rho=rho, delta=delta)
    assert exact_delta(epsilon, shift, scale) <= delta
    # The twin: a claim of two thirds of that epsilon is refuted.
    assert exact_delta(epsilon * 2 / 3, shift, scale) > delta


def exact_delta(epsilon, shift, scale):
    with mpmath.workdps(50):
        reach = int(60 * scale) + 2 * shift + 10

        def weight(k):
            return mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(scale) ** 2))

        total = mpmath.fsum(weight(k) for k in range(-reach, reach + 1))
        excess = (
            weight(k) - mpmath.exp(epsilon) * weight(k - shift)
            for k in range(-reach, reach + 1)
        )
        return mpmath.fsum(e for e in excess if e > 0) / total


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-15])
def test_calibrating_then_pricing_stays_within_the_target(epsilon, delta):
    rho = concentrated_rho(epsilon=epsilon, delta=delta)
    assert concentrated_epsilon(rho=rho, delta=delta) <= epsilon
    assert concentrated_epsilon(rho=1.001 * rho, delta=delta) > epsilon


def test_concentrated_conversions_refuse_what_is_out_of_range():
    assert concentrated_epsilon(rho=0.0, delta=1e-6) == 0.0
    with pytest.raises(CorrDPError, match="rho must be"):
        concentrated_epsilon(rho=-1.0, delta=1e-6)
    with pytest.raises(BudgetError, match="delta must be"):
        concentrated_epsilon(rho=1.0, delta=0.0)
    with pytest.raises(BudgetError, match="epsilon must be"):
        concentrated_rho(epsilon=-1.0, delta=1e-6)


@pytest.mark.parametrize("delta", [1e-300, 0.5, 1.0 - 1e-9])
@pytest.mark.parametrize("epsilon", [1e-100, 1e-12, 1e12, 1e300])
def test_concentrated_conversions_reach_every_budget(epsilon, delta):
    rho = concentrated_rho(epsilon=epsilon, delta=delta)
    assert rho > 0.0
    assert concentrated_epsilon(rho=rho, delta=delta) <= epsilon


def test_budgets_below_every_noise_are_refused():
    with pytest.raises(BudgetError, match="more noise than a float"):
        concentrated_rho(epsilon=1e-300, delta=1e-300)
