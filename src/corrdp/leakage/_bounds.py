r"""Upper bounds with every constant explicit; proofs in docs/theory/leakage.md."""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ncfdtr, ndtr, ndtri, owens_t

from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_count, check_failure_probability

NOISE_LATTICE = 2.0**-18
"""Noisy counts are multiples of this: noise is drawn in whole steps of it."""

ROUNDING_ERROR = 2.0**-10
"""How far discrete noise is from Gaussian noise, except with probability 1e-56."""

_MOST_STEPS = 60
_STEP_BEYOND = 1e-12  # so that the last step ends where rounding does not matter
_BEYOND_ALL = 40.0  # normal deviations: what lies further is no double

LARGEST_STATISTIC = 1e8
"""Of features that are all but a linear function of one another: scipy's noncentral F
law is slow, or no number, not far beyond."""


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


def shared_quantile(
    first: FloatArray,
    second: FloatArray,
    noise: FloatArray | float = 0.0,
    *,
    failure_probability: float,
) -> FloatArray:
    r"""Return how far two samples and their noise deviate together, in one unit.

    Weights :math:`a` are those of both samples' deviations, positive and of any common
    unit, and of normal noise. With :math:`Z^-` the negative part of a normal variable,
    :math:`\Pr\{a_1 Z_1^- + a_2 Z_2^- + a_3 Z_3 > z \lVert a \rVert_2\}` is at most
    `failure_probability` for the returned z.

    Guarantee
    ---------
    docs/theory/leakage.md, Lemma 1b: equality without noise.
    """
    check_failure_probability(failure_probability)
    one, two, three = np.broadcast_arrays(first, second, noise)
    length = np.sqrt(one**2 + two**2 + three**2)
    one, two, three = one / length, two / length, three / length

    terms = (  # factor, weight that is cut off at 0, and the rest
        (1.0, one, np.hypot(two, three)),
        (1.0, two, np.hypot(one, three)),
        (0.5, np.minimum(one, two), three),
    )
    # Newton's steps for the logarithm, from where nothing would be cut off, which is
    # below the root. Only what was evaluated is returned.
    z = np.full(length.shape, max(0.0, -float(ndtri(failure_probability))))
    found = np.full(length.shape, _BEYOND_ALL)
    for _ in range(_MOST_STEPS):
        exceeded, slope = ndtr(-z), _density(z)
        for factor, weight, rest in terms:
            added, its_slope = _cut_off(z, weight, rest)
            exceeded, slope = exceeded + factor * added, slope + factor * its_slope
        found = np.where(exceeded <= failure_probability, np.minimum(z, found), found)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = exceeded * np.log(exceeded / failure_probability) / slope
        z = np.where(np.isfinite(step), z + step + _STEP_BEYOND, 0.5 * (z + found))
        z = np.where(z < found - _STEP_BEYOND / 2, np.maximum(z, 0.0), found)
        if (z == found).all():
            break
    return found


def largest_quantile(failure_probability: float) -> float:
    r"""Return what `shared_quantile` without noise is at most, whatever the weights.

    Guarantee
    ---------
    :math:`a_1 Z_1^- + a_2 Z_2^- \le (Z_1^{-2} + Z_2^{-2})^{1/2}`, whose law has no
    weights in it (docs/theory/leakage.md, Lemma 1b).
    """
    check_failure_probability(failure_probability)

    def excess(z: float) -> float:
        exceeded = float(ndtr(-z)) + 0.25 * math.exp(-0.5 * z * z)
        return exceeded - failure_probability

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, 40.0, xtol=1e-12)) + 1e-9


def _cut_off(
    z: FloatArray, weight: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return what cutting at 0 adds, and how fast that falls with z.

    :math:`\Pr\{Z > 0,\; z \le r Z' < z + a Z\}`; Owen's function falls with z by
    :math:`\varphi(z / \ell) (\Phi(z a / (r \ell)) - 1/2) / \ell`.
    """
    if not rest.any():  # as without noise: Owen's function takes most of the time
        return np.zeros(rest.shape), np.zeros(rest.shape)
    length = np.hypot(weight, rest)
    safe = np.where(rest > 0, rest, 1.0)
    added = (
        0.5 * ndtr(-z / safe)
        - 0.5 * ndtr(-z / length)
        + owens_t(z / length, weight / safe)
    )
    slope = 0.5 * _density(z / safe) / safe - _density(z / length) / length * ndtr(
        -z * weight / (safe * length)
    )
    return (
        np.where(rest > 0, np.maximum(added, 0.0), 0.0),
        np.where(rest > 0, slope, 0.0),
    )


def _density(z: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi))


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
    (docs/theory/leakage.md, Theorem 3); infinite beyond `LARGEST_STATISTIC`.
    """
    check_failure_probability(failure_probability)
    check_count("n_sensitive", n_sensitive)
    degrees = n_rows - 2 - n_sensitive + 1
    check_count("residual degrees of freedom", degrees)
    if not statistic <= LARGEST_STATISTIC:
        return math.inf
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
    from scipy.stats import chi2_contingency  # slow to import

    occupied = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    if min(occupied.shape) < 2:
        return 1.0
    test = chi2_contingency(occupied, correction=False, lambda_="log-likelihood")
    return float(test.pvalue)
