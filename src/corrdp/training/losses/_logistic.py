"""The logistic loss of two classes, and the multinomial one of several."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy.special import expit, log_softmax, logit, softmax

from corrdp._typing import FloatArray
from corrdp._validate import check_count
from corrdp.training.losses._loss import Loss, smallest_rate
from corrdp.training.sensitivity._residuals import (
    LabelChanges,
    ResidualPairs,
    Scores,
    logistic_pairs,
    softmax_gap,
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


@final
@dataclass(frozen=True, slots=True)
class MultinomialLoss(Loss):
    """Cross entropy of a class index; residual ``softmax(score) - indicator``.

    Parameters
    ----------
    n_classes : int
        Number of classes, hence of scores per record.
    """

    n_classes: int
    lipschitz: ClassVar[float] = 0.5
    is_likelihood: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("n_classes", self.n_classes, lower=2)

    @property
    def n_outputs(self) -> int:
        """Scores per record: the number of classes."""
        return self.n_classes

    @property
    def n_free_outputs(self) -> int:
        """One less than the number of classes, since residuals add up to 0."""
        return self.n_classes - 1

    @property
    def residual_limit(self) -> float:
        """Largest 2-norm of a residual: the square root of 2."""
        return math.sqrt(2.0)

    def value(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the loss of every record, shape (n,)."""
        rows, labels = np.arange(score.shape[0]), np.asarray(y, dtype=np.int64)
        return np.asarray(-log_softmax(score, axis=1)[rows, labels])

    def residual(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the derivative in the scores, shape (n, n_classes)."""
        residual = np.asarray(softmax(score, axis=1))
        labels = np.asarray(y, dtype=np.int64)
        residual[np.arange(score.shape[0]), labels] -= 1.0
        return residual

    @property
    def lipschitz_of_two(self) -> float:
        """Lipschitz constant between two labels at a time: the logistic one."""
        return LogisticLoss.lipschitz

    def curvature(self, score: FloatArray) -> FloatArray:
        """Return the derivative of residuals in their score, shape (n, n_classes)."""
        chance = softmax(score, axis=1)
        return np.asarray(chance * (1.0 - chance))

    def quality(self, score: FloatArray, y: Any) -> float:
        """Return the accuracy of scores."""
        return float(np.mean(score.argmax(axis=1) == y))

    @property
    def label_reach(self) -> float:
        """How far (2-norm) a change of one label moves the counts: in two of them."""
        return math.sqrt(2.0)

    def best_constant(self, noisy_sums: FloatArray, n_rows: int) -> FloatArray:
        """Return the centered logarithms of the rates, kept away from 0."""
        scores = np.log(np.clip(noisy_sums / n_rows, smallest_rate(n_rows), None))
        return np.asarray(scores - scores.mean())

    def largest_difference(self, step: Scores) -> float:
        """Return how far a residual moves when scores move by a step."""
        return float(softmax_gap(np.array(step.high), np.array(step.spread_limit)))

    def residual_gaps(
        self, scores: Scores, labels: LabelChanges, *, in_difference: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return how far residual and reference residual move (Lemma 3)."""
        label = math.sqrt(2.0) * labels.changes * (not in_difference)
        return (
            softmax_gap(scores.change, scores.spread) + label,
            softmax_gap(scores.reference_change, scores.reference_spread) + label,
        )
