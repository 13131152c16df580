r"""What two samples do not rule out; proofs in docs/theory/leakage.md, Theorem 1.

The total variation of two laws is the difference of the probabilities of one fixed,
unknown set of cells. How many rows of each sample lie in that set is (nearly) binomial,
and the Clopper-Pearson limits of both share one normal quantile.
"""

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

from corrdp._typing import FloatArray, IntArray
from corrdp.leakage._bounds import largest_quantile, shared_quantile
from corrdp.leakage._metrics import TotalVariation

SEARCH_ERROR = 2e-3
"""How far above the largest difference that counts allow a search may stop."""

ERROR_IN_MARGINS = 0.01
"""The same in parts of the margin: the larger of both is allowed."""

EXACT_UP_TO = 20.0
"""Deviations beyond which the exact limit is not computed: its level is below 1e-88,
where the inverse of the incomplete beta function fails now and then."""

MOST_PAIRS = 128
"""How many pairs of one table are searched; the others keep the closed form."""


def pair_uppers(counts: IntArray, *, failure_probability: float) -> FloatArray:
    """Return upper bounds on the total variation of all pairs of rows of a table.

    From rows per value and cell, shape (n_values, n_cells), where every value has rows,
    a matrix of values in [0, 1] with a diagonal of 0. Pairs that cannot attain the
    largest have the closed form, which is a little larger.

    Guarantee
    ---------
    Rows independent given the value: for any fixed pair the bound holds except with
    `failure_probability` (docs/theory/leakage.md, Theorem 1). No union over pairs is
    needed for their maximum.
    """
    sizes = counts.sum(axis=1).astype(np.float64)
    first, second = np.triu_indices(len(sizes), 1)
    quantiles = shared_quantile(
        1 / np.sqrt(sizes[first]),
        1 / np.sqrt(sizes[second]),
        failure_probability=failure_probability,
    )
    distances = TotalVariation().pairwise(counts / sizes[:, None])
    bounds = distances[first, second] + closed_margin(
        sizes[first], sizes[second], quantiles
    )
    largest = 0.0
    for place in np.argsort(-bounds, kind="stable")[:MOST_PAIRS]:
        if largest >= min(1.0, bounds[place]):
            break
        searched = searched_upper(
            counts[first[place]], counts[second[place]], float(quantiles[place])
        )
        bounds[place] = min(bounds[place], searched)
        largest = max(largest, bounds[place])
    uppers = np.zeros((len(sizes), len(sizes)))
    uppers[first, second] = np.minimum(bounds, 1.0)
    return uppers + uppers.T


class LargestUpper:
    """The largest bound over pairs of samples that come a few at a time.

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


def closed_margin(
    first_size: FloatArray, second_size: FloatArray, quantile: FloatArray
) -> FloatArray:
    """Return what the search adds to the plug-in distance at most.

    Guarantee
    ---------
    docs/theory/leakage.md, Theorem 1, by the inequality of Zubkov and Serov.
    """
    spread = 1 / first_size + 1 / second_size
    return np.asarray(0.5 * quantile * np.sqrt(spread) + spread)


def largest_share(count: FloatArray, size: float, deviation: FloatArray) -> FloatArray:
    r"""Return the largest probability that `count` of `size` rows do not rule out.

    The level of the limit is :math:`\Phi(-` `deviation` :math:`)`, with a deviation
    that is not negative.

    Guarantee
    ---------
    The upper Clopper-Pearson limit, or ``(count + 1) / size`` if that is more: it holds
    for independent rows of several laws too (docs/theory/leakage.md, Lemma 1a). Far out
    the closed form of Theorem 1, which is never below it.
    """
    inside = np.minimum(count, size * (1 - 1e-12))
    exact = 1.0 - betaincinv(size - inside, inside + 1, ndtr(-deviation))
    closed = (count + 1) / size + deviation / (2 * math.sqrt(size))
    reliable = (deviation < EXACT_UP_TO) & (exact < closed)  # not if it is NaN
    limit = np.where(reliable, exact, closed)
    return np.asarray(np.minimum(1.0, np.maximum(limit, (count + 1) / size)))


def searched_upper(first: IntArray, second: IntArray, quantile: float) -> float:
    """Return the largest difference of probabilities of a set that two samples allow.

    From the rows of both samples in every cell, and a `shared_quantile`: a little above
    the largest value over all points of the empirical curve of Neyman and Pearson and
    all ways of sharing the quantile.

    Guarantee
    ---------
    Total variation of both laws is at most `upper`, except with the failure probability
    of the quantile (docs/theory/leakage.md, Theorem 1). A box of the search is dropped
    only if its most favorable corner is hardly above what was found.
    """
    samples = _Samples(float(first.sum()), float(second.sum()), quantile)
    x, y = likelihood_curve(first, second)
    boxes = _boxes_of(x, y)
    best = 0.0
    while boxes.size:
        best = max(best, float(samples.near(boxes).max()))
        # The closed form costs nothing, and leaves little to search in large samples.
        for most in (samples.closed_corner, samples.corner):
            boxes = boxes[:, most(boxes) > best + samples.search_error]
        boxes = _halves(boxes, samples)
    return min(1.0, best + samples.search_error)


def _boxes_of(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return every piece of the curve with every eighth of the quantile."""
    shares = np.linspace(0.0, 1.0, 9)
    pieces = np.stack([x[:-1], x[1:], y[:-1], y[1:]])
    parts = np.stack([shares[:-1], shares[1:]])
    return np.concatenate(
        [np.repeat(pieces, parts.shape[1], axis=1), np.tile(parts, pieces.shape[1])]
    )


