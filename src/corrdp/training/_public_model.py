"""Fits without any privacy: the yardstick of least risk, and models of public rows.

The latter choose and score a ridge by cross-validation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from corrdp._typing import FloatArray
from corrdp.policy import Block
from corrdp.training._expectations import typical_sizes
from corrdp.training._layout import central_reference, standardizing_scale
from corrdp.training.losses import Loss

_RIDGE = 1e-8  # one-hot codes and an intercept are collinear; any solution will do
RIDGES = (0.3, 1.0, 3.0)  # in units of the nominal one
N_FOLDS = 5
UNLIKE = 1.5  # rows are never quite alike: excess of public rows, in units of theory


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
    weight = max(ridge, _RIDGE)

    def penalty(coef: FloatArray) -> tuple[float, FloatArray]:
        flat = coef.ravel()
        return weight * float(flat @ flat) / 2, weight * coef

    options = {"maxiter": 2000, "ftol": 1e-12, "gtol": 1e-7}
    solution = _of_least_risk(design, y, loss, penalty, options)
    return solution[:-1], solution[-1]


def _of_least_risk(
    design: FloatArray,
    y: NDArray[Any],
    loss: Loss,
    penalty: Callable[[FloatArray], tuple[float, FloatArray]],
    options: dict[str, float],
) -> FloatArray:
    """Return parameters of least mean loss plus a penalty, which knows its slope."""
    outputs = [loss.n_outputs] if loss.n_outputs > 1 else []
    shape = (design.shape[1], *outputs)

    def risk(flat: FloatArray) -> tuple[float, FloatArray]:
        coef = flat.reshape(shape)
        score = design @ coef
        more, slope = penalty(coef)
        gradient = design.T @ loss.residual(score, y) / len(y) + slope
        return float(loss.value(score, y).mean()) + more, gradient.ravel()

    first = np.zeros(math.prod(shape))
    result = minimize(risk, first, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(result.x).reshape(shape)


@dataclass(frozen=True, eq=False)
class PublicModel:
    """The linear model of public rows alone, how good it is there, how far it errs.

    Parameters
    ----------
    coef : array of float, shape (n_codes,) or (n_codes, n_outputs)
        Weights of the encoded columns.
    intercept : float, or array of float, shape (n_outputs,)
        Constant.
    n_rows : int
        Number of public rows.
    excess : float
        Excess risk that so few rows are expected to cost.
    score : float
        Accuracy or R squared of rows that were left out in turn, of the best ridge.

    Guarantee
    ---------
    Computed from rows declared public: releases nothing of the private ones
    (`docs/theory/public_rows.md`).
    """

    coef: FloatArray
    intercept: Any
    n_rows: int
    excess: float
    score: float

    @classmethod
    def fit(
        cls, codes: FloatArray, y: NDArray[Any], loss: Loss, blocks: tuple[Block, ...]
    ) -> "PublicModel":
        """Fit with the ridge of least cross-validated loss.

        Parameters
        ----------
        codes, y : array of float
            Encoded public rows and labels.
        loss : Loss
            The loss.
        blocks : tuple of Block
            Blocks of the encoder, which tell scales and centers.
        """
        scale = standardizing_scale(blocks)
        center = central_reference(blocks)
        rows = np.column_stack([(codes - center) * scale, np.ones(len(codes))])
        fold = np.arange(len(rows)) % N_FOLDS
        nominal = _nominal_ridge(y, loss, blocks)
        left_out = {
            ridge * nominal: _left_out(rows, y, loss, ridge * nominal, fold)
            for ridge in RIDGES
        }
        risks = {r: float(loss.value(s, y).mean()) for r, s in left_out.items()}
        best = min(risks, key=lambda ridge: risks[ridge])
        solution = _ridge_fit(rows, y, loss, best)
        slope, constant = solution[:-1], solution[-1]
        coef = slope * (scale if slope.ndim == 1 else scale[:, None])
        return cls(
            coef,
            constant - center @ coef,
            len(rows),
            _excess(rows, y, rows @ solution, loss, best),
            loss.quality(left_out[best], y),
        )

    def share(self, private_excess: float) -> float:
        """Return what a private model weighs beside this one.

        Two models whose errors are independent are best averaged in inverse
        proportion to their excess risks; squares lean to the better one, since
        neither risk is known exactly (`docs/theory/public_rows.md`, section 2).
        """
        own, other = self.excess**2, private_excess**2
        return own / (own + other) if own + other > 0 else 1.0

    def mixed(
        self, coef: FloatArray, intercept: Any, share: float
    ) -> tuple[FloatArray, Any]:
        """Return the average with a private model that has a share."""
        weights = share * coef + (1.0 - share) * self.coef
        constant = share * intercept + (1.0 - share) * self.intercept
        return np.asarray(weights), constant


def _nominal_ridge(y: NDArray[Any], loss: Loss, blocks: tuple[Block, ...]) -> float:
    """Return the ridge under which weights are as far from 0 as the default rule says.

    The distance, shared by all features, is the deviation of a weight; a residual has
    half the variance of a label. Few rows cannot tell more by cross-validation than a
    factor of three about it.
    """
    n_features = len({block.part for block in blocks})
    distance = typical_sizes(loss).expected_distance
    variance = 1.0 if loss.is_likelihood else max(float(np.var(y)) / 2, 1e-6)
    return variance * n_features / (distance**2 * len(y))


def _excess(
    rows: FloatArray, y: NDArray[Any], score: FloatArray, loss: Loss, ridge: float
) -> float:
    """Return half the effective number of weights over rows, times the variance."""
    freedom = 0.0
    penalty = np.append(np.full(rows.shape[1] - 1, ridge), 0.0)
    for weight in loss.curvature(score).T:
        curvature = (rows * weight[:, None]).T @ rows / len(rows)
        solved = np.linalg.lstsq(curvature + np.diag(penalty), curvature, rcond=None)
        freedom += float(np.trace(solved[0]))
    if loss.is_likelihood:
        variance = loss.n_free_outputs / loss.n_outputs
    else:
        variance = float(np.mean((score - y) ** 2))
    return UNLIKE * variance * freedom / (2 * len(rows))


def _left_out(
    rows: FloatArray, y: NDArray[Any], loss: Loss, ridge: float, fold: NDArray[Any]
) -> FloatArray:
    """Return the score of every row by the model of the other folds."""
    shape = (len(rows), *([loss.n_outputs] if loss.n_outputs > 1 else []))
    scores = np.empty(shape)
    for index in range(N_FOLDS):
        out = fold == index
        scores[out] = rows[out] @ _ridge_fit(rows[~out], y[~out], loss, ridge)
    return scores


def _ridge_fit(
    rows: FloatArray, y: NDArray[Any], loss: Loss, ridge: float
) -> FloatArray:
    """Return parameters of least mean loss plus ridge, the constant last and free."""
    n_rows, n_columns = rows.shape
    penalty = np.append(np.full(n_columns - 1, ridge), 1e-9)
    if loss.is_least_squares:
        moments = rows.T @ rows / n_rows + np.diag(penalty)
        return np.linalg.solve(moments, rows.T @ y / n_rows)
    if loss.n_outputs > 1:
        penalty = penalty[:, None]
    return _of_least_risk(
        rows,
        y,
        loss,
        lambda coef: (float(np.sum(penalty * coef**2)) / 2, penalty * coef),
        {"maxiter": 500, "ftol": 1e-10, "gtol": 1e-6},
    )
