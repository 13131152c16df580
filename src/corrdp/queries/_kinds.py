"""The queries: which moments each needs, and how it is computed from them."""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import Policy
from corrdp.queries._columns import may_be_missing, number_bounds
from corrdp.queries._estimates import Estimate
from corrdp.queries._moments import Moment
from corrdp.queries._query import (
    By,
    Estimates,
    Labeled,
    Query,
    Where,
    as_columns,
    normalized,
)

# A sampling error is shown at 95 percent of a normal distribution.
SAMPLING_QUANTILE = 1.96


@dataclass(frozen=True)
class Count(Query):
    """How many rows: all of them (public), or those of declared groups.

    Parameters
    ----------
    by : str or tuple of str, optional
        Columns with declared groups; the cells are their combinations.
    groups : tuple of str, optional
        Which groups of the first column; all of them by default.
    where : Condition, optional
        Which rows are counted, such as ``col("age") >= 40``.
    """

    by: By = None
    groups: tuple[str, ...] | None = None
    where: Where = None

    def __post_init__(self) -> None:
        normalized(self)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of the cells; none if one group was asked for."""
        return () if self._one_group else as_columns(self.by)

    @property
    def _one_group(self) -> bool:
        return isinstance(self.by, str) and len(self.groups or ()) == 1

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return one count per cell, unless all rows are counted."""
        if self.by is None and self.where is None:
            return ()
        moment = _moment((), self)
        moment.levels(policy)
        return (moment,)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the counts, between 0 and the number of rows."""
        needed = self.moments(policy)
        if not needed:
            return [((), Estimate.exactly(float(n_rows)).sampled(0.0))]
        counts = [_with_sampling(count, n_rows) for count in estimates[needed[0]]]
        cells = needed[0].cells(policy)
        if self._one_group:
            cells = ((),)  # one group was asked for: its count is the answer
        return list(zip(cells, counts, strict=True))


@dataclass(frozen=True)
class ColumnQuery(Query):
    """A question about one column, in every cell of others."""

    column: str
    by: By = None
    groups: tuple[str, ...] | None = None
    where: Where = None

    def __post_init__(self) -> None:
        normalized(self)


@dataclass(frozen=True)
class _SumQuery(ColumnQuery):
    """A question answered cell by cell from sums of powers of a number, and a count."""

    largest_power: ClassVar[int] = 1

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return the centered sums, and the count where it is not public."""
        number_bounds(policy, self.column)
        total = _moment((self.column,), self)
        total.levels(policy)
        sums = tuple(
            replace(total, factors=(self.column,) * power)
            for power in range(self.largest_power, 0, -1)
        )
        present = self.column if may_be_missing(policy, self.column) else None
        if not total.by and present is None and total.where is None:
            return sums
        return *sums, replace(total, factors=(), present=present)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the answer of every cell, inside what the bounds allow."""
        needed = self.moments(policy)
        cells = needed[0].cells(policy)
        counts = [Estimate.exactly(float(n_rows))] * len(cells)
        if len(needed) > self.largest_power:
            counts = [count.clipped(0.0, n_rows) for count in estimates[needed[-1]]]
        sums = [estimates[moment] for moment in needed[: self.largest_power]]
        bounds = number_bounds(policy, self.column)
        return [
            (cell, self._of_cell(*bounds, count, *own))
            for cell, count, *own in zip(cells, counts, *sums, strict=True)
        ]

    @abstractmethod
    def _of_cell(
        self, lower: float, upper: float, count: Estimate, *sums: Estimate
    ) -> Estimate:
        """Compute the answer of a cell; sums of the largest power come first."""


@dataclass(frozen=True)
class Total(_SumQuery):
    """Sum of a number over rows in which it is not missing.

    Parameters
    ----------
    column : str
        A number or a boolean.
    by, groups, where
        As in `Count`.
    """

    def _of_cell(
        self, lower: float, upper: float, count: Estimate, *sums: Estimate
    ) -> Estimate:
        (total,) = sums
        back = total.scaled(upper - lower) + count.scaled(lower / 2 + upper / 2)
        largest = max(abs(lower), abs(upper))
        return back.sampled(SAMPLING_QUANTILE * largest * math.sqrt(count.value))


@dataclass(frozen=True)
class Mean(_SumQuery):
    """Mean of a number over rows in which it is not missing.

    Parameters
    ----------
    column : str
        A number or a boolean.
    by, groups, where
        As in `Count`.
    """

    def _of_cell(
        self, lower: float, upper: float, count: Estimate, *sums: Estimate
    ) -> Estimate:
        (total,) = sums
        share = (total / count).clipped(-0.5, 0.5)
        mean = share.scaled(upper - lower).shifted(lower / 2 + upper / 2)
        # Bhatia and Davis 2000: the variance of numbers with this mean
        variance = (upper - mean.value) * (mean.value - lower)
        error = sampling_error(variance, count.value, upper - lower)
        return mean.clipped(lower, upper).sampled(error)


@dataclass(frozen=True)
class Variance(_SumQuery):
    """Population variance of a number over rows in which it is not missing.

    Parameters
    ----------
    column : str
        A number or a boolean.
    by, groups, where
        As in `Count`.
    """

    largest_power = 2

    def _of_cell(
        self, lower: float, upper: float, count: Estimate, *sums: Estimate
    ) -> Estimate:
        squares, total = sums
        width = (upper - lower) ** 2
        share = (squares / count - (total / count).squared()).clipped(0.0, 0.25)
        # Squared deviations lie between 0 and the squared width.
        spread = share.value * (1.0 - share.value)
        error = sampling_error(spread, count.value, 0.25) * width
        return share.scaled(width).sampled(error)


@dataclass(frozen=True)
class _PairQuery(Query):
    """A question about two numbers without missing slots."""

    first: str
    second: str

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return both sums and the sum of products."""
        if self.first == self.second:
            raise CorrDPError(
                f"a covariance needs two columns, got {self.first!r} twice. Ask for "
                "the variance of it."
            )
        names = (self.first, self.second)
        for name in names:
            number_bounds(policy, name)
            if may_be_missing(policy, name):
                raise PolicyError(
                    f"column {name!r} has a missing slot, and this query needs a "
                    "number in every row. Declare a missing_value instead."
                )
        return (*(Moment((name,)) for name in names), Moment(tuple(sorted(names))))


