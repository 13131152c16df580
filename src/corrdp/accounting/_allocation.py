"""Noise per group: the least weighted variance that every neighbor class allows.

One release adds Gaussian noise of standard deviation ``noise_scale[group]`` to each
group of coordinates. What it costs a row of the sensitivity table is linear in the
precisions ``1 / noise_scale**2``, so the cheapest noise is a convex program, solved
here by a primal-dual interior-point method and certified by its dual.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from corrdp._typing import FloatArray
from corrdp._validate import check_nonnegative_array
from corrdp.accounting._allocation_problem import (
    SMALLEST_NORMAL,
    AllocationProblem,
    check_length,
    check_problem,
    dense,
    least_cost,
    minimize_cost,
    per_group,
)
from corrdp.exceptions import BudgetError, UtilityWarning

_GAP_ACCEPTED = 1e-6
SMALLEST_COST_RATIO = 1e-20  # below it a group weighs nothing in the objective


@dataclass(frozen=True, eq=False)
class NoiseAllocation:
    """Noise per group, with the evidence that it is feasible and optimal.

    Attributes
    ----------
    noise_scale : array of float, shape (n_groups,)
        Standard deviation per group; exactly 0 where no constrained row moves.
    precision : array of float, shape (n_groups,)
        ``1 / noise_scale**2``, infinite where the noise scale is 0.
    objective : float
        Total weighted variance, ``sum(weights * sizes * noise_scale**2)``.
    multipliers : array of float, shape (n_rows,)
        What one more unit of ``budget_mu**2`` would save; 0 on loose rows.
    optimality_gap : float
        Upper bound on ``1 - minimum / objective``, proved by `multipliers`.
    iterations : int
        Newton steps taken; 0 for a closed form.
    """

    noise_scale: FloatArray
    precision: FloatArray
    objective: float
    multipliers: FloatArray
    optimality_gap: float
    iterations: int


def step_mu(sensitivity: FloatArray, noise_scale: FloatArray) -> FloatArray:
    r"""Return the Gaussian-DP parameter of one release, per row.

    Parameters
    ----------
    sensitivity : array of float, shape (n_rows, n_groups)
        Bound on how far each group moves (2-norm); infinite if there is none.
    noise_scale : array of float, shape (n_groups,)
        Standard deviation of the noise on every coordinate of a group.

    Returns
    -------
    mu : array of float, shape (n_rows,)
        Infinite where a group that moves carries no noise.

    Guarantee
    ---------
    The release is mu-Gaussian-DP between neighbors that move each group by at most
    the row's sensitivity: `docs/theory/allocation.md`, section 1.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.accounting import step_mu
    >>> step_mu(np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([1.0, 1.0]))
    array([5., 1.])
    >>> step_mu(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.0, 2.0]))
    array([0.5, inf])
    """
    sensitivity = check_nonnegative_array(
        "sensitivity", sensitivity, ndim=2, allow_infinite=True
    )
    noise_scale = check_nonnegative_array("noise_scale", noise_scale, ndim=1)
    check_length("noise_scale", noise_scale, sensitivity.shape[1], "group")
    return np.sqrt(_squared_mu(sensitivity, noise_scale))


def is_within_budget(
    sensitivity: FloatArray, noise_scale: FloatArray, budget_mu: FloatArray
) -> bool:
    """Return whether `step_mu` is within the budget in every row.

    For use at every step: arrays are not looked at first. With NaN the answer is no.

    Guarantee
    ---------
    As `step_mu` (`docs/theory/allocation.md`, section 1).
    """
    if 0.0 in noise_scale.tolist():
        squared_mu = _squared_mu(sensitivity, noise_scale)
    else:
        ratio = sensitivity / noise_scale
        squared_mu = np.add.reduce(ratio * ratio, axis=1)
    return False not in (np.sqrt(squared_mu) <= budget_mu).tolist()


def allocate_noise(
    sensitivity: FloatArray,
    *,
    budget_mu: FloatArray,
    sizes: FloatArray,
    weights: FloatArray | None = None,
) -> NoiseAllocation:
    r"""Return the least weighted noise that keeps every row within its budget.

    Parameters
    ----------
    sensitivity : array of float or sparse array, shape (n_rows, n_groups)
        Bound on how far each group moves (2-norm) under each row. A neighbor class
        may have several rows, and any further linear constraint on the precisions,
        such as a bound on one record's contribution, is one more row.
    budget_mu : array of float, shape (n_rows,)
        Largest mu each row may spend in this release; infinite for no constraint.
    sizes : array of float, shape (n_groups,)
        Number of coordinates per group.
    weights : array of float, shape (n_groups,), optional
        Cost of a unit of variance on one coordinate of the group. Default 1.

    Returns
    -------
    allocation : NoiseAllocation

    Raises
    ------
    GuaranteeVoidError
        A sensitivity is infinite: no noise hides an unbounded change.
    BudgetError
        A budget is negative, NaN, or 0 for a row that moves.
    CorrDPError
        Shapes disagree, or a sensitivity, size or weight is out of range.

    Guarantee
    ---------
    ``step_mu(sensitivity, noise_scale) <= budget_mu`` in every row, in floating point
    and not merely up to a tolerance, so the release is budget_mu-Gaussian-DP for each
    row (`docs/theory/allocation.md`). Rows with infinite budget are not protected.
    Not covered: a `sensitivity` that is not an upper bound.

    Notes
    -----
    Minimizes :math:`\sum_G w_G n_G / p_G` subject to
    :math:`\sum_G \Delta_{rG}^2 p_G \le \kappa_r^2`.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.accounting import allocate_noise
    >>> allocation = allocate_noise(
    ...     np.array([[1.0, 0.0], [0.1, 1.0]]), budget_mu=[0.5, 1.0], sizes=[1, 10]
    ... )
    >>> allocation.noise_scale.round(3)
    array([2.   , 1.001])
    """
    problem = check_problem(sensitivity, budget_mu, sizes, weights)
    rows, groups = problem.binding_rows, problem.moving_groups
    noise_scale = np.zeros(groups.size)
    multipliers = np.zeros(rows.size)
    gap, iterations = 0.0, 0
    if rows.any():
        load, root_cost, peak = _normalized(problem)
        precision, dual, iterations = minimize_cost(
            load, np.maximum(root_cost, root_cost.max() * SMALLEST_COST_RATIO)
        )
        with np.errstate(over="ignore"):
            noise_scale[groups] = peak / np.sqrt(precision)
        noise_scale = _hold_exactly(problem, noise_scale)
        total = math.fsum((root_cost * (noise_scale[groups] / peak)) ** 2)
        root_total = math.fsum(root_cost * np.sqrt(dual @ load))
        gap = max(0.0, 1.0 - root_total**2 / (float(dual.sum()) * total))
        with np.errstate(over="ignore", under="ignore"):
            unit = peak.max() * math.sqrt(problem.cost.max())
            dual *= (root_total / dual.sum()) ** 2
            multipliers[rows] = dual * (unit / problem.budget_mu[rows]) ** 2
    if gap > _GAP_ACCEPTED:
        warnings.warn(
            f"the noise is within budget but up to {gap:.2g} (relative) above the "
            "least possible. Bring sensitivities and weights to comparable scales.",
            UtilityWarning,
            stacklevel=2,
        )
    return _summarize(problem, noise_scale, multipliers, gap, iterations)


def least_variance(
    sensitivity: FloatArray,
    *,
    budget_mu: FloatArray,
    sizes: FloatArray,
    weights: FloatArray | None = None,
) -> float:
    """Return a number that the objective of `allocate_noise` cannot be below.

    Found in a small part of its time, from the multipliers it starts with. Parameters
    and errors are those of `allocate_noise`.

    Guarantee
    ---------
    None on privacy: no noise is chosen. A lower bound by weak duality, rounding apart
    (`docs/theory/allocation.md`, section 3).
    """
    problem = check_problem(sensitivity, budget_mu, sizes, weights)
    if not problem.binding_rows.any():
        return 0.0
    load, root_cost, peak = _normalized(problem)
    with np.errstate(over="ignore", under="ignore"):
        unit = np.square(peak.max()) * problem.cost.max()
        return float(least_cost(load, root_cost) * unit)


def _normalized(
    problem: AllocationProblem,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return loads with column maxima 1, roots of the costs, and those maxima."""
    scaled = problem.in_budget_units()
    peak = dense(scaled.max(axis=0)).reshape(-1)
    root_cost = np.sqrt(problem.cost[problem.moving_groups] / problem.cost.max())
    root_cost *= peak / peak.max()
    return per_group(np.divide, scaled, peak) ** 2, root_cost, peak


