r"""Upper bounds with every constant explicit; proofs in docs/theory/leakage.md."""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, ncfdtr, xlogy

from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_count, check_real

NOISE_LATTICE = 2.0**-18
"""Noisy counts are multiples of this: noise is drawn in whole steps of it."""

ROUNDING_ERROR = 2.0**-10
"""How far discrete noise is from Gaussian noise, except with probability 1e-56."""


def sampling_margin(
    group_sizes: FloatArray, *, failure_probability: float
) -> FloatArray:
    r"""Return what the plug-in distance of each pair of groups may fall short by.

    Parameters
    ----------
    group_sizes : array of float, shape (n_values,)
        Rows per value of the feature, or lower bounds on them; positive.
    failure_probability : float
        Probability with which the margin may be too small, for one fixed pair.

    Returns
    -------
    margin : array of float, shape (n_values, n_values)

    Guarantee
    ---------
    Rows independent given the feature: for any fixed pair, distance <= plug-in +
    margin except with `failure_probability`, for total variation and for Wasserstein
    over the diameter. The plug-in is biased upwards, the rest is McDiarmid
    (docs/theory/leakage.md, Theorem 1). No union over pairs is needed.
    """
    check_failure_probability(failure_probability)
    inverse = 1.0 / group_sizes
    spread = inverse[:, None] + inverse[None, :]
    return np.sqrt(0.5 * math.log(1 / failure_probability) * spread)


def noisy_total_variation_upper(
    noisy_counts: FloatArray,
    noisy_sizes: FloatArray,
    *,
    noise_scale: float,
    size_noise_scale: float,
    failure_probability: float,
) -> tuple[FloatArray, FloatArray]:
    r"""Return noisy total variations of all pairs, and upper bounds on the true ones.

    Parameters
    ----------
    noisy_counts : array of float, shape (n_values, n_cells)
        Counts plus discrete Gaussian noise in steps of `NOISE_LATTICE`.
    noisy_sizes : array of float, shape (n_values,)
        Rows per value, released on their own with less noise than a sum of cells has.
    noise_scale, size_noise_scale : float
        Standard deviations of the Gaussian part of the noise on each cell and on each
        size: the noise is within `ROUNDING_ERROR` of it.
    failure_probability : float
        Probability with which the bound may be too small, for one fixed pair.

    Returns
    -------
    distances, uppers : arrays of float, shape (n_values, n_values)
        Pairs whose group sizes the noise drowns have distance NaN and bound 1.

    Guarantee
    ---------
    Rows independent given the feature, noise independent of them: for any fixed pair
    the true total variation is at most the bound, except with `failure_probability`
    (docs/theory/leakage.md, Theorem 2). The bound is the smaller of two that hold at
    once: one by absolute values, one by squares, which pays where cells are many.
    """
    check_failure_probability(failure_probability)
    for name, scale in (("noise", noise_scale), ("size_noise", size_noise_scale)):
        check_real(f"{name}_scale", scale, lower=0.0, open_lower=True)
    share = failure_probability / 4
    n_values, n_cells = noisy_counts.shape
    log_share = math.log(1 / share)
    rounding = ROUNDING_ERROR
    size_error = size_noise_scale * math.sqrt(2 * math.log(2 / share)) + rounding
    sizes = noisy_sizes
    clear = sizes > size_error
    distances = np.full((n_values, n_values), np.nan)
    uppers = np.ones((n_values, n_values))
    if not clear.any():
        return distances, uppers
    lows, highs = sizes[clear] - size_error, sizes[clear] + size_error
    rows = noisy_counts[clear] / sizes[clear][:, None]
    close, near = _noisy_distances(rows)

    def pair_sum(per_group: FloatArray) -> FloatArray:
        return np.asarray(per_group[:, None] + per_group[None, :])

    inverse_squares = pair_sum(1 / lows**2)
    by_absolute_values = (
        close
        + pair_sum(np.abs(rows).sum(axis=1) * size_error / (2 * lows))
        + pair_sum(n_cells * rounding / (2 * lows))
        + 0.5 * noise_scale * np.sqrt(2 * n_cells * log_share * inverse_squares)
    )
    length = (
        near
        + pair_sum(np.linalg.norm(rows, axis=1) * size_error / lows)
        + pair_sum(math.sqrt(n_cells) * rounding / lows)
    )
    by_squares = (
        0.5
        * math.sqrt(n_cells)
        * _center_upper(
            length,
            n_cells=n_cells,
            least_variance=noise_scale**2 * pair_sum(1 / highs**2),
            most_variance=noise_scale**2 * inverse_squares,
            log_share=log_share,
        )
    )
    bound = np.minimum(by_absolute_values, by_squares) + np.sqrt(
        0.5 * log_share * pair_sum(1 / lows)
    )
    distances[np.ix_(clear, clear)] = np.minimum(close, 1.0)
    uppers[np.ix_(clear, clear)] = np.minimum(bound, 1.0)
    return distances, uppers


