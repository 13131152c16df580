"""The exact curve of Gaussian differential privacy, and its inverses.

A release is mu-Gaussian-DP when telling two neighbors apart is no easier than telling
N(0, 1) from N(mu, 1). Theory: ``docs/theory/gaussian.md``.

One special function is behind every such curve. With the normal distribution function
Phi, its density phi and the Mills ratio M(t) = (1 - Phi(t)) / phi(t), each hockey-stick
divergence of shifted normals is a sum of terms phi(x) * (M(-x) - M(shift - x)). The
difference cancels when the shift is small, so it is then integrated from M' instead of
subtracted.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy.special import erfcx, erfinv, log_ndtr, ndtri

from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_delta, check_real
from corrdp.exceptions import BudgetError

_UNIT = 2.0**-52
_LARGEST_MU = 1e100
_LARGEST_EPSILON = 1e100
SMALLEST_BUDGET = 1e-140
"""An epsilon or a delta must be so large: variances of noise are numbers then."""

_LAST_STEP = 1e-9  # relative; the next one would be below round-off
_ROUND_OFF = 1e-12  # what an epsilon near 0 is known to, relative to mu
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_SMALL_SHIFT = 0.1
_ASYMPTOTIC_FROM = 50.0
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def gaussian_delta(epsilon: float, *, mu: float) -> float:
    r"""Return the smallest delta of a mu-Gaussian-DP release at `epsilon`.

    Parameters
    ----------
    epsilon : float
        Any real number; a negative one is answered by the symmetry of the curve.
    mu : float
        Distance of the two means in units of the noise; 0 and infinity are allowed.

    Returns
    -------
    delta : float
        In [0, 1].

    Guarantee
    ---------
    Exact (Balle and Wang 2018, Theorem 8): no smaller delta holds for all neighbors at
    distance `mu`. Floating-point relative error below 1e-12. Theory:
    ``docs/theory/gaussian.md``.

    Notes
    -----
    :math:`\delta(\varepsilon) = \Phi(-\varepsilon/\mu + \mu/2) -
    e^{\varepsilon}\Phi(-\varepsilon/\mu - \mu/2)`, evaluated as a difference of Mills
    ratios, so that neither term over- nor underflows.

    Examples
    --------
    >>> round(gaussian_delta(1.0, mu=1.0), 6)
    0.126937
    """
    epsilon = check_real("epsilon", epsilon, allow_infinite=True, error=BudgetError)
    mu = _check_mu(mu)
    if epsilon < 0.0:
        positive = gaussian_delta(-epsilon, mu=mu)
        return -math.expm1(epsilon) + math.exp(epsilon) * positive
    if mu == 0.0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    return math.exp(_log_delta(epsilon, mu))


def gaussian_epsilon(*, mu: float, delta: float) -> float:
    """Return the smallest epsilon of a mu-Gaussian-DP release at `delta`.

    Parameters
    ----------
    mu : float
        Distance of the two means in units of the noise; 0 gives 0, infinity infinity.
    delta : float
        In (0, 1).

    Returns
    -------
    epsilon : float
        Rounded up: ``gaussian_delta(epsilon, mu=mu) <= delta`` holds in floating point.

    Guarantee
    ---------
    (epsilon, delta)-indistinguishable, and no smaller epsilon is, but for round-off:
    low by at most 1e-15 of itself and 1e-14 of `mu` (section 2 of
    ``docs/theory/gaussian.md``).

    Examples
    --------
    >>> round(gaussian_epsilon(mu=1.0, delta=1e-5), 4)
    4.3772
    """
    mu = _check_mu(mu)
    delta = check_delta(delta)
    if mu > _LARGEST_MU:
        return math.inf
    if gaussian_delta(0.0, mu=mu) <= delta:
        return 0.0
    # delta(epsilon) <= P(loss > epsilon), so this start lies right of the root; log
    # delta is concave in epsilon, so Newton's method stays there and descends to it.
    epsilon = mu * (0.5 * mu - float(ndtri(delta)))
    log_target = math.log(delta)
    step = -math.inf
    while abs(step) > _LAST_STEP * epsilon + _ROUND_OFF * mu:
        log_delta = _log_delta(epsilon, mu)
        point = 0.5 * mu - epsilon / mu
        log_tail = float(log_density(point)) + float(log_mills_ratio(mu - point))
        step = (log_delta - log_target) * math.exp(log_delta - log_tail)
        epsilon = max(epsilon + step, math.ulp(mu))  # 0 could not be nudged
    return _nudge(epsilon, 1.0, lambda value: gaussian_delta(value, mu=mu) <= delta)


def gaussian_mu(*, epsilon: float, delta: float) -> float:
    """Return the largest mu whose Gaussian-DP curve passes below a budget.

    Parameters
    ----------
    epsilon : float
        Non-negative; infinity gives infinity.
    delta : float
        In (0, 1).

    Returns
    -------
    mu : float
        Rounded down: ``gaussian_delta(epsilon, mu=mu) <= delta`` and
        ``gaussian_epsilon(mu=mu, delta=delta) <= epsilon`` hold in floating point.

    Raises
    ------
    BudgetError
        If neither is as large as `SMALLEST_BUDGET`.

    Guarantee
    ---------
    Noise of one `mu`-th of the sensitivity is (epsilon, delta)-indistinguishable.
    Theory: ``docs/theory/gaussian.md``.

    Examples
    --------
    >>> round(gaussian_mu(epsilon=1.0, delta=1e-5), 6)
    0.268051
    """
    epsilon = check_real(
        "epsilon",
        epsilon,
        lower=0.0,
        allow_infinite=True,
        remedy="Choose a budget, for example epsilon=1.0.",
        error=BudgetError,
    )
    delta = check_delta(delta)
    if epsilon == math.inf:
        return math.inf
    if max(epsilon, delta) < SMALLEST_BUDGET:
        raise BudgetError(
            f"epsilon={epsilon!r} and delta={delta!r} allow so little that the noise "
            "would be no number. Choose an epsilon, or a delta, of "
            f"{SMALLEST_BUDGET:g} or more."
        )
    epsilon = min(epsilon, _LARGEST_EPSILON)  # beyond, squares overflow
    # Two lower bounds: delta(epsilon) <= P(loss > epsilon) and delta(epsilon) <=
    # delta(0). The second is the answer when epsilon is 0.
    quantile = -float(ndtri(delta))
    root = math.sqrt(quantile * quantile + 2.0 * epsilon)
    tail_bound = 2.0 * epsilon / (quantile + root) if quantile > 0 else root - quantile
    mu = max(tail_bound, 2.0 * math.sqrt(2.0) * float(erfinv(delta)))
    log_target = math.log(delta)
    step = math.inf
    while abs(step) > _LAST_STEP:
        log_delta = _log_delta(epsilon, mu)
        # d delta / d mu is the density at the likelihood-ratio threshold.
        log_slope = float(log_density(0.5 * mu - epsilon / mu)) - log_delta
        step = (log_target - log_delta) / (mu * math.exp(log_slope))
        mu *= math.exp(min(max(step, -1.0), 1.0))
    return _nudge(
        mu,
        -1.0,
        lambda value: (
            gaussian_delta(epsilon, mu=value) <= delta
            and gaussian_epsilon(mu=value, delta=delta) <= epsilon
        ),
    )


def composed_mu(mus: Iterable[float]) -> float:
    """Return the mu of a sequence of Gaussian-DP releases, adaptive or not.

    Guarantee
    ---------
    Exact: Gaussian DP composes to the root of the sum of squares, even if each release
    is chosen after seeing the answers before it. Theory: ``docs/theory/gaussian.md``.

    Examples
    --------
    >>> composed_mu([3.0, 4.0])
    5.0
    """
    return math.hypot(*(_check_mu(mu) for mu in mus))


def gaussian_steps(*, epsilon: float, delta: float, step_mu: float) -> int:
    """Return the largest number of `step_mu`-Gaussian-DP steps within a budget.

    Guarantee
    ---------
    That many steps, adaptive or not, are (epsilon, delta)-indistinguishable; one more
    step is not, up to rounding. Theory: ``docs/theory/gaussian.md``.

    Examples
    --------
    >>> gaussian_steps(epsilon=1.0, delta=1e-5, step_mu=0.01)
    718
    """
    step_mu = check_real(
        "step_mu",
        step_mu,
        lower=0.0,
        open_lower=True,
        remedy="A step that reveals nothing may be repeated without end.",
        error=BudgetError,
    )
    if epsilon == math.inf:
        raise BudgetError(
            "epsilon must be finite, got epsilon=inf. "
            "Choose a budget, for example epsilon=1.0."
        )
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    if mu / step_mu > _LARGEST_MU:
        raise BudgetError(
            f"step_mu must not be below mu / {_LARGEST_MU:g} of the budget, "
            f"mu={mu!r}, got step_mu={step_mu!r}. So many steps cannot be counted."
        )
    n_steps = math.floor((mu / step_mu) ** 2)
    while n_steps > 0 and step_mu * math.sqrt(n_steps) > mu:
        n_steps -= 1
    return n_steps


def gaussian_noise_multiplier(
    *, epsilon: float, delta: float, n_steps: int = 1
) -> float:
    """Return the least noise, in units of the sensitivity, for `n_steps` releases.

    Parameters
    ----------
    epsilon, delta : float
        The budget of all steps together.
    n_steps : int
        Number of releases with the same noise.

    Returns
    -------
    noise_multiplier : float
        Standard deviation of the noise divided by the sensitivity (for replace-one
        neighbors: by how far the released value moves).

    Guarantee
    ---------
    ``noise_multiplier_mu`` of the result is within ``gaussian_mu`` of the budget in
    floating point. Theory: ``docs/theory/gaussian.md``.

    Examples
    --------
    >>> round(gaussian_noise_multiplier(epsilon=1.0, delta=1e-5), 4)
    3.7306
    """
    n_steps = check_count("n_steps", n_steps)
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    if mu == math.inf:
        return 0.0
    return _nudge(
        math.sqrt(n_steps) / mu,
        1.0,
        lambda value: noise_multiplier_mu(value, n_steps=n_steps) <= mu,
    )


def noise_multiplier_mu(noise_multiplier: float, *, n_steps: int = 1) -> float:
    """Return the mu of `n_steps` releases with noise given per unit of sensitivity.

    Guarantee
    ---------
    Exact, adaptive or not; no noise gives infinity. Theory:
    ``docs/theory/gaussian.md``.

    Examples
    --------
    >>> noise_multiplier_mu(2.0, n_steps=16)
    2.0
    """
    noise_multiplier = check_real("noise_multiplier", noise_multiplier, lower=0.0)
    n_steps = check_count("n_steps", n_steps)
    if noise_multiplier == 0.0:
        return math.inf
    return math.sqrt(n_steps) / noise_multiplier


def _check_mu(mu: float) -> float:
    remedy = "It is the change of the release in units of its noise."
    return check_real("mu", mu, lower=0.0, allow_infinite=True, remedy=remedy)


def _log_delta(epsilon: float, mu: float) -> float:
    with np.errstate(divide="ignore", over="ignore"):
        return float(log_gap(0.5 * mu - epsilon / mu, mu))


def _nudge(value: float, sign: float, holds: Callable[[float], bool]) -> float:
    """Move `value` by a few units in the last place until `holds` is true."""
    step = _UNIT
    while not holds(value):
        value *= 1.0 + sign * step
        step *= 2.0
    return value


def log_density(point: float | FloatArray) -> FloatArray:
    """Return the logarithm of the standard normal density."""
    return np.asarray(-0.5 * point * point - _LOG_ROOT_TWO_PI)


def log_mills_ratio(point: float | FloatArray) -> FloatArray:
    """Return the logarithm of the normal tail divided by the normal density."""
    return np.asarray(np.log(math.sqrt(math.pi / 2.0) * erfcx(point / math.sqrt(2.0))))


def log_gap(point: float | FloatArray, shift: float) -> FloatArray:
    """Return log(phi(x) * (M(-x) - M(shift - x))) at x = `point` <= `shift`.

    Relative accuracy of the exponential is about 1e-13 for any positive shift.
    """
    if shift < _SMALL_SHIFT:
        nodes = 0.5 * shift * (_NODES + 1.0) - np.asarray(point)[..., np.newaxis]
        integral = 0.5 * shift * (_minus_mills_slope(nodes) @ _WEIGHTS)
        return np.asarray(log_density(point) + np.log(integral))
    root = math.sqrt(2.0)
    ratio = erfcx((shift - point) / root) / erfcx(-point / root)
    return np.asarray(log_ndtr(point) + np.log1p(-ratio))


def _minus_mills_slope(point: FloatArray) -> FloatArray:
    """Return -M'(t) = 1 - t M(t), by its asymptotic series where that cancels."""
    near = np.minimum(point, _ASYMPTOTIC_FROM)
    exact = 1.0 - near * (math.sqrt(math.pi / 2.0) * erfcx(near / math.sqrt(2.0)))
    far = point > _ASYMPTOTIC_FROM
    if not far.any():
        return np.asarray(exact)
    inverse = 1.0 / np.square(np.maximum(point, _ASYMPTOTIC_FROM))
    series = inverse * (
        1.0
        - 3.0
        * inverse
        * (1.0 - 5.0 * inverse * (1.0 - 7.0 * inverse * (1.0 - 9.0 * inverse)))
    )
    return np.where(far, series, exact)
