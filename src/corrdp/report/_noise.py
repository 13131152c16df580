"""How much noise a training plan adds, by feature, and what it does to coefficients.

Both are functions of the plan alone, evaluated at parameters of nominal size, so that
showing them costs nothing.
"""

import math

import numpy as np

from corrdp._typing import FloatArray
from corrdp.policy import BlockKind
from corrdp.training import (
    TrainingPlan,
    noise_gains,
)

_RESIDUAL_SLOPE = 0.2  # of a logistic loss, averaged over typical scores


def gradient_noise(plan: TrainingPlan) -> dict[str, float]:
    """Return the standard deviation of the noise on the mean gradient, by feature.

    As if the gradient were released once with the budget of all steps, per coordinate,
    at parameters of nominal size. The last entry is the intercept.

    Guarantee
    ---------
    A description of `plan`; it adds and prices nothing. What is added is decided by
    the same allocation (`docs/theory/allocation.md`).
    """
    per_column = plan.column_noise
    noise: dict[str, float] = {}
    for block in plan.layout.blocks:  # a curve follows the number that it bends
        noise.setdefault(block.feature, float(per_column[block.start]))
    if plan.layout.has_intercept:
        noise["intercept"] = float(per_column[-1])
    return noise


def coefficient_deviation(plan: TrainingPlan) -> FloatArray:
    r"""Return roughly how far noise alone moves each coefficient.

    The loss is taken for quadratic with nominal, uncoupled curvature; noise then
    passes through descent with momentum and averaging as through a linear filter.
    It describes noise only, not how far a coefficient is off for want of rows.

    Returns
    -------
    deviation : array of float, shape (n_codes,)
        Standard deviation per encoded column; with several outputs, of each.
    """
    layout, n_steps = plan.layout, plan.n_steps
    step_noise = plan.column_noise * math.sqrt(n_steps)
    curvature = _curvatures(plan)
    if plan.column_steps is not None:
        sizes = plan.column_steps.sizes(curvature, plan.column_noise, n_steps)
    else:
        total = float(np.sqrt(np.sum(step_noise**2)))
        size = 2 / ((1 - plan.momentum) * plan.smoothness)
        if total > 0:
            size = min(size, plan.expected_distance / (math.sqrt(n_steps) * total))
        sizes = np.full(curvature.size, size)
    gains = noise_gains(curvature, sizes, plan.momentum, n_steps, plan.averaged_part)
    n_codes = layout.blocks[-1].stop
    deviation: FloatArray = (step_noise * gains)[:n_codes] * layout.column_scale
    return deviation


def _curvatures(plan: TrainingPlan) -> FloatArray:
    """Return the nominal curvature of the loss along every column."""
    variance = np.ones(plan.layout.n_columns)
    for block in plan.layout.blocks:
        share = 1 / (block.stop - block.start)
        number = block.kind is BlockKind.NUMBER
        variance[block.columns] = 1 / 3 if number else share * max(1 - share, 0.25)
    slope = 1.0
    if plan.loss.is_likelihood:
        slope = _RESIDUAL_SLOPE
    return slope * variance
