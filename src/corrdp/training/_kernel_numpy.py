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
    rows: RowTiles, coef: FloatArray, rules: GroupRules, *, residual_bound: float
) -> tuple[FloatArray, int]:
    """Return the sum of clipped record gradients, and how many residuals are small.

    Parameters
    ----------
    rows : RowTiles
        Prepared features, the intercept's column of ones among them, and labels.
    coef : array of float, shape (n_columns,)
        Parameters, in the order of the tiles' columns.
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
    weights = coef.astype(rows.tiles.dtype)
    gradient = np.zeros(coef.size)
    n_inside = 0
    for tile, labels, n_real in rows:
        reference = weights[rules.n_sensitive :] @ tile[rules.n_sensitive :]
        score = reference + weights[: rules.n_sensitive] @ tile[: rules.n_sensitive]
        if residual_bound > 0:
            raw = score - labels
            n_inside += int(np.count_nonzero(np.abs(raw[:n_real]) <= residual_bound))
            residual = np.clip(raw, -residual_bound, residual_bound)
            without = np.clip(reference - labels, -residual_bound, residual_bound)
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
    norm = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    norm = np.maximum(norm, np.asarray(_SMALLEST_NORM, norm.dtype))
    shrink = np.minimum(1.0, rules.feature_radius[group] / norm).astype(norm.dtype)
    norm *= shrink
    cap = (rules.clip_norm[group] / norm).astype(norm.dtype)
    scalar = np.clip(residual, -cap, cap)
    if np.isfinite(rules.influence_bound[group]):
        base = np.clip(without, -cap, cap)
        in_norm = np.isfinite(rules.clip_norm[group])
        room = rules.influence_bound[group] / (norm if in_norm else np.ones_like(norm))
        scalar = base + np.clip(scalar - base, -room, room)
    return np.asarray(scalar * shrink)
