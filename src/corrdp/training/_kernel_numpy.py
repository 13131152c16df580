"""The gradient kernel in numpy: what one pass over the tiles adds up.

The gradient of a record in a group is its features times its residual, one number or
one per output. Its norm is the product of the two norms, so clipping the group, and
bounding what the sensitive features do to it, act on the residual.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from corrdp._typing import FloatArray
from corrdp.training._tiles import GroupRules, RowTiles

TILE_ROWS = 4096
_SMALLEST_NORM = 1e-30  # a record without features in a group has nothing to clip


def gradient_sum(
    rows: RowTiles,
    coef: FloatArray,
    offset: FloatArray,
    rules: GroupRules,
    *,
    residual_bound: float,
    anchor: FloatArray | None = None,
) -> tuple[FloatArray, int]:
    """Return the sum of clipped record gradients, and how many residuals are small.

    Parameters
    ----------
    rows : RowTiles
        Scaled features, the intercept's column of ones among them, and labels.
    coef : array of float, shape (n_columns,) or (n_columns, n_outputs)
        Parameters in the tiles' order; a matrix for softmax residuals.
    offset : array of float, shape (n_columns,)
        What is subtracted from every column, in the tiles' order.
    rules : GroupRules
        Groups, their norms and bounds.
    residual_bound : float
        Residuals ``score - y`` clipped to plus or minus this; 0 for logistic or
        softmax residuals, which are bounded anyway.
    anchor : array of float, same shape as `coef`, optional
        Parameters whose residuals are subtracted (variance reduction).

    Returns
    -------
    gradient : array of float, same shape as `coef`
        Sum over rows of what `record_gradients` gives for each.
    n_inside : int
        Number of residuals inside the bound; 0 for logistic and softmax loss.

    Guarantee
    ---------
    None: this is the sum before noise (`docs/theory/influence.md` bounds how far it
    can move).
    """
    center = offset.astype(rows.labels.dtype)[:, None]
    terms = [_weights(coef, rows)]
    if anchor is not None:
        terms.append(_weights(anchor, rows))
    gradient = np.zeros((coef.shape[0], terms[0].shape[0]))
    n_inside = 0
    for raw_tile, labels in rows:
        tile = raw_tile - center
        residual, without = _residuals(tile, labels, terms[0], rules, residual_bound)
        n_inside += int(np.count_nonzero(np.abs(residual) < residual_bound))
        for weights in terms[1:]:
            there = _residuals(tile, labels, weights, rules, residual_bound)
            residual, without = residual - there[0], without - there[1]
        for group in range(rules.n_groups):
            columns = tile[rules.columns(group)]
            factor = _clipped_residual(columns, residual, without, rules, group)
            gradient[rules.columns(group)] += columns @ factor.T
    return gradient.reshape(coef.shape), n_inside


def _weights(coef: FloatArray, rows: RowTiles) -> NDArray[Any]:
    """Return parameters as one row per output, in the precision of the tiles."""
    return np.ascontiguousarray(
        coef.reshape(coef.shape[0], -1).T, dtype=rows.labels.dtype
    )


def _residuals(
    tile: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[Any],
    rules: GroupRules,
    residual_bound: float,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return residuals, and those with the sensitive features at their center.

    Shape (n_outputs, n_rows).
    """
    hidden = rules.n_sensitive
    reference = weights[:, hidden:] @ tile[hidden:]
    if hidden == 0:
        residual = _residual(reference, labels, residual_bound)
        return residual, residual
    score = reference + weights[:, :hidden] @ tile[:hidden]
    return (
        _residual(score, labels, residual_bound),
        _residual(reference, labels, residual_bound),
    )


def _residual(
    score: NDArray[Any], labels: NDArray[Any], residual_bound: float
) -> NDArray[Any]:
    if residual_bound > 0:
        return _clipped(score - labels, residual_bound)
    if score.shape[0] == 1:
        return np.asarray(expit(score) - labels)
    residual = np.asarray(softmax(score, axis=0))
    residual[labels.astype(np.int64), np.arange(labels.size)] -= 1.0
    return residual


def _clipped_residual(
    columns: NDArray[Any],
    residual: NDArray[Any],
    without: NDArray[Any],
    rules: GroupRules,
    group: int,
) -> NDArray[Any]:
    """Return by what each row's features are multiplied in the gradient."""
    if rules.plain[group]:
        return residual
    # Plain floats, because a float64 scalar would turn every array into float64.
    radius, clip_norm, influence_bound = rules.numbers(group)
    norm = np.sqrt(np.add.reduce(columns * columns, axis=0))
    np.maximum(norm, _SMALLEST_NORM, out=norm)
    shrink = np.minimum(radius / norm, 1.0)
    norm *= shrink
    cap = clip_norm / norm
    factor = _clipped(residual, cap)
    if np.isfinite(influence_bound):
        base = _clipped(without, cap)
        room = influence_bound / norm if np.isfinite(clip_norm) else influence_bound
        factor = base + _clipped(factor - base, room)
    return np.asarray(factor * shrink)


def _clipped(values: NDArray[Any], limit: Any) -> NDArray[Any]:
    """Return the columns of a matrix, each scaled down to a norm."""
    if values.shape[0] == 1:
        return np.asarray(np.minimum(np.maximum(values, -limit), limit))
    norm = np.sqrt(np.add.reduce(values * values, axis=0))
    return np.asarray(values * np.minimum(limit / np.maximum(norm, _SMALLEST_NORM), 1))
