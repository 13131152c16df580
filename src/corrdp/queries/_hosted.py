"""Queries on a table that an engine holds: sums per partition, added by the driver."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from corrdp._typing import IntArray
from corrdp.engines import Answer, hosted_sums, is_hosted
from corrdp.exceptions import BudgetError, CorrDPError
from corrdp.ledger import Ledger
from corrdp.policy import Policy
from corrdp.queries._choices import RankChoice
from corrdp.queries._moments import Moment


@dataclass(frozen=True, eq=False)
class HostedRows:
    """A hosted table whose rows were counted, in the place of a table in memory."""

    data: Any
    policy: Policy
    n_rows: int = field(init=False)

    def __post_init__(self) -> None:
        if self.policy.unit is not None:
            raise CorrDPError(
                f"rows of one unit ({self.policy.unit!r}) may lie in several "
                f"partitions of a {type(self.data).__name__}. Bring the rows to one "
                "machine."
            )
        (rows,) = self.sums((Moment(()),), self.policy)
        object.__setattr__(self, "n_rows", int(rows[0]))

    def __len__(self) -> int:
        return self.n_rows

    def sums(self, moments: Sequence[Moment], view: Policy) -> list[IntArray]:
        """Return the exact sums over all partitions, one array per moment.

        Guarantee
        ---------
        As `Moment.evaluate` of all rows (`docs/theory/scale.md`, Proposition 4). Noise
        is added by the caller.
        """
        chosen = [type(m).__name__ for m in moments if isinstance(m, RankChoice)]
        if chosen:
            raise CorrDPError(
                f"quantiles that are drawn look at all rows at once, and a "
                f"{type(self.data).__name__} stays where it is. Pass "
                "quantiles='counts', with declared bins."
            )
        columns = sorted(frozenset().union(*(moment.columns for moment in moments)))
        if not columns:  # rows are counted, whatever they hold
            columns = [view.features[0].name]
        add = partial(_sums_of, policy=view, moments=tuple(moments))
        return hosted_sums(self.data, columns, add)


def _sums_of(table: Any, policy: Policy, moments: Sequence[Moment]) -> Answer:
    return tuple(moment.evaluate(policy, table) for moment in moments)


def rows_in_place(table: Any, policy: Policy, ledger: Ledger | None) -> Any:
    """Return the rows of a table that an engine holds; any other table as it is."""
    if not is_hosted(table):
        return table
    if ledger is not None:  # whose fingerprint reads rows in an order, which these lack
        raise BudgetError(
            f"a ledger knows a table by its rows in order, and a {type(table).__name__}"
            " has none. Leave the ledger out and charge it by hand, or pass the files."
        )
    return HostedRows(table, policy)
