"""Histograms, and quantiles: drawn by rank, or read off noisy counts of bins.

Of the two ways a plan takes the one that errs less. The decision reads the questions,
the policy, the budget and the number of rows, all public. It was checked against
measured errors (``docs/queries.md``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeGuard, get_args

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_choice, check_real
from corrdp.exceptions import CorrDPError
from corrdp.policy import NumberDomain, Policy
from corrdp.queries._choices import RankChoice
from corrdp.queries._columns import bin_edges, column, distinct_texts, number_bounds
from corrdp.queries._estimates import Estimate
from corrdp.queries._kinds import SAMPLING_QUANTILE, ColumnQuery, Count
from corrdp.queries._moments import Moment
from corrdp.queries._query import (
    By,
    Estimates,
    Labeled,
    Query,
    Where,
    as_columns,
    normalized,
    with_parts,
)

QuantileMethod: TypeAlias = Literal["auto", "choice", "counts"]

# A quantile inside a bin is interpolated; of the rows of a bin it misses this share.
_INTERPOLATION = 0.05


def check_method(method: str) -> None:
    """Refuse a name that is no method of quantiles."""
    remedy = "Leave it out to take the one with the smaller error."
    check_choice("quantiles", method, get_args(QuantileMethod), remedy=remedy)


@dataclass(frozen=True)
class Histogram(ColumnQuery):
    """Number of rows in every declared group of a column.

    Parameters
    ----------
    column : str
        A category, a boolean, or a number with bins.
    by, groups, where
        As in `Count`.
    """

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns to split by, then the column itself."""
        return (*as_columns(self.by), self.column)

    @property
    def _count(self) -> Count:
        return Count(self.key_columns, self.groups, self.where)

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return one count per group, in every cell."""
        return self._count.moments(policy)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the counts, between 0 and the number of rows."""
        return self._count.answer(policy, n_rows, estimates)


