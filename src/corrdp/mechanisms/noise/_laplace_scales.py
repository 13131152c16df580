"""Laplace scales of each variant: the paper's, the valid maximum, the optimum."""

from enum import StrEnum

import numpy as np

from corrdp._typing import FloatArray
from corrdp.mechanisms.noise._laplace_allocation import least_variance_scales


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
    r"""Return one Laplace scale per group.

    Parameters
    ----------
    bounds : array of float, shape (n_classes, n_groups)
        1-norm movement of each group under each promised class; under ``ordinary``
        the whole record is the one class.
    allowed_epsilon : array of float, shape (n_classes,)
        Epsilon promised to each class, positive and finite.
    epsilon : float
        Budget of the sensitive class.
    variant : Variant
        ``paper``: one scale from `correlated_sensitivity`. ``tight`` and ``ordinary``:
        the smallest one scale that serves every class. ``optimal``: a scale per group.
    objective : Objective
        For ``optimal``: the total of ``cost * scale**2``, or the largest term of it.
    cost : array of float, shape (n_groups,)
        Weight of each group's squared scale: times its size for ``total``, of one
        coordinate for ``worst``.

    Returns
    -------
    scale : array of float, shape (n_groups,)
        Zero for a group that moves under no class.

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
