"""Which pairs of residuals a record and its neighbor can have (section 2 of the note).

All features of a record share one residual, so a class of neighbors is described by
the set of pairs (residual, residual of the neighbor). Written as the larger residual
``a`` and the gap ``t`` to the smaller one, the set lies below a concave broken line:
``a <= peak`` up to the gap `peak_gap`, then ``a`` falls by `slope` per unit of gap, and
the gap ends at `largest_gap`. What a record moves is convex in the pair, so only the
corners of the line matter (docs/theory/glm_sensitivity.md).
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from corrdp._typing import FloatArray

_LARGEST_SCORE = 700.0  # beyond it exp is no number; residuals there are 1 to all bits
_ROUNDING = 1e-12


class Scores(NamedTuple):
    """Reach of the scores over the domain, at given parameters."""

    # Smallest and largest score; with several outputs, minus and plus the largest
    # 2-norm.
    low: float
    high: float
    # Largest difference between two outputs of one record; 0 for one output.
    spread_limit: float
    # (n_classes,): largest 2-norm of the change of the score, over all changed features
    # and over those that the reference does not replace.
    change: FloatArray
    reference_change: FloatArray
    # (n_classes,): the same for the largest entry minus the smallest.
    spread: FloatArray
    reference_spread: FloatArray


class LabelChanges(NamedTuple):
    """What is declared about labels, and what classes of neighbors do to them."""

    bounds: tuple[float, float]  # smallest and largest label, if labels are numbers
    changes: FloatArray  # (n_classes,): 1 where a class may change the label
    gap: FloatArray  # (n_classes,): how far it may move a label that is a number


class ResidualPairs(NamedTuple):
    """Outer bounds of the residual pairs, one entry per class."""

    peak: float  # largest size of a residual
    peak_gap: FloatArray  # (n_classes,): gap up to which the peak can be held
    largest_gap: FloatArray  # (n_classes,): largest gap
    # (n_classes,): fall of the larger residual per unit of gap beyond `peak_gap`.
    slope: FloatArray
    # (n_classes,): largest gap of the residuals computed at the reference.
    largest_reference_gap: FloatArray
    # (n_classes,): the same gaps when the label changes the sign of the residual.
    largest_flip_gap: FloatArray
    largest_flip_reference_gap: FloatArray
    largest_unrelated_gap: float  # largest gap of any two residuals of the same label


def logistic_pairs(
    score_limit: float, score_range: FloatArray, reference_range: FloatArray
) -> ResidualPairs:
    """Return the pairs of ``expit(s) - y`` for scores at most a range apart.

    The pairs with equal label form a lens; the line is its tangent at the largest score
    and its tangent of slope 1, at the symmetric pair. A changed label adds 1.
    """
    limit = min(score_limit, _LARGEST_SCORE)
    peak, rest = float(expit(limit)), float(expit(-limit))
    largest_gap = np.tanh(score_range / 4.0)
    lower = expit(limit - score_range)
    peak_gap = np.clip(peak - lower, 0.0, largest_gap)
    steepness = lower * expit(score_range - limit) / (peak * rest)
    largest_reference_gap = np.tanh(reference_range / 4.0)
    # Rounding goes outwards: a longer plateau and a flatter fall beyond it only add
    # pairs, and a bound over more pairs still holds.
    return ResidualPairs(
        peak=peak,
        peak_gap=np.minimum(peak_gap + _ROUNDING, largest_gap),
        largest_gap=largest_gap,
        slope=1.0 / (np.maximum(steepness - 1.0, 0.0) + _ROUNDING),
        largest_reference_gap=largest_reference_gap,
        largest_flip_gap=np.minimum(1.0 + largest_gap, 2.0 * peak),
        largest_flip_reference_gap=np.minimum(1.0 + largest_reference_gap, 2.0 * peak),
        largest_unrelated_gap=peak,
    )


def box_pairs(peak: float, gap: FloatArray, reference_gap: FloatArray) -> ResidualPairs:
    """Return the pairs of residuals of either sign, at most `gap` apart."""
    largest_gap = np.minimum(gap, 2.0 * peak)
    largest_reference_gap = np.minimum(reference_gap, 2.0 * peak)
    return ResidualPairs(
        peak=peak,
        peak_gap=largest_gap,
        largest_gap=largest_gap,
        slope=np.zeros_like(largest_gap),
        largest_reference_gap=largest_reference_gap,
        largest_flip_gap=largest_gap,
        largest_flip_reference_gap=largest_reference_gap,
        largest_unrelated_gap=2.0 * peak,
    )


def softmax_gap(score_norm: FloatArray, score_spread: FloatArray) -> FloatArray:
    """Return how far a softmax moves (2-norm) with its scores.

    `score_norm` bounds the 2-norm of the change of the scores, `score_spread` its
    largest entry minus its smallest.
    """
    return np.minimum(
        0.5 * score_norm, math.sqrt(2.0) * np.tanh(np.asarray(score_spread) / 4.0)
    )
