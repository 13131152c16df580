"""What estimators are given: values of a sample, and what else they are told."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import PolicyError
from corrdp.leakage._coding import check_resolution
from corrdp.leakage._counts import MAX_CELLS
from corrdp.leakage._levels import level_texts
from corrdp.leakage._metrics import Metric
from corrdp.leakage._result import FeatureLeakage
from corrdp.policy import Feature, NumberDomain, Policy, PolicyEncoder, Slot


@dataclass(frozen=True, eq=False)
class SampleColumn:
    """One feature of a sample, as integer codes or as numbers.

    Numbers lie in [0, 1], 0 for the lower and 1 for the upper bound, and have None for
    a number of codes.
    """

    feature: Feature
    values: NDArray[Any]
    n_codes: int | None

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers, not codes."""
        return self.n_codes is None

    @property
    def texts(self) -> tuple[str, ...]:
        """One text per code."""
        return level_texts(self.feature, self.n_codes or 1)

    def binned(self, n_bins: int) -> "SampleColumn":
        """Return a number as codes of equal-width bins over its bounds."""
        codes = np.minimum((self.values * n_bins).astype(np.int64), n_bins - 1)
        return SampleColumn(self.feature, codes, n_bins)


@dataclass(frozen=True, eq=False)
class Sample:
    """Sensitive features, and the insensitive ones whose leakage is asked.

    Under ``one_insensitive`` one feature is `changed`, else the whole block.
    """

    sensitive: tuple[SampleColumn, ...]
    changed: tuple[SampleColumn, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        columns = self.sensitive + self.changed
        return len(columns[0].values) if columns else 0

    def rows(self, chosen: NDArray[Any]) -> "Sample":
        """Return the sample restricted to some rows."""

        def part(columns: Sequence[SampleColumn]) -> tuple[SampleColumn, ...]:
            return tuple(
                SampleColumn(c.feature, c.values[chosen], c.n_codes) for c in columns
            )

        return Sample(part(self.sensitive), part(self.changed))


@dataclass(frozen=True, kw_only=True)
class EstimationContext:
    """What every estimator is told besides the sample."""

    metric: Metric
    failure_probability: float  # with which the feature's upper bound may be too small
    generator: np.random.Generator  # of estimators that draw, never of privacy noise


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


def read_sample(
    frame: Any, policy: Policy, changed: Sequence[str], *, discrete_numbers: bool
) -> Sample:
    """Return the sample of a table that the policy's encoder reads.

    With `discrete_numbers` those with declared bins are given as codes of their bins.
    """
    encoder = PolicyEncoder(policy)
    n_codes = encoder.n_codes

    def is_discrete(name: str) -> bool:
        is_number = isinstance(policy.feature(name).domain, NumberDomain)
        return not is_number or (discrete_numbers and name in n_codes)

    names = [*policy.sensitive, *changed]
    discrete = [name for name in names if is_discrete(name)]
    numbers = [name for name in names if not is_discrete(name)]
    check_resolution(policy, discrete)
    for name in numbers:
        if isinstance(policy.feature(name).domain.missing, Slot):
            raise PolicyError(
                f"features.{name} has a slot for missing values, which an estimator of "
                f"numbers cannot place. Declare features.{name}.bins or missing_value."
            )
    values: dict[str, NDArray[Any]] = {}
    if discrete:
        values.update(zip(discrete, encoder.codes(frame, discrete).T, strict=True))
    if numbers:
        matrix = encoder.transform(frame)
        start_of = {block.name: block.start for block in encoder.blocks_}
        values.update({name: matrix[:, start_of[name]] + 0.5 for name in numbers})

    def columns(wanted: Sequence[str]) -> tuple[SampleColumn, ...]:
        return tuple(
            SampleColumn(
                policy.feature(name),
                values[name],
                n_codes[name] if name in discrete else None,
            )
            for name in wanted
        )

    return Sample(columns(policy.sensitive), columns(changed))


def joint_codes(columns: Sequence[SampleColumn]) -> tuple[IntArray, int]:
    """Return the joint code of discrete columns, the last one fastest, and its size."""
    sizes = tuple(column.n_codes or 1 for column in columns)
    check_cells(size := math.prod(sizes))
    if not columns:
        return np.zeros(0, dtype=np.int64), size
    return np.ravel_multi_index(tuple(c.values for c in columns), sizes), size


def check_cells(n_cells: int) -> None:
    """Refuse tables beyond what is counted elsewhere."""
    if n_cells > MAX_CELLS:
        raise PolicyError(
            f"The table has {n_cells:,} joint cells, the limit is {MAX_CELLS:,}. "
            "Declare fewer bins or merge categories by groups."
        )


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
        domain = column.feature.domain
        if column.is_number and isinstance(domain, NumberDomain):
            raw = domain.lower + float(entry) * (domain.upper - domain.lower)
            parts.append(f"{column.feature.name} = {raw:.6g}")
        else:
            parts.append(column.texts[int(entry)])
    return ", ".join(parts)
