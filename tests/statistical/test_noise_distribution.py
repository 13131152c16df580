"""Noise has its declared distribution; false alarms have probability 1e-9 each."""

import numpy as np
import pytest

from corrdp._random import noise_generator
from corrdp.mechanisms.noise import discrete_gaussian, discrete_laplace, grid_scale
from helpers.statistics import discrete_cdf, dkw_radius, ks_distance

pytestmark = pytest.mark.statistical

N_DRAWS = 40_000
RADIUS = dkw_radius(N_DRAWS, false_alarm_probability=1e-9)
SCALES = [0.6, 1.0, 1.37, 7.77, 300.0]


def laplace_cdf(scale, reach=80):
    return discrete_cdf(lambda k: np.exp(-np.abs(k) / scale), int(reach * scale) + 5)


def gaussian_cdf(scale, reach=40):
    return discrete_cdf(
        lambda k: np.exp(-(k**2) / (2 * scale**2)), int(reach * scale) + 5
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("draw", "cdf_of"),
    [(discrete_laplace, laplace_cdf), (discrete_gaussian, gaussian_cdf)],
)
def test_discrete_noise_has_its_declared_distribution(draw, cdf_of, scale):
    exact = grid_scale(scale)
    draws = draw(exact, size=N_DRAWS, generator=noise_generator(7))
    assert ks_distance(draws, cdf_of(float(exact))) <= RADIUS


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("draw", "cdf_of"),
    [(discrete_laplace, laplace_cdf), (discrete_gaussian, gaussian_cdf)],
)
def test_a_scale_wrong_by_a_quarter_is_caught(draw, cdf_of, scale):
    exact = grid_scale(scale)
    draws = draw(exact, size=N_DRAWS, generator=noise_generator(7))
    assert ks_distance(draws, cdf_of(float(exact) / 0.75)) > RADIUS
    assert ks_distance(draws, cdf_of(float(exact) * 0.75)) > RADIUS


@pytest.mark.parametrize("scale", [3.0, 300.0])
def test_laplace_and_gaussian_are_told_apart(scale):
    exact = grid_scale(scale)
    laplace = discrete_laplace(exact, size=N_DRAWS, generator=noise_generator(7))
    # The Gaussian of equal variance.
    assert ks_distance(laplace, gaussian_cdf(scale * np.sqrt(2.0))) > RADIUS


def test_a_sampler_that_counts_zero_twice_is_caught():
    """The twin: keeping minus zero doubles the weight of zero."""
    generator = noise_generator(7)
    magnitude = np.abs(
        discrete_laplace(grid_scale(1.0), size=N_DRAWS, generator=generator)
    )
    # |Y| of the right sampler, with zero given the weight of two signs.
    extra = generator.random(N_DRAWS) < np.tanh(0.5) / (1 + np.tanh(0.5))
    wrong = np.where(extra, 0, magnitude * generator.choice([-1, 1], N_DRAWS))
    assert ks_distance(wrong, laplace_cdf(1.0)) > RADIUS


def test_noise_of_the_secure_stream_has_the_same_distribution():
    exact = grid_scale(7.77)
    draws = discrete_laplace(exact, size=N_DRAWS, generator=noise_generator())
    assert ks_distance(draws, laplace_cdf(float(exact))) <= RADIUS
