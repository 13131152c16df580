"""The one interface of all estimators."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from corrdp._typing import FloatArray
from corrdp.exceptions import PolicyError
from corrdp.leakage._metrics import Metric
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.estimators._sample import Sample, SampleColumn


@dataclass(frozen=True, kw_only=True)
class EstimationContext:
    """What every estimator is told besides the sample.

    Parameters
    ----------
    metric : Metric
        Distance between conditional distributions.
    failure_probability : float
        Probability with which the feature's upper bound may be too small.
    generator : numpy Generator
        Randomness of estimators that draw; never used for privacy noise.
    """

    metric: Metric
    failure_probability: float
    generator: np.random.Generator


class Estimator(Protocol):
    """Estimates how much the changed features of a sample tell about the sensitive."""

    @property
    def name(self) -> str:
        """Name by which it is asked for."""

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the leakage of the sample's changed features.

        Guarantee
        ---------
        None of privacy: the result is a function of the exact rows
        (docs/theory/leakage.md).
        """


def require_numbers(estimator: str, columns: tuple[SampleColumn, ...]) -> FloatArray:
    """Return number columns as a matrix, or refuse discrete ones."""
    for column in columns:
        if not column.is_number:
            raise PolicyError(
                f"estimator={estimator!r} needs numbers, but "
                f"features.{column.feature.name} is discrete. Choose another "
                "estimator, or leave the choice to its column types (estimator=None)."
            )
    return np.stack([column.values for column in columns], axis=1)


def require_codes(
    estimator: str, columns: tuple[SampleColumn, ...]
) -> tuple[SampleColumn, ...]:
    """Return discrete columns, or refuse numbers without bins."""
    for column in columns:
        if column.is_number:
            name = column.feature.name
            raise PolicyError(
                f"estimator={estimator!r} needs discrete values, but features.{name} "
                f"is a number without bins. Declare features.{name}.bins."
            )
    return columns


def require_total_variation(estimator: str, metric: Metric) -> None:
    """Refuse metrics that an estimator has no formula for."""
    if metric.name != "total_variation":
        raise PolicyError(
            f"estimator={estimator!r} estimates total variation only, got "
            f"metric={metric.name!r}. Use plug_in or histogram for other metrics."
        )


def values_to_compare(columns: tuple[SampleColumn, ...], n_points: int) -> FloatArray:
    """Return values of the changed features to compare: codes, or a grid of numbers.

    Shape (n_values, n_columns): the product of all codes and of `n_points` places from
    one bound to the other per number.
    """
    axes = [
        np.linspace(0.0, 1.0, n_points)
        if column.is_number
        else np.arange(column.n_codes or 1, dtype=np.float64)
        for column in columns
    ]
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def value_text(columns: tuple[SampleColumn, ...], value: FloatArray) -> str:
    """Return the words of one value of the changed features."""
    parts = []
    for column, entry in zip(columns, value, strict=True):
        if column.is_number:
            parts.append(f"{column.feature.name} = {column.raw(float(entry)):.6g}")
        else:
            parts.append(column.texts[int(entry)])
    return ", ".join(parts)


def largest_pair(distances: FloatArray) -> tuple[int, int]:
    """Return where the largest distance is."""
    first, second = np.unravel_index(np.argmax(distances), distances.shape)
    return int(first), int(second)
