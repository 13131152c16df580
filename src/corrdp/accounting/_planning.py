"""Find the noise of least variance that keeps every class within its epsilon."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from corrdp._validate import check_count, check_delta
from corrdp.accounting._allocation import NoiseAllocation, allocate_noise, step_mu
from corrdp.accounting._gaussian import gaussian_mu
from corrdp.accounting._plan import NoisePlan, check_allowed, check_rate
from corrdp.accounting._sampled_conversions import sampled_change
from corrdp.accounting._sensitivity import SensitivityTable
from corrdp.exceptions import BudgetError


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


def _allocate_sampled(
    table: SensitivityTable,
    allowed: Mapping[str, float],
    *,
    delta: float,
    n_steps: int,
    rate: float,
) -> NoiseAllocation:
    """Search the contribution bound that leaves the least variance.

    Above the fixed point at which the bound equals what the plan needs, a smaller
    bound is free; below it, the search trades the bound against the changes.
    """

    def changes(contribution: float, grid: float) -> dict[str, float]:
        by_epsilon = {
            value: sampled_change(
                rate=rate,
                contribution=contribution,
                n_steps=n_steps,
                epsilon=value,
                delta=delta,
                grid=grid,
            )
            for value in set(allowed.values())
            if math.isfinite(value)
        }
        return {n: by_epsilon[v] for n, v in allowed.items() if v in by_epsilon}

    smallest = min(allowed.values())
    coarse = min(1e-2, smallest / 100)

    def excess(log_contribution: float) -> float:
        bound = math.exp(log_contribution)
        allocation = _allocate(table, changes(bound, coarse))
        assert table.contribution is not None  # checked by check_rate
        needed = step_mu(table.contribution[None, :], allocation.noise_scale)[0]
        return math.log(max(float(needed), 1e-300)) - log_contribution

    low, high = math.log(1e-4), math.log(50.0)
    fixed_point = high if excess(high) > 0 else brentq(excess, low, high, xtol=0.02)
    best = minimize_scalar(
        lambda log_bound: (
            _allocate(
                table, changes(math.exp(log_bound), coarse), math.exp(log_bound)
            ).objective
        ),
        bounds=(fixed_point - math.log(8.0), fixed_point + 0.05),
        method="bounded",
        options={"xatol": 0.02, "maxiter": 20},
    )
    bound = math.exp(best.x)
    return _allocate(table, changes(bound, min(1e-4, smallest / 100)), bound)
