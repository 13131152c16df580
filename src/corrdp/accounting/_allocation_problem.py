"""What a noise allocation is given, checked: the table, the budgets, the costs."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp._validate import check_nonnegative_array
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError

BoolArray: TypeAlias = NDArray[np.bool_]

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class AllocationProblem:
    """Checked inputs; `cost` is weight times size."""

    sensitivity: FloatArray
    budget_mu: FloatArray
    cost: FloatArray

    @property
    def binding_rows(self) -> BoolArray:
        """Rows with a finite budget and something that moves."""
        return np.isfinite(self.budget_mu) & self.sensitivity.any(axis=1)

    @property
    def moving_groups(self) -> BoolArray:
        """Groups that some binding row moves: those that need noise."""
        return np.asarray(self.sensitivity[self.binding_rows].any(axis=0))

    def in_budget_units(self) -> FloatArray:
        """Return sensitivity / budget of binding rows and moving groups."""
        rows = self.binding_rows
        moves = self.sensitivity[np.ix_(rows, self.moving_groups)]
        with np.errstate(over="ignore", under="ignore"):
            scaled = moves / self.budget_mu[rows, None]
        if np.isinf(scaled).any():
            where = int(np.flatnonzero(rows)[np.isinf(scaled).any(axis=1)][0])
            raise BudgetError(
                f"budget_mu[{where}]={float(self.budget_mu[where])!r} needs more noise "
                "than a float can hold. Raise the budget or rescale the release."
            )
        # A change too small to be seen against its budget still needs some noise.
        return np.where(moves > 0, np.maximum(scaled, SMALLEST_NORMAL), 0.0)


def check_sensitivity(sensitivity: Any) -> FloatArray:
    """Return finite non-negative sensitivities with at least one row, or raise."""
    array = check_nonnegative_array(
        "sensitivity", sensitivity, ndim=2, allow_infinite=True
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
    return np.asarray(sizes * weights)


def check_silent_rows(sensitivity: FloatArray, budget_mu: FloatArray) -> None:
    """Raise `BudgetError` for a row that moves although its budget is 0."""
    loud = (budget_mu == 0) & sensitivity.any(axis=1)
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
