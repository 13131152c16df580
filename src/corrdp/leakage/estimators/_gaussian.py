"""Gaussian posterior: closed form for any number of sensitive numbers."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.leakage._bounds import hotelling_upper
from corrdp.leakage._gaussians import mahalanobis_total_variation
from corrdp.leakage._result import FeatureLeakage, PaperInputs
from corrdp.leakage.estimators._sample import (
    EstimationContext,
    Sample,
    require_numbers,
)

MAX_BLOCK = 16
"""Insensitive numbers of a block whose box of corners is searched."""

MODEL = (
    "given the insensitive features the sensitive ones are Gaussian, with a mean "
    "linear in them and one covariance; values outside declared bounds are "
    "clipped to them"
)


@dataclass(frozen=True)
class GaussianPosterior:
    """Regression of the sensitive numbers on the insensitive ones.

    Guarantee
    ---------
    Under the model, the upper bound for one feature is exact (Hotelling;
    docs/theory/leakage.md, Theorem 3). For a block there is none.
    """

    name: str = "gaussian"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the distance between the posteriors at the ends of the bounds."""
        told = require_numbers(self.name, sample.sensitive)
        known = require_numbers(self.name, sample.changed)
        n_rows, n_sensitive = told.shape
        freedom = n_rows - 1 - known.shape[1]
        if freedom < n_sensitive:
            needed = n_sensitive + known.shape[1] + 1
            raise CorrDPError(
                f"the Gaussian posterior needs at least {needed} rows. "
                "Use more rows, or declare the leakage."
            )
        centered = known - known.mean(axis=0)
        slope, spread = _regression(told - told.mean(axis=0), centered)
        residual_covariance = spread / freedom
        ends = _farthest_corners(slope, residual_covariance)
        shift = slope.T @ ends
        upper = None
        if known.shape[1] == 1:
            squares = float(np.sum(centered**2))
            statistic = squares * _square_distance(slope[0], residual_covariance)
            center_upper = hotelling_upper(
                statistic,
                n_rows=n_rows,
                n_sensitive=n_sensitive,
                failure_probability=context.failure_probability,
            )
            upper = context.metric.upper_from_total_variation(
                mahalanobis_total_variation(math.sqrt(center_upper / squares))
            )
        return FeatureLeakage(
            estimate=context.metric.gaussian(
                np.zeros(n_sensitive), residual_covariance, shift, residual_covariance
            ),
            upper=upper,
            method=f"Gaussian posterior of {n_sensitive} sensitive numbers",
            reason="between the two ends of the declared bounds"
            if upper is not None
            else "between two corners of the declared bounds; no bound for a block",
            assumptions=(MODEL,),
            paper_inputs=PaperInputs(
                example="gaussian",
                n_rows=n_rows,
                conditional_scale=math.sqrt(
                    float(residual_covariance.diagonal().min())
                ),
            ),
        )


def gaussian_leakage(
    covariance: FloatArray,
    *,
    sensitive: int,
    half_widths: FloatArray,
    relation: str = "one_insensitive",
) -> FloatArray:
    r"""Return the leakage of every insensitive feature of a known Gaussian.

    Parameters
    ----------
    covariance : array of float, shape (n_columns, n_columns)
        The sensitive features first.
    sensitive : int
        Number of sensitive features.
    half_widths : array of float, shape (n_columns - sensitive,)
        Insensitive feature ``i`` ranges over mean +- ``half_widths[i]``.
    relation : str
        ``one_insensitive``: one value per feature. ``all_insensitive``: one value, the
        largest over the box.

    Returns
    -------
    leakage : array of float
        Total variation, :math:`2\Phi(D/2) - 1` with D the Mahalanobis distance of the
        two posterior means (docs/theory/leakage_metrics.md).

    Examples
    --------
    >>> import numpy as np
    >>> covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> gaussian_leakage(covariance, sensitive=1, half_widths=np.array([1.0])).round(6)
    array([0.436297])
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    own = matrix[:sensitive, :sensitive]
    columns = np.arange(sensitive, len(matrix))
    together = relation == "all_insensitive"
    values = []
    for known in [columns] if together else columns[:, None]:
        across = matrix[:sensitive, known]
        slope = np.linalg.solve(matrix[np.ix_(known, known)], across.T)
        residual = own - across @ slope
        scaled = slope * (2 * half_widths[known - sensitive])[:, None]
        shift = scaled.T @ _farthest_corners(scaled, residual)
        distance = math.sqrt(_square_distance(shift, residual))
        values.append(mahalanobis_total_variation(distance))
    return np.array(values)


def _regression(told: FloatArray, known: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return slopes (known by told) and the residual sums of products."""
    gram = known.T @ known
    if np.linalg.matrix_rank(gram) < gram.shape[0]:
        raise CorrDPError(
            "an insensitive number is constant, or a linear function of others, so the "
            "Gaussian posterior is not determined. Remove it, or declare bins."
        )
    slope: FloatArray = np.asarray(np.linalg.solve(gram, known.T @ told))
    residual = told - known @ slope
    spread = residual.T @ residual
    if np.linalg.matrix_rank(spread) < spread.shape[0]:
        raise CorrDPError(
            "a sensitive number is constant, or a linear function of others, so the "
            "Gaussian posterior is singular. Remove it, or declare bins."
        )
    return slope, spread


def _farthest_corners(slope: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the difference of two corners of the unit box that tells most."""
    n_known = slope.shape[0]
    if n_known > MAX_BLOCK:
        raise PolicyError(
            f"the Gaussian posterior of a block searches 2^{n_known} corners; the "
            f"limit is {MAX_BLOCK} numbers. Use relation='one_insensitive', or declare "
            "block_leakage."
        )
    corners = np.array(list(product((-1.0, 1.0), repeat=n_known)))
    shifts = corners @ slope
    lengths = np.einsum("ij,ij->i", shifts, np.linalg.solve(covariance, shifts.T).T)
    return np.asarray(corners[np.argmax(lengths)])


def _square_distance(shift: FloatArray, covariance: FloatArray) -> float:
    return float(shift @ np.linalg.solve(covariance, shift))
