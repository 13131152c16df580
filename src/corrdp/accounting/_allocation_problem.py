"""What a noise allocation is given, checked, and the method that solves it.

The method is primal-dual with predictor and corrector, after Mehrotra (SIAM J. Optim.
2, 1992), in normalized units. It only has to be accurate, never trusted:
`allocate_noise` makes the result feasible and certifies the gap.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse import csr_array, issparse

from corrdp._threads import one_thread
from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_nonnegative_array
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError

BoolArray: TypeAlias = NDArray[np.bool_]
Table: TypeAlias = Any  # an array of float, or a large sparse array by rows

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
LARGEST_COST_RATIO = 1e100  # whose root, squared again, is still a number
GAP_TARGET = 1e-10
MAX_ITERATIONS = 100
WARM_START_ITERATIONS = 10
LARGEST_GROWTH = 2.0
LARGEST_PULL_CHANGE = 0.9
MANY_LONE_ROWS = 64  # from here on it pays to eliminate them first
LARGEST_DENSE = 2**16  # entries: a sparse table of fewer is quicker with its zeros


@dataclass(frozen=True, eq=False)
class AllocationProblem:
    """Checked inputs; `cost` is weight times size, `sensitivity` dense or sparse."""

    sensitivity: Table
    budget_mu: FloatArray
    cost: FloatArray

    @property
    def binding_rows(self) -> BoolArray:
        """Rows with a finite budget and something that moves."""
        return np.isfinite(self.budget_mu) & _moves(self.sensitivity, axis=1)

    @property
    def moving_groups(self) -> BoolArray:
        """Groups that some binding row moves: those that need noise."""
        return _moves(self.sensitivity[self.binding_rows], axis=0)

    def in_budget_units(self) -> Table:
        """Return sensitivity / budget of binding rows and moving groups."""
        rows = self.binding_rows
        scaled = self.sensitivity[np.ix_(rows, self.moving_groups)]
        budget_mu, entries = self.budget_mu[rows, None], scaled
        if issparse(scaled):
            budget_mu = np.repeat(budget_mu, np.diff(scaled.indptr))
            entries = scaled.data
        moves = entries > 0
        with np.errstate(over="ignore", under="ignore"):
            entries /= budget_mu
        infinite = (scaled == np.inf).sum(axis=1) > 0
        if infinite.any():
            where = int(np.flatnonzero(rows)[infinite][0])
            raise BudgetError(
                f"budget_mu[{where}]={float(self.budget_mu[where])!r} needs more noise "
                "than a float can hold. Raise the budget or rescale the release."
            )
        # A change too small to be seen against its budget still needs some noise.
        np.maximum(entries, SMALLEST_NORMAL, out=entries, where=moves)
        return scaled


def _moves(sensitivity: Table, axis: int) -> BoolArray:
    return np.asarray((sensitivity > 0).sum(axis=axis) > 0)


def per_group(
    operation: Callable[[FloatArray, FloatArray], FloatArray],
    table: Table,
    values: FloatArray,
) -> Table:
    """Return the table after an operation with a value of each group; 0 stays 0."""
    if not issparse(table):
        return operation(table, values)
    entries = operation(table.data, values[table.indices])
    return csr_array((entries, table.indices, table.indptr), shape=table.shape)


def dense(table: Table) -> FloatArray:
    """Return a table with its zeros."""
    return np.asarray(table.toarray() if issparse(table) else table)


def check_sensitivity(sensitivity: Any) -> Table:
    """Return finite non-negative sensitivities with at least one row, or raise.

    What is sparse stays so if it is large.
    """
    if issparse(sensitivity) and math.prod(sensitivity.shape) > LARGEST_DENSE:
        table = csr_array(sensitivity, dtype=np.float64, copy=True)
        check_nonnegative_array("entries of sensitivity", table.data, ndim=1)
        return table
    array = check_nonnegative_array(
        "sensitivity", dense(sensitivity), ndim=2, allow_infinite=True
    )
    if not array.size:
        raise CorrDPError(
            f"sensitivity must have a row and a group, got shape {array.shape}. "
            "For a release that protects nothing pass rows with infinite budget_mu."
        )
    if np.isinf(array).any():
        row, group = (int(index) for index in np.argwhere(np.isinf(array))[0])
        raise GuaranteeVoidError(
            f"sensitivity is infinite at index {(row, group)}: no noise hides an "
            "unbounded change. Declare bounds or clip the group."
        )
    return array


def check_budget_mu(budget_mu: Any) -> FloatArray:
    """Return non-negative, possibly infinite budgets, or raise `BudgetError`."""
    return check_nonnegative_array(
        "budget_mu", budget_mu, ndim=1, allow_infinite=True, error=BudgetError
    )


def check_cost(sizes: Any, weights: Any) -> FloatArray:
    """Return weight times size per group, all positive, or raise."""
    sizes = check_nonnegative_array("sizes", sizes, ndim=1)
    if weights is None:
        weights = np.ones(sizes.size)
    weights = check_nonnegative_array("weights", weights, ndim=1)
    check_length("weights", weights, sizes.size, "group")
    for name, values in (("sizes", sizes), ("weights", weights)):
        if not values.all():
            raise CorrDPError(
                f"{name} must be positive, got 0 at index {int(values.argmin())}: its "
                "noise would be unbounded. Leave the group out or give it a cost."
            )
    with np.errstate(over="ignore"):
        cost = np.asarray(sizes * weights)
    if cost.size and not cost.max() / LARGEST_COST_RATIO <= cost.min() < math.inf:
        raise CorrDPError(
            f"weights times sizes must lie within a factor of {LARGEST_COST_RATIO:g} "
            f"of each other, got {cost.min():g} and {cost.max():g}. Leave out groups "
            "that hardly count."
        )
    return cost


def check_silent_rows(sensitivity: FloatArray, budget_mu: FloatArray) -> None:
    """Raise `BudgetError` for a row that moves although its budget is 0."""
    loud = (budget_mu == 0) & _moves(sensitivity, axis=1)
    if loud.any():
        row = int(loud.argmax())
        raise BudgetError(
            f"budget_mu[{row}]=0.0 but row {row} of sensitivity is not zero: only "
            "infinite noise would do. Give the row a positive budget."
        )


def check_problem(
    sensitivity: Any, budget_mu: Any, sizes: Any, weights: Any
) -> AllocationProblem:
    """Return the checked inputs of an allocation, or raise."""
    problem = AllocationProblem(
        check_sensitivity(sensitivity),
        check_budget_mu(budget_mu),
        check_cost(sizes, weights),
    )
    n_rows, n_groups = problem.sensitivity.shape
    check_length("budget_mu", problem.budget_mu, n_rows, "row", error=BudgetError)
    check_length("sizes", problem.cost, n_groups, "group")
    check_silent_rows(problem.sensitivity, problem.budget_mu)
    return problem


def check_length(
    name: str,
    values: FloatArray,
    expected: int,
    unit: str,
    error: type[CorrDPError] = CorrDPError,
) -> None:
    """Raise unless there is one value per row or group of the table."""
    if values.size != expected:
        raise error(
            f"{name} must have one entry per {unit}, {expected} in all, got "
            f"{values.size}. Pass them in the order of the sensitivity table."
        )


def minimize_cost(
    load: FloatArray, root_cost: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    """Minimize sum(root_cost**2 / precision) subject to load @ precision <= 1.

    Every column of `load` has maximum 1. Returns a feasible precision, dual
    multipliers and the number of Newton steps (`docs/theory/allocation.md`, 4).
    """
    with one_thread():
        return _minimize_cost(load, root_cost)


def least_cost(load: FloatArray, root_cost: FloatArray) -> float:
    """Return a number that no feasible precision's cost is below.

    The value of the dual where `minimize_cost` starts, some matrix products in all
    (`docs/theory/allocation.md`, 4).
    """
    with one_thread():
        dual = _first_dual(load, root_cost)
        return float((root_cost @ np.sqrt(dual @ load)) ** 2 / dual.sum())


def _minimize_cost(
    load: FloatArray, root_cost: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    cost = root_cost**2
    lone = _lone_rows(load)
    precision, slack, dual = _warm_start(load, root_cost)
    best_gap, best = math.inf, (precision, dual)
    iterations = 0
    while True:
        pull = dual @ load
        feasible = precision / (load @ precision).max()
        lower = (root_cost @ np.sqrt(pull)) ** 2 / dual.sum()
        gap = 1.0 - lower / np.sum(cost / feasible)
        if gap < best_gap:
            best_gap, best = gap, (feasible, dual)
        if gap <= GAP_TARGET or iterations == MAX_ITERATIONS:
            break
        system = _NewtonSystem(load, cost, precision, slack, dual, pull, lone)
        if not system.solvable:
            break
        precision, slack, dual = system.step()
        iterations += 1
    return *best, iterations


def _warm_start(
    load: FloatArray, root_cost: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    dual = _first_dual(load, root_cost)
    precision = root_cost / np.sqrt(dual @ load)
    precision *= 0.9 / (load @ precision).max()
    slack = 1.0 - load @ precision
    objective = np.sum(root_cost**2 / precision)
    centered = 0.1 * objective / (dual.size * slack)
    return precision, slack, np.maximum(dual * objective / dual.sum(), centered)


def _first_dual(load: FloatArray, root_cost: FloatArray) -> FloatArray:
    dual = np.ones(load.shape[0])
    for _ in range(WARM_START_ITERATIONS):
        dual *= (load @ (root_cost / np.sqrt(dual @ load))) ** 2
        dual = np.maximum(dual / dual.max(), 1e-8)
    return dual


class _LoneRows(NamedTuple):
    """Rows that move one group each, that group, and all other rows."""

    rows: IntArray
    groups: IntArray
    others: IntArray | slice


def _lone_rows(load: FloatArray) -> _LoneRows:
    """Return the rows that move one group alone, if there are many; else none.

    In a policy with many insensitive columns nearly every class is of this kind.
    """
    is_lone = (load != 0).sum(axis=1) == 1
    if is_lone.all() or np.count_nonzero(is_lone) < MANY_LONE_ROWS:
        none = np.empty(0, dtype=np.int64)
        return _LoneRows(none, none, slice(None))
    rows = np.flatnonzero(is_lone)
    return _LoneRows(rows, load[rows].argmax(axis=1), np.flatnonzero(~is_lone))


class _NewtonSystem:
    """Newton steps for log(precision**2 * pull) = log(cost), slack * dual = target.

    Unknowns are relative changes of the precision. A row that moves one group alone
    adds to the diagonal of the system in the groups, so it is eliminated at once: a
    thousand columns with a class each leave three rows or so. What is left is reduced
    to whichever is fewer, rows or groups, and is positive definite either way
    (`docs/theory/allocation.md`, 4).
    """

    def __init__(
        self,
        load: FloatArray,
        cost: FloatArray,
        precision: FloatArray,
        slack: FloatArray,
        dual: FloatArray,
        pull: FloatArray,
        lone: _LoneRows,
    ) -> None:
        self.precision, self.slack, self.dual = precision, slack, dual
        self.spent = per_group(np.multiply, load, precision)
        spent = self.spent.sum(axis=1)
        self.primal_residual = 1.0 - spent - slack
        share = precision * pull
        self.dual_residual = share * np.log(cost / (precision * share))
        self.curvature = 2.0 * share
        self.tightness = dual / slack
        self.lone = lone
        self.shared, self.diagonal = self.spent[lone.others], self.curvature
        if lone.rows.size:
            self.alone = spent[lone.rows]
            weights = self.tightness[lone.rows] * self.alone**2
            self.diagonal = self.curvature + np.bincount(
                lone.groups, weights, self.curvature.size
            )
        matrix = self._matrix(self.tightness[lone.others])
        self.scaling = 1.0 / np.sqrt(matrix.diagonal())
        matrix *= self.scaling
        matrix *= self.scaling[:, None]
        matrix.flat[:: self.scaling.size + 1] += float(np.finfo(np.float64).eps)
        self.factor, info = dpotrf(matrix, lower=1, overwrite_a=1)
        self.solvable = info == 0

    def _matrix(self, tightness: FloatArray) -> FloatArray:
        shared, diagonal = self.shared, self.diagonal
        self.by_group = diagonal.size <= tightness.size
        if self.by_group:
            matrix = (dense(shared).T * tightness) @ shared
            matrix.flat[:: diagonal.size + 1] += diagonal
        else:
            matrix = dense(per_group(np.divide, shared, diagonal) @ shared.T)
            matrix.flat[:: tightness.size + 1] += 1.0 / tightness
        return np.asarray(matrix)

    def step(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the next precision, slack and dual (predictor, then corrector)."""
        product = self.slack * self.dual
        n_rows = product.size
        _, slack_change, dual_change = direction = self._direction(-product)
        length = min(1.0, self._longest(*direction))
        ahead = (self.slack + length * slack_change) @ (
            self.dual + length * dual_change
        )
        # Mehrotra's rule: the further the predictor gets alone, the less is centered.
        centering = (ahead / product.sum()) ** 3 * product.sum() / n_rows
        # Complementarity must not run ahead of stationarity, or steps shrink to 0.
        centering = max(centering, 0.1 * np.abs(self.dual_residual).sum() / n_rows)
        direction = self._direction(centering - product - slack_change * dual_change)
        length = min(1.0, 0.995 * self._longest(*direction))
        growth, slack_change, dual_change = direction
        return (
            self.precision * (1.0 + length * growth),
            self.slack + length * slack_change,
            self.dual + length * dual_change,
        )

    def _direction(
        self, target: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows, groups, others = self.lone
        push = target / self.slack - self.tightness * self.primal_residual
        right = self.dual_residual
        if rows.size:
            right = right - np.bincount(groups, push[rows] * self.alone, right.size)
        own, tightness = push[others], self.tightness[others]
        if self.by_group:
            growth = self._solve(right - own @ self.shared)
            own = own + tightness * (self.shared @ growth)
        else:
            own = self._solve(own / tightness + self.shared @ (right / self.diagonal))
            growth = (right - own @ self.shared) / self.diagonal
        moved, dual_change = self.spent @ growth, own
        if rows.size:
            dual_change = push + self.tightness * moved
            dual_change[others] = own
        return growth, self.primal_residual - moved, dual_change

    def _solve(self, right: FloatArray) -> FloatArray:
        solution, _ = dpotrs(self.factor, self.scaling * right, lower=1)
        return np.asarray(self.scaling * solution)

    def _longest(
        self, growth: FloatArray, slack_change: FloatArray, dual_change: FloatArray
    ) -> float:
        """Return the longest step that stays positive and near the linear model.

        The logarithm of the stationarity equation is only linear for moderate
        relative changes of precision and pull; unlimited, the iterates may cycle.
        """
        pull_change = 2.0 * (dual_change @ self.spent) / self.curvature
        shrinkage = max(
            -growth.min(),
            (-slack_change / self.slack).max(),
            (-dual_change / self.dual).max(),
            np.abs(growth).max() / LARGEST_GROWTH,
            np.abs(pull_change).max() / LARGEST_PULL_CHANGE,
        )
        return float(1.0 / max(shrinkage, 1e-3))
