"""Noise re-allocated at every training step, from where the last step left off.

During training the sensitivity table changes with the public iterate while every
budget per step stays fixed. A few multiplicative updates of the dual variables follow
the moving optimum; a common factor then makes the noise fit *this* step's table.
"""

import importlib.util
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_count
from corrdp.accounting._allocation import (
    SMALLEST_COST_RATIO,
    allocate_noise,
    largest_price,
    rounding_margin,
)
from corrdp.accounting._allocation_problem import (
    check_budget_mu,
    check_cost,
    check_sensitivity,
    check_silent_rows,
)
from corrdp.exceptions import CorrDPError

MULTIPLIER_FLOOR = 1e-6  # relative to the largest: a loose row must be able to return
_LARGEST = 1e30  # sensitivities and budgets within [1 / _LARGEST, _LARGEST] are safe
_LOAD_FLOOR = 1e-130  # keeps the precision of a group that no row moves finite


class OnlineAllocator:
    r"""Re-allocate noise at every step, a few cheap updates at a time.

    Parameters
    ----------
    sizes, weights
        As in `allocate_noise`.
    budget_mu : array of float, shape (n_rows,)
        Largest mu each row may spend in one step, fixed for the whole training;
        infinite for no constraint.
    n_iterations : int, default 2
        Multiplicative updates per step. More follow a fast-moving table more closely;
        the guarantee does not depend on it.
    compiled : bool, default True
        Whether to use numba where it is installed; the noise is the same but for
        rounding.

    Guarantee
    ---------
    Whatever came before, the noise that `update` returns satisfies
    ``step_mu(sensitivity, noise_scale) <= budget_mu`` in every row, in floating point.
    If every table is computed from what was released before and budgets are fixed in
    advance, ``n_steps`` steps are ``sqrt(n_steps) * budget_mu``-Gaussian-DP:
    `docs/theory/allocation.md`, section 6.
    Not covered: noise of an earlier step used again with a later table (a group that
    did not move then may move now, and would get no noise at all).

    Notes
    -----
    With :math:`A_{rG} = \Delta_{rG}^2 / \kappa_r^2` one iteration is
    :math:`p_G = \sqrt{w_G n_G / \sum_r \lambda_r A_{rG}}`,
    :math:`\lambda_r \leftarrow \lambda_r (A p)_r^2`; it never lowers the dual bound.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.accounting import OnlineAllocator
    >>> allocator = OnlineAllocator([1, 10], budget_mu=[0.5, 1.0])
    >>> for _ in range(50):
    ...     noise_scale = allocator.update(np.array([[1.0, 0.0], [0.1, 1.0]]))
    >>> noise_scale.round(3)
    array([2.   , 1.001])
    """

    def __init__(
        self,
        sizes: Any,
        *,
        budget_mu: Any,
        weights: Any = None,
        n_iterations: int = 2,
        compiled: bool = True,
    ) -> None:
        self.n_iterations = check_count("n_iterations", n_iterations)
        self._follow = (_compiled_update() if compiled else None) or _follow_in_arrays
        self._cost = check_cost(sizes, weights)
        self._budget_mu = check_budget_mu(budget_mu)
        self._shape = (self._budget_mu.size, self._cost.size)
        binds = np.isfinite(self._budget_mu) & (self._budget_mu > 0)
        self._rows = np.flatnonzero(binds)
        self._all_rows_bind = bool(binds.all())
        budget = self._budget_mu[binds]
        self._in_range = bool(
            budget.size and budget.min() >= 1 / _LARGEST and budget.max() <= _LARGEST
        )
        root_cost = np.sqrt(self._cost / self._cost.max())
        self._root_cost = np.maximum(root_cost, SMALLEST_COST_RATIO)
        self._budget = budget
        self._allowed = largest_price(budget)
        self._margin = (1.0 + rounding_margin(self._cost.size)) ** 2
        self._dual_floor = MULTIPLIER_FLOOR
        self._ones = np.ones(budget.size)
        self._dual = np.ones(budget.size)

    def update(self, sensitivity: FloatArray) -> FloatArray:
        """Return this step's noise scale per group for this step's sensitivity.

        Parameters
        ----------
        sensitivity : array of float, shape (n_rows, n_groups)
            Bound on how far each group moves (2-norm) under each row, now.

        Returns
        -------
        noise_scale : array of float, shape (n_groups,)
            Standard deviation per group; exactly 0 where no constrained row moves.

        Guarantee
        ---------
        ``step_mu(sensitivity, noise_scale) <= budget_mu`` in every row, in floating
        point: `docs/theory/allocation.md`, section 5.
        """
        sensitivity = self._check(sensitivity)
        moves = sensitivity if self._all_rows_bind else sensitivity[self._rows]
        totals = np.dot(self._ones, moves).tolist()
        some_still = 0.0 in totals
        smallest = min(filter(None, totals), default=0.0) if some_still else min(totals)
        if not (
            self._in_range and smallest >= 1 / _LARGEST and max(totals) <= _LARGEST
        ):
            return self._start_over(sensitivity)
        noise_scale, fits = self._follow(
            moves,
            self._budget,
            self._allowed,
            self._root_cost,
            self._dual,
            self.n_iterations,
            self._dual_floor,
            _LOAD_FLOOR if some_still else 0.0,
            self._margin,
        )
        if not fits:
            return self._start_over(sensitivity)
        if some_still:
            noise_scale[np.equal(totals, 0.0)] = 0.0
        return noise_scale

    def _start_over(self, sensitivity: FloatArray) -> FloatArray:
        """Solve from scratch where the updates could overflow or nothing moves."""
        self._dual.fill(1.0)
        allocation = allocate_noise(
            sensitivity, budget_mu=self._budget_mu, sizes=self._cost
        )
        return allocation.noise_scale

    def _check(self, sensitivity: Any) -> FloatArray:
        is_array = isinstance(sensitivity, np.ndarray)
        array: FloatArray = sensitivity if is_array else check_sensitivity(sensitivity)
        # False for NaN too. An infinite entry that binds is refused by the solver.
        if array.shape != self._shape or not array.min() >= 0.0:
            array = check_sensitivity(sensitivity)
            raise CorrDPError(
                f"sensitivity must have shape {self._shape}, one row per budget and "
                f"one column per size, got {array.shape}. Keep the table's layout."
            )
        if not self._all_rows_bind:
            check_sensitivity(array)
            check_silent_rows(array, self._budget_mu)
        return array


