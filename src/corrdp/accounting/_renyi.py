"""Renyi divergences of events at fixed orders, for a ledger that is a filter.

Theory: ``docs/theory/composition.md``, section "What is a filter".
"""

import math
from dataclasses import replace
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_ndtr, logsumexp

from corrdp._validate import check_delta, check_nonnegative_array, check_real
from corrdp.accounting._events import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
)
from corrdp.accounting._profiles import single_release
from corrdp.accounting._sampled import curve_by_threshold
from corrdp.accounting._selection import selected_renyi
from corrdp.exceptions import CorrDPError, UnsupportedEventError

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_UNIT = 2.0**-52
_QUADRATURE_ERROR = 1e-9
_LOG_NEGLIGIBLE = -30.0
_MOST_PANELS = 2e5  # of a quadrature
_LARGEST_EXPONENT = 700.0  # whose exponential is a number


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
    for sampled ones that of the pair whose profile is `sampled_delta`, an upper bound
    for the best of several runs (``docs/theory/selection.md``). Theory:
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
    try:
        return count * _divergence(single, order)
    except OverflowError:
        return math.inf


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
    2.2141
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
def _(event: SelectedGaussianEvent, order: float) -> float:
    return selected_renyi(event.mu, event.mean_runs, order)


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
    step = replace(event, change=min(event.change, 2.0 * event.contribution))
    lowest = -order * min(step.contribution, step.change) - 6.0
    log_integral, log_remainder, end = -math.inf, math.inf, 0.0
    while log_remainder > log_integral + _LOG_NEGLIGIBLE:
        lowest = 1.1 * lowest - 2.0
        if _n_panels(step, lowest) > _MOST_PANELS:
            return _with_known_coin(step, order)
        if _speed_bound(step, lowest) * order < -lowest:
            log_integral, end = _log_integral(step, order, lowest)
            log_remainder = _log_remainder(step, order, lowest, end)
    error = _QUADRATURE_ERROR + 16.0 * _UNIT * order * end  # the largest exponent's
    log_excess = math.log(order * (order - 1.0)) + log_integral + error
    return float(np.logaddexp(0.0, log_excess)) / (order - 1.0)


def _with_known_coin(step: SampledGaussianEvent, order: float) -> float:
    """Bound the divergence by that of the step together with its coin.

    Hardly more than without: a contribution of so many times the noise shows whether
    the record took part.
    """
    exponent = 0.5 * order * (order - 1.0) * step.change**2
    if exponent < _LARGEST_EXPONENT:
        log_moment = math.log1p(step.rate * math.expm1(exponent))
    else:
        log_moment = float(
            np.logaddexp(math.log1p(-step.rate), math.log(step.rate) + exponent)
        )
    return log_moment * (1.0 + _QUADRATURE_ERROR) / (order - 1.0)


def _bounded_by_pure(log_moment: float, epsilon: float, order: float) -> float:
    """Return the divergence, no larger than any epsilon-DP release can have.

    The bound order * epsilon^2 / 2 (Bun and Steinke 2016) takes over where the moment
    is too close to 1 for its logarithm to be accurate.
    """
    round_off = 4.0 * _UNIT * (1.0 + order * epsilon)
    divergence = (log_moment + round_off) / (order - 1.0)
    return min(divergence, epsilon, 0.5 * order * epsilon**2)


def _log_integral(
    step: SampledGaussianEvent, order: float, lowest: float
) -> tuple[float, float]:
    """Integrate over thresholds from `lowest` to Delta/2; return t at `lowest` too.

    As a function of the threshold the integrand varies on the scale of the noise, or
    of the inverse of the contribution if that is less.
    """
    reach = 0.5 * step.change - lowest
    n_panels = _n_panels(step, lowest)
    half = 0.5 * reach / n_panels
    centers = lowest + half * (2.0 * np.arange(n_panels) + 1.0)
    points = (centers[:, np.newaxis] + half * _NODES).ravel()
    epsilons, log_delta, log_speed = curve_by_threshold(
        np.append(points, lowest),
        rate=step.rate,
        contribution=step.contribution,
        change=step.change,
    )
    growth = np.logaddexp((order - 1.0) * epsilons, -order * epsilons)
    log_values = (growth + log_delta + log_speed)[:-1]
    log_weights = np.tile(np.log(half * _WEIGHTS), n_panels)
    return float(logsumexp(log_values + log_weights)), float(epsilons[-1])


def _n_panels(step: SampledGaussianEvent, lowest: float) -> int:
    """Return how many panels a quadrature from `lowest` on needs."""
    reach = 0.5 * step.change - lowest
    return math.ceil(reach * 2.0 * (1.0 + step.contribution))


def _speed_bound(step: SampledGaussianEvent, threshold: float) -> float:
    """Bound -dt/dx at all thresholds x up to this one."""
    log_odds = (
        math.log1p(-step.rate)
        - math.log(step.rate)
        + step.contribution * (threshold - 0.5 * step.contribution)
        - step.change * (threshold - 0.5 * step.change)
    )
    share = float(expit(log_odds))
    return share * step.contribution + (1.0 - share) * step.change


def _log_remainder(
    step: SampledGaussianEvent, order: float, lowest: float, end: float
) -> float:
    """Bound the integral over thresholds below `lowest`, where t exceeds `end`.

    There delta is at most rate * Phi(x), which falls at least as exp(-|lowest| |dx|),
    while t grows no faster than `_speed_bound`.
    """
    speed = _speed_bound(step, lowest)
    return (
        math.log(2.0 * step.rate * speed)
        + float(log_ndtr(lowest))
        + (order - 1.0) * end
        - math.log(-lowest - (order - 1.0) * speed)
    )
