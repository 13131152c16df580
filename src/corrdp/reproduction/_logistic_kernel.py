r"""Logistic residuals of many models in one pass over rows, compiled.

Rows are sorted so that rows with the same categories stand together. One-hot columns
then add to a score once per combination of categories, and only numbers are left to
be multiplied row by row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray

Singles = NDArray[np.float32]

if TYPE_CHECKING:

    def njit(**_: Any) -> Callable[[Any], Any]: ...

else:
    from numba import njit

_LANES = 4  # numbers that are multiplied in one sweep over the models
_MODELS_PER_SWEEP = 96  # their parameters, scores and sums fit the first cache


@dataclass(frozen=True, eq=False)
class LogisticRows:
    """Rows in the order that the kernel wants.

    `combinations` holds the columns that are not numbers, one row per combination that
    occurs.
    """

    numbers: Singles  # shape (n_rows, n_numbers), with zeros to a multiple of four
    number_columns: NDArray[np.intp]  # where they stand among all columns
    combinations: Singles  # shape (n_combinations, n_columns); numbers are 0
    starts: NDArray[np.intp]  # first row of each combination, and the end
    labels: Singles
    share: Singles  # of each row in the mean
    dtype: ClassVar[type[np.float32]] = np.float32

    @classmethod
    def of(
        cls,
        features: FloatArray,
        labels: FloatArray,
        counts: FloatArray,
        is_number: NDArray[np.bool_],
    ) -> "LogisticRows":
        """Sort rows by everything but their numbers."""
        others = np.where(is_number, 0.0, features)
        combinations, member = np.unique(others, axis=0, return_inverse=True)
        order = np.argsort(member.ravel(), kind="stable")
        sizes = np.bincount(member.ravel(), minlength=len(combinations))
        columns = np.flatnonzero(is_number)
        width = -(-columns.size // _LANES) * _LANES
        numbers = np.zeros((len(features), width), dtype=np.float32)
        numbers[:, : columns.size] = features[order][:, columns]
        return cls(
            numbers=numbers,
            number_columns=columns,
            combinations=combinations.astype(np.float32),
            starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp),
            labels=labels[order].astype(np.float32),
            share=(counts[order] / counts.sum()).astype(np.float32),
        )

    def mean_gradient(self, coefs: Singles) -> Singles:
        """Return the mean gradient of all models, shape (n_columns, n_models).

        Guarantee
        ---------
        None: this is the mean before noise (`docs/theory/paper_noise.md`).
        """
        n_models = coefs.shape[1]
        at_numbers = np.zeros((self.numbers.shape[1], n_models), dtype=np.float32)
        at_numbers[: self.number_columns.size] = coefs[self.number_columns]
        scores = self.combinations @ coefs
        number_sums = np.zeros_like(at_numbers)
        residual_sums = np.zeros_like(scores)
        for first in range(0, n_models, _MODELS_PER_SWEEP):
            models = slice(first, first + _MODELS_PER_SWEEP)
            number_sums[:, models], residual_sums[:, models] = _sweep(
                self.numbers,
                self.labels,
                self.share,
                self.starts,
                np.ascontiguousarray(at_numbers[:, models]),
                np.ascontiguousarray(scores[:, models]),
            )
        gradient: Singles = self.combinations.T @ residual_sums
        gradient[self.number_columns] = number_sums[: self.number_columns.size]
        return gradient


@njit(fastmath=True, error_model="numpy", cache=True)
def _sweep(
    numbers: Singles,
    labels: Singles,
    share: Singles,
    starts: NDArray[np.intp],
    coefs: Singles,
    base: Singles,
) -> tuple[Singles, Singles]:
    """Return sums of residual times numbers, and of residuals by combination.

    With t = tanh(s / 4) = a / b the probability is 1/2 + a b / (a^2 + b^2); a and b
    are Lambert's continued fraction for tanh, cut after seven terms, which is exact to
    single precision here because the second formula is flat where the first errs.
    """
    n_models = coefs.shape[1]
    width = numbers.shape[1]
    number_sums = np.zeros_like(coefs)
    residual_sums = np.zeros_like(base)
    score = np.empty(n_models, dtype=np.float32)
    quarter, half = np.float32(0.25), np.float32(0.5)
    limit = np.float32(5.0)
    c0, c1, c2 = np.float32(135135.0), np.float32(17325.0), np.float32(378.0)
    d1, d2, d3 = np.float32(62370.0), np.float32(3150.0), np.float32(28.0)
    for combination in range(base.shape[0]):
        for row in range(starts[combination], starts[combination + 1]):
            for k in range(n_models):
                score[k] = base[combination, k]
            for j in range(0, width, 4):
                x0, x1 = numbers[row, j], numbers[row, j + 1]
                x2, x3 = numbers[row, j + 2], numbers[row, j + 3]
                for k in range(n_models):
                    score[k] += (
                        x0 * coefs[j, k]
                        + x1 * coefs[j + 1, k]
                        + x2 * coefs[j + 2, k]
                        + x3 * coefs[j + 3, k]
                    )
            label, weight = labels[row], share[row]
            for k in range(n_models):
                z = min(max(score[k] * quarter, -limit), limit)
                q = z * z
                a = z * (c0 + q * (c1 + q * (c2 + q)))
                b = c0 + q * (d1 + q * (d2 + q * d3))
                residual = weight * (half + a * b / (a * a + b * b) - label)
                score[k] = residual
                residual_sums[combination, k] += residual
            for j in range(0, width, 4):
                x0, x1 = numbers[row, j], numbers[row, j + 1]
                x2, x3 = numbers[row, j + 2], numbers[row, j + 3]
                for k in range(n_models):
                    number_sums[j, k] += x0 * score[k]
                    number_sums[j + 1, k] += x1 * score[k]
                    number_sums[j + 2, k] += x2 * score[k]
                    number_sums[j + 3, k] += x3 * score[k]
    return number_sums, residual_sums
