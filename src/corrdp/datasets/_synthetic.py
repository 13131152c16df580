"""The paper's synthetic regression data, with leakage from the true covariance."""

import math

import numpy as np
from scipy.special import ndtr

from corrdp._typing import FloatArray
from corrdp._validate import check_count
from corrdp.datasets._paper import PaperTable
from corrdp.datasets._store import pandas_for
from corrdp.exceptions import CorrDPError
from corrdp.policy import ColumnRole, Feature, Label, NumberDomain, Policy

DEVIATIONS = 3.0  # features and label are clipped this far from their mean
_NOISE_VARIANCE = 25.0


def paper_synthetic(
    *,
    n_rows: int = 2000,
    n_columns: int = 100,
    n_sensitive: int = 10,
    random_state: int = 0,
) -> PaperTable:
    r"""Draw the data of the paper's section 5.1, bounded as a promise requires.

    Features are jointly Gaussian, :math:`Y = \theta^\top X + \eta`. An unbounded
    Gaussian leaks everything (erratum E24), so features and label are declared to lie
    within three standard deviations and are clipped to them.

    Columns are ``x0``, ``x1``, ..., of which the first `n_sensitive` are sensitive, and
    the target ``y``; every insensitive feature has its exact leakage declared.

    References
    ----------
    The paper, section 5.1 and appendix D.1.
    """
    check_count("n_rows", n_rows)
    check_count("n_columns", n_columns)
    check_count("n_sensitive", n_sensitive)
    if n_sensitive > n_columns:
        raise CorrDPError(
            f"n_sensitive must not exceed n_columns={n_columns}, got "
            f"n_sensitive={n_sensitive}. Lower it."
        )
    index = np.arange(1, n_columns + 1)
    sign = np.where(index % 2 == 1, 1.0, -1.0)
    coef = sign * np.sqrt(index + 1.0)
    covariance = synthetic_covariance(n_columns, n_sensitive)
    rng = np.random.default_rng(random_state)
    X = rng.multivariate_normal(sign, covariance, size=n_rows, method="cholesky")
    y = X @ coef + rng.normal(0.0, math.sqrt(_NOISE_VARIANCE), size=n_rows)
    frame = pandas_for("the synthetic table is made").DataFrame(
        X, columns=[f"x{column}" for column in range(n_columns)]
    )
    policy = _policy(sign, covariance, coef, n_sensitive=n_sensitive)
    return PaperTable(frame.assign(y=y), policy)


def synthetic_covariance(n_columns: int, n_sensitive: int) -> FloatArray:
    """Return the covariance matrix that the paper states."""
    covariance = np.full((n_columns, n_columns), 0.5)
    covariance[:n_sensitive, n_sensitive:] = 0.1
    covariance[n_sensitive:, :n_sensitive] = 0.1
    sensitive = np.arange(n_columns) < n_sensitive
    np.fill_diagonal(covariance, np.where(sensitive, 1.0, 2.0))
    return covariance


def gaussian_column_leakage(
    covariance: FloatArray, n_sensitive: int, column: int, half_width: float
) -> float:
    r"""Return the total variation between the extreme conditionals of one column.

    Given :math:`X_u = u` the sensitive features are Gaussian with mean
    :math:`\mu_S + \Sigma_{Su} (u - \mu_u) / \Sigma_{uu}` and one covariance matrix
    for all :math:`u`; two such Gaussians at Mahalanobis distance :math:`\Delta` have
    total variation :math:`2 \Phi(\Delta / 2) - 1`.

    The covariance is that of all features, shape (n_columns, n_columns), sensitive ones
    first; the column is bounded to its mean plus or minus `half_width`.
    """
    across = covariance[:n_sensitive, column]
    variance = covariance[column, column]
    residual = (
        covariance[:n_sensitive, :n_sensitive] - np.outer(across, across) / variance
    )
    shift = across * (2.0 * half_width / variance)
    distance = math.sqrt(float(shift @ np.linalg.solve(residual, shift)))
    return float(2.0 * ndtr(distance / 2.0) - 1.0)


def _policy(
    mean: FloatArray, covariance: FloatArray, coef: FloatArray, *, n_sensitive: int
) -> Policy:
    half_width = DEVIATIONS * np.sqrt(np.diag(covariance))
    features = tuple(
        Feature(
            f"x{column}",
            ColumnRole.SENSITIVE if column < n_sensitive else ColumnRole.INSENSITIVE,
            NumberDomain(
                mean[column] - half_width[column], mean[column] + half_width[column]
            ),
            leakage=(
                None
                if column < n_sensitive
                else gaussian_column_leakage(
                    covariance, n_sensitive, column, half_width[column]
                )
            ),
        )
        for column in range(mean.size)
    )
    center = float(mean @ coef)
    spread = DEVIATIONS * math.sqrt(float(coef @ covariance @ coef) + _NOISE_VARIANCE)
    label = Label("y", NumberDomain(center - spread, center + spread), score=0.0)
    return Policy(features, label)
