"""How far bounds will lie above the truth, from public or released numbers alone.

Predictions decide what is joined, bought and said; no bound rests on them.
"""

import math

import numpy as np

from corrdp._typing import FloatArray
from corrdp.leakage._noisy import SIZE_SHARE, SQUARES_SHARE

# Mean of |noise| over its scale, halved; about half of all cells are not small.
_NOISE_BIAS = 0.2
# The same for drawn rows, over cells of unequal size.
_SAMPLING_BIAS = 0.3


def predicted_excess(
    sizes: FloatArray,
    *,
    n_cells: int,
    noise_scale: float,
    failure_probability: float,
) -> float:
    """Return about how much the bound of a table exceeds its leakage, at most 1.

    Parameters
    ----------
    sizes : array of float
        Rows per value of the feature; the two thinnest decide.
    n_cells : int
        Joint sensitive cells.
    noise_scale : float
        Noise on every cell; 0 for exact counts.
    failure_probability : float
        Of the bound.

    Examples
    --------
    >>> import numpy as np
    >>> round(
    ...     predicted_excess(
    ...         np.array([5000.0, 40000.0]),
    ...         n_cells=50,
    ...         noise_scale=40.0,
    ...         failure_probability=1e-4,
    ...     ),
    ...     1,
    ... )
    0.2
    """
    thinnest = np.sort(np.asarray(sizes, dtype=np.float64))[:2]
    if thinnest.size < 2:
        return 0.0
    if thinnest[0] < 1.0:
        return 1.0
    variance = noise_scale**2 * float((1 / thinnest**2).sum())
    sampling = float((1 / thinnest).sum())
    main = (1 - SIZE_SHARE - SQUARES_SHARE) * failure_probability
    deviation = math.sqrt(0.5 * math.log(1 / main) * (n_cells * variance + sampling))
    bias = _NOISE_BIAS * n_cells * math.sqrt(variance)
    bias += _SAMPLING_BIAS * math.sqrt(n_cells * sampling)
    return min(1.0, deviation + bias)
