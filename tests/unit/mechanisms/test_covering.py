"""Discrete noise under a Gaussian price: scales, and the exact divergence."""

import math
from fractions import Fraction

import numpy as np
import pytest

from corrdp.accounting import gaussian_delta
from corrdp.exceptions import GuaranteeVoidError
from corrdp.leakage import NOISE_LATTICE, ROUNDING_ERROR
from corrdp.mechanisms.noise import (
    LARGEST_MU,
    ROUNDING_PART,
    ROUNDING_REACH,
    covering_scale,
    gaussian_part,
    grid_scale,
)

EPSILONS = np.linspace(0.0, 6.0, 601)


def exact_divergence(scale, movement, epsilon):
    """Sum the hockey-stick divergence of two discrete Gaussians over all integers."""
    reach = math.ceil(40 * float(scale)) + movement
    steps = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-0.5 * (steps / float(scale)) ** 2)
    moved = np.exp(-0.5 * ((steps - movement) / float(scale)) ** 2)
    total = weights.sum()
    excess = np.maximum(moved - math.exp(epsilon) * weights, 0.0)
    return float(excess.sum() / total)


def worst_excess(scale, movement, planned):
    """Return the largest exact divergence less that of the planned Gaussian."""
    mu = movement / planned
    return max(
        exact_divergence(scale, movement, float(epsilon))
        - gaussian_delta(mu=mu, epsilon=float(epsilon))
        for epsilon in EPSILONS
    )


@pytest.mark.parametrize(("planned", "movement"), [(2.0, 5), (20.0, 37), (150.0, 300)])
def test_covering_noise_is_no_easier_to_tell_apart_than_the_planned_gaussian(
    planned, movement
):
    scale = covering_scale(planned)
    assert worst_excess(scale, movement, planned) <= 1e-15


@pytest.mark.parametrize(("planned", "movement"), [(2.0, 5), (20.0, 37)])
def test_discrete_noise_of_the_planned_scale_itself_is_easier_to_tell_apart(
    planned, movement
):
    """The planted bug: without the part that rounding takes."""
    assert worst_excess(grid_scale(planned), movement, planned) > 1e-6


@pytest.mark.parametrize("planned", [1e-3, 0.7, 15.0, 8191.9, 12345.678, 2.0**40])
def test_scales_are_covered_in_rational_arithmetic(planned):
    scale = covering_scale(planned)
    assert scale**2 >= (Fraction(planned) * (1 + Fraction(1, 10**12))) ** 2 + 16**2
    assert gaussian_part(scale) >= planned * (1 - 1e-15)
    slack = 1.0 + 1.0 / 4096
    assert float(scale) <= math.hypot(planned, ROUNDING_PART) * slack + 1.0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, 2.0**46, 1e300])
def test_no_noise_and_too_much_are_refused(bad):
    with pytest.raises(GuaranteeVoidError):
        covering_scale(bad)


def test_constants_are_those_of_the_proof():
    """Claims 4 and 5 of docs/theory/discrete_noise.md, in powers of ten."""
    ten = math.log(10.0)
    exponent = 2 * math.pi**2 * ROUNDING_PART**2
    failure = (math.log(5.0) - exponent) / ten  # of one rounding
    assert failure <= -2190
    slope = LARGEST_MU**2 / 8 + math.log(math.sqrt(2 * math.pi) * LARGEST_MU)
    assert -slope / ten >= -1964
    assert failure + 9 + 1 < -1964 - 13
    tail = math.log(4.0) - (ROUNDING_REACH / ROUNDING_PART) ** 2 / 2
    tail -= math.log(ROUNDING_PART * math.sqrt(2 * math.pi))
    assert tail / ten < -56
    assert ROUNDING_REACH * NOISE_LATTICE == ROUNDING_ERROR
