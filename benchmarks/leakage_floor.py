"""How small an upper bound on a distance can be in the mean, whoever computes it.

docs/theory/leakage.md, Proposition 1c: a bound that holds given the sizes is a test of
every larger distance, and no test is more powerful than that of Neyman and Pearson.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import binom

RATIOS = ((1, 0), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (0, 1))
"""How both samples share a shift of log-odds; every one of them gives a floor."""

STEPS = 120

NOTHING_LEFT = 1e-4
"""Where a larger distance is hardly ever accepted, the rest is left out."""


def least_mean_upper(
    laws: Any, sizes: Sequence[int], *, failure_probability: float
) -> float:
    """Return what the mean of every valid bound on the largest distance exceeds.

    Parameters
    ----------
    laws : array of float, shape (n_values, n_cells)
        True laws of the sensitive cells.
    sizes : sequence of int
        Rows per value that the bound is computed from.
    failure_probability : float
        With which the bound may be too small, under any laws.
    """
    pairs = [(i, j) for i in range(len(sizes)) for j in range(i)]
    return max((_pair(laws, sizes, *p, failure_probability) for p in pairs), default=0)


def _pair(laws: Any, sizes: Any, i: int, j: int, beta: float) -> float:
    if not sizes[i] or not sizes[j]:
        return 1 - beta  # nothing was seen of one of them: nothing is ruled out
    favored = laws[i] > laws[j]
    share, other = laws[i][favored].sum(), laws[j][~favored].sum()
    samples = (int(sizes[i]), float(share)), (int(sizes[j]), float(other))
    return max(_floor(samples, ratio, beta) for ratio in RATIOS)


def _floor(
    samples: tuple[tuple[int, float], ...], ratio: tuple[int, int], beta: float
) -> float:
    """Integrate the chance that a bound is at least as large as a distance."""
    truth = max(0.0, sum(share for _, share in samples) - 1)
    null = _statistic([(n, p) for n, p in samples], ratio)
    floor, last = truth * (1 - beta), truth
    for distance in np.linspace(truth, 1.0, STEPS + 1)[1:-1]:
        shifted = _shifted(samples, ratio, float(distance))
        if shifted is None:
            break
        accepted = 1 - _power(null, _statistic(shifted, ratio), beta)
        if accepted < NOTHING_LEFT:
            break
        floor += accepted * (distance - last)  # at the right end: never too much
        last = distance
    return floor


def _shifted(
    samples: tuple[tuple[int, float], ...], ratio: tuple[int, int], distance: float
) -> list[tuple[int, float]] | None:
    """Return shares of that distance: log-odds moved in the given ratio."""
    inside = [min(max(share, 1e-9), 1 - 1e-9) for _, share in samples]

    def moved(step: float) -> list[float]:
        return [
            float(expit(logit(share) + part * step))
            for share, part in zip(inside, ratio, strict=True)
        ]

    low, high = 0.0, 60.0
    if sum(moved(high)) - 1 < distance:
        return None
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = sum(moved(middle)) - 1 >= distance
        low, high = (low, middle) if enough else (middle, high)
    return [(n, share) for (n, _), share in zip(samples, moved(high), strict=True)]


def _statistic(samples: Sequence[tuple[int, float]], ratio: tuple[int, int]) -> Any:
    """Return the law of the weighted number of rows in the set: it is sufficient."""
    law = np.ones(1)
    for (n, share), part in zip(samples, ratio, strict=True):
        if part:
            own = np.zeros(part * n + 1)
            own[::part] = binom.pmf(np.arange(n + 1), n, share)
            law = np.convolve(law, own)
    return law


def _power(null: Any, shifted: Any, beta: float) -> float:
    """Return the power of the best test of `shifted` with level `beta`, at `null`."""
    below = np.cumsum(shifted)
    cut = int(np.searchsorted(below, beta, side="right"))
    sure = float(null[:cut].sum())
    left = beta - (float(below[cut - 1]) if cut else 0.0)
    if cut == len(null) or math.isclose(float(shifted[cut]), 0.0, abs_tol=1e-300):
        return min(1.0, sure + float(null[cut:].sum()))
    return min(1.0, sure + float(null[cut]) * left / float(shifted[cut]))
