"""Minimizing the empirical risk without any privacy: the yardstick."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from corrdp._typing import FloatArray
from corrdp.training._losses import LogisticLoss

_RIDGE = 1e-8  # one-hot codes and an intercept are collinear; any solution will do


def minimize_risk(
    codes: FloatArray, y: NDArray[Any], *, logistic: bool
) -> tuple[FloatArray, float]:
    """Return the weights and the constant of least empirical risk, privately nothing.

    Guarantee
    ---------
    None whatsoever: a yardstick for `docs/theory/default_rule.md`.
    """
    design = np.column_stack([codes, np.ones(len(codes))])
    if not logistic:
        solution = np.linalg.lstsq(design, y, rcond=None)[0]
        return solution[:-1], float(solution[-1])
    loss = LogisticLoss()

    def risk(coef: FloatArray) -> tuple[float, FloatArray]:
        score = design @ coef
        gradient = design.T @ loss.residual(score, y) / len(y) + _RIDGE * coef
        value = float(loss.value(score, y).mean()) + _RIDGE * float(coef @ coef) / 2
        return value, gradient

    result = minimize(
        risk,
        np.zeros(design.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 1e-12, "gtol": 1e-7},
    )
    return result.x[:-1], float(result.x[-1])
