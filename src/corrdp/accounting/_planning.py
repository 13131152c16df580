"""Find the noise of least variance that keeps every class within its epsilon."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial

import numpy as np
from scipy.optimize import minimize_scalar

from corrdp._validate import check_count, check_delta
from corrdp.accounting._allocation import NoiseAllocation, allocate_noise
from corrdp.accounting._composition import compose_epsilon, estimate_epsilon
from corrdp.accounting._events import SampledGaussianEvent
from corrdp.accounting._gaussian import gaussian_mu
from corrdp.accounting._plan import NoisePlan, check_allowed, check_rate
from corrdp.accounting._sampled_conversions import (
    estimated_change,
    sampled_change,
    sampled_noise_multiplier,
)
from corrdp.accounting._sensitivity import SensitivityTable
from corrdp.exceptions import BudgetError

# Bounds the cost of a search of some twenty compositions; every grid is pessimistic.
PLANNING_GRID = 1e-3
_ROUGH_GRID = 1e-2  # where a search begins: as safe, only less sharp
_MOST_SEARCHES = 3
# Of an estimate to the price, in logarithms: nothing to correct, nothing to use.
_CLOSE, _FAR = 0.01, 0.25
_STRIDE = 0.25  # of the search, in logarithms
LOG_SMALLEST, LOG_LARGEST = -14.0, 4.0

_ChangesAt = Callable[[float], dict[float, float]]  # of a bound: changes by epsilon


def plan_noise(
    table: SensitivityTable,
    *,
    allowed_epsilon: Mapping[str, float],
    delta: float,
    n_steps: int = 1,
    rate: float | None = None,
) -> NoisePlan:
    """Return the plan of least weighted variance within the allowed epsilons.

    Parameters
    ----------
    table, allowed_epsilon, delta, n_steps, rate
        Those of `NoisePlan`: what it must hold for, and how often.

    Returns
    -------
    plan : NoisePlan
        `plan.fits` is true.

    Guarantee
    ---------
    Every class stays within its allowed epsilon at `delta`: the allocation is
    feasible to the last bit (`docs/theory/allocation.md`) and the price is that of
    `docs/theory/gaussian.md` or `docs/theory/sampling.md`.
    """
    allowed = check_allowed(table, allowed_epsilon)
    check_delta(delta)
    check_count("n_steps", n_steps)
    check_rate(table, rate)
    if not any(math.isfinite(value) for value in allowed.values()):
        raise BudgetError(
            "allowed_epsilon bounds no class, so no noise would be planned. "
            "Give at least one class a finite epsilon."
        )
    if rate is None:
        bounded = {n: value for n, value in allowed.items() if math.isfinite(value)}
        mu_of = {e: gaussian_mu(epsilon=e, delta=delta) for e in set(bounded.values())}
        changes = {n: mu_of[value] / math.sqrt(n_steps) for n, value in bounded.items()}
        allocation = _allocate(table, changes)
    else:
        find = _allocate_tied if _is_tied(table, allowed) else _allocate_sampled
        allocation = find(table, allowed, _SampledSteps(rate, n_steps, delta))
    return NoisePlan(table, allocation.noise_scale, allowed, delta, n_steps, rate)


def _allocate(
    table: SensitivityTable,
    changes: Mapping[str, float],
    contribution: float | None = None,
) -> NoiseAllocation:
    rows = table.bounds
    budget = np.array([changes.get(name, math.inf) for name in table.classes])
    if contribution is not None and table.contribution is not None:
        rows = np.vstack([rows, table.contribution])
        budget = np.append(budget, contribution)
    return allocate_noise(
        rows, budget_mu=budget, sizes=table.sizes, weights=table.weights
    )


def _is_tied(table: SensitivityTable, allowed: Mapping[str, float]) -> bool:
    """Return whether every bounded class may replace contributions by their opposites.

    Ordinary differential privacy: how far a sum moves is twice what one record adds.
    """
    own = [math.isfinite(allowed[name]) for name in table.classes]
    contribution = table.contribution
    return contribution is not None and np.array_equal(
        table.bounds[own], np.broadcast_to(2.0 * contribution, table.bounds[own].shape)
    )


def _allocate_tied(
    table: SensitivityTable, allowed: Mapping[str, float], steps: "_SampledSteps"
) -> NoiseAllocation:
    """Return the noise if change and contribution are tied: one number to search."""
    multiplier = steps.tied_multiplier(min(allowed.values()), PLANNING_GRID)
    change = 2.0 / multiplier
    return _allocate(
        table, {n: change for n, value in allowed.items() if math.isfinite(value)}
    )


def _allocate_sampled(
    table: SensitivityTable, allowed: Mapping[str, float], steps: "_SampledSteps"
) -> NoiseAllocation:
    """Search the contribution bound that leaves the least variance.

    A small bound leaves room for change but needs noise itself; a large one is free
    but tightens every change. The variance first falls, then rises.

    Where to look is a question of utility, so that the search estimates what changes
    cost; they are priced where it ends. If estimates turn out to be off there, they are
    corrected and the search is repeated.
    """
    epsilons = {value for value in allowed.values() if math.isfinite(value)}

    def allocation(log_bound: float, changes: Mapping[float, float]) -> NoiseAllocation:
        own = {name: changes[e] for name, e in allowed.items() if e in changes}
        return _allocate(table, own, math.exp(log_bound))

    def objective(changes: _ChangesAt, log_bound: float) -> float:
        return allocation(log_bound, changes(log_bound)).objective

    # Up to this bound every change is allowed, so that a larger one needs less noise.
    start = steps.log_tied_bound(min(epsilons))
    if _apart(steps.estimate(start), min(epsilons)) > _FAR:
        steps = replace(steps, has_rare_losses=True)
        limits = {e: e for e in epsilons}
    else:
        others = {e: steps.log_tied_bound(e) for e in epsilons - {min(epsilons)}}
        tied = others | {min(epsilons): start}
        limits = {e: steps.estimate(bound) for e, bound in tied.items()}
    found = []
    for _ in range(_MOST_SEARCHES):
        estimated = steps.estimated_changes(limits)
        place = _lowest(partial(objective, estimated), start)
        priced = steps.changes(place, estimated(place))
        found.append(allocation(place, priced))
        before, limits = limits, limits | steps.estimates(place, priced)
        if all(_apart(limits[e], before[e]) < _CLOSE for e in epsilons):
            break
    return min(found, key=lambda one: one.objective)


def _apart(one: float, other: float) -> float:
    return abs(math.log(max(one, 1e-300) / other))


@dataclass(frozen=True)
class _SampledSteps:
    """Changes that sampled steps allow at a bound on contributions, by epsilon.

    Losses that are rarer than `delta` can only be estimated by composing them.
    """

    rate: float
    n_steps: int
    delta: float
    has_rare_losses: bool = False

    def tied_multiplier(self, epsilon: float, grid: float) -> float:
        """Return the least noise in units of a contribution that may change freely."""
        return sampled_noise_multiplier(
            epsilon=epsilon,
            delta=self.delta,
            rate=self.rate,
            n_steps=self.n_steps,
            grid=grid,
        )

    def log_tied_bound(self, epsilon: float) -> float:
        """Return the largest bound at which every change is allowed."""
        return -math.log(self.tied_multiplier(epsilon, _ROUGH_GRID))

    def changes(
        self, log_bound: float, near: Mapping[float, float]
    ) -> dict[float, float]:
        """Return the largest changes, priced; `near` are guesses by epsilon."""
        return {
            epsilon: sampled_change(
                rate=self.rate,
                contribution=math.exp(log_bound),
                n_steps=self.n_steps,
                epsilon=epsilon,
                delta=self.delta,
                grid=PLANNING_GRID,
                near=guess,
            )
            for epsilon, guess in near.items()
        }

    def estimated_changes(self, limits: Mapping[float, float]) -> _ChangesAt:
        """Return a function of the bound, for estimates within `limits` by epsilon."""

        @cache
        def changes(log_bound: float) -> dict[float, float]:
            cost = partial(self.estimate, log_bound)
            largest = 2.0 * math.exp(log_bound)
            return {
                epsilon: estimated_change(cost, limit, largest)
                for epsilon, limit in limits.items()
            }

        return changes

    def estimates(
        self, log_bound: float, changes: Mapping[float, float]
    ) -> dict[float, float]:
        """Return by epsilon what is estimated for changes that were found to cost it.

        Those that may be as large as any cost less.
        """
        return {
            epsilon: self.estimate(log_bound, change)
            for epsilon, change in changes.items()
            if change < 2.0 * math.exp(log_bound)
        }

    def estimate(self, log_bound: float, change: float = math.inf) -> float:
        """Return about what a change costs, by default the largest."""
        bound = math.exp(log_bound)
        change = min(change, 2.0 * bound)
        event = SampledGaussianEvent(self.rate, bound, change, self.n_steps)
        return _estimate(event, self.delta, self.has_rare_losses)


# Every epsilon begins at the largest change, and repeated searches meet again.
@lru_cache(maxsize=4096)
def _estimate(
    event: SampledGaussianEvent, delta: float, has_rare_losses: bool
) -> float:
    if has_rare_losses:
        return compose_epsilon([event], delta=delta, grid=_ROUGH_GRID)
    return estimate_epsilon([event], delta=delta)


def _lowest(function: Callable[[float], float], start: float) -> float:
    """Return where a function that falls and rises is least, from `start` on."""
    remembered = cache(function)
    lower, middle, upper = _valley(remembered, start)
    best = minimize_scalar(
        remembered,
        bounds=(lower, upper),
        method="bounded",
        options={"xatol": 0.01, "maxiter": 8},
    )
    # The least may be a kink, beside which the search ends.
    return min(float(best.x), middle, key=remembered)


def _valley(
    function: Callable[[float], float], start: float
) -> tuple[float, float, float]:
    """Return the least of some points from `start` on, between two that enclose it."""
    start = min(max(start, LOG_SMALLEST), LOG_LARGEST)
    point = start
    while function(point + _STRIDE) < function(point) and point < LOG_LARGEST:
        point += _STRIDE
    return max(point - _STRIDE, start), point, point + _STRIDE
