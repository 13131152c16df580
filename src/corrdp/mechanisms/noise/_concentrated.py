"""Concentrated DP: Renyi divergence at most `rho` times the order, at every order."""

import math

from scipy.optimize import brentq, minimize_scalar

from corrdp._validate import check_delta, check_epsilon, check_real
from corrdp.accounting import renyi_epsilon

_LARGEST_LOG_ORDER = 30.0


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
    1.148
    """
    rho = check_real("rho", rho, lower=0.0)
    check_delta(delta)
    if rho == 0.0:
        return 0.0

    def at(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        return renyi_epsilon([order], [rho * order], delta)

    center = 0.5 * math.log(math.log(1.0 / delta) / rho)
    found = minimize_scalar(
        at,
        bounds=(center - 8.0, min(center + 8.0, _LARGEST_LOG_ORDER)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.fun)


def concentrated_rho(*, epsilon: float, delta: float) -> float:
    """Return the largest rho whose epsilon at `delta` does not exceed `epsilon`.

    Guarantee
    ---------
    ``concentrated_epsilon(rho=result, delta=delta) <= epsilon`` as computed, so
    calibrating and then pricing never exceeds the target.

    Examples
    --------
    >>> rho = concentrated_rho(epsilon=1.0, delta=1e-6)
    >>> concentrated_epsilon(rho=rho, delta=1e-6) <= 1.0
    True
    """
    epsilon = check_epsilon(epsilon)
    check_delta(delta)
    low, high = -80.0, math.log(epsilon)
    root = brentq(
        lambda log_rho: (
            concentrated_epsilon(rho=math.exp(log_rho), delta=delta) - epsilon
        ),
        low,
        high,
        xtol=1e-13,
    )
    rho = math.exp(root)
    while concentrated_epsilon(rho=rho, delta=delta) > epsilon:
        rho *= 1.0 - 1e-9
    return rho
