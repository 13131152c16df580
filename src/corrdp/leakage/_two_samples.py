r"""What two samples do not rule out; proofs in docs/theory/leakage.md, Theorem 1.

The total variation of two laws is the difference of the probabilities of one fixed,
unknown set of cells. How many rows of each sample lie in that set is (nearly) binomial,
and the Clopper-Pearson limits of both share one normal quantile.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtr

from corrdp._typing import FloatArray, IntArray
from corrdp.leakage._bounds import shared_quantile
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

    Parameters
    ----------
    counts : array of int, shape (n_values, n_cells)
        Rows per value and cell; every value has rows.
    failure_probability : float
        Probability with which a bound may be too small, for one fixed pair.

    Returns
    -------
    uppers : array of float, shape (n_values, n_values)
        In [0, 1]; 0 on the diagonal. Pairs that cannot attain the largest have the
        closed form, which is a little larger.

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

    Parameters
    ----------
    count : array of float
        Rows in the set, in [0, size].
    size : float
        Rows of the sample.
    deviation : array of float
        Not negative; the level of the limit is :math:`\Phi(-` `deviation` :math:`)`.

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

    Parameters
    ----------
    first, second : arrays of int, shape (n_cells,)
        Rows of both samples in every cell.
    quantile : float
        From `shared_quantile`.

    Returns
    -------
    upper : float
        A little above the largest value over all points of the empirical curve of
        Neyman and Pearson and all ways of sharing the quantile.

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