def isotropic_noise(
    sensitivity: FloatArray,
    *,
    budget_mu: FloatArray,
    sizes: FloatArray,
    weights: FloatArray | None = None,
) -> NoiseAllocation:
    """Return the least single noise scale, shared by all groups.

    Parameters and errors are those of `allocate_noise`, whose result this is for one
    group; for more it is the comparison. Every group gets the noise, also one that no
    row moves, and `optimality_gap` is 0: the optimum among single scales, in closed
    form.

    Guarantee
    ---------
    As `allocate_noise`: ``step_mu(sensitivity, noise_scale) <= budget_mu``, exactly
    (`docs/theory/allocation.md`).

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.accounting import isotropic_noise
    >>> allocation = isotropic_noise(
    ...     np.array([[3.0, 4.0]]), budget_mu=[0.5], sizes=[1, 1]
    ... )
    >>> allocation.noise_scale.round(9)
    array([10., 10.])
    """
    problem = check_problem(sensitivity, budget_mu, sizes, weights)
    rows = problem.binding_rows
    noise_scale = np.zeros(problem.cost.size)
    multipliers = np.zeros(rows.size)
    if rows.any():
        scaled = problem.in_budget_units()
        peak = scaled.max()
        with np.errstate(over="ignore"):
            needed = peak * np.sqrt(((scaled / peak) ** 2).sum(axis=1))
        noise_scale[:] = needed.max()
        noise_scale = _hold_exactly(problem, noise_scale)
        tightest = np.flatnonzero(rows)[needed.argmax()]
        with np.errstate(over="ignore", under="ignore"):
            ratio = noise_scale[0] / problem.budget_mu[tightest]
            multipliers[tightest] = problem.cost.sum() * ratio**2
    return _summarize(problem, noise_scale, multipliers, gap=0.0, iterations=0)


