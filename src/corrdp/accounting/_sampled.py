r"""The privacy curve of one sampled Gaussian step.

Theory: ``docs/theory/sampling.md``. Under Poisson sampling at rate q one step is the
pair (1 - q) N(0) + q N(g) against (1 - q) N(0) + q N(g'), where no contribution is
longer than A and the two differ by at most Delta, all in units of the noise. The worst
pair is collinear: g = A and g' = A - Delta on one line.
"""

import math
from functools import partial

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_real
from corrdp.accounting._gaussian import log_gap
from corrdp.exceptions import BudgetError

_MAXIMAL_ITERATIONS = 60
_FARTHEST_POINT = -1e150  # its square is still a number
_CHANCE = "It is the probability that a record takes part in a step."
_LENGTH = "It is a length in units of the noise; add noise where it is larger."
STEP_CHECKS = {
    "rate": partial(check_real, lower=0.0, upper=1.0, remedy=_CHANCE),
    "contribution": partial(check_real, lower=0.0, upper=1e150, remedy=_LENGTH),
    "change": partial(check_real, lower=0.0, upper=1e150, remedy=_LENGTH),
}


def sampled_delta(
    epsilon: float, *, rate: float, contribution: float, change: float
) -> float:
    r"""Return the smallest delta of one Poisson-sampled Gaussian step at `epsilon`.

    Parameters
    ----------
    epsilon : float
        Any real number; a negative one is answered by
        :math:`\delta(-\varepsilon) = 1 - e^{-\varepsilon}(1 - \delta(\varepsilon))`.
    rate : float
        Probability in [0, 1] with which a record takes part.
    contribution : float
        Largest norm of one record's contribution, in units of the noise.
    change : float
        Largest norm of the difference between the contributions of two versions of the
        record, in units of the noise. At most twice `contribution` can occur, so a
        larger value counts as that.

    Returns
    -------
    delta : float
        In [0, 1].

    Guarantee
    ---------
    Bounds the hockey-stick divergence in both directions for every pair of
    contributions in any dimension, replace-one neighbors, and is attained. Theory:
    ``docs/theory/sampling.md``. Not covered: a batch of fixed size (double
    `contribution`), division by the realized batch size.

    Examples
    --------
    >>> round(sampled_delta(0.01, rate=0.01, contribution=1.0, change=0.1), 8)
    5.279e-05
    """
    epsilon = check_real("epsilon", epsilon, allow_infinite=True, error=BudgetError)
    step = {"rate": rate, "contribution": contribution, "change": change}
    step = {name: STEP_CHECKS[name](name, value) for name, value in step.items()}
    if epsilon == math.inf:
        return 0.0
    magnitude = np.array([abs(epsilon)])
    log_delta = log_sampled_delta(magnitude, **step)
    delta = math.exp(log_delta[0])
    if epsilon < 0.0:
        return -math.expm1(epsilon) + math.exp(epsilon) * delta
    return delta


def log_sampled_delta(
    epsilons: FloatArray, *, rate: float, contribution: float, change: float
) -> FloatArray:
    """Return the logarithm of `sampled_delta` at non-negative `epsilons`."""
    change = min(change, 2.0 * contribution)
    if rate == 0.0 or change == 0.0:
        return np.full(epsilons.shape, -math.inf)
    with np.errstate(divide="ignore", over="ignore"):
        if rate == 1.0:
            point = np.maximum(0.5 * change - epsilons / change, _FARTHEST_POINT)
            return log_gap(point, change)
        log_absent = _log_absent_weight(epsilons, rate)
        point, log_share = _threshold(epsilons, log_absent, contribution, change)
        # A mixture of two Gaussian curves, one against the absent record and one
        # against the replaced one; the stationary threshold makes the shares add to 1.
        return math.log(rate) + np.logaddexp(
            log_share[0] + log_gap(point, contribution),
            log_share[1] + log_gap(point, change),
        )


def _log_absent_weight(epsilons: FloatArray, rate: float) -> FloatArray:
    """Return log((1 - q) (e^epsilon - 1) / q), which is -inf at 0."""
    log_odds = math.log1p(-rate) - math.log(rate)
    return np.asarray(log_odds + epsilons + np.log(-np.expm1(-epsilons)))


def _threshold(
    epsilons: FloatArray, log_absent: FloatArray, contribution: float, change: float
) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
    """Solve for the likelihood-ratio threshold x and the shares of the two terms.

    x is the root of (1 - q)(e^epsilon - 1)/q exp(A x - A^2/2)
    + e^epsilon exp(Delta x - Delta^2/2) = 1, whose logarithm is convex in x: Newton's
    method descends to the root from the right, where one of the terms alone is 1.
    """
    point = np.minimum(
        0.5 * contribution - log_absent / contribution,
        0.5 * change - epsilons / change,
    )
    point = np.maximum(point, _FARTHEST_POINT)
    step, n_iterations = np.full_like(point, np.inf), 0
    while n_iterations < _MAXIMAL_ITERATIONS and np.any(
        np.abs(step) > 1e-14 * (1.0 + np.abs(point))
    ):
        absent = log_absent + contribution * (point - 0.5 * contribution)
        replaced = epsilons + change * (point - 0.5 * change)
        total = np.logaddexp(absent, replaced)
        share = np.exp(absent - total)
        step = total / (share * contribution + (1.0 - share) * change)
        point = point - step
        n_iterations += 1
    return point, (absent - total, replaced - total)


def curve_by_threshold(
    point: FloatArray, *, rate: float, contribution: float, change: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return epsilon, log delta and log of -d epsilon / dx at thresholds x.

    The equation of `_threshold` is linear in e^epsilon, so along x < Delta/2 the whole
    curve is explicit. Needs 0 < rate < 1 and 0 < change <= 2 * contribution.
    """
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    log_absent = log_rest + contribution * (point - 0.5 * contribution)
    log_ratio = change * (point - 0.5 * change)
    log_drop = log_rate + np.log(-np.expm1(log_ratio))  # q (1 - l1)
    log_numerator = np.logaddexp(log_rate, log_absent)
    log_denominator = np.logaddexp(log_rate + log_ratio, log_absent)
    log_growth = log_drop - log_denominator  # of e^epsilon - 1
    epsilon = np.logaddexp(0.0, log_growth)
    log_share = log_absent + log_growth - log_rate
    log_other_share = epsilon + log_ratio
    log_delta = log_rate + np.logaddexp(
        log_share + log_gap(point, contribution),
        log_other_share + log_gap(point, change),
    )
    log_speed = np.logaddexp(
        math.log(change) + log_rate + log_ratio - log_denominator,
        math.log(contribution)
        + log_absent
        - log_denominator
        + log_drop
        - log_numerator,
    )
    return epsilon, log_delta, log_speed
