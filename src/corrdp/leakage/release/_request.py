"""What is asked of a leakage estimate besides the source."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp.leakage._coding import counts_of
from corrdp.leakage._counts import ContingencyCounts, CountLayout, TableShape
from corrdp.leakage._joining import (
    Groups,
    choose_groups,
    joined_fields,
    joined_policy,
    joined_words,
)
from corrdp.leakage._levels import TableWords
from corrdp.leakage._metrics import Metric
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage._targets import table_words
from corrdp.leakage.estimators import Estimator
from corrdp.policy import NeighborRelation, Policy

WORTH_JOINING = 0.9
"""Levels are joined for a bound of at most this; else they stay, at distance 1."""

JOINED_SHARES = (
    "joined levels weigh as they do among the rows that were counted: which are joined "
    "was decided by their numbers"
)


@dataclass(frozen=True, kw_only=True)
class LeakageRequest:
    """Everything asked for besides the source."""

    data: Any
    policy: Policy
    estimator: Estimator | None
    metric: Metric
    feature_failure_probability: float
    max_cells: int
    n_threads: int
    random_state: int | None
    joinable: frozenset[str] = frozenset()  # features whose thin levels may be joined

    def counts(self, layout: CountLayout) -> ContingencyCounts:
        """Return the exact counts of all tables of a layout."""
        return counts_of(self.data, self.policy, layout, n_threads=self.n_threads)

    def groups(
        self, shape: TableShape, sizes: FloatArray, *, noise_scale: float, n_rows: int
    ) -> Groups:
        """Return which values of a table are counted together: none if empty.

        Guarantee
        ---------
        A function of released or public sizes (docs/theory/leakage.md, Theorem 5).
        """
        single = self.policy.relation is NeighborRelation.ONE_INSENSITIVE
        if not single or shape.name not in self.joinable:
            return ()
        shift = (n_rows - float(sizes.sum())) / len(sizes)
        return choose_groups(
            self.policy.feature(shape.name),
            sizes + shift,
            n_cells=shape.n_cells,
            noise_scale=noise_scale,
            failure_probability=self.feature_failure_probability,
        )

    def joined(
        self, shape: TableShape, groups: Groups, sizes: FloatArray
    ) -> "JoinedTable":
        """Return what the rows of a table mean once values are counted together."""
        fields = None
        if groups:
            domain = self.policy.feature(shape.name).domain
            fields = joined_fields(domain, groups, sizes)
        if fields is None:
            return JoinedTable(table_words(self.policy, shape.features))
        policy = joined_policy(self.policy, {shape.name: fields})
        told = joined_words(policy.feature(shape.name).domain)
        return JoinedTable(table_words(policy, shape.features), fields, told)


@dataclass(frozen=True, eq=False)
class JoinedTable:
    """Words of a table, and how its feature's domain was joined, if it was."""

    words: TableWords
    fields: dict[str, Any] | None = None
    told: str = ""

    def of(self, found: FeatureLeakage) -> FeatureLeakage:
        """Return a result with its joining, or distance 1 if joining brings little.

        Guarantee
        ---------
        Distance 1 holds for the levels as declared, whatever the bound of the joined
        ones is (docs/theory/leakage.md, 2.2).
        """
        if self.fields is None:
            return found
        assert found.upper is not None
        if found.upper > WORTH_JOINING:
            return replace(
                found,
                upper=1.0,
                reason=f"levels stay apart, since joined ({self.told}) the bound would "
                f"be {found.upper:.2f}: {found.reason}",
            )
        return replace(
            found,
            joined=self.fields,
            reason=f"joined: {self.told}; {found.reason}",
            assumptions=(*found.assumptions, JOINED_SHARES),
        )


def shares_of_cells(tables: dict[str, tuple[FloatArray, float]]) -> dict[str, Any]:
    """Return for every table the shares of sensitive cells that the others tell.

    From noisy counts over the same cells, and their noise scale: averages weighted by
    precision; None where there is no other table.

    Guarantee
    ---------
    The shares for a table do not depend on its own noise, which Theorem 2 asks for
    (docs/theory/leakage.md).
    """
    means = {
        name: (cells.sum(axis=0) / max(1.0, cells.sum()), 1 / (len(cells) * scale**2))
        for name, (cells, scale) in tables.items()
    }
    shares: dict[str, Any] = {}
    for name in tables:
        others = [mean for other, mean in means.items() if other != name]
        total = sum(weight for _, weight in others)
        shares[name] = (
            np.sum([share * weight for share, weight in others], axis=0) / total
            if others
            else None
        )
    return shares