@dataclass(frozen=True)
class Quantiles(Query):
    """Quantiles of a number, drawn by rank or read off noisy counts of its bins.

    Parameters
    ----------
    column : str
        A number; rows in which it is missing are left out.
    probabilities : tuple of float
        Each in [0, 1].
    by, groups, where
        As in `Count`.
    method : {"auto", "choice", "counts"}
        ``choice`` draws each quantile on a fine grid between the bounds, by rank, and
        has a radius in ranks; ``counts`` interpolates between the declared bins and has
        a radius in the value. By default the plan takes the one with the smaller error.
    """

    column: str
    probabilities: tuple[float, ...]
    by: By = None
    groups: tuple[str, ...] | None = None
    where: Where = None
    method: QuantileMethod = "auto"

    def __post_init__(self) -> None:
        normalized(self)
        check_method(self.method)
        if not self.probabilities:
            raise CorrDPError(
                "quantiles need at least one probability, got none. Ask for example "
                f"quantiles({self.column}, 0.5)."
            )
        for probability in self.probabilities:
            check_real("quantile probability", probability, lower=0.0, upper=1.0)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns to split by, then the probability unless there is but one."""
        rest = ("probability",) if len(self.probabilities) > 1 else ()
        return as_columns(self.by) + rest

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return one draw per probability, or one count per bin, in every cell."""
        if self.method == "choice":
            number_bounds(policy, self.column)
            drawn = tuple(
                RankChoice(
                    (),
                    as_columns(self.by),
                    self.groups,
                    self.column,
                    self.where,  # type: ignore[arg-type]
                    p,
                )
                for p in dict.fromkeys(self.probabilities)
            )
            drawn[0].levels(policy)
            return drawn
        bin_edges(policy, self.column)
        keys = (*as_columns(self.by), self.column)
        return Count(keys, self.groups, self.where).moments(policy)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return what was drawn, or quantiles between edges that surround them."""
        if self.method == "choice":
            return self._drawn(policy, estimates)
        (moment,) = self.moments(policy)
        edges = bin_edges(policy, self.column)
        levels = moment.levels(policy)
        n_bins, width = edges.size - 1, len(levels[-1])
        all_rows = moment.where is None and not self.by and width == n_bins
        cells = moment.cells(policy)[::width]
        answers: Labeled = []
        names = self._names
        for number, cell in enumerate(cells):
            counts = estimates[moment][number * width : number * width + n_bins]
            shares = _Shares(counts, n_rows if all_rows else None)
            for p in self.probabilities:
                answers.append(
                    (cell[:-1] + names[p], shares.quantile(p, edges, n_rows))
                )
        return answers

    def _drawn(self, policy: Policy, estimates: Estimates) -> Labeled:
        drawn = {m.probability: m for m in self.moments(policy)}  # type: ignore[attr-defined]
        cells = drawn[self.probabilities[0]].cells(policy)
        names = self._names
        return [
            (cell + names[p], estimates[drawn[p]][number])
            for number, cell in enumerate(cells)
            for p in self.probabilities
        ]

    @property
    def _names(self) -> dict[float, tuple[str, ...]]:
        """What each probability adds to the name of a cell."""
        if len(self.probabilities) == 1:
            return {self.probabilities[0]: ()}
        asked = tuple(dict.fromkeys(self.probabilities))
        return {p: (t,) for p, t in zip(asked, distinct_texts(asked), strict=True)}


class _Shares:
    """Noisy numbers of rows below and above every edge, and how far they may be off.

    Noise of one count reaches `reach` at most; `below` and `above` of an edge are sums
    of counts, so theirs reaches as far times the number of counts. With a public total
    the shorter sum gives both.
    """

    def __init__(self, counts: list[Estimate], total: int | None) -> None:
        values = np.array([count.value for count in counts])
        reach = max(count.radius for count in counts)
        n_bins = values.size
        below = np.concatenate([[0.0], np.cumsum(values)])
        above = below[-1] - below
        steps = np.arange(n_bins + 1)
        self.below_reach, self.above_reach = steps * reach, steps[::-1] * reach
        self.exact_total = total is not None
        self.below, self.above = below, above
        self.best = below, above
        if total is not None:
            shorter = steps <= n_bins - steps
            self.below = np.where(shorter, below, total - above)
            self.above = total - self.below
            self.below_reach = np.minimum(steps, steps[::-1]) * reach
            self.above_reach = self.below_reach
            # Both sums tell of one number; weights by their variances err least.
            best = (steps[::-1] * below + steps * (total - above)) / n_bins
            self.best = best, total - best

    def quantile(self, probability: float, edges: FloatArray, n_rows: int) -> Estimate:
        """Return a quantile and the nearest edges that surely enclose it.

        It is above an edge if and only if fewer than a share `probability` of the rows
        lie below it: ``(1 - p) below < p above``.
        """
        total = max(float(self.below[-1]), 1.0)
        p = max(probability, 1.0 / n_rows)  # the quantile at 0 is the smallest value
        surplus = (1.0 - p) * self.below - p * self.above
        if self.exact_total:
            reach = self.below_reach  # below + above is known: one error, not two
        else:
            reach = (1.0 - p) * self.below_reach + p * self.above_reach
        # True surpluses do not fall from edge to edge, so bounds can be sharpened.
        highest = np.minimum.accumulate((surplus + reach)[::-1])[::-1]
        lowest = np.maximum.accumulate(surplus - reach)
        last = edges.size - 1
        start = int(np.searchsorted(highest, 0.0, side="left")) - 1
        end = int(np.searchsorted(lowest, 0.0, side="left"))
        lower, upper = float(edges[max(start, 0)]), float(edges[min(end, last)])
        surplus = (1.0 - p) * self.best[0] - p * self.best[1]
        value = _interpolated(0.0, surplus, edges)
        spread = SAMPLING_QUANTILE * np.sqrt(p * (1.0 - p) * total)
        ends = [_interpolated(shift, surplus, edges) for shift in (-spread, spread)]
        return Estimate(
            value,
            min(lower, value),
            max(upper, value),
            max(value - ends[0], ends[1] - value),
        )


def _interpolated(level: float, surplus: FloatArray, edges: FloatArray) -> float:
    """Return where a rising line through the surpluses of the edges meets a level."""
    rising = np.maximum.accumulate(surplus)
    last = edges.size - 1
    right = min(max(int(np.searchsorted(rising, level, side="left")), 1), last)
    rise = rising[right] - rising[right - 1]
    part = (level - rising[right - 1]) / rise if rise > 0.0 else 0.5
    part = min(max(float(part), 0.0), 1.0)
    return float(edges[right - 1] + part * (edges[right] - edges[right - 1]))


@dataclass(frozen=True)
class Prices:
    """What noise on moments costs every promised class.

    `movements` gives the 1-norm and squared 2-norm of a moment by class, `limits` the
    epsilon of every class, or its rho if noise may be `gaussian`.
    """

    movements: Callable[[Moment], Mapping[str, tuple[int, int]]]
    limits: Mapping[str, float]
    gaussian: bool

    def variance(self, moments: Iterable[Moment]) -> float:
        """Return the variance of noise of one scale on all of the moments."""
        moved = [self.movements(moment) for moment in moments]
        if self.gaussian:
            return max(
                sum(m[name][1] for m in moved) / (2.0 * rho)
                for name, rho in self.limits.items()
            )
        scale = max(
            sum(m[name][0] for m in moved) / epsilon
            for name, epsilon in self.limits.items()
        )
        return 2.0 * scale * scale  # infinite, where a power would end in an error


def with_methods(
    queries: Sequence[Query],
    policy: Policy,
    *,
    method: QuantileMethod,
    prices: Prices,
    n_rows: int,
) -> tuple[Query, ...]:
    """Return the questions with a method for every quantile.

    `method` is for quantiles that name none themselves; `policy` has all columns that
    are read.
    """

    def named(part: Query) -> Query:
        return replace(part, method=method) if _is_open(part) else part

    def counted(part: Query) -> Query:
        """Take counts where a quantile can have them: radii add up in values."""
        if not _is_open(part):
            return part
        return replace(part, method="counts" if _has_bins(part, policy) else "choice")

    asked_for = [with_parts(query, named) for query in queries]
    shared: set[Moment] = set()
    for query in asked_for:
        if not isinstance(query, Quantiles):
            shared.update(with_parts(query, counted).moments(policy))
    asked: dict[Moment, list[Quantiles]] = {}
    for query in asked_for:
        if _is_open(query) and _has_bins(query, policy):
            asked.setdefault(_counts(query, policy), []).append(query)
    by_draws = {
        counts: counts not in shared
        and _draws_err_less(counts, together, policy, prices, n_rows)
        for counts, together in asked.items()
    }

    def decided(query: Query) -> Query:
        if not _is_open(query):
            return with_parts(query, counted)
        drawn = not _has_bins(query, policy) or by_draws[_counts(query, policy)]
        return replace(query, method="choice" if drawn else "counts")

    return tuple(map(decided, asked_for))


def _is_open(query: Query) -> TypeGuard[Quantiles]:
    return isinstance(query, Quantiles) and query.method == "auto"


def _has_bins(query: Quantiles, policy: Policy) -> bool:
    domain = column(policy, query.column).domain
    return isinstance(domain, NumberDomain) and domain.bins is not None


def _counts(query: Quantiles, policy: Policy) -> Moment:
    (counts,) = replace(query, method="counts").moments(policy)
    return counts


def _draws_err_less(
    counts: Moment,
    together: Sequence[Quantiles],
    policy: Policy,
    prices: Prices,
    n_rows: int,
) -> bool:
    """Compare the variances of the rank that both leave, as if asked alone."""
    draws = dict.fromkeys(
        moment
        for query in together
        for moment in replace(query, method="choice").moments(policy)
    )
    chances = [p for query in together for p in query.probabilities]
    n_bins = bin_edges(policy, together[0].column).size - 1
    # Counts below an edge and above it meet there: p (1 - p) of the bins err.
    spread = sum(p * (1.0 - p) for p in chances) / len(chances) * n_bins
    inside = (_INTERPOLATION * n_rows / n_bins) ** 2
    counted = spread * prices.variance([counts]) + inside
    return prices.variance(draws) * (2.0 if prices.gaussian else 1.0) <= counted
