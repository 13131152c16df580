"""Find the noise of least variance that keeps every class within its epsilon."""

import math
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from scipy.optimize import minimize_scalar

from corrdp._validate import check_count, check_delta
from corrdp.accounting._allocation import NoiseAllocation, allocate_noise
from corrdp.accounting._gaussian import gaussian_mu
from corrdp.accounting._plan import NoisePlan, check_allowed, check_rate
from corrdp.accounting._sampled_conversions import (
    sampled_change,
    sampled_noise_multiplier,
)
from corrdp.accounting._sensitivity import SensitivityTable
from corrdp.exceptions import BudgetError

# Bounds the cost of a search of some twenty compositions; every grid is pessimistic.
PLANNING_GRID = 1e-3
# While the bound is searched, which is a question of utility: accuracy of changes, and
# a grid whose answers are as safe, only less sharp.
_ROUGHLY, _ROUGH_GRID = 3e-3, 1e-2
_FINELY = 1e-7
_STRIDE = 0.25  # of the search, in logarithms
LOG_SMALLEST, LOG_LARGEST = -14.0, 4.0


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
    table : SensitivityTable
        How far each group moves under each class.
    allowed_epsilon : mapping of str to float
        Largest epsilon per class; infinite where a class is only priced.
    delta : float
        Failure probability.
    n_steps : int
        Number of releases of such a vector.
    rate : float, optional
        Poisson sampling rate; None for full batches.

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
        changes = {
            name: gaussian_mu(epsilon=value, delta=delta) / math.sqrt(n_steps)
            for name, value in allowed.items()
            if math.isfinite(value)
        }
        allocation = _allocate(table, changes)
    elif _is_tied(table, allowed):
        allocation = _allocate_tied(
            table, allowed, delta=delta, n_steps=n_steps, rate=rate
        )
    else:
        allocation = _allocate_sampled(
            table, allowed, delta=delta, n_steps=n_steps, rate=rate
        )
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
    table: SensitivityTable,
    allowed: Mapping[str, float],
    *,
    delta: float,
    n_steps: int,
    rate: float,
) -> NoiseAllocation:
    """Return the noise if change and contribution are tied: one number to search."""
    multiplier = sampled_noise_multiplier(
        epsilon=min(allowed.values()),
        delta=delta,
        rate=rate,
        n_steps=n_steps,
        grid=PLANNING_GRID,
    )
    change = 2.0 / multiplier
    return _allocate(
        table, {n: change for n, value in allowed.items() if math.isfinite(value)}
    )


def _allocate_sampled(
    table: SensitivityTable,
    allowed: Mapping[str, float],
    *,
    delta: float,
    n_steps: int,
    rate: float,
) -> NoiseAllocation:
    """Search the contribution bound that leaves the least variance.

    A small bound leaves room for change but needs noise itself; a large one is free
    but tightens every change. The variance first falls, then rises.
    """

    def changes(log_bound: float, tolerance: float, grid: float) -> dict[str, float]:
        by_epsilon = {
            value: sampled_change(
                rate=rate,
                contribution=math.exp(log_bound),
                n_steps=n_steps,
                epsilon=value,
                delta=delta,
                grid=grid,
                tolerance=tolerance,
            )
            for value in set(allowed.values())
            if math.isfinite(value)
        }
        return {n: by_epsilon[v] for n, v in allowed.items() if v in by_epsilon}

    @cache
    def objective(log_bound: float) -> float:
        rough = changes(log_bound, _ROUGHLY, _ROUGH_GRID)
        return _allocate(table, rough, math.exp(log_bound)).objective

    # Up to this bound every change is allowed, so that a larger one needs less noise.
    tied = sampled_noise_multiplier(
        epsilon=min(allowed.values()),
        delta=delta,
        rate=rate,
        n_steps=n_steps,
        grid=_ROUGH_GRID,
    )
    lower, middle, upper = _valley(objective, -math.log(tied))
    best = minimize_scalar(
        objective,
        bounds=(lower, upper),
        method="bounded",
        options={"xatol": 0.01, "maxiter": 8},
    )
    # The least may be a kink, beside which the search ends.
    found = min(float(best.x), middle, key=objective)
    return _allocate(table, changes(found, _FINELY, PLANNING_GRID), math.exp(found))


def _valley(
    function: Callable[[float], float], start: float
) -> tuple[float, float, float]:
    """Return the least of some points from `start` on, between two that enclose it."""
    start = min(max(start, LOG_SMALLEST), LOG_LARGEST)
    point = start
    while function(point + _STRIDE) < function(point) and point < LOG_LARGEST:
        point += _STRIDE
    return max(point - _STRIDE, start), point, point + _STRIDE
