"""Product kernels for mixed types, with kernel weights in the changed features."""

from dataclasses import dataclass

import numpy as np

from corrdp._typing import FloatArray
from corrdp.exceptions import PolicyError
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.estimators._base import (
    EstimationContext,
    largest_pair,
    require_total_variation,
    value_text,
    values_to_compare,
)
from corrdp.leakage.estimators._sample import Sample, SampleColumn

MAX_NUMBERS = 4
"""Sensitive numbers up to which a kernel estimate means anything."""


@dataclass(frozen=True)
class ProductKernel:
    """Kernel density of the sensitive features, weighted by nearness of the value.

    Gaussian kernels for numbers, Aitchison-Aitken kernels for codes, bandwidths
    shrinking with the number of rows as ``n ** (-1 / (4 + d))``.

    Parameters
    ----------
    n_points : int
        Places between the bounds of a number that are compared.
    max_rows : int
        Rows that take part; more are thinned at random.
    n_draws : int
        Points at which two densities are compared.

    Guarantee
    ---------
    None: an estimate without upper bound, which certified releases refuse
    (docs/theory/leakage.md, section 7).
    """

    n_points: int = 5
    max_rows: int = 4000
    n_draws: int = 1000
    name: str = "kernel"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the largest total variation between weighted kernel densities."""
        require_total_variation(self.name, context.metric)
        n_numbers = sum(column.is_number for column in sample.sensitive)
        if n_numbers > MAX_NUMBERS:
            raise PolicyError(
                f"estimator='kernel' was asked for {n_numbers} sensitive numbers; "
                f"above {MAX_NUMBERS} a kernel density is noise. Declare bins and use "
                "plug_in."
            )
        if sample.n_rows > self.max_rows:
            chosen = context.generator.choice(
                sample.n_rows, self.max_rows, replace=False
            )
            sample = sample.rows(chosen)
        values = values_to_compare(sample.changed, self.n_points)
        weights = _weights(sample.changed, values)
        usable = np.flatnonzero(weights.sum(axis=1) > 0)
        weights = weights[usable] / weights[usable].sum(axis=1, keepdims=True)
        distances = np.zeros((usable.size, usable.size))
        for pair in zip(*np.tril_indices(usable.size, -1), strict=True):
            distances[pair] = self._distance(
                sample.sensitive, weights[list(pair)], context.generator
            )
        first, second = largest_pair(distances)
        return FeatureLeakage(
            estimate=min(1.0, float(distances[first, second])),
            upper=None,
            method=f"product kernel, {sample.n_rows} rows",
            reason="largest between "
            f"{value_text(sample.changed, values[usable[first]])} and "
            f"{value_text(sample.changed, values[usable[second]])}; this method has no "
            "bound",
        )

    def _distance(
        self,
        sensitive: tuple[SampleColumn, ...],
        weights: FloatArray,
        generator: np.random.Generator,
    ) -> float:
        """Average |p - q| / (p + q) over draws from the mixture of both densities."""
        mixture = weights.mean(axis=0)
        centers = generator.choice(mixture.size, self.n_draws, p=mixture)
        density = np.ones((self.n_draws, mixture.size))
        n_columns = len(sensitive)
        for column in sensitive:
            kernel = _Kernel.of(column, n_columns)
            density *= kernel.at(kernel.moved(column.values[centers], generator))
        first, second = (density @ weights.T).T
        return float(np.mean(np.abs(first - second) / (first + second)))


@dataclass(frozen=True, eq=False)
class _Kernel:
    """The kernel of one column: a Gaussian width, or the mass of other codes."""

    column: SampleColumn
    width: float

    @classmethod
    def of(cls, column: SampleColumn, n_columns: int) -> "_Kernel":
        shrink = len(column.values) ** (-1 / (4 + n_columns))
        if column.is_number:
            return cls(column, max(1e-6, 1.06 * float(np.std(column.values)) * shrink))
        n_codes = column.n_codes or 1
        return cls(column, (n_codes - 1) / n_codes * shrink**2)

    def moved(self, values: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return draws from the kernel around each value."""
        if self.column.is_number:
            return np.asarray(values + self.width * generator.normal(size=values.size))
        n_codes = self.column.n_codes or 1
        other = generator.integers(1, max(2, n_codes), size=values.size)
        jump = generator.random(values.size) < self.width
        return np.asarray(np.where(jump, (values + other) % n_codes, values))

    def at(self, points: FloatArray) -> FloatArray:
        """Return kernel heights, shape (n_points, n_rows), up to a constant."""
        if self.column.is_number:
            gaps = (points[:, None] - self.column.values[None, :]) / self.width
            return np.asarray(np.exp(-0.5 * gaps**2))
        same = points[:, None] == self.column.values[None, :]
        n_codes = max(2, self.column.n_codes or 1)
        return np.where(same, 1 - self.width, self.width / (n_codes - 1))


def _weights(changed: tuple[SampleColumn, ...], values: FloatArray) -> FloatArray:
    """Return the weight of every row at every value compared."""
    weights = np.ones((len(values), len(changed[0].values)))
    for index, column in enumerate(changed):
        weights *= _Kernel.of(column, len(changed)).at(values[:, index])
    return weights
