"""The one special function behind every Gaussian curve.

With the normal distribution function Phi, its density phi and the Mills ratio
M(t) = (1 - Phi(t)) / phi(t), each hockey-stick divergence of shifted normals is a sum
of terms of the form phi(x) * (M(-x) - M(shift - x)). The difference cancels when the
shift is small, so it is then integrated from M' instead of subtracted.
"""

import math

import numpy as np
from scipy.special import erfcx, log_ndtr

from corrdp._typing import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_SMALL_SHIFT = 0.1
_ASYMPTOTIC_FROM = 50.0
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def log_density(point: float | FloatArray) -> FloatArray:
    """Return the logarithm of the standard normal density."""
    return np.asarray(-0.5 * point * point - _LOG_ROOT_TWO_PI)


def log_mills_ratio(point: float | FloatArray) -> FloatArray:
    """Return the logarithm of the normal tail divided by the normal density."""
    return np.asarray(np.log(math.sqrt(math.pi / 2.0) * erfcx(point / math.sqrt(2.0))))


def log_gap(point: float | FloatArray, shift: float) -> FloatArray:
    """Return log(phi(x) * (M(-x) - M(shift - x))) at x = `point` <= `shift`.

    Relative accuracy of the exponential is about 1e-13 for any positive shift.
    """
    if shift < _SMALL_SHIFT:
        nodes = 0.5 * shift * (_NODES + 1.0) - np.asarray(point)[..., np.newaxis]
        integral = 0.5 * shift * (_minus_mills_slope(nodes) @ _WEIGHTS)
        return np.asarray(log_density(point) + np.log(integral))
    root = math.sqrt(2.0)
    ratio = erfcx((shift - point) / root) / erfcx(-point / root)
    return np.asarray(log_ndtr(point) + np.log1p(-ratio))


def _minus_mills_slope(point: FloatArray) -> FloatArray:
    """Return -M'(t) = 1 - t M(t), by its asymptotic series where that cancels."""
    near = np.minimum(point, _ASYMPTOTIC_FROM)
    exact = 1.0 - near * (math.sqrt(math.pi / 2.0) * erfcx(near / math.sqrt(2.0)))
    far = point > _ASYMPTOTIC_FROM
    if not far.any():
        return np.asarray(exact)
    inverse = 1.0 / np.square(np.maximum(point, _ASYMPTOTIC_FROM))
    series = inverse * (
        1.0
        - 3.0
        * inverse
        * (1.0 - 5.0 * inverse * (1.0 - 7.0 * inverse * (1.0 - 9.0 * inverse)))
    )
    return np.where(far, series, exact)
