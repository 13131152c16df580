"""Laplace scales of each variant: the paper's, the valid maximum, the optimum.

The optimum has least total variance under one linear constraint per class. With inverse
scales q the movement of a class is ``bounds @ q`` and the variance of a group is
``2 / q**2``: a convex program, solved by a barrier method. Theory:
``docs/theory/laplace.md``.
"""

from enum import StrEnum

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
    """Return the scales that minimize ``sum(cost * scale**2)``, to a relative 1e-9.

    `bounds` are 1-norm movements, shape (n_rows, n_groups); no column is all zero. All
    epsilons and costs are positive and finite.

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


class Variant(StrEnum):
    """How noise is shared between coordinates."""

    PAPER = "paper"
    TIGHT = "tight"
    OPTIMAL = "optimal"
    ORDINARY = "ordinary"


class Objective(StrEnum):
    """What the optimal variant minimizes."""

    TOTAL = "total"
    WORST = "worst"


def correlated_sensitivity(
    bounds: FloatArray, allowed_epsilon: FloatArray, *, epsilon: float
) -> float:
    r"""Return the correlated sensitivity of the paper, :math:`\Delta_C`.

    Parameters
    ----------
    bounds : array of float, shape (n_classes, n_groups)
        1-norm movement of each group under each promised class.
    allowed_epsilon : array of float, shape (n_classes,)
        Epsilon promised to each class.
    epsilon : float
        Budget of the sensitive class.

    Guarantee
    ---------
    One scale ``correlated_sensitivity / epsilon`` keeps every class within its
    epsilon: Theorem 2.10 with ``epsilon / allowed_epsilon`` (the distance after floor
    and cap) for the total variation. Proof: ``docs/theory/laplace.md``.
    """
    movement = bounds.sum(axis=1)
    distance = epsilon / allowed_epsilon
    return float(min(np.sum(distance * movement), movement.max()))


def laplace_scales(
    bounds: FloatArray,
    allowed_epsilon: FloatArray,
    *,
    epsilon: float,
    variant: Variant,
    objective: Objective = Objective.TOTAL,
    cost: FloatArray,
) -> FloatArray:
    """Return one Laplace scale per group; 0 for one that moves under no class.

    ``paper`` takes one scale from `correlated_sensitivity`, whose first parameters are
    those here; ``tight`` and ``ordinary`` the smallest one that serves every class,
    which for ``ordinary`` is the whole record; ``optimal`` a scale per group, for the
    least total of ``cost * scale**2`` or the least largest term of it.

    Guarantee
    ---------
    Every class moves by at most its epsilon in units of the scales. Proof:
    ``docs/theory/laplace.md``.
    """
    moves = bounds.max(axis=0, initial=0.0) > 0.0
    scale = np.zeros(moves.size)
    if not moves.any():
        return scale
    rows = bounds[:, moves]
    if variant is Variant.OPTIMAL and objective is Objective.TOTAL:
        busy = rows.max(axis=1) > 0.0
        scale[moves] = least_variance_scales(
            rows[busy], allowed_epsilon[busy], cost[moves]
        )
    elif variant is Variant.OPTIMAL:
        relative = 1.0 / np.sqrt(cost[moves])  # equal cost * scale**2 in every group
        needed = np.max(rows @ (1.0 / relative) / allowed_epsilon)
        scale[moves] = needed * relative
    elif variant is Variant.PAPER:
        scale[moves] = correlated_sensitivity(bounds, allowed_epsilon, epsilon=epsilon)
        scale[moves] /= epsilon
    else:
        scale[moves] = np.max(rows.sum(axis=1) / allowed_epsilon)
    return scale
