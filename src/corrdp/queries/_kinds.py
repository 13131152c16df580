"""The queries: which moments each needs, and how it is computed from them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_real
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import Policy
from corrdp.queries._columns import (
    bin_edges,
    may_be_missing,
    number_bounds,
)
from corrdp.queries._estimates import Estimate
from corrdp.queries._moments import Moment, count_moment

Estimates = Mapping[Moment, list[Estimate]]
Labeled = list[tuple[str, Estimate]]


class Query(ABC):
    """A question about a table whose answer is computed from moments."""

    @abstractmethod
    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return the noisy sums that the answer needs; raise if it has none."""

    @abstractmethod
    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Compute labeled answers from noisy sums: post-processing."""


@dataclass(frozen=True)
class Count(Query):
    """How many rows: all of them (public), or those of declared groups.

    Parameters
    ----------
    by : str, optional
        Column with declared groups.
    groups : tuple of str, optional
        Which groups; all of them by default.
    """

    by: str | None = None
    groups: tuple[str, ...] | None = None

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return one count per group."""
        if self.by is None:
            return ()
        moment = Moment((), self.by, self.groups)
        moment.labels(policy)
        return (moment,)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the counts, between 0 and the number of rows."""
        if self.by is None:
            return [("", Estimate.exactly(float(n_rows)))]
        (moment,) = self.moments(policy)
        counts = [count.clipped(0.0, n_rows) for count in estimates[moment]]
        labels = moment.labels(policy)
        if self.groups is not None and len(labels) == 1:
            labels = ("",)  # one group was asked for: its count is the answer
        return list(zip(labels, counts, strict=True))


@dataclass(frozen=True)
class Total(Query):
    """Sum of a number over rows in which it is not missing, possibly by group."""

    column: str
    by: str | None = None
    groups: tuple[str, ...] | None = None

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return the centered sum, and the count where it is not public."""
        return _sum_and_count(policy, self.column, self.by, self.groups)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return lower bound and center put back."""
        lower, upper = number_bounds(policy, self.column)
        moment, sums, counts = _sums_and_counts(self, policy, n_rows, estimates)
        totals = [
            total.scaled(upper - lower) + count.scaled(lower / 2 + upper / 2)
            for total, count in zip(sums, counts, strict=True)
        ]
        return list(zip(moment.labels(policy), totals, strict=True))


@dataclass(frozen=True)
class Mean(Query):
    """Mean of a number over rows in which it is not missing, possibly by group."""

    column: str
    by: str | None = None
    groups: tuple[str, ...] | None = None

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return the centered sum, and the count where it is not public."""
        return _sum_and_count(policy, self.column, self.by, self.groups)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return means inside the declared bounds."""
        lower, upper = number_bounds(policy, self.column)
        moment, sums, counts = _sums_and_counts(self, policy, n_rows, estimates)
        means = [
            _from_center(total / count, lower, upper).clipped(lower, upper)
            for total, count in zip(sums, counts, strict=True)
        ]
        return list(zip(moment.labels(policy), means, strict=True))


@dataclass(frozen=True)
class Variance(Query):
    """Population variance of a number over rows in which it is not missing."""

    column: str

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return sum, sum of squares, and the count where it is not public."""
        square = Moment((self.column, self.column))
        return (square, *_sum_and_count(policy, self.column, None, None))

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the variance, at most a quarter of the squared width."""
        lower, upper = number_bounds(policy, self.column)
        square, *rest = self.moments(policy)
        count = _count(rest[1] if len(rest) == 2 else None, n_rows, estimates)
        mean = estimates[rest[0]][0] / count
        variance = estimates[square][0] / count - mean.squared()
        return [("", variance.clipped(0.0, 0.25).scaled((upper - lower) ** 2))]


@dataclass(frozen=True)
class Covariance(Query):
    """Population covariance of two numbers without missing slots."""

    first: str
    second: str

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return both sums and the sum of products."""
        return _pair_moments(policy, self.first, self.second)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the covariance, at most a quarter of the product of widths."""
        widths = 1.0
        for name in (self.first, self.second):
            lower, upper = number_bounds(policy, name)
            widths *= upper - lower
        centered = _covariance(self.moments(policy), n_rows, estimates)
        return [("", centered.clipped(-0.25, 0.25).scaled(widths))]


@dataclass(frozen=True)
class Correlation(Query):
    """Pearson correlation of two numbers without missing slots."""

    first: str
    second: str

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return what covariance needs and both sums of squares."""
        squares = tuple(Moment((name, name)) for name in (self.first, self.second))
        return _pair_moments(policy, self.first, self.second) + squares

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
        return [("", (centered / deviations).clipped(-1.0, 1.0))]


@dataclass(frozen=True)
class Histogram(Query):
    """Number of rows in every declared group of a column."""

    column: str

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return one count per group."""
        return Count(self.column).moments(policy)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the counts, between 0 and the number of rows."""
        return Count(self.column).answer(policy, n_rows, estimates)


