"""Choose the scales of a vector release from its movement bounds and a policy."""

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from corrdp._typing import FloatArray
from corrdp.accounting import WHOLE_RECORD, allocate_noise
from corrdp.exceptions import BudgetError
from corrdp.mechanisms.noise._concentrated import concentrated_rho
from corrdp.mechanisms.noise._discrete import grid_scale
from corrdp.mechanisms.noise._laplace_scales import Objective, Variant, laplace_scales
from corrdp.mechanisms.noise._movement import Movement
from corrdp.mechanisms.noise._vector import (
    NoiseKind,
    VectorPlan,
    require_whole_record_noise,
)
from corrdp.policy import Budget, Policy, allowed_epsilons, neighbor_classes

# Scales a billionth larger leave room for the units to which a ledger rounds costs.
_MARGIN = 1.0 + 1e-9


def plan_vector(
    movement: Movement,
    *,
    policy: Policy,
    budget: Budget,
    leakage: Mapping[str, float] | float | None = None,
    kind: NoiseKind | str | None = None,
    variant: Variant | str = Variant.OPTIMAL,
    objective: Objective | str = Objective.TOTAL,
) -> VectorPlan:
    """Plan the noise of a vector of whole numbers.

    Parameters
    ----------
    movement : Movement
        Bounds per class of the policy and group, ``whole_record`` included.
    policy : Policy
        Classes and distances.
    budget : Budget
        With ``delta=0`` only Laplace noise is possible.
    leakage : mapping of str to float, or float, optional
        As in `neighbor_classes`; declared leakage by default.
    kind : NoiseKind, optional
        The one of smaller weighted variance by default.
    variant : Variant
        ``paper``, ``tight``, ``optimal`` or ``ordinary`` (no use of correlation).
    objective : Objective
        What ``optimal`` minimizes: ``total`` weighted variance, or the ``worst``.

    Returns
    -------
    plan : VectorPlan
        Depends on public numbers alone.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for the policy: every promised class is within its epsilon
    in rational arithmetic, or the plan is not built. Proofs: ``docs/theory/laplace.md``
    and ``docs/theory/discrete_noise.md``.
    """
    variant, objective = Variant(variant), Objective(objective)
    allowed = allowed_epsilons(
        neighbor_classes(policy, leakage),
        epsilon=budget.epsilon,
        epsilon_cap=policy.epsilon_cap,
    )
    kinds = [NoiseKind(kind)] if kind is not None else list(NoiseKind)
    if kind is None and (budget.delta == 0.0 or variant is Variant.PAPER):
        kinds = [NoiseKind.LAPLACE]
    plans = [
        _plan(movement, allowed, budget, chosen, variant, objective) for chosen in kinds
    ]
    return min(plans, key=weighted_variance)


def weighted_variance(plan: VectorPlan) -> float:
    """Return the total noise variance, weighted by the groups' weights."""
    groups = plan.movement.groups
    costs = np.array([group.weight * group.size for group in groups])
    return float(np.sum(costs * plan.noise_variance))


def _plan(
    movement: Movement,
    allowed: Mapping[str, float],
    budget: Budget,
    kind: NoiseKind,
    variant: Variant,
    objective: Objective,
) -> VectorPlan:
    # Each row of bounds is one class that the chosen variant keeps within its epsilon.
    names = [name for name, value in allowed.items() if math.isfinite(value)]
    promised = movement.absolute[[movement.row(name) for name in names]]
    require_whole_record_noise(movement, promised)
    if variant is Variant.ORDINARY:
        limits = {WHOLE_RECORD: budget.epsilon}
    else:
        limits = {name: allowed[name] for name in names}
    rows = [movement.row(name) for name in limits]
    find = _laplace if kind is NoiseKind.LAPLACE else _gaussian
    scales = np.zeros(len(movement.groups))
    if movement.groups:
        scales = find(movement, rows, limits, budget, variant, objective)
    priced = dict.fromkeys(allowed, math.inf) | limits
    moves = movement.absolute.max(axis=0, initial=0) > 0
    chosen = tuple(
        grid_scale(float(scale) * _MARGIN) if moving else Fraction(0)
        for scale, moving in zip(scales, moves, strict=True)
    )
    return VectorPlan(movement, kind, variant, chosen, priced, budget.delta)


def _laplace(
    movement: Movement,
    rows: list[int],
    limits: Mapping[str, float],
    budget: Budget,
    variant: Variant,
    objective: Objective,
) -> FloatArray:
    units = np.array(movement.units, dtype=np.float64)
    costs = np.array(
        [
            group.weight * (group.size if objective is Objective.TOTAL else 1)
            for group in movement.groups
        ]
    )
    return units * laplace_scales(
        movement.absolute[rows] / units,
        np.array(list(limits.values())),
        epsilon=budget.epsilon,
        variant=variant,
        objective=objective,
        cost=costs * units**2,
    )


def _gaussian(
    movement: Movement,
    rows: list[int],
    limits: Mapping[str, float],
    budget: Budget,
    variant: Variant,
    objective: Objective,
) -> FloatArray:
    if budget.delta == 0.0:
        raise BudgetError(
            f"Gaussian noise needs delta above 0, got delta={budget.delta!r}. Choose "
            "a delta, or Laplace noise."
        )
    if variant is Variant.PAPER:
        raise BudgetError(
            "variant='paper' is the paper's Laplace mechanism, got kind='gaussian'. "
            "Choose variant 'tight' or 'optimal', or Laplace noise."
        )
    units = np.array(movement.units, dtype=np.float64)
    squares = movement.squared[rows] / units**2
    rhos = [concentrated_rho(epsilon=e, delta=budget.delta) for e in limits.values()]
    # A margin for the last digits of the search over orders.
    allowed_rho = np.array(rhos) * (1.0 - 1e-12)
    weights = np.array([group.weight for group in movement.groups]) * units**2
    sizes = np.array([group.size for group in movement.groups], dtype=np.float64)
    if variant is Variant.OPTIMAL and objective is Objective.TOTAL:
        allocation = allocate_noise(
            np.sqrt(squares),
            budget_mu=np.sqrt(2.0 * allowed_rho),
            sizes=sizes,
            weights=weights,
        )
        return units * allocation.noise_scale
    relative = np.ones(sizes.size)
    if variant is Variant.OPTIMAL:
        relative = 1.0 / np.sqrt(weights)
    needed = np.max(squares @ relative**-2.0 / (2.0 * allowed_rho), initial=0.0)
    return units * math.sqrt(needed) * relative
