"""The largest of many bounds, of which only the likeliest are searched."""

import heapq
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.leakage._bounds import largest_quantile, shared_quantile
from corrdp.leakage._two_samples import MOST_PAIRS, closed_margin, searched_upper


class LargestUpper:
    """The largest bound over pairs of samples that come a few at a time.

    Parameters
    ----------
    failure_probability : float
        Probability with which the bound may be too small.

    Guarantee
    ---------
    Rows of a sample independent: the bound is at least the total variation of any
    *fixed* pair that was offered, except with `failure_probability`
    (docs/theory/leakage.md, Theorem 1). Which pairs are searched is decided by their
    closed forms; all others keep them.
    """

    def __init__(self, failure_probability: float) -> None:
        self._failure_probability = failure_probability
        self._quantile = largest_quantile(failure_probability)
        self._likely: list[tuple[float, int, IntArray, IntArray]] = []  # a heap
        self._rest = 0.0
        self._n_offered = 0

    def offer(self, first: IntArray, second: IntArray) -> None:
        """Take pairs of samples, counts of shape (n_pairs, n_cells); all have rows."""
        sizes = [counts.sum(axis=1).astype(np.float64) for counts in (first, second)]
        closed = plug_in_distances(first, second) + closed_margin(
            sizes[0], sizes[1], np.array(self._quantile)
        )
        for place in np.argsort(-closed, kind="stable"):
            if len(self._likely) == MOST_PAIRS and closed[place] <= self._likely[0][0]:
                self._rest = max(self._rest, float(closed[place]))
                break
            self._n_offered += 1
            pair = (first[place].copy(), second[place].copy())
            heapq.heappush(self._likely, (closed[place], self._n_offered, *pair))
            if len(self._likely) > MOST_PAIRS:
                self._rest = max(self._rest, heapq.heappop(self._likely)[0])

    def upper(self) -> float:
        """Return the bound for everything offered so far, in [0, 1]."""
        largest = self._rest
        for closed, _, first, second in sorted(self._likely, reverse=True):
            if largest >= min(1.0, closed):
                break
            quantile = shared_quantile(
                np.array(1 / math.sqrt(first.sum())),
                np.array(1 / math.sqrt(second.sum())),
                failure_probability=self._failure_probability,
            )
            searched = searched_upper(first, second, float(quantile))
            largest = max(largest, min(closed, searched))
        return min(1.0, float(largest))


def plug_in_distances(first: NDArray[Any], second: NDArray[Any]) -> FloatArray:
    """Return the total variation of pairs of rows, of counts or of probabilities."""
    shares = [rows / rows.sum(axis=1, keepdims=True) for rows in (first, second)]
    return np.asarray(np.abs(shares[0] - shares[1]).sum(axis=1) / 2)
