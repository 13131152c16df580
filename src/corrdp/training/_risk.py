"""Minimizing the empirical risk without any privacy: the yardstick."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from corrdp._typing import FloatArray
from corrdp.training.losses import Loss

_RIDGE = 1e-8  # one-hot codes and an intercept are collinear; any solution will do


def minimize_risk(
    codes: FloatArray, y: NDArray[Any], loss: Loss, *, ridge: float = 0.0
) -> tuple[FloatArray, Any]:
    """Return the weights and the constant of least empirical risk, without privacy.

    A yardstick for `docs/theory/default_rule.md`, never a release. With several outputs
    these are a matrix and a vector, centered over the outputs. A `ridge` is for
    codes that hardly any row uses, such as hats in a tail.
    """
    design = np.column_stack([codes, np.ones(len(codes))])
    if loss.is_least_squares:  # a bound on residuals serves privacy alone
        if ridge > 0.0:  # rows that say: every weight is 0
            size = design.shape[1]
            wall = math.sqrt(ridge * len(y)) * np.eye(size)[:-1]
            design, y = np.vstack([design, wall]), np.append(y, np.zeros(size - 1))
        solution = np.linalg.lstsq(design, y, rcond=None)[0]
        return solution[:-1], solution[-1]
    n_outputs, weight = loss.n_outputs, max(ridge, _RIDGE)
    shape = (design.shape[1], *([n_outputs] if n_outputs > 1 else []))

    def risk(flat: FloatArray) -> tuple[float, FloatArray]:
        coef = flat.reshape(shape)
        score = design @ coef
        gradient = design.T @ loss.residual(score, y) / len(y) + weight * coef
        value = float(loss.value(score, y).mean()) + weight * float(flat @ flat) / 2
        return value, gradient.ravel()

    result = minimize(
        risk,
        np.zeros(math.prod(shape)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 1e-12, "gtol": 1e-7},
    )
    solution = result.x.reshape(shape)
    return solution[:-1], solution[-1]
