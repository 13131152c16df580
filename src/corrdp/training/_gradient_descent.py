"""Full-batch gradient descent with noise re-allocated from every public iterate."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.accounting._allocation import step_mu
from corrdp.accounting._online_allocation import OnlineAllocator
from corrdp.exceptions import GuaranteeVoidError
from corrdp.training._kernels import prepare_rows
from corrdp.training._losses import SquaredLoss
from corrdp.training._means import release_means
from corrdp.training._plan import TrainingPlan
from corrdp.training._sensitivity import GradientSensitivity

_COVERED_FRACTION = 0.9  # residuals that the adapted bound should leave unclipped
_ADAPTATION_RATE = 0.3
_SMALLEST_BOUND = 0.01  # in units of the label's range


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Parameters of a linear model in encoded columns, and what releasing them cost.

    Parameters
    ----------
    coef : array of float, shape (n_codes,)
        Weight of every encoded column.
    intercept : float
        Constant.
    means_cost : dict of str to float
        Gaussian-DP parameter of the column means, per class.
    noise_scale : array of float, shape (n_groups,)
        Noise of the last step, on the sum over rows.
    """

    coef: FloatArray
    intercept: float
    means_cost: dict[str, float]
    noise_scale: FloatArray


def descend(
    codes: FloatArray,
    y: NDArray[Any],
    plan: TrainingPlan,
    rng: np.random.Generator,
    *,
    compiled: bool = True,
) -> TrainedModel:
    """Train by noisy gradient descent as planned.

    Parameters
    ----------
    codes : array of float, shape (n_rows, n_codes)
        Rows of the encoder.
    y : array of float, shape (n_rows,)
        Labels as encoded.
    plan : TrainingPlan
        Everything that decides noise and steps.
    rng : numpy Generator
        Source of the noise.
    compiled : bool
        False to use numpy even where numba is installed.

    Guarantee
    ---------
    Per class, all that leaves is the column means, one noisy gradient per step and,
    for squared loss, one noisy fraction per step; each is held to its part of
    ``plan.spending`` at the time it is released, or `GuaranteeVoidError` is raised.
    Parameters are computed from those alone. Adaptive composition:
    `docs/theory/gaussian.md`; sensitivity: `docs/theory/glm_sensitivity.md`,
    `docs/theory/influence.md`; momentum, averaging and step size:
    `docs/theory/solvers.md`.
    """
    means, means_cost = release_means(codes, plan.layout.blocks, plan.spending, rng)
    scale = plan.layout.column_scale
    layout = replace(plan.layout, column_offset=means * scale)
    sensitivity = GradientSensitivity(
        plan.loss, layout, plan.spending.classes, reference=means
    )
    steps = _Steps(plan, sensitivity)
    rows = prepare_rows(codes, y, layout, compiled=compiled)
    adapts = isinstance(plan.loss, SquaredLoss)
    bound = plan.loss.residual_bound if isinstance(plan.loss, SquaredLoss) else 0.0
    least = _SMALLEST_BOUND * 4 * bound
    coef = np.zeros(layout.n_columns)
    velocity, average = np.zeros_like(coef), np.zeros_like(coef)
    for step in range(plan.n_steps):
        noise_scale = steps.noise(coef, bound)
        gradient, n_inside = rows.gradient_sum(coef, residual_bound=bound)
        gradient += rng.standard_normal(coef.size) * noise_scale[layout.column_groups]
        velocity = plan.momentum * velocity + gradient / plan.n_rows
        coef = coef - (1 - plan.momentum) * steps.size(noise_scale) * velocity
        if step >= plan.n_steps // 2:
            average += coef
        if adapts:
            fraction = (n_inside + steps.count_noise * rng.standard_normal()) / len(y)
            bound *= math.exp(-_ADAPTATION_RATE * (fraction - _COVERED_FRACTION))
            bound = min(max(bound, least), 8 * plan.travel)
    average /= plan.n_steps - plan.n_steps // 2
    slope = average[:-1] * scale
    return TrainedModel(
        coef=slope,
        intercept=float(average[-1] - slope @ means),
        means_cost=means_cost,
        noise_scale=noise_scale,
    )


class _Steps:
    """Noise and size of every step, from the public iterate alone."""

    def __init__(self, plan: TrainingPlan, sensitivity: GradientSensitivity) -> None:
        self._plan = plan
        self._sensitivity = sensitivity
        allowed = plan.spending.step_mu(plan.n_steps)
        self._budget_mu = np.array([allowed[c] for c in sensitivity.row_classes])
        self._sizes = np.array([group.size for group in sensitivity.groups], float)
        self._allocator = OnlineAllocator(self._sizes, budget_mu=self._budget_mu)
        self._adapts = isinstance(plan.loss, SquaredLoss)

    @property
    def count_noise(self) -> float:
        """Noise on the number of small residuals, which one record moves by 1."""
        mu = self._plan.spending.residual_mu
        return math.sqrt(self._plan.n_steps) / mu if mu > 0 else 0.0

    def noise(self, coef: FloatArray, residual_bound: float) -> FloatArray:
        """Return this step's noise scale per group, held to the budget exactly."""
        bounds = self._sensitivity.bounds(
            coef, residual_bound=residual_bound if self._adapts else None
        )
        noise_scale = self._allocator.update(bounds)
        if not (step_mu(bounds, noise_scale) <= self._budget_mu).all():
            raise GuaranteeVoidError(
                "a step of training would cost a class more than its budget. Nothing "
                "was released; report this as a defect."
            )
        return noise_scale

    def size(self, noise_scale: FloatArray) -> float:
        """Return the step size: no further than noise or curvature allow."""
        plan = self._plan
        variance = float(self._sizes @ noise_scale**2) / plan.n_rows**2
        limit = 2 / ((1 - plan.momentum) * plan.smoothness)
        if variance == 0:
            return limit
        return min(plan.travel / math.sqrt(plan.n_steps * variance), limit)