@dataclass(frozen=True)
class Quantiles(Query):
    """Quantiles of a number, read off the noisy counts of its declared bins.

    Parameters
    ----------
    column : str
        A number with declared bins and without a missing slot.
    probabilities : tuple of float
        Each in [0, 1].
    """

    column: str
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.probabilities:
            raise CorrDPError(
                "quantiles need at least one probability, got none. Ask for example "
                f"quantiles({self.column}, 0.5)."
            )
        for probability in self.probabilities:
            check_real("quantile probability", probability, lower=0.0, upper=1.0)

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return one count per bin."""
        bin_edges(policy, self.column)
        _refuse_slot(policy, self.column)
        return Count(self.column).moments(policy)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return quantiles between the edges that surely surround them.

        The share of rows below an edge is the sum of the bins below it, or one minus
        the sum of those above: the shorter sum errs less.
        """
        (moment,) = self.moments(policy)
        counts = estimates[moment]
        largest_error = max(count.radius for count in counts)
        edges = bin_edges(policy, self.column)
        below = np.cumsum([0.0, *(count.value for count in counts)])
        total = below[-1]
        n_bins = len(counts)
        shares, reach = np.empty(n_bins + 1), np.empty(n_bins + 1)
        for edge in range(n_bins + 1):
            above = n_bins - edge
            shorter = below[edge] if edge <= above else n_rows - (total - below[edge])
            shares[edge] = shorter / n_rows
            reach[edge] = min(edge, above) * largest_error / n_rows
        lowest = np.clip(np.maximum.accumulate(shares - reach), 0.0, 1.0)
        highest = np.clip(np.minimum.accumulate((shares + reach)[::-1])[::-1], 0.0, 1.0)
        shares = np.clip(np.maximum.accumulate(shares), 0.0, 1.0)
        first_row = 1.0 / n_rows  # the quantile at 0 is the smallest value
        return [
            (
                f"{p:g}",
                _quantile_estimate(max(p, first_row), edges, shares, lowest, highest),
            )
            for p in self.probabilities
        ]


def _quantile_estimate(
    probability: float,
    edges: FloatArray,
    shares: FloatArray,
    lowest: FloatArray,
    highest: FloatArray,
) -> Estimate:
    last = edges.size - 1
    # The quantile is above every edge with surely too few rows below it, and not above
    # the first edge with surely enough.
    start = int(np.searchsorted(highest, probability, side="left")) - 1
    end = int(np.searchsorted(lowest, probability, side="left"))
    lower, upper = float(edges[max(start, 0)]), float(edges[min(end, last)])
    right = min(max(int(np.searchsorted(shares, probability, side="left")), 1), last)
    rise = shares[right] - shares[right - 1]
    part = (probability - shares[right - 1]) / rise if rise > 0.0 else 0.5
    part = min(max(float(part), 0.0), 1.0)
    value = float(edges[right - 1] + part * (edges[right] - edges[right - 1]))
    return Estimate(value, min(lower, value), max(upper, value))


def _sum_and_count(
    policy: Policy, name: str, by: str | None, groups: tuple[str, ...] | None
) -> tuple[Moment, ...]:
    number_bounds(policy, name)
    total = Moment((name,), by, groups)
    total.labels(policy)
    count = count_moment(policy, name, total)
    return (total,) if count is None else (total, count)


def _sums_and_counts(
    query: Total | Mean, policy: Policy, n_rows: int, estimates: Estimates
) -> tuple[Moment, list[Estimate], list[Estimate]]:
    total, *rest = query.moments(policy)
    sums = estimates[total]
    if not rest:
        return total, sums, [Estimate.exactly(float(n_rows))] * len(sums)
    return total, sums, [c.clipped(0.0, n_rows) for c in estimates[rest[0]]]


def _count(moment: Moment | None, n_rows: int, estimates: Estimates) -> Estimate:
    if moment is None:
        return Estimate.exactly(float(n_rows))
    return estimates[moment][0].clipped(0.0, n_rows)


def _pair_moments(policy: Policy, first: str, second: str) -> tuple[Moment, ...]:
    if first == second:
        raise CorrDPError(
            f"a covariance needs two columns, got {first!r} twice. Ask for the "
            "variance of it."
        )
    for name in (first, second):
        number_bounds(policy, name)
        _refuse_slot(policy, name)
    ordered = sorted((first, second))
    return Moment((first,)), Moment((second,)), Moment((ordered[0], ordered[1]))


def _covariance(
    pair: tuple[Moment, ...], n_rows: int, estimates: Estimates
) -> Estimate:
    rows = Estimate.exactly(float(n_rows))
    first, second, product = (estimates[moment][0] / rows for moment in pair)
    return product - first * second


def _refuse_slot(policy: Policy, name: str) -> None:
    if may_be_missing(policy, name):
        raise PolicyError(
            f"column {name!r} has a missing slot, and this query needs a number in "
            "every row. Declare a missing_value instead."
        )


def _from_center(share: Estimate, lower: float, upper: float) -> Estimate:
    return share.scaled(upper - lower).shifted(lower / 2 + upper / 2)