def _squared_mu(sensitivity: FloatArray, noise_scale: FloatArray) -> FloatArray:
    if issparse(sensitivity):
        ratio = per_group(np.divide, sensitivity, noise_scale)
        return np.asarray((ratio * ratio).sum(axis=1))
    ratio = np.zeros(sensitivity.shape)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        np.divide(sensitivity, noise_scale, out=ratio, where=sensitivity > 0)
        return np.asarray(np.add.reduce(ratio * ratio, axis=1))


def rounding_margin(n_groups: int) -> float:
    """Return a relative margin above the rounding error of any row's price."""
    return (n_groups + 8) * float(np.finfo(np.float64).eps)


def largest_price(budget_mu: FloatArray) -> FloatArray:
    """Return the largest floats not above budget_mu**2 whose roots fit the budget."""
    with np.errstate(over="ignore", under="ignore"):
        squared = budget_mu**2
    # Only subnormal squares can round so far up that their root exceeds the budget.
    return np.where(np.sqrt(squared) > budget_mu, np.nextafter(squared, 0.0), squared)


def _hold_exactly(problem: AllocationProblem, noise_scale: FloatArray) -> FloatArray:
    """Return the noise raised by the rounding of its own price, and no more."""
    allowed = largest_price(problem.budget_mu)
    floor = np.where(noise_scale > 0, SMALLEST_NORMAL, 0.0)
    margin = rounding_margin(noise_scale.size)
    while True:
        with np.errstate(over="ignore"):
            raised = np.maximum(noise_scale * (1.0 + margin), floor)
        if np.isinf(raised).any():
            raise BudgetError(
                f"budget_mu={problem.budget_mu.min():g} needs more noise than a float "
                "can hold. Raise the budget or rescale the release."
            )
        if (_squared_mu(problem.sensitivity, raised) <= allowed).all():
            return raised
        margin *= 2.0


def _summarize(
    problem: AllocationProblem,
    noise_scale: FloatArray,
    multipliers: FloatArray,
    gap: float,
    iterations: int,
) -> NoiseAllocation:
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        variance = noise_scale**2
        return NoiseAllocation(
            noise_scale=noise_scale,
            precision=1.0 / variance,
            objective=float(np.sum(problem.cost * variance)),
            multipliers=multipliers,
            optimality_gap=gap,
            iterations=iterations,
        )
