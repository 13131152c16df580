"""Conversions between epsilon, change, noise and steps of a sampled release.

Theory: ``docs/theory/sampling.md``.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache

from corrdp._validate import check_epsilon, check_real
from corrdp.accounting._composition import compose_epsilon
from corrdp.accounting._events import SampledGaussianEvent
from corrdp.exceptions import BudgetError

_RELATIVE_TOLERANCE = 1e-7
_SMALLEST_NOISE_MULTIPLIER = 1e-3
# Of the cost by the value, both in logarithms: where rare large losses decide, a change
# costs next to nothing.
_FLATTEST, _STEEPEST = 0.02, 5.0
_LONGEST_STEP = 10.0  # of the search, in logarithms
_ROUGHLY = 3e-3


def sampled_epsilon(
    *,
    rate: float,
    contribution: float,
    change: float,
    n_steps: int,
    delta: float,
    grid: float = 1e-4,
    sampling: str = "poisson",
) -> float:
    """Return an epsilon that `n_steps` sampled Gaussian steps keep at `delta`.

    Parameters
    ----------
    rate, contribution, change, n_steps, sampling
        Of the steps, fixed in advance, as in `SampledGaussianEvent`. At most twice
        `contribution` can change. A batch of fixed size costs as much as twice the
        contribution.
    delta, grid
        As in `compose_epsilon`.

    Returns
    -------
    epsilon : float
        Rounded up, usually by less than 0.1 %.

    Guarantee
    ---------
    (epsilon, delta)-indistinguishable, replace-one neighbors, steps that may depend on
    earlier answers through everything but these numbers. Theory:
    ``docs/theory/sampling.md``. Not covered: division by the realized batch size,
    shuffling, stopping early by what was seen.

    Examples
    --------
    >>> epsilon = sampled_epsilon(
    ...     rate=0.01, contribution=1.0, change=0.1, n_steps=1000, delta=1e-5
    ... )
    >>> round(epsilon, 5)
    0.33347
    """
    event = SampledGaussianEvent(rate, contribution, change, n_steps, sampling)
    return compose_epsilon([event], delta=delta, grid=grid)


def sampled_change(
    *,
    epsilon: float,
    delta: float,
    rate: float,
    contribution: float,
    n_steps: int,
    grid: float = 1e-4,
    sampling: str = "poisson",
    near: float | None = None,
) -> float:
    """Return the largest change that keeps sampled steps within a budget.

    Parameters are those of `sampled_epsilon`; answers are remembered. A guess that the
    answer lies `near` saves most of the search.

    Returns
    -------
    change : float
        ``sampled_epsilon`` at it is at most `epsilon`; twice `contribution` if the
        budget allows any change.

    Guarantee
    ---------
    As `sampled_epsilon`. Theory: ``docs/theory/sampling.md``.
    """
    widest = SampledGaussianEvent(
        rate, contribution, 2.0 * contribution, n_steps, sampling
    )
    start = widest.change if near is None else min(near, widest.change)
    return _sampled_change(widest, check_epsilon(epsilon), delta, grid, start)


# A pure function of few numbers that takes a second, and plans ask for it again.
@lru_cache(maxsize=4096)
def _sampled_change(
    widest: SampledGaussianEvent,
    epsilon: float,
    delta: float,
    grid: float,
    start: float,
) -> float:
    @cache
    def cost(change: float) -> float:
        return compose_epsilon([replace(widest, change=change)], delta=delta, grid=grid)

    # More change never costs less, so a guess beyond the budget answers both.
    if cost(start) <= epsilon and cost(widest.change) <= epsilon:
        return widest.change
    return _largest_within(cost, epsilon, start=start)


def estimated_change(
    cost: Callable[[float], float], epsilon: float, largest: float
) -> float:
    """Return about the largest change, up to `largest`, that costs at most `epsilon`.

    No bound where the cost is an estimate: for searches whose end is priced.
    """
    if cost(largest) <= epsilon:
        return largest
    return _largest_within(cost, epsilon, start=largest, tolerance=_ROUGHLY)


def sampled_noise_multiplier(
    *,
    epsilon: float,
    delta: float,
    rate: float,
    n_steps: int,
    relative_change: float = 2.0,
    grid: float = 1e-4,
    sampling: str = "poisson",
) -> float:
    """Return the least noise that keeps sampled steps within a budget.

    Parameters
    ----------
    epsilon, delta : float
        The budget of all steps together.
    rate, n_steps, grid, sampling
        As in `sampled_epsilon`.
    relative_change : float
        How far a contribution can change, in units of its largest norm; 2 is ordinary
        replace-one DP-SGD.

    Returns
    -------
    noise_multiplier : float
        Standard deviation of the noise divided by the largest norm of a contribution;
        not below 0.001, even if the budget allows it.

    Guarantee
    ---------
    As `sampled_epsilon` with ``contribution=1 / noise_multiplier``. Theory:
    ``docs/theory/sampling.md``.
    """
    epsilon = check_epsilon(epsilon)
    relative_change = check_real(
        "relative_change",
        relative_change,
        lower=0.0,
        upper=2.0,
        open_lower=True,
        remedy="Two contributions differ by at most twice their largest norm.",
    )

    @cache
    def cost(contribution: float) -> float:
        change = relative_change * contribution
        event = SampledGaussianEvent(rate, contribution, change, n_steps, sampling)
        return compose_epsilon([event], delta=delta, grid=grid)

    cost(1.0)  # refuses what is out of range
    if (1.0 - rate) ** n_steps >= 1.0 - delta:
        # The record takes part with a probability below delta: noise hardly matters.
        return _SMALLEST_NOISE_MULTIPLIER
    contribution = _largest_within(cost, epsilon, start=1.0)
    # One unit up, so that the reciprocal rounds to no more than the contribution.
    return math.nextafter(1.0 / contribution, math.inf)


def sampled_steps(
    *,
    epsilon: float,
    delta: float,
    rate: float,
    contribution: float,
    change: float,
    grid: float = 1e-4,
    sampling: str = "poisson",
) -> int:
    """Return the largest number of sampled steps within a budget.

    Parameters are those of `sampled_epsilon`.

    Returns
    -------
    n_steps : int
        Zero if not even one step fits.

    Guarantee
    ---------
    As `sampled_epsilon`. Theory: ``docs/theory/sampling.md``.
    """
    epsilon = check_epsilon(epsilon)
    event = SampledGaussianEvent(rate, contribution, change, 1, sampling)
    if event.rate * min(event.change, event.contribution) == 0.0:
        raise BudgetError(
            "rate, contribution and change must be positive, got "
            f"rate={rate!r}, contribution={contribution!r}, change={change!r}. "
            "A step that reveals nothing may be repeated without end."
        )

    def fits(n_steps: int) -> bool:
        steps = replace(event, n_steps=n_steps)
        return compose_epsilon([steps], delta=delta, grid=grid) <= epsilon

    lower, upper = 0, 1
    while fits(upper):
        lower, upper = upper, 4 * upper
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (middle, upper) if fits(middle) else (lower, middle)
    return lower


def _largest_within(
    cost: Callable[[float], float],
    limit: float,
    *,
    start: float,
    tolerance: float = _RELATIVE_TOLERANCE,
) -> float:
    """Return the largest value whose cost is within the limit, to a relative tolerance.

    The cost is close to a power of the value, so a secant in logarithms, kept inside a
    bracket, needs few evaluations. The result itself was found to be within the limit.
    """
    lower, upper = -math.inf, math.inf
    point, slope = math.log(start), 1.0
    seen: list[tuple[float, float]] = []
    while upper - lower > tolerance:
        value = cost(math.exp(point))
        lower, upper = (point, upper) if value <= limit else (lower, point)
        gap = min(max(math.log(max(value, 1e-300) / limit), -2.0), 2.0)
        if seen and seen[-1][0] != point:
            rise = (gap - seen[-1][1]) / (point - seen[-1][0])
            slope = min(max(rise, _FLATTEST), _STEEPEST)
        seen.append((point, gap))
        # Aim a little beyond the root, so that the bracket closes from both sides.
        step = gap / slope + math.copysign(0.4 * tolerance, gap)
        point -= min(max(step, -_LONGEST_STEP), _LONGEST_STEP)
        if not lower < point < upper:
            point = 0.5 * (lower + upper)
    return math.exp(lower)
