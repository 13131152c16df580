"""Distances between two Gaussian distributions, closed wherever a closed form exists.

Formulas: docs/theory/leakage_metrics.md.
"""

import math

import numpy as np
from scipy.linalg import eigh
from scipy.special import erf, ndtr, ndtri

from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError

QUADRATURE_DRAWS = 2**16
"""Points of the low-discrepancy rule for unequal covariances in several dimensions."""


def mahalanobis_total_variation(distance: float) -> float:
    """Return the total variation of Gaussians with one covariance.

    `distance` is the Mahalanobis distance of the means.

    Examples
    --------
    >>> round(mahalanobis_total_variation(2.0), 6)
    0.682689
    """
    return float(erf(distance / (2 * math.sqrt(2.0))))


def gaussian_total_variation(
    first_mean: FloatArray,
    first_covariance: FloatArray,
    second_mean: FloatArray,
    second_covariance: FloatArray,
) -> float:
    """Return the total variation between two Gaussians.

    Closed form for equal covariances and in one dimension. Otherwise both are brought
    to independent coordinates by one linear map, and the expectation of the positive
    part of one minus the density ratio is averaged over a fixed low-discrepancy
    rule; its error is about 1e-3 at most.
    """
    mean, scales = _standardized(
        first_mean, first_covariance, second_mean, second_covariance
    )
    if np.allclose(scales, 1.0, rtol=1e-12, atol=0.0):
        return mahalanobis_total_variation(float(np.linalg.norm(mean)))
    if mean.size == 1:
        return _total_variation_on_a_line(float(mean[0]), float(scales[0]))
    return _total_variation_by_quadrature(mean, scales)


def gaussian_hellinger(
    first_mean: FloatArray,
    first_covariance: FloatArray,
    second_mean: FloatArray,
    second_covariance: FloatArray,
) -> float:
    """Return the Hellinger distance between two Gaussians, in closed form."""
    mean, scales = _standardized(
        first_mean, first_covariance, second_mean, second_covariance
    )
    spread = (1.0 + scales**2) / 2
    log_affinity = 0.5 * np.sum(np.log(scales / spread)) - 0.125 * np.sum(
        mean**2 / spread
    )
    return math.sqrt(max(0.0, -math.expm1(float(log_affinity))))


def gaussian_wasserstein(
    first_mean: FloatArray,
    first_covariance: FloatArray,
    second_mean: FloatArray,
    second_covariance: FloatArray,
) -> float:
    """Return the Wasserstein distance over the diameter of the unit cube, at most 1.

    The ground distance is the mean of absolute coordinate differences. Exact on a line
    and for equal covariances (a translation); otherwise the cost of one coupling, the
    optimal one for squares, bounded by its coordinates: an upper bound.
    """
    shift = np.abs(np.subtract(first_mean, second_mean))
    if np.allclose(first_covariance, second_covariance, rtol=1e-12, atol=0.0):
        return min(1.0, float(shift.mean()))
    if shift.size == 1:
        spread = abs(
            math.sqrt(float(first_covariance[0, 0]))
            - math.sqrt(float(second_covariance[0, 0]))
        )
        return min(1.0, _folded_mean(float(shift[0]), spread))
    first_root = _root(first_covariance)
    cross = _root(first_root @ second_covariance @ first_root)
    inverse_root = np.linalg.inv(first_root)
    change = np.eye(shift.size) - inverse_root @ cross @ inverse_root
    moved_variance = np.einsum("ij,jk,ik->i", change, first_covariance, change)
    per_coordinate = [
        _folded_mean(float(s), math.sqrt(max(0.0, float(v))))
        for s, v in zip(shift, moved_variance, strict=True)
    ]
    return min(1.0, float(np.mean(per_coordinate)))


def _standardized(
    first_mean: FloatArray,
    first_covariance: FloatArray,
    second_mean: FloatArray,
    second_covariance: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Map the first to N(0, I), the second to N(mean, diag(scales squared))."""
    first_covariance = np.atleast_2d(first_covariance)
    second_covariance = np.atleast_2d(second_covariance)
    try:
        variances, basis = eigh(second_covariance, first_covariance)
    except np.linalg.LinAlgError:
        variances, basis = np.zeros(1), np.zeros((1, 1))
    if not variances.min() > 0:
        raise CorrDPError(
            "a covariance matrix of the sensitive features is singular: one of them is "
            "constant, or a linear function of others. Remove it, or declare bins."
        )
    mean = basis.T @ np.subtract(second_mean, first_mean)
    return np.asarray(mean), np.sqrt(variances)


def _total_variation_on_a_line(mean: float, scale: float) -> float:
    """Integrate N(0, 1) - N(mean, scale^2) between the crossings of the densities."""
    a = 1.0 - scale**-2
    b = mean * scale**-2
    c = 2 * math.log(scale) + (mean / scale) ** 2
    # densities cross where a x^2 + 2 b x - c = 0
    root = math.sqrt(max(0.0, b * b + a * c))
    low, high = sorted(((-b - root) / a, (-b + root) / a))
    inside_first = ndtr(high) - ndtr(low)
    inside_second = ndtr((high - mean) / scale) - ndtr((low - mean) / scale)
    return float(abs(inside_first - inside_second))


def _total_variation_by_quadrature(mean: FloatArray, scales: FloatArray) -> float:
    from scipy.stats.qmc import Sobol  # slow to import, and rarely needed

    rule = Sobol(mean.size, scramble=False).random(QUADRATURE_DRAWS)
    points = ndtri(np.clip(rule + 0.5 / QUADRATURE_DRAWS, None, 1 - 1e-12))
    log_first = -0.5 * np.sum(points**2, axis=1)
    log_second = -0.5 * np.sum(((points - mean) / scales) ** 2, axis=1) - np.sum(
        np.log(scales)
    )
    return float(np.mean(-np.expm1(np.minimum(log_second - log_first, 0.0))))


def _folded_mean(center: float, scale: float) -> float:
    """Return E|center + scale Z| for a standard normal Z."""
    if scale == 0.0:
        return abs(center)
    ratio = center / scale
    return float(
        scale * math.sqrt(2 / math.pi) * math.exp(-0.5 * ratio * ratio)
        + center * (1 - 2 * ndtr(-ratio))
    )


def _root(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