@dataclass(frozen=True)
class _Samples:
    """Sizes of two samples, and the quantile that their limits share."""

    first_size: float
    second_size: float
    quantile: float

    @property
    def spread(self) -> float:
        return math.sqrt(1 / self.first_size + 1 / self.second_size)

    @property
    def margin(self) -> float:
        sizes = np.array(self.first_size), np.array(self.second_size)
        return float(closed_margin(*sizes, np.array(self.quantile)))

    @property
    def search_error(self) -> float:
        return max(SEARCH_ERROR, ERROR_IN_MARGINS * self.margin)

    def near(self, boxes: FloatArray) -> FloatArray:
        """Return a value in every box: at the end of the curve near its best corner."""
        x0, x1, y0, y1, share0, share1 = boxes
        steep = np.less(*_lengths(boxes, self))
        share = 0.5 * (share0 + share1)
        return self._difference(
            np.where(steep, x0, x1), np.where(steep, y0, y1), share, share
        )

    def corner(self, boxes: FloatArray) -> FloatArray:
        """Return what no point of a box exceeds."""
        _, x1, y0, _, share0, share1 = boxes
        return self._difference(x1, y0, share1, share0)

    def closed_corner(self, boxes: FloatArray) -> FloatArray:
        """Return the same by the closed form, for the whole quantile."""
        _, x1, y0, _, _, _ = boxes
        return np.asarray(x1 / self.first_size - y0 / self.second_size + self.margin)

    def _difference(
        self, x: FloatArray, y: FloatArray, most: FloatArray, least: FloatArray
    ) -> FloatArray:
        """Return the limit of the first share minus that of the second one.

        `x` and `y` rows are in the set; the first limit has `most` of the quantile, the
        second one what `least` leaves.
        """
        first = self.quantile * self.spread * math.sqrt(self.first_size)
        second = self.quantile * self.spread * math.sqrt(self.second_size)
        inside = largest_share(x, self.first_size, most * first)
        outside = largest_share(
            self.second_size - y, self.second_size, (1 - least) * second
        )
        return inside + outside - 1.0


def _lengths(boxes: FloatArray, samples: _Samples) -> tuple[FloatArray, FloatArray]:
    """Return what the part of the curve in every box adds to both shares."""
    x0, x1, y0, y1, _, _ = boxes
    return (x1 - x0) / samples.first_size, (y1 - y0) / samples.second_size


def _halves(boxes: FloatArray, samples: _Samples) -> FloatArray:
    """Cut every box in two, along the curve or along the share."""
    on_curve = np.minimum(*_lengths(boxes, samples))
    on_share = 0.5 * samples.quantile * samples.spread * (boxes[5] - boxes[4])
    cut_curve = on_curve > on_share
    lower, upper = boxes.copy(), boxes.copy()
    for low, high, cut in ((0, 1, cut_curve), (2, 3, cut_curve), (4, 5, ~cut_curve)):
        middle = 0.5 * (boxes[low] + boxes[high])
        lower[high] = np.where(cut, middle, boxes[high])
        upper[low] = np.where(cut, middle, boxes[low])
    return np.concatenate([lower, upper], axis=1)


def likelihood_curve(
    first: IntArray, second: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return rows of both samples in the sets that favor the first one most.

    The curve of Neyman and Pearson: no set of cells with as many rows of the first
    sample has fewer of the second one. Cells of equal likelihood ratio are one step.
    """
    occupied = first + second > 0
    first, second = first[occupied], second[occupied]
    _, step = np.unique(second / (first + second), return_inverse=True)
    x = np.concatenate([[0.0], np.cumsum(np.bincount(step, weights=first))])
    y = np.concatenate([[0.0], np.cumsum(np.bincount(step, weights=second))])
    return x, y
