"""Renyi divergence between Gaussians whose covariances differ (Lemma A.3)."""

import math

import numpy as np
from numpy.typing import ArrayLike

from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError
from corrdp.theory._checks import check_positive, check_vector


def gaussian_renyi_divergence(
    first_mean: ArrayLike,
    first_covariance: ArrayLike,
    second_mean: ArrayLike,
    second_covariance: ArrayLike,
    *,
    order: float,
) -> float:
    r"""Return the Renyi divergence of one Gaussian from another.

    Parameters
    ----------
    first_mean, second_mean : array of float, shape (n_coordinates,)
        Means of P and Q.
    first_covariance, second_covariance : array, shape (n_coordinates, n_coordinates)
        Positive definite covariances of P and Q.
    order : float
        alpha > 0; 1 gives the Kullback-Leibler divergence.

    Returns
    -------
    divergence : float
        :math:`D_\alpha(P \| Q)`; infinite when alpha > 1 and
        :math:`\Sigma_\alpha = (1-\alpha) \Sigma_1 + \alpha \Sigma_2` is not positive
        definite.

    Guarantee
    ---------
    The value of Definition A.2, for all orders. The lemma's final formula is right
    where :math:`\Sigma_\alpha` is positive definite, which the paper does not ask,
    and its determinant identity has a wrong sign (E17). Proof:
    `docs/theory/paper_bounds.md`.

    Examples
    --------
    >>> gaussian_renyi_divergence([0.0], [[1.0]], [2.0], [[1.0]], order=3.0)
    6.0
    >>> gaussian_renyi_divergence([0.0], [[2.0]], [0.0], [[1.0]], order=2.0)
    inf
    """
    order = check_positive("order", order)
    first = check_vector("first_mean", first_mean)
    second = check_vector("second_mean", second_mean, size=first.size)
    narrow = _check_covariance("first_covariance", first_covariance, first.size)
    wide = _check_covariance("second_covariance", second_covariance, first.size)
    shift = first - second
    log_first = 2 * np.log(np.diag(np.linalg.cholesky(narrow))).sum()
    log_second = 2 * np.log(np.diag(np.linalg.cholesky(wide))).sum()
    if order == 1.0:
        trace = np.trace(np.linalg.solve(wide, narrow))
        distance = shift @ np.linalg.solve(wide, shift)
        return float((log_second - log_first + trace + distance - first.size) / 2)
    mixed = (1 - order) * narrow + order * wide
    try:
        factor = np.linalg.cholesky(mixed)
    except np.linalg.LinAlgError:
        return math.inf
    log_mixed = 2 * np.log(np.diag(factor)).sum()
    log_integral = (order * log_second + (1 - order) * log_first - log_mixed) / 2
    whitened = np.linalg.solve(factor, shift)
    return float(log_integral / (order - 1) + order / 2 * (whitened @ whitened))


def _check_covariance(name: str, values: ArrayLike, size: int) -> FloatArray:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.shape != (size, size) or not np.all(np.isfinite(matrix)):
        raise CorrDPError(
            f"{name} must be a finite matrix of shape {(size, size)}, got shape "
            f"{matrix.shape}. Pass one row and column per coordinate."
        )
    symmetric = np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0)
    smallest = float(np.linalg.eigvalsh(matrix)[0]) if symmetric else math.nan
    if not smallest > 0.0:
        raise CorrDPError(
            f"{name} must be symmetric and positive definite, got smallest eigenvalue "
            f"{smallest:g} (nan: not symmetric). Drop coordinates without noise."
        )
    return matrix
