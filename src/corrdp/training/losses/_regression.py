"""Losses of labels that are numbers: squared, Huber."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from corrdp._typing import FloatArray
from corrdp.training.losses._loss import Loss, check_residual_bound
from corrdp.training.sensitivity._residuals import (
    LabelChanges,
    ResidualPairs,
    Scores,
    box_pairs,
)


class _Regression(Loss):
    """A loss whose residual is ``score - y``, clipped to `residual_limit`."""

    __slots__ = ()
    lipschitz: ClassVar[float] = 1.0
    has_compiled_bounds: ClassVar[bool] = True

    @property
    def clips_residuals_at(self) -> float:
        """Bound that the kernels apply to ``score - y``."""
        return self.residual_limit

    def value(self, score: FloatArray, y: Any) -> FloatArray:
        """Return half the squared error of every record, shape (n,)."""
        return np.asarray(0.5 * (score - np.asarray(y)) ** 2)

    def residual(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the clipped derivative in the score, shape (n,)."""
        limit = self.residual_limit
        return np.asarray(np.clip(score - np.asarray(y), -limit, limit))

    def best_constant(self, noisy_sums: FloatArray, n_rows: int) -> float:
        """Return the mean label, inside the range of labels."""
        return min(max(float(noisy_sums[0]) / n_rows, -0.5), 0.5)

    def largest_residual(self, scores: Scores, labels: LabelChanges) -> float:
        """Return the largest size of a residual at scores that reach so far."""
        low, high = labels.bounds
        return min(self.residual_limit, max(scores.high - low, high - scores.low))

    def largest_difference(self, step: Scores) -> float:
        """Return how far a residual moves when scores move by a step."""
        return min(2.0 * self.residual_limit, max(step.high, -step.low))

    def residual_gaps(
        self, scores: Scores, labels: LabelChanges, *, in_difference: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return how far residual and reference residual move (Lemma 2)."""
        del in_difference  # clipping may act on one of two residuals alone
        return scores.change + labels.gap, scores.reference_change + labels.gap


@final
@dataclass(frozen=True, slots=True)
class SquaredLoss(_Regression):
    """Half the squared error up to a residual of `residual_bound`, linear beyond.

    Parameters
    ----------
    residual_bound : float
        The residual ``score - y`` is clipped to this size in the gradient, so what is
        minimized is the Huber function with this threshold; `value` is still half
        the squared error, by which fits are compared.
    """

    residual_bound: float
    adapts_residual_bound: ClassVar[bool] = True
    is_least_squares: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_residual_bound("residual_bound", self.residual_bound)

    @property
    def residual_limit(self) -> float:
        """Largest size of a residual: the bound."""
        return self.residual_bound

    def with_residual_bound(self, residual_bound: float) -> "SquaredLoss":
        """Return the loss with residuals clipped elsewhere."""
        return SquaredLoss(residual_bound)

    def bounded_by(self, residual_bound: float) -> "SquaredLoss":
        """Return the loss with residuals clipped at a bound at the latest."""
        return SquaredLoss(min(self.residual_bound, residual_bound))


@final
@dataclass(frozen=True, slots=True)
class HuberLoss(_Regression):
    """Half the squared error below a threshold, linear beyond.

    Parameters
    ----------
    threshold : float
        Size of the residual at which the loss becomes linear.
    """

    threshold: float

    def __post_init__(self) -> None:
        check_residual_bound("threshold", self.threshold)

    @property
    def residual_limit(self) -> float:
        """Largest size of a residual: the threshold."""
        return self.threshold

    @property
    def linear_beyond(self) -> float:
        """Size of a residual beyond which the loss grows linearly: the threshold."""
        return self.threshold

    def bounded_by(self, residual_bound: float) -> "HuberLoss":
        """Return the loss with residuals clipped at a bound at the latest."""
        return HuberLoss(min(self.threshold, residual_bound))

    def value(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the loss of every record, shape (n,)."""
        size = np.abs(score - np.asarray(y))
        inner = np.minimum(size, self.threshold)
        return np.asarray(inner * (size - 0.5 * inner))


@final
@dataclass(frozen=True, slots=True)
class UnclippedSquaredLoss(_Regression):
    """Half the squared error; bounded only through the domain and the parameters."""

    is_least_squares: ClassVar[bool] = True

    @property
    def residual_limit(self) -> float:
        """Largest size of a residual: unbounded."""
        return math.inf

    def difference_pairs(
        self, step: Scores, here: Scores, there: Scores, labels: LabelChanges
    ) -> ResidualPairs:
        """Return the pairs of differences, which are scores: the label cancels."""
        del here, there, labels
        peak = max(step.high, -step.low)
        return box_pairs(peak, step.change, step.reference_change)
