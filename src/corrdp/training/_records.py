"""What one record contributes to a gradient: the definition all kernels must match."""

import math
from typing import Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp.training._layout import GradientLayout
from corrdp.training.losses import Loss


def record_gradients(
    codes: FloatArray,
    y: Any,
    coef: FloatArray,
    loss: Loss,
    layout: GradientLayout,
    reference: FloatArray | None = None,
    *,
    anchor: FloatArray | None = None,
) -> FloatArray:
    r"""Return what every record contributes to the gradient, before it is summed.

    Parameters
    ----------
    codes : array of float, shape (n, n_codes)
        Rows of the encoder.
    y : array, shape (n,)
        Labels.
    coef : array of float, shape (n_columns,) or (n_columns, n_outputs)
        Parameters; the intercept, if any, is the last row.
    loss : Loss
        Gives the residual.
    layout : GradientLayout
        Groups, clipping norms, influence bounds, scaling, offsets, projections.
    reference : array of float, shape (n_codes,), optional
        Public row of codes whose sensitive columns replace those of every record in
        the reference residual; by default the codes that centering maps to 0.
    anchor : array of float, same shape as `coef`, optional
        Second parameters; residuals are then differences between `coef` and
        `anchor` (the inner term of variance reduction).

    Returns
    -------
    gradients : array of float, shape (n, n_columns) or (n, n_columns, n_outputs)

    Guarantee
    ---------
    A function of one record, the parameters and public numbers; how far it moves
    with the record is what `GradientSensitivity` bounds. Proof:
    docs/theory/glm_sensitivity.md and docs/theory/influence.md.

    Notes
    -----
    With residual :math:`r`, reference residual :math:`r_U`, projected features
    :math:`z` of a group: :math:`a + \mathrm{clip}(b - a, \tau)` where :math:`a`,
    :math:`b` are :math:`r_U z`, :math:`r z` clipped to the clip norm.
    """
    features = layout.features(np.asarray(codes, dtype=np.float64))
    residual = _residual(features, y, coef, anchor, loss)
    at_reference = features.copy()
    hidden = layout.sensitive_columns
    at_reference[:, : hidden.size][:, hidden] = (
        0.0
        if reference is None
        else layout.features(reference[None])[0, : hidden.size][hidden]
    )
    reference_residual = _residual(at_reference, y, coef, anchor, loss)
    gradients = np.empty((*features.shape, residual.shape[1]))
    for index, group in enumerate(layout.groups):
        columns = layout.column_groups == index
        direction = _clipped(features[:, columns], group.feature_radius)
        part = _clipped(_outer(direction, residual), group.clip_norm)
        if math.isfinite(group.influence_bound):
            if math.isfinite(group.clip_norm):
                start = _clipped(_outer(direction, reference_residual), group.clip_norm)
                part = start + _clipped(part - start, group.influence_bound)
            else:
                shift = _clipped(residual - reference_residual, group.influence_bound)
                part = _outer(direction, reference_residual + shift)
        gradients[:, columns] = part
    return gradients[:, :, 0] if np.ndim(coef) == 1 else gradients


def _residual(
    features: FloatArray,
    y: Any,
    coef: FloatArray,
    anchor: FloatArray | None,
    loss: Loss,
) -> FloatArray:
    residual = loss.residual(features @ coef, y)
    if anchor is not None:
        residual = residual - loss.residual(features @ anchor, y)
    return residual if residual.ndim == 2 else residual[:, None]


def _outer(direction: FloatArray, residual: FloatArray) -> FloatArray:
    return np.asarray(direction[:, :, None] * residual[:, None, :])


def _clipped(vectors: FloatArray, norm: float) -> FloatArray:
    """Scale every vector (all axes but the first) down to a norm."""
    if math.isinf(norm):
        return vectors
    flat = vectors.reshape(vectors.shape[0], -1)
    length = np.linalg.norm(flat, axis=1)
    factor = norm / np.maximum(length, max(norm, np.finfo(np.float64).tiny))
    return np.asarray((flat * factor[:, None]).reshape(vectors.shape))
