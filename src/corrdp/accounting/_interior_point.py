"""Primal-dual interior-point method for `allocate_noise`, in normalized units.

A predictor-corrector method after Mehrotra (SIAM J. Optim. 2, 1992). It only has to
be accurate, never trusted: the caller makes the result feasible and certifies the gap.
"""

import math
from functools import cache

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from threadpoolctl import ThreadpoolController

from corrdp._typing import FloatArray

GAP_TARGET = 1e-10
MAX_ITERATIONS = 100
WARM_START_ITERATIONS = 10
LARGEST_GROWTH = 2.0
LARGEST_PULL_CHANGE = 0.9


def minimize_cost(
    load: FloatArray, root_cost: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    """Minimize sum(root_cost**2 / precision) subject to load @ precision <= 1.

    Every column of `load` has maximum 1. Returns a feasible precision, dual
    multipliers and the number of Newton steps (`docs/theory/allocation.md`, 4).
    """
    # numpy and scipy have a pool of threads each; taking turns, they wait for each
    # other, which costs more than the arithmetic.
    with _thread_pools().limit(limits=1, user_api="blas"):
        return _minimize_cost(load, root_cost)


def least_cost(load: FloatArray, root_cost: FloatArray) -> float:
    """Return a number that no feasible precision's cost is below.

    The value of the dual where `minimize_cost` starts, some matrix products in all
    (`docs/theory/allocation.md`, 4).
    """
    with _thread_pools().limit(limits=1, user_api="blas"):
        dual = _first_dual(load, root_cost)
        return float((root_cost @ np.sqrt(dual @ load)) ** 2 / dual.sum())


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def _minimize_cost(
    load: FloatArray, root_cost: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    cost = root_cost**2
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
        system = _NewtonSystem(load, cost, precision, slack, dual, pull)
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


class _NewtonSystem:
    """Newton steps for log(precision**2 * pull) = log(cost), slack * dual = target.

    Unknowns are relative changes of the precision. The linear system is reduced to
    whichever is fewer, rows or groups, and is positive definite either way.
    """

    def __init__(
        self,
        load: FloatArray,
        cost: FloatArray,
        precision: FloatArray,
        slack: FloatArray,
        dual: FloatArray,
        pull: FloatArray,
    ) -> None:
        self.precision, self.slack, self.dual = precision, slack, dual
        self.spent = load * precision
        self.primal_residual = 1.0 - self.spent.sum(axis=1) - slack
        share = precision * pull
        self.dual_residual = share * np.log(cost / (precision * share))
        self.curvature = 2.0 * share
        self.tightness = dual / slack
        self.by_group = precision.size <= slack.size
        if self.by_group:
            matrix = (self.spent.T * self.tightness) @ self.spent
            matrix.flat[:: precision.size + 1] += self.curvature
        else:
            matrix = (self.spent / self.curvature) @ self.spent.T
            matrix.flat[:: slack.size + 1] += 1.0 / self.tightness
        self.scaling = 1.0 / np.sqrt(matrix.diagonal())
        matrix *= self.scaling
        matrix *= self.scaling[:, None]
        matrix.flat[:: self.scaling.size + 1] += float(np.finfo(np.float64).eps)
        self.factor, info = dpotrf(matrix, lower=1, overwrite_a=1)
        self.solvable = info == 0

    def step(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the next precision, slack and dual (predictor, then corrector)."""
        product = self.slack * self.dual
        n_rows = product.size
        _, slack_change, dual_change = direction = self._direction(-product)
        length = min(1.0, self._longest(*direction))
        ahead = (self.slack + length * slack_change) @ (
            self.dual + length * dual_change
        )
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
        push = target / self.slack - self.tightness * self.primal_residual
        if self.by_group:
            growth = self._solve(self.dual_residual - push @ self.spent)
            dual_change = push + self.tightness * (self.spent @ growth)
        else:
            reduced = self.spent @ (self.dual_residual / self.curvature)
            dual_change = self._solve(push / self.tightness + reduced)
            growth = (self.dual_residual - dual_change @ self.spent) / self.curvature
        return growth, self.primal_residual - self.spent @ growth, dual_change

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
