"""Losses of linear models, and what a bound on their gradients needs to know.

The gradient of one record is its residual, the derivative of the loss in the score,
times its features. Labels are 0 or 1 (logistic), a class index (multinomial) or a
number (the others).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy.special import expit, log_softmax, softmax

from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_real

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
    """

    lipschitz: ClassVar[float]
    adapts_residual_bound: ClassVar[bool] = False

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
    @abstractmethod
    def residual_limit(self) -> float:
        """Largest norm of a residual over all scores and labels; may be infinite."""

    @abstractmethod
    def value(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the loss of every record, shape (n,)."""

    @abstractmethod
    def residual(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the derivative in the score, same shape as `score`."""


@final
@dataclass(frozen=True, slots=True)
class LogisticLoss(Loss):
    """Cross entropy of a label in {0, 1}; residual ``expit(score) - y``.

    The label fixes the sign of the residual, and its size is below 1.
    """

    lipschitz: ClassVar[float] = 0.25

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


class _Regression(Loss):
    """A loss whose residual is ``score - y``, clipped to `residual_limit`."""

    __slots__ = ()
    lipschitz: ClassVar[float] = 1.0

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

    def __post_init__(self) -> None:
        check_residual_bound("residual_bound", self.residual_bound)

    @property
    def residual_limit(self) -> float:
        """Largest size of a residual: the bound."""
        return self.residual_bound


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

    def value(self, score: FloatArray, y: Any) -> FloatArray:
        """Return the loss of every record, shape (n,)."""
        size = np.abs(score - np.asarray(y))
        inner = np.minimum(size, self.threshold)
        return np.asarray(inner * (size - 0.5 * inner))


@final
@dataclass(frozen=True, slots=True)
class UnclippedSquaredLoss(_Regression):
    """Half the squared error; bounded only through the domain and the parameters."""

    @property
    def residual_limit(self) -> float:
        """Largest size of a residual: unbounded."""
        return math.inf


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


def check_residual_bound(name: str, value: float) -> float:
    """Refuse a bound on residuals that no label, encoded to [-1/2, 1/2], calls for."""
    return check_real(
        name,
        value,
        lower=SMALLEST_RESIDUAL_BOUND,
        upper=LARGEST_RESIDUAL_BOUND,
        remedy="Pass a public number, for example a quarter of the label's range.",
    )