@dataclass(frozen=True)
class Covariance(_PairQuery):
    """Population covariance of two numbers without missing slots."""

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the covariance, at most a quarter of the product of widths."""
        widths = 1.0
        for name in (self.first, self.second):
            lower, upper = number_bounds(policy, name)
            widths *= upper - lower
        centered = _covariance(self.moments(policy), n_rows, estimates)
        return [((), centered.clipped(-0.25, 0.25).scaled(widths))]


@dataclass(frozen=True)
class Correlation(_PairQuery):
    """Pearson correlation of two numbers without missing slots."""

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return what covariance needs and both sums of squares."""
        squares = tuple(Moment((name, name)) for name in (self.first, self.second))
        return super().moments(policy) + squares

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the correlation, between -1 and 1."""
        *pair, first_square, second_square = self.moments(policy)
        rows = Estimate.exactly(float(n_rows))
        spread = [
            estimates[square][0] / rows - (estimates[single][0] / rows).squared()
            for square, single in zip(
                (first_square, second_square), pair[:2], strict=True
            )
        ]
        deviations = (spread[0].clipped(0, 0.25) * spread[1].clipped(0, 0.25)).root()
        centered = _covariance(tuple(pair), n_rows, estimates)
        return [((), (centered / deviations).clipped(-1.0, 1.0))]


def _with_sampling(count: Estimate, n_rows: int) -> Estimate:
    """Return a count within 0 and the rows, and the spread of a binomial count."""
    clipped = count.clipped(0.0, n_rows)
    share = clipped.value / n_rows
    return clipped.sampled(SAMPLING_QUANTILE * math.sqrt(n_rows * share * (1 - share)))


def sampling_error(variance: float, count: float, largest: float) -> float:
    """Return how far a mean of a sample is from that of its population.

    Computed from released numbers alone; at most `largest`.
    """
    if count < 1.0:
        return largest
    error = SAMPLING_QUANTILE * math.sqrt(max(variance, 0.0) / count)
    return min(error, largest)


def _moment(factors: tuple[str, ...], query: Count | ColumnQuery) -> Moment:
    return Moment(factors, as_columns(query.by), query.groups, None, query.where)  # type: ignore[arg-type]


def _covariance(
    pair: tuple[Moment, ...], n_rows: int, estimates: Estimates
) -> Estimate:
    rows = Estimate.exactly(float(n_rows))
    first, second, product = (estimates[moment][0] / rows for moment in pair)
    return product - first * second
