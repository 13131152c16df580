"""How far bounds lie above the truth, what drives them, and what would lower them.

Predictions come from public or released numbers alone. They decide what is joined,
bought and said; no bound rests on them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from corrdp._typing import FloatArray, IntArray
from corrdp.leakage._noisy import SIZE_SHARE, SQUARES_SHARE

# Mean of |noise| over its scale, halved; about half of all cells are not small.
_NOISE_BIAS = 0.2
# The same for drawn rows, over cells of unequal size.
_SAMPLING_BIAS = 0.3

THIN_GROUP = 30
"""Groups of fewer rows than this are called thin in reasons."""
_ENOUGH = 0.3
# Levels with this part of the rows are thick, and a merger that would save less of a
# bound than the second number is not worth a word.
_THICK = 0.1
_LITTLE = 0.02


def predicted_excess(
    sizes: FloatArray,
    *,
    n_cells: int,
    noise_scale: float,
    failure_probability: float,
) -> float:
    """Return about how much the bound of a table exceeds its leakage, at most 1.

    Parameters
    ----------
    sizes : array of float
        Rows per value of the feature; the two thinnest decide.
    n_cells : int
        Joint sensitive cells.
    noise_scale : float
        Noise on every cell; 0 for exact counts.
    failure_probability : float
        Of the bound.

    Examples
    --------
    >>> import numpy as np
    >>> round(
    ...     predicted_excess(
    ...         np.array([5000.0, 40000.0]),
    ...         n_cells=50,
    ...         noise_scale=40.0,
    ...         failure_probability=1e-4,
    ...     ),
    ...     1,
    ... )
    0.2
    """
    thinnest = np.sort(np.asarray(sizes, dtype=np.float64))[:2]
    if thinnest.size < 2:
        return 0.0
    if thinnest[0] < 1.0:
        return 1.0
    variance = noise_scale**2 * float((1 / thinnest**2).sum())
    sampling = float((1 / thinnest).sum())
    main = (1 - SIZE_SHARE - SQUARES_SHARE) * failure_probability
    quantile = max(0.0, -float(ndtri(main)))
    deviation = 0.5 * quantile * math.sqrt(n_cells * variance + sampling)
    bias = _NOISE_BIAS * n_cells * math.sqrt(variance)
    bias += _SAMPLING_BIAS * math.sqrt(n_cells * sampling)
    return min(1.0, deviation + bias)


@dataclass(frozen=True, eq=False)
class Circumstances:
    """What a bound was computed from, besides the counts."""

    sizes: FloatArray  # rows per group, released or public
    n_cells: int
    noise_scale: float  # on every cell; 0 for exact counts
    failure_probability: float  # of the bound

    def excess(self, *, rows: float = 1.0, noise: float = 1.0) -> float:
        """Return the predicted excess with more rows or less noise."""
        return predicted_excess(
            rows * self.sizes,
            n_cells=self.n_cells,
            noise_scale=noise * self.noise_scale,
            failure_probability=self.failure_probability,
        )


def bound_in_words(
    distances: FloatArray,
    bounds: FloatArray,
    present: IntArray,
    absent: IntArray,
    value: Callable[[int], str],
    circumstances: Circumstances,
) -> str:
    """Return which values differ most, what drives the bound, what would lower it.

    Distances and bounds are those of all pairs of groups that have rows enough
    (`present`); `value` gives the text of a group.

    Guarantee
    ---------
    A function of its arguments, which are released or public; predictions are called
    "about" and no promise rests on them (docs/theory/leakage.md, 2.3).
    """
    sizes, noisy = circumstances.sizes, circumstances.noise_scale > 0

    def told(code: int) -> str:
        rows = max(0, round(float(sizes[code])))
        thin = ", thin" if rows < THIN_GROUP else ""
        return f"{value(code)} ({'about ' if noisy else ''}{rows} rows{thin})"

    def pair(matrix: FloatArray) -> tuple[int, int]:
        first, second = np.unravel_index(np.argmax(matrix), matrix.shape)
        low, high = sorted((int(first), int(second)))
        return int(present[low]), int(present[high])

    parts = []
    if present.size > 1:
        widest = pair(distances)
        parts.append(f"largest between {told(widest[0])} and {told(widest[1])}")
    if absent.size:
        fewer = "too few rows for the noise" if noisy else "no rows"
        rest = absent.size - 1
        more = f" (and {rest} more value{'s' if rest > 1 else ''})" if rest else ""
        parts.append(
            f"the bound is 1 because {value(int(absent[0]))} has {fewer}{more}; merge "
            "it by groups or other in the policy"
        )
    elif present.size > 1:
        driving = pair(bounds)
        same = driving == widest
        upper = float(bounds.max())
        text = "this pair" if same else f"{told(driving[0])} and {told(driving[1])}"
        thin = ", too thin to say more than 1" if upper >= 1 else ""
        parts.append(f"the bound comes from {text}{thin}")
        of_pair = replace(circumstances, sizes=sizes[list(driving)])
        parts.append(_remedies(of_pair, upper))
    parts.append(_merging(bounds, present, circumstances))
    return "; ".join(part for part in parts if part)


def _remedies(of_pair: Circumstances, upper: float) -> str:
    """Return how much of the bound is noise and rows, and what less would make it."""
    excess = of_pair.excess()
    if excess >= 1.0:
        rows = 2.0
        while of_pair.excess(rows=rows) > _ENOUGH and rows < 2.0**20:
            rows *= 2
        return f"about {rows:g} times the rows would bring it near the truth"
    center = max(0.0, upper - excess)
    rows_alone = of_pair.excess(noise=0.0)
    parts = [f"about {rows_alone:.2f} of it is the chance of rows"]
    if of_pair.noise_scale > 0:
        parts = [
            f"about {excess - rows_alone:.2f} of it is noise",
            f"{rows_alone:.2f} the chance of rows",
            f"with twice the budget it would be about "
            f"{center + of_pair.excess(noise=0.5):.2f}",
            f"on as many public rows about {center + rows_alone:.2f}",
        ]
    parts.append(f"with twice the rows about {center + of_pair.excess(rows=2.0):.2f}")
    return ", ".join(parts)


def _merging(
    bounds: FloatArray, present: IntArray, circumstances: Circumstances
) -> str:
    """Return about what the bound would be if thin levels were merged into one.

    Pairs of thick levels keep their bounds; a merged level is taken to hold as many
    rows as a thick one must, and to differ from others as much as thick ones do.
    """
    sizes = circumstances.sizes
    least = _THICK * float(np.maximum(sizes, 0.0).sum())
    thick = sizes[present] >= least
    if not thick.any() or thick.sum() == sizes.size:
        return ""
    now = float(bounds.max()) if present.size == sizes.size else 1.0
    merging = f"with all levels below {_THICK:.0%} of the rows merged"
    if thick.sum() == 1:
        largest = float(sizes[present][thick][0])
        both = np.array([least / _THICK - largest, largest])
        excess = replace(circumstances, sizes=both).excess()
        if sizes.size < 3 or excess >= now - _LITTLE:
            return ""
        return f"{merging} into one it would exceed the truth by about {excess:.2f}"
    inner = bounds[np.ix_(thick, thick)]
    place = np.unravel_index(np.argmax(inner), inner.shape)
    upper = float(inner[place])
    pair = sizes[present][thick][list(place)]
    merged = np.array([least, float(pair.min())])
    center = max(0.0, upper - replace(circumstances, sizes=pair).excess())
    about = max(upper, center + replace(circumstances, sizes=merged).excess())
    if about >= now - _LITTLE:
        return ""
    return f"{merging} into others about {about:.2f}"
