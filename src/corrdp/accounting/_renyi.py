"""Renyi divergences of events at fixed orders, for a ledger that is a filter.

Theory: ``docs/theory/composition.md``, section "What is a filter".
"""

import math
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from corrdp._validate import check_delta, check_nonnegative_array, check_real
from corrdp.accounting._events import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    SampledGaussianEvent,
)
from corrdp.accounting._normal import log_density, log_gap, log_mills_ratio
from corrdp.accounting._profiles import single_release
from corrdp.accounting._sampled import log_sampled_delta
from corrdp.exceptions import CorrDPError, UnsupportedEventError

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_QUADRATURE_ERROR = 1e-9
_LOG_NEGLIGIBLE = -30.0


def renyi_divergence(event: PrivacyEvent, order: float) -> float:
    """Return an upper bound on the Renyi divergence of an event, in both directions.

    Parameters
    ----------
    event : PrivacyEvent
        All of its releases together.
    order : float
        Above 1 and finite, and fixed before the first release of a ledger.

    Returns
    -------
    divergence : float
        Infinite for an approximate event with positive delta: charge that delta by
        itself and price the event as if its delta were 0.

    Guarantee
    ---------
    Divergences at one order add up, also when events are chosen by earlier answers,
    and a budget on their sum is a filter. Exact for Gaussian, Laplace and pure events,
    an upper bound within 1e-8 relative of the worst pair for sampled ones. Theory:
    ``docs/theory/composition.md``.

    References
    ----------
    Mironov, "Renyi differential privacy", 2017, for the closed forms.

    Examples
    --------
    >>> from corrdp.accounting import GaussianEvent
    >>> renyi_divergence(GaussianEvent(mu=0.5, count=4), 8.0)
    4.0
    """
    order = check_real(
        "order",
        order,
        lower=1.0,
        open_lower=True,
        remedy="Fix a few orders, for example 2, 4, 8, 16, 32.",
    )
    single, count = single_release(event)
    return count * _divergence(single, order)


def renyi_epsilon(orders: ArrayLike, divergences: ArrayLike, delta: float) -> float:
    r"""Return the smallest epsilon that Renyi divergences prove at `delta`.

    Parameters
    ----------
    orders : array of float, shape (n_orders,)
        Above 1.
    divergences : array of float, shape (n_orders,)
        Bounds at these orders; infinite where there is none.
    delta : float
        In (0, 1).

    Returns
    -------
    epsilon : float
        Infinite if every divergence is.

    Guarantee
    ---------
    (epsilon, delta)-indistinguishable (Canonne, Kamath and Steinke 2020, Proposition
    12). Theory: ``docs/theory/composition.md``.

    Examples
    --------
    >>> round(renyi_epsilon([4.0, 8.0, 16.0], [0.5, 1.0, 2.0], 1e-5), 4)
    2.2145
    """
    delta = check_delta(delta)
    orders = check_nonnegative_array("orders", orders, ndim=1)
    divergences = check_nonnegative_array(
        "divergences", divergences, ndim=1, allow_infinite=True
    )
    if orders.size == 0 or orders.shape != divergences.shape or orders.min() <= 1.0:
        raise CorrDPError(
            "orders must be numbers above 1, one for each divergence, got shapes "
            f"{orders.shape} and {divergences.shape} and smallest order "
            f"{orders.min(initial=math.inf)!r}. Pass, for example, orders=[2, 4, 8]."
        )
    epsilons = (
        divergences
        + np.log1p(-1.0 / orders)
        - (math.log(delta) + np.log(orders)) / (orders - 1.0)
    )
    return max(float(epsilons.min()), 0.0)


@singledispatch
def _divergence(event: object, order: float) -> float:
    raise UnsupportedEventError(
        f"event must be one with a Renyi divergence, got {type(event).__name__}. "
        "Use one of corrdp.accounting's events."
    )


@_divergence.register
def _(event: GaussianEvent, order: float) -> float:
    return 0.5 * order * event.mu**2


