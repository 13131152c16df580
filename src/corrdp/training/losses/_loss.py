"""What a loss of linear models says of itself.

The gradient of one record is its residual, the derivative of the loss in the score,
times its features. Labels are 0 or 1 (logistic), a class index (multinomial) or a
number (the others).

Whoever needs to know something about a loss asks it: bounds on gradients ask which
pairs of residuals it allows, plans ask which sizes are typical, fits of public rows ask
for curvatures. No other file decides by the class of a loss, so that a new one is
added in this folder.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_real
from corrdp.exceptions import CorrDPError
from corrdp.training.sensitivity._residuals import (
    LabelChanges,
    ResidualPairs,
    Scores,
    box_pairs,
)

SMALLEST_RESIDUAL_BOUND = 1e-6  # labels are encoded to an interval of length 1
LARGEST_RESIDUAL_BOUND = 1e6


class Loss(ABC):
    """A convex loss of a score, with a bounded or Lipschitz residual.

    Attributes
    ----------
    lipschitz : float
        How much the residual moves (2-norm) per unit of the score (2-norm).
    adapts_residual_bound : bool
        Whether training adapts where residuals are clipped, which has to be paid for.
    is_likelihood : bool
        Whether scores are those of probabilities, so that the loss has a scale of its
        own; labels that are numbers have one, of range 1.
    is_least_squares : bool
        Whether what is compared is half the squared error, of which the best fit is
        known in closed form. A bound on residuals serves privacy alone.
    label_fixes_sign : bool
        Whether the label alone decides about the sign of the residual, so that its
        change flips the sign.
    has_compiled_bounds : bool
        Whether `kernels/_scalar_bounds.py` knows its pairs of residuals; bounds of
        other losses are computed in numpy.
    """

    lipschitz: ClassVar[float]
    adapts_residual_bound: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = False
    is_least_squares: ClassVar[bool] = False
    label_fixes_sign: ClassVar[bool] = False
    has_compiled_bounds: ClassVar[bool] = False

    @property
    def n_outputs(self) -> int:
        """Scores per record: 1, or the number of classes."""
        return 1

    @property
    def n_free_outputs(self) -> int:
        """Dimension of the space of residuals; those of a softmax add up to 0."""
        return 1

    @property
    def clips_residuals_at(self) -> float | None:
        """Bound that the kernels apply to ``score - y``; None for other residuals."""
        return None

    @property
    def linear_beyond(self) -> float:
        """Size of a residual beyond which what is compared grows linearly."""
        return math.inf

    @property
    def lipschitz_of_two(self) -> float:
        """Lipschitz constant between two labels at a time."""
        return self.lipschitz

    @property
    @abstractmethod
    def residual_limit(self) -> float:
        """Largest norm of a residual over all scores and labels; may be infinite."""

    @abstractmethod
    def value(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the loss of every record, shape (n,)."""

    @abstractmethod
    def residual(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the derivative in the score, same shape as `score`."""

    def curvature(self, score: FloatArray) -> FloatArray:
        """Return the derivative of residuals in their score, shape (n, n_outputs)."""
        return np.ones((len(score), 1))

    def quality(self, score: FloatArray, y: Any) -> float:
        """Return the accuracy, or R squared, of scores."""
        spread = float(np.var(y))
        error = float(np.mean((score - y) ** 2))
        return 1.0 - error / spread if spread > 0 else 0.0

    # Where residuals are bounded.

    def with_residual_bound(self, residual_bound: float) -> "Loss":
        """Return the loss with residuals clipped elsewhere, if it has such a bound."""
        raise CorrDPError(
            f"residual_bound={residual_bound!r} was given for a "
            f"{type(self).__name__}, which has none. Leave it out."
        )

    def bounded_by(self, residual_bound: float) -> "Loss":
        """Return the loss with residuals of numbers clipped at a bound at the latest.

        Residuals of probabilities are at most 1 anyway.
        """
        del residual_bound
        return self

    # The best constant, from a noisy sum of labels.

    @property
    def label_reach(self) -> float:
        """How far (2-norm) a change of one label moves their sums."""
        return 1.0

    @abstractmethod
    def best_constant(self, noisy_sums: FloatArray, n_rows: int) -> float | FloatArray:
        """Return the score of least risk that does not look at features."""

    # Which pairs of residuals a record and its neighbor can have
    # (docs/theory/glm_sensitivity.md, section 2).

    def residual_pairs(self, scores: Scores, labels: LabelChanges) -> ResidualPairs:
        """Return the pairs of residuals; by default those in an interval (Lemma 2)."""
        peak = self.largest_residual(scores, labels)
        return box_pairs(peak, *self.residual_gaps(scores, labels))

    def difference_pairs(
        self, step: Scores, here: Scores, there: Scores, labels: LabelChanges
    ) -> ResidualPairs:
        """Return the pairs of differences of residuals at two parameters (Lemma 5).

        A difference is at most what the residual can move over the step, and moves
        with the record at most as both residuals do. Scores are those of the difference
        of the parameters, and of both of them.
        """
        first = self.residual_gaps(here, labels, in_difference=True)
        second = self.residual_gaps(there, labels, in_difference=True)
        peak = self.largest_difference(step)
        return box_pairs(peak, first[0] + second[0], first[1] + second[1])

    def largest_residual(self, scores: Scores, labels: LabelChanges) -> float:
        """Return the largest norm of a residual at scores that reach so far."""
        del scores, labels
        return self.residual_limit

    @abstractmethod
    def largest_difference(self, step: Scores) -> float:
        """Return how far a residual moves when scores move by a step (Lemma 5)."""

    @abstractmethod
    def residual_gaps(
        self, scores: Scores, labels: LabelChanges, *, in_difference: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return how far residual and reference residual move under each class.

        In a difference of residuals the label cancels unless residuals are clipped.
        """


def check_residual_bound(name: str, value: float) -> float:
    """Refuse a bound on residuals that no label, encoded to [-1/2, 1/2], calls for."""
    return check_real(
        name,
        value,
        lower=SMALLEST_RESIDUAL_BOUND,
        upper=LARGEST_RESIDUAL_BOUND,
        remedy="Pass a public number, for example a quarter of the label's range.",
    )


def smallest_rate(n_rows: int) -> float:
    """Return the smallest rate of a label that is believed: below one in all rows."""
    return 1.0 / (2.0 * n_rows + 2.0)
