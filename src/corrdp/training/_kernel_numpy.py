"""The gradient kernel in numpy: what one pass over the tiles adds up.

The gradient of a record in a group is a scalar times its features, so clipping the
group to a norm, and bounding what the sensitive features do to it, act on the scalar.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

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
) -> tuple[FloatArray, int]:
    """Return the sum of clipped record gradients, and how many residuals are small.

    Parameters
    ----------
    rows : RowTiles
        Scaled features, the intercept's column of ones among them, and labels.
    coef, offset : array of float, shape (n_columns,)
        Parameters, and what is subtracted from every column; in the tiles' order.
    rules : GroupRules
        Groups, their norms and bounds.
    residual_bound : float
        Squared loss with residuals clipped to plus or minus this; 0 for logistic
        loss, whose residuals are bounded by 1 anyway.

    Returns
    -------
    gradient : array of float, shape (n_columns,)
        Sum over rows of what `record_gradients` gives for each.
    n_inside : int
        Number of residuals within the bound; 0 for logistic loss.

    Guarantee
    ---------
    None: this is the sum before noise (`docs/theory/influence.md` bounds how far it
    can move).
    """
    weights = coef.astype(rows.values.dtype)
    center = offset.astype(rows.values.dtype)[:, None]
    gradient = np.zeros(coef.size)
    n_inside = 0
    for raw_tile, labels in rows:
        tile = raw_tile - center
        reference = weights[rules.n_sensitive :] @ tile[rules.n_sensitive :]
        score = reference + weights[: rules.n_sensitive] @ tile[: rules.n_sensitive]
        if residual_bound > 0:
            raw = score - labels
            n_inside += int(np.count_nonzero(np.abs(raw) <= residual_bound))
            residual = _clipped(raw, residual_bound)
            without = _clipped(reference - labels, residual_bound)
        else:
            residual = expit(score) - labels
            without = expit(reference) - labels
        for group in range(rules.n_groups):
            columns = tile[rules.columns(group)]
            scalar = _clipped_scalar(columns, residual, without, rules, group)
            gradient[rules.columns(group)] += columns @ scalar
    return gradient, n_inside


def _clipped_scalar(
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
    scalar = _clipped(residual, cap)
    if np.isfinite(influence_bound):
        base = _clipped(without, cap)
        room = influence_bound / norm if np.isfinite(clip_norm) else influence_bound
        scalar -= base
        scalar = base + _clipped(scalar, room)
    return np.asarray(scalar * shrink)


def _clipped(values: NDArray[Any], limit: Any) -> NDArray[Any]:
    return np.asarray(np.minimum(np.maximum(values, -limit), limit))