@_divergence.register
def _(event: LaplaceEvent, order: float) -> float:
    log_moment = np.logaddexp(
        math.log(order) + (order - 1.0) * event.epsilon,
        math.log(order - 1.0) - order * event.epsilon,
    ) - math.log(2.0 * order - 1.0)
    return _bounded_by_pure(float(log_moment), event.epsilon, order)


@_divergence.register
def _(event: ApproximateEvent, order: float) -> float:
    if event.delta > 0.0:
        return math.inf
    log_moment = np.logaddexp(
        (order - 1.0) * event.epsilon, -order * event.epsilon
    ) - math.log1p(math.exp(-event.epsilon))
    return _bounded_by_pure(float(log_moment), event.epsilon, order)


@_divergence.register
def _(event: SampledGaussianEvent, order: float) -> float:
    if event.rate * event.change == 0.0:
        return 0.0
    # The divergence of the pair with profile delta is log(1 + a (a - 1) I) / (a - 1),
    # where I integrates (e^((a-1) t) + e^(-a t)) delta(t) over t > 0.
    largest = max(event.contribution, event.change)
    end = order * largest**2 + 8.0 * largest
    log_integral, log_remainder = -math.inf, math.inf
    while log_remainder > log_integral + _LOG_NEGLIGIBLE:
        end += 4.0 * largest
        log_integral = _log_integral(event, order, end)
        log_remainder = _log_remainder(event, order, end)
    log_excess = (
        math.log(order * (order - 1.0)) + log_integral + math.log1p(_QUADRATURE_ERROR)
    )
    return float(np.logaddexp(0.0, log_excess)) / (order - 1.0)


def _bounded_by_pure(log_moment: float, epsilon: float, order: float) -> float:
    """Return the divergence, no larger than any epsilon-DP release can have.

    The bound order * epsilon^2 / 2 (Bun and Steinke 2016) takes over where the moment
    is too close to 1 for its logarithm to be accurate.
    """
    round_off = 2.0**-50 * (1.0 + order * epsilon)
    divergence = (log_moment + round_off) / (order - 1.0)
    return min(divergence, epsilon, 0.5 * order * epsilon**2)


def _log_integral(event: SampledGaussianEvent, order: float, end: float) -> float:
    """Integrate over (0, end) by Gauss-Legendre panels no wider than the curve."""
    width = min(event.contribution, event.change)
    edges = np.union1d(
        end * np.geomspace(1e-10, 1.0, 200), np.arange(0.0, end, 0.5 * width)
    )
    half = 0.5 * np.diff(edges)[:, np.newaxis]
    points = (edges[:-1, np.newaxis] + half * (_NODES + 1.0)).ravel()
    log_weights = np.log(half * _WEIGHTS).ravel()
    log_delta = log_sampled_delta(
        points, rate=event.rate, contribution=event.contribution, change=event.change
    )
    growth = np.logaddexp((order - 1.0) * points, -order * points)
    return float(logsumexp(log_weights + growth + log_delta))


def _log_remainder(event: SampledGaussianEvent, order: float, end: float) -> float:
    """Bound the integral beyond `end` by an unsampled Gaussian curve.

    There delta(t) <= rate * gaussian_delta(e(t)) with e(t) = log(1 + (e^t - 1) / rate),
    whose logarithm is concave and e'(t) >= 1, so it falls at least exponentially.
    """
    mu = max(event.contribution, event.change)
    epsilon = end + math.log(-math.expm1(-end) / event.rate + math.exp(-end))
    point = np.float64(0.5 * mu - epsilon / mu)
    log_curve = float(log_gap(point, mu))
    decline = math.exp(
        float(log_density(point) + log_mills_ratio(mu - point)) - log_curve
    )
    if decline <= order:
        return math.inf
    # e^((a-1) t) + e^(-a t) <= 2 e^((a-1) t)
    return (
        math.log(2.0 * event.rate)
        + log_curve
        + (order - 1.0) * end
        - math.log(decline - (order - 1.0))
    )
