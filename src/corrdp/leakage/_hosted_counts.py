"""Contingency counts of a table that an engine holds, counted where its rows are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corrdp.engines import Answer, hosted_parts, mark_of
from corrdp.leakage._coding import check_resolution, iter_codes
from corrdp.leakage._counts import ContingencyCounts, CountLayout, count_codes
from corrdp.policy import Policy


@dataclass(frozen=True, eq=False)
class CountedPart:
    """Counts of one partition; the rows are not kept."""

    counts: ContingencyCounts

    @property
    def mark(self) -> int:
        """Other counts have another one."""
        return mark_of(self.counts.tables)


@dataclass(frozen=True, eq=False)
class PartCounter:
    """Codes and counts the rows of a partition on its worker.

    Parameters
    ----------
    policy : Policy
        Domains and resolution.
    layout : CountLayout
        Which tables to count.
    """

    policy: Policy
    layout: CountLayout

    @property
    def columns(self) -> Sequence[str]:
        """Columns that are read."""
        return self.layout.features

    def __call__(self, table: Any) -> CountedPart:
        """Return the counts of a partition."""
        chunks = iter_codes(table, self.policy, self.columns)
        return CountedPart(count_codes(chunks, self.layout, n_threads=1))


@dataclass(frozen=True)
class CountsOfPart:
    """Asks for all tables of counts."""

    def answer(self, part: CountedPart) -> Answer:
        """Return what one partition adds."""
        return part.counts.tables


def hosted_counts(data: Any, policy: Policy, layout: CountLayout) -> ContingencyCounts:
    """Return the counts of all partitions of a table that an engine holds.

    Guarantee
    ---------
    Exact counts, as `count_codes` gives for the same rows in any order: nothing here
    is private (docs/theory/scale.md, Proposition 4).
    """
    check_resolution(policy, layout.features)
    with hosted_parts(data, PartCounter(policy, layout)) as parts:
        answers = parts.ask(CountsOfPart())
    counts = ContingencyCounts.empty(layout)
    for tables in answers:
        counts = counts + ContingencyCounts(layout, tables)
    return counts
