"""Tests of distributions with a stated probability of a false alarm."""

import math
from collections.abc import Callable

import numpy as np


def dkw_radius(n_draws: int, *, false_alarm_probability: float) -> float:
    """Return how far an empirical distribution function strays at most.

    Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant: exceeded with at
    most the given probability, for any distribution.
    """
    return math.sqrt(math.log(2.0 / false_alarm_probability) / (2.0 * n_draws))


def ks_distance(draws: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the largest gap between the draws' distribution function and `cdf`.

    Both are right-continuous steps where draws repeat, so discrete distributions are
    compared at and just before each distinct value.
    """
    values, counts = np.unique(draws, return_counts=True)
    upto = np.cumsum(counts) / draws.size
    before = upto - counts / draws.size
    at = cdf(values)
    just_before = cdf(np.nextafter(values.astype(float), -np.inf))
    return float(max(np.abs(upto - at).max(), np.abs(before - just_before).max()))


def discrete_cdf(weight: Callable[[np.ndarray], np.ndarray], reach: int):
    """Return the distribution function of whole numbers with the given weights."""
    support = np.arange(-reach, reach + 1)
    masses = weight(support.astype(float))
    sums = np.concatenate([[0.0], np.cumsum(masses) / masses.sum()])

    def cdf(points: np.ndarray) -> np.ndarray:
        places = np.floor(points).astype(np.int64) + reach + 1
        return sums[np.clip(places, 0, support.size)]

    return cdf
