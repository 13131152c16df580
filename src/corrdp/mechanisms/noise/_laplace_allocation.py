"""Laplace scales of least total variance under one linear constraint per class.

With inverse scales q the movement of a class is ``bounds @ q`` and the variance of a
group is ``2 / q**2``: a convex program, solved by a barrier method.
Theory: ``docs/theory/laplace.md``.
"""

import numpy as np

from corrdp._typing import FloatArray

_GROWTH = 20.0
_ROUNDS = 25
_RELATIVE_GAP = 1e-9
_NEWTON_STEPS = 60
_SHRINKS = 60


def least_variance_scales(
    bounds: FloatArray, allowed_epsilon: FloatArray, cost: FloatArray
) -> FloatArray:
    """Return the scales that minimize ``sum(cost * scale**2)``.

    Parameters
    ----------
    bounds : array of float, shape (n_rows, n_groups)
        1-norm movement of each group; no column is all zero.
    allowed_epsilon : array of float, shape (n_rows,)
        Positive and finite.
    cost : array of float, shape (n_groups,)
        Positive cost of one unit of squared scale.

    Returns
    -------
    scale : array of float, shape (n_groups,)
        Within a relative 1e-9 of the least cost.

    Guarantee
    ---------
    ``sum(bounds / scale) <= allowed_epsilon`` in every row up to the last digits; the
    caller rounds scales up to the sampler's grid and prices what it rounded.
    Proof: ``docs/theory/laplace.md``.
    """
    rows = bounds / allowed_epsilon[:, None]
    # One group at a time could have inverse scale `alone`: the natural unit of q.
    alone = 1.0 / rows.max(axis=0)
    rows = rows * alone
    weights = cost / alone**2
    weights = weights / weights.sum()
    inverse = np.full(alone.size, 0.5 / alone.size)
    best, best_gap = inverse, np.inf
    sharpness = rows.shape[0] / float(np.sum(weights / inverse**2))
    for _ in range(_ROUNDS):
        inverse = _centered(inverse, rows, weights, sharpness)
        candidate = inverse / float((rows @ inverse).max())
        multipliers = 1.0 / (sharpness * (1.0 - rows @ inverse))
        cost_reached = float(np.sum(weights / candidate**2))
        lower = _lower_bound(multipliers, rows, weights)
        gap = (cost_reached - lower) / cost_reached
        if gap < best_gap:
            best, best_gap = candidate, gap
        if best_gap <= _RELATIVE_GAP:
            break
        sharpness *= _GROWTH
    scale: FloatArray = 1.0 / (alone * best)
    return scale


def _lower_bound(
    multipliers: FloatArray, rows: FloatArray, weights: FloatArray
) -> float:
    """Return the dual value: no feasible point has less cost than this."""
    prices = multipliers @ rows
    value = 3.0 * 4.0 ** (-1.0 / 3.0) * np.sum(np.cbrt(weights * prices**2))
    return float(value - multipliers.sum())


def _centered(
    inverse: FloatArray, rows: FloatArray, weights: FloatArray, sharpness: float
) -> FloatArray:
    """Minimize ``sharpness * sum(weights / q^2) - sum(log(1 - rows q))``."""

    def value(candidate: FloatArray) -> float:
        slack = 1.0 - rows @ candidate
        if candidate.min() <= 0.0 or slack.min() <= 0.0:
            return np.inf
        return float(sharpness * np.sum(weights / candidate**2) - np.sum(np.log(slack)))

    current = value(inverse)
    for _ in range(_NEWTON_STEPS):
        slack = 1.0 - rows @ inverse
        pressure = rows / slack[:, None]
        gradient = -2.0 * sharpness * weights / inverse**3 + pressure.sum(axis=0)
        hessian = pressure.T @ pressure
        hessian[np.diag_indices_from(hessian)] += 6.0 * sharpness * weights / inverse**4
        # Scaling by q makes the diagonal of order one whatever the weights.
        scaled = hessian * np.outer(inverse, inverse)
        step = -inverse * np.linalg.solve(scaled, gradient * inverse)
        decrease = -float(gradient @ step)
        if decrease <= 1e-10:
            break
        length = 1.0
        for _ in range(_SHRINKS):
            candidate = inverse + length * step
            reached = value(candidate)
            if reached <= current - 0.25 * length * decrease:
                break
            length *= 0.5
        else:
            break
        inverse, current = candidate, reached
    return inverse