def _noisy_distances(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return half the 1-norms and the 2-norms of all differences of rows."""
    from scipy.spatial.distance import cdist

    return cdist(rows, rows, "cityblock") / 2, cdist(rows, rows)


def _center_upper(
    length: FloatArray,
    *,
    n_cells: int,
    least_variance: FloatArray,
    most_variance: FloatArray,
    log_share: float,
) -> FloatArray:
    """Bound |d| from |d + noise|, the noise's variance being known up to an interval.

    Lower tail of the noncentral chi-square law (Birge 2001, Lemma 8.1), solved for
    the center; each variance enters at its worst end.
    """
    excess = n_cells - 4 * log_share
    variance = least_variance if excess >= 0 else most_variance
    inside = 8 * log_share * length**2 * most_variance - (
        4 * log_share * excess * variance**2
    )
    square = length**2 - excess * variance + np.sqrt(np.maximum(inside, 0.0))
    return np.sqrt(np.maximum(square, 0.0))


def hotelling_upper(
    statistic: float,
    *,
    n_rows: int,
    n_sensitive: int,
    failure_probability: float,
) -> float:
    r"""Return an upper bound on the noncentrality of a Hotelling statistic.

    Parameters
    ----------
    statistic : float
        :math:`\hat b^\top \hat\Omega^{-1} \hat b \sum (u - \bar u)^2`, with
        :math:`\hat\Omega` the residual covariance divided by ``n_rows - 2``.
    n_rows, n_sensitive : int
        Rows, and sensitive features regressed on one feature.
    failure_probability : float
        Probability with which the bound may be too small.

    Guarantee
    ---------
    Exact under the linear Gaussian model, given the values of the feature
    (docs/theory/leakage.md, Theorem 3).
    """
    check_failure_probability(failure_probability)
    check_count("n_sensitive", n_sensitive)
    degrees = n_rows - 2 - n_sensitive + 1
    check_count("residual degrees of freedom", degrees)
    scaled = statistic * degrees / ((n_rows - 2) * n_sensitive)

    def excess(noncentrality: float) -> float:
        probability = ncfdtr(n_sensitive, degrees, noncentrality, scaled)
        return float(probability) - failure_probability

    if excess(0.0) <= 0:
        return 0.0
    high = statistic + 10.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9 * high, rtol=1e-12)) * (1 + 1e-8)


def independence_p_value(counts: IntArray) -> float:
    """Return the p-value of independence of rows and columns (likelihood ratio).

    The preliminary check of the paper's appendix A.5: a feature independent of the
    sensitive ones has leakage 0. It is evidence, not a bound: thin tables pass it.

    Examples
    --------
    >>> import numpy as np
    >>> round(independence_p_value(np.array([[50, 50], [50, 50]])), 3)
    1.0
    >>> independence_p_value(np.array([[90, 10], [10, 90]])) < 1e-20
    True
    """
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    freedom = (np.count_nonzero(rows) - 1) * (np.count_nonzero(columns) - 1)
    if freedom <= 0:
        return 1.0

    def total(values: IntArray) -> float:
        return float(xlogy(values, values).sum())

    ratio = 2 * (total(counts) + total(rows.sum()) - total(rows) - total(columns))
    return float(chdtrc(freedom, max(0.0, ratio)))


def check_failure_probability(value: float) -> float:
    """Return a probability strictly between 0 and 1, or raise."""
    return check_real(
        "failure_probability",
        value,
        lower=0.0,
        upper=1.0,
        open_lower=True,
        open_upper=True,
        remedy="Choose a small probability, for example 1e-3.",
    )
