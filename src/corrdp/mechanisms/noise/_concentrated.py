"""Concentrated DP: Renyi divergence at most `rho` times the order, at every order."""

import math
from functools import lru_cache

from scipy.optimize import brentq, minimize_scalar

from corrdp._validate import check_delta, check_epsilon, check_real
from corrdp.accounting import renyi_epsilon
from corrdp.exceptions import BudgetError

# Of the order beyond 1: a smaller excess is lost beside 1.
_SMALLEST_LOG_EXCESS, _LARGEST_LOG_EXCESS = -25.0, 300.0
_SMALLEST_LOG_RHO = -650.0


def concentrated_epsilon(*, rho: float, delta: float) -> float:
    """Return the epsilon at `delta` of a release with divergence ``rho * order``.

    Parameters
    ----------
    rho : float
        Half the squared movement in units of the noise.
    delta : float
        In (0, 1).

    Guarantee
    ---------
    (epsilon, delta)-indistinguishable: every order gives a valid epsilon, so the
    search for the best one cannot make the result too small
    (`docs/theory/discrete_noise.md`).

    Examples
    --------
    >>> round(concentrated_epsilon(rho=0.03, delta=1e-6), 3)
    1.118
    """
    rho = check_real("rho", rho, lower=0.0)
    check_delta(delta)
    if rho == 0.0:
        return 0.0

    def at(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        return renyi_epsilon([order], [rho * order], delta)

    log_excess = 0.5 * math.log(math.log(1.0 / delta) / rho)
    center = min(max(log_excess, _SMALLEST_LOG_EXCESS), _LARGEST_LOG_EXCESS)
    found = minimize_scalar(
        at,
        bounds=(center - 8.0, center + 4.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.fun)


def concentrated_rho(*, epsilon: float, delta: float) -> float:
    """Return the largest rho whose epsilon at `delta` does not exceed `epsilon`.

    Guarantee
    ---------
    ``concentrated_epsilon(rho=result, delta=delta) <= epsilon`` as computed, so
    calibrating and then pricing never exceeds the target
    (`docs/theory/discrete_noise.md`).

    Examples
    --------
    >>> rho = concentrated_rho(epsilon=1.0, delta=1e-6)
    >>> concentrated_epsilon(rho=rho, delta=1e-6) <= 1.0
    True
    """
    return _largest_rho(check_epsilon(epsilon), check_delta(delta))


@lru_cache(maxsize=1024)
def _largest_rho(epsilon: float, delta: float) -> float:
    def excess(log_rho: float) -> float:
        return concentrated_epsilon(rho=math.exp(log_rho), delta=delta) - epsilon

    log_odds = math.log(1.0 / delta)
    simple = epsilon / (math.sqrt(epsilon + log_odds) + math.sqrt(log_odds))
    # Bun and Steinke 2016: a little too small
    low = high = max(2.0 * math.log(simple), _SMALLEST_LOG_RHO)
    if excess(low - 1.0) > 0.0:
        raise BudgetError(
            f"epsilon={epsilon!r} needs more noise than a float can hold. Raise it."
        )
    while excess(high) <= 0.0:
        high += 1.0
    rho = math.exp(brentq(excess, low - 1.0, high, xtol=1e-13))
    while concentrated_epsilon(rho=rho, delta=delta) > epsilon:
        rho *= 1.0 - 1e-9
    return rho