@cache
def _compiled_update() -> Callable[..., tuple[FloatArray, bool]] | None:
    """Return the compiled update if numba is there; it comes with the extra "fast"."""
    if importlib.util.find_spec("numba") is None:
        return None
    from numba import njit

    update: Callable[..., tuple[FloatArray, bool]] = njit(cache=True)(_follow_in_loops)
    return update


def _follow_in_arrays(
    moves: FloatArray,
    budget: FloatArray,
    allowed: FloatArray,
    root_cost: FloatArray,
    dual: FloatArray,
    n_iterations: int,
    dual_floor: float,
    load_floor: float,
    margin: float,
) -> tuple[FloatArray, bool]:
    """Update the dual variables in place; return the noise scale and whether it fits.

    Groups that do not move get the noise of the floor, for the caller to take away.
    """
    load = moves / budget[:, None]
    load *= load
    if load_floor > 0.0:
        np.maximum(load, load_floor, out=load)
    dual /= max(dual.tolist())
    np.maximum(dual, dual_floor, out=dual)
    for _ in range(n_iterations):
        precision = root_cost / np.sqrt(dual @ load)
        spent = load @ precision
        dual *= spent
        dual *= spent
    noise_scale = np.sqrt(max(spent.tolist()) * margin / precision)
    price = moves / noise_scale
    price *= price
    within = np.add.reduce(price, axis=1) <= allowed
    return noise_scale, False not in within.tolist()


def _follow_in_loops(
    moves: Any,
    budget: Any,
    allowed: Any,
    root_cost: Any,
    dual: Any,
    n_iterations: int,
    dual_floor: float,
    load_floor: float,
    margin: float,
) -> Any:
    """Compute `_follow_in_arrays` in loops, which is what numba compiles."""
    n_rows, n_groups = moves.shape
    load = np.empty((n_rows, n_groups))
    for r in range(n_rows):
        for g in range(n_groups):
            ratio = moves[r, g] / budget[r]
            load[r, g] = max(ratio * ratio, load_floor)
    largest = dual.max()
    for r in range(n_rows):
        dual[r] = max(dual[r] / largest, dual_floor)
    precision = np.empty(n_groups)
    peak = 0.0
    for _ in range(n_iterations):
        for g in range(n_groups):
            pull = 0.0
            for r in range(n_rows):
                pull += dual[r] * load[r, g]
            precision[g] = root_cost[g] / math.sqrt(pull)
        peak = 0.0
        for r in range(n_rows):
            spent = 0.0
            for g in range(n_groups):
                spent += load[r, g] * precision[g]
            dual[r] *= spent * spent
            peak = max(peak, spent)
    noise_scale = np.sqrt(peak * margin / precision)
    fits = True
    for r in range(n_rows):
        price = 0.0
        for g in range(n_groups):
            ratio = moves[r, g] / noise_scale[g]
            price += ratio * ratio
        fits = fits and price <= allowed[r]
    return noise_scale, fits
