"""The logistic loss: labels of two classes."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy.special import expit, logit

from corrdp._typing import FloatArray
from corrdp.training.losses._loss import Loss, smallest_rate
from corrdp.training.sensitivity._residuals import (
    LabelChanges,
    ResidualPairs,
    Scores,
    logistic_pairs,
)


@final
@dataclass(frozen=True, slots=True)
class LogisticLoss(Loss):
    """Cross entropy of a label in {0, 1}; residual ``expit(score) - y``.

    The label fixes the sign of the residual, and its size is below 1.
    """

    lipschitz: ClassVar[float] = 0.25
    is_likelihood: ClassVar[bool] = True
    label_fixes_sign: ClassVar[bool] = True
    has_compiled_bounds: ClassVar[bool] = True

    @property
    def residual_limit(self) -> float:
        """Largest size of a residual: 1."""
        return 1.0

    def value(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the loss of every record, shape (n,)."""
        return np.asarray(np.logaddexp(0.0, score) - np.asarray(y) * score)

    def residual(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the derivative in the score, shape (n,)."""
        return np.asarray(expit(score) - np.asarray(y))

    def curvature(self, score: FloatArray) -> FloatArray:
        """Return the derivative of residuals in their score, shape (n, 1)."""
        chance = expit(score)
        return np.asarray(chance * (1.0 - chance))[:, None]

    def quality(self, score: FloatArray, y: Any) -> float:
        """Return the accuracy of scores."""
        return float(np.mean((score > 0) == (y > 0.5)))

    def best_constant(self, noisy_sums: FloatArray, n_rows: int) -> float:
        """Return the log odds of the mean label, kept away from 0 and 1."""
        least = smallest_rate(n_rows)
        mean = float(noisy_sums[0]) / n_rows
        return float(logit(min(max(mean, least), 1.0 - least)))

    def residual_pairs(self, scores: Scores, labels: LabelChanges) -> ResidualPairs:
        """Return the pairs of one sign (Lemma 1), and of both signs (Lemma 4)."""
        del labels
        limit = max(scores.high, -scores.low)
        return logistic_pairs(limit, scores.change, scores.reference_change)

    def largest_difference(self, step: Scores) -> float:
        """Return how far a residual moves when scores move by a step."""
        return math.tanh(max(step.high, -step.low) / 4.0)

    def residual_gaps(
        self, scores: Scores, labels: LabelChanges, *, in_difference: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return how far residual and reference residual move under each class."""
        del labels, in_difference
        change, reference = scores.change, scores.reference_change
        return np.tanh(change / 4.0), np.tanh(reference / 4.0)
