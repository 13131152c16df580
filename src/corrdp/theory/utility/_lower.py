"""The lower bound of Theorem 3.12."""

import math

import numpy as np
from numpy.typing import ArrayLike

from corrdp._validate import check_count, check_epsilon
from corrdp.theory._checks import check_distances


def utility_lower_rate(
    leakage: ArrayLike, *, epsilon: float, n_rows: int, n_sensitive: int
) -> float:
    r"""Return the rate of Theorem 3.12, below which no CorrDP algorithm gets.

    Not called tight: the proof pads m_s - k* coordinates where m - m_s - k* are
    meant, loses a factor 1/n, and changes several columns under a distance that
    allows one (E25). Constants are unstated; delta is assumed to be o(1/n).

    Parameters
    ----------
    leakage : array of float, shape (n_insensitive,)
        TV(i) of the insensitive columns only, in any order.
    epsilon : float
        Budget.
    n_rows, n_sensitive : int
        n and m_s.

    Returns
    -------
    rate : float
        :math:`\min\{1, \sqrt{m_s + \max_k k (TV^{(k)})^2} / (n \epsilon)\}`, with
        TV sorted in descending order.
    """
    descending = np.sort(check_distances("leakage", leakage))[::-1]
    ranks = np.arange(1, descending.size + 1)
    hardest = float((ranks * descending**2).max(initial=0.0))
    sensitive = check_count("n_sensitive", n_sensitive)
    rows = check_count("n_rows", n_rows)
    return min(1.0, math.sqrt(sensitive + hardest) / (rows * check_epsilon(epsilon)))
