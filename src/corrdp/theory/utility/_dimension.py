r"""Effective dimensions: what replaces the number of columns m under CorrDP.

The noise of Eq. (4) has total variance proportional to
:math:`m_s + \sum_{i \in U} \max\{TV(i), m_s^2/m^2\}`, where plain DP has m.
The lower rate of excess risk is theirs too.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_epsilon
from corrdp.exceptions import CorrDPError
from corrdp.theory._checks import check_distances


def noise_dimension(leakage: ArrayLike, *, n_sensitive: int) -> float:
    """Return the total noise variance of Eq. (4) in units of a sensitive column's.

    m_s plus the sum of max(TV(i), m_s^2 / m^2), the leakage being that of the
    insensitive columns only.
    """
    distances, columns = _checked(leakage, n_sensitive)
    share = (n_sensitive / columns) ** 2
    return n_sensitive + float(np.maximum(distances, share).sum())


def dimension_upper(leakage: ArrayLike, *, n_sensitive: int) -> float:
    """Return the bound on `noise_dimension` that the proof of Theorem 3.9 may use.

    The sum 1.25 m_s + sum TV(i), never below `noise_dimension`. The paper prints
    ``min`` where its own inequality gives the sum (E16).
    """
    distances, _ = _checked(leakage, n_sensitive)
    return n_sensitive + float(distances.sum()) + n_sensitive / 4


def printed_dimension(leakage: ArrayLike, *, n_sensitive: int) -> float:
    """Return the dimension that Theorem 3.9 prints, which is not an upper bound.

    m_s plus the smaller of sum TV(i) and m_s / 4, kept for comparison with the paper;
    see E16 and `dimension_upper`.
    """
    distances, _ = _checked(leakage, n_sensitive)
    return n_sensitive + min(float(distances.sum()), n_sensitive / 4)


def improvement_factor(leakage: ArrayLike, *, n_sensitive: int) -> float:
    """Return by how much the convex bound shrinks against plain DP-SGD.

    The square root of m over `noise_dimension`: at least 1, at most the sqrt(m / m_s)
    of the introduction, equal to it in order when sum TV(i) is (Corollary 3.10).
    """
    _, columns = _checked(leakage, n_sensitive)
    return math.sqrt(columns / noise_dimension(leakage, n_sensitive=n_sensitive))


def network_dimension(
    *, n_parameters: int, n_columns: int, n_sensitive: int, first_layer_width: int
) -> int:
    """Return the dimension of a fully connected network, m_theta - (m - m_s) d_0.

    Section 3.1, when sum TV(i) is of order m_s: rows of the first layer that read
    insensitive columns no longer count. Their own noise, d_0 times the sum of
    max(TV(i), m_s^2 / m^2), is then of the order of the d_0 m_s that do count.
    """
    columns = check_count("n_columns", n_columns)
    sensitive = check_count("n_sensitive", n_sensitive)
    width = check_count("first_layer_width", first_layer_width)
    if sensitive > columns:
        raise CorrDPError(
            f"n_sensitive={sensitive} must not exceed n_columns={columns}. "
            "Count sensitive columns among all columns."
        )
    parameters = check_count(
        "n_parameters",
        n_parameters,
        lower=columns * width,
        remedy="The first layer alone has n_columns * first_layer_width weights.",
    )
    return parameters - (columns - sensitive) * width


def network_improvement_factor(
    *, n_parameters: int, n_columns: int, n_sensitive: int, first_layer_width: int
) -> float:
    """Return the square root of m_theta over `network_dimension` (Section 3.1)."""
    reduced = network_dimension(
        n_parameters=n_parameters,
        n_columns=n_columns,
        n_sensitive=n_sensitive,
        first_layer_width=first_layer_width,
    )
    return math.sqrt(n_parameters / reduced)


def _checked(leakage: ArrayLike, n_sensitive: int) -> tuple[FloatArray, int]:
    """Return the distances and the number of columns."""
    distances = check_distances(leakage)
    return distances, check_count("n_sensitive", n_sensitive) + distances.size


def utility_lower_rate(
    leakage: ArrayLike, *, epsilon: float, n_rows: int, n_sensitive: int
) -> float:
    r"""Return the rate of Theorem 3.12, below which no CorrDP algorithm gets.

    :math:`\min\{1, \sqrt{m_s + \max_k k (TV^{(k)})^2} / (n \epsilon)\}`, with TV of the
    insensitive columns in descending order.

    Not called tight: the proof pads m_s - k* coordinates where m - m_s - k* are
    meant, loses a factor 1/n, and changes several columns under a distance that
    allows one (E25). Constants are unstated; delta is assumed to be o(1/n).
    """
    descending = np.sort(check_distances(leakage))[::-1]
    ranks = np.arange(1, descending.size + 1)
    hardest = float((ranks * descending**2).max(initial=0.0))
    sensitive = check_count("n_sensitive", n_sensitive)
    rows = check_count("n_rows", n_rows)
    return min(1.0, math.sqrt(sensitive + hardest) / (rows * check_epsilon(epsilon)))
