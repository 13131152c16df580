"""How quantiles are answered: by draws or by counts, whichever errs less.

The decision reads the questions, the policy, the budget and the number of rows, all
public. It was checked against measured errors (``docs/queries.md``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from corrdp.mechanisms.noise import concentrated_rho
from corrdp.policy import Budget, NumberDomain, Policy
from corrdp.queries._columns import bin_edges, column
from corrdp.queries._moments import Moment
from corrdp.queries._quantiles import QuantileMethod, Quantiles
from corrdp.queries._query import Query, with_parts

# Moments to their price bounds per promised class: (1-norm, squared 2-norm).
Movements = Callable[[Moment], Mapping[str, tuple[int, int]]]

# A quantile inside a bin is interpolated; of the rows of a bin it misses this share.
_INTERPOLATION = 0.05


def with_methods(
    queries: Sequence[Query],
    policy: Policy,
    *,
    method: QuantileMethod,
    movements: Movements,
    allowed: Mapping[str, float],
    budget: Budget,
    gaussian: bool,
    n_rows: int,
) -> tuple[Query, ...]:
    """Return the questions with a method for every quantile.

    `method` is for quantiles that name none themselves; `policy` has all columns that
    are read, `allowed` the epsilon promised to each class of `movements`, and
    `gaussian` says whether such noise is possible.
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
    limits = {
        name: concentrated_rho(epsilon=epsilon, delta=budget.delta)
        if gaussian
        else epsilon
        for name, epsilon in allowed.items()
    }
    asked: dict[Moment, list[Quantiles]] = {}
    for query in asked_for:
        if _is_open(query) and _has_bins(query, policy):
            asked.setdefault(_counts(query, policy), []).append(query)
    by_draws = {
        counts: counts not in shared
        and _draws_err_less(
            counts, together, policy, movements, limits, gaussian, n_rows
        )
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
    movements: Movements,
    limits: Mapping[str, float],
    gaussian: bool,
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
    counted = spread * _variance([counts], movements, limits, gaussian) + inside
    drawn = _variance(list(draws), movements, limits, gaussian)
    return drawn * (2.0 if gaussian else 1.0) <= counted


def _variance(
    moments: Sequence[Moment],
    movements: Movements,
    limits: Mapping[str, float],
    gaussian: bool,
) -> float:
    """Return the variance of noise of one scale on all of the moments."""
    moved = [movements(moment) for moment in moments]
    if gaussian:
        return max(
            sum(m[name][1] for m in moved) / (2.0 * rho) for name, rho in limits.items()
        )
    scale = max(sum(m[name][0] for m in moved) / e for name, e in limits.items())
    return 2.0 * scale * scale  # infinite, where a power would end in an error
