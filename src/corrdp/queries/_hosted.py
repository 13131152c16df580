"""Queries on a table that an engine holds: sums per partition, added by the driver."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corrdp._typing import IntArray
from corrdp.engines import Answer, hosted_parts, mark_of
from corrdp.exceptions import BudgetError, CorrDPError
from corrdp.policy import Policy
from corrdp.queries._choices import RankChoice
from corrdp.queries._moments import Moment


@dataclass(frozen=True, eq=False)
class SummedPart:
    """Sums of one partition."""

    sums: Answer

    @property
    def mark(self) -> int:
        """Other sums have another one."""
        return mark_of(self.sums)


@dataclass(frozen=True)
class SumsOfPart:
    """Asks for all sums."""

    def answer(self, part: SummedPart) -> Answer:
        """Return what one partition adds."""
        return part.sums


@dataclass(frozen=True, eq=False)
class PartSummer:
    """Sums up the rows of a partition on its worker."""

    policy: Policy
    columns: Sequence[str]
    moments: Sequence[Moment]

    def __call__(self, table: Any) -> SummedPart:
        """Return the sums of a partition."""
        return SummedPart(tuple(m.evaluate(self.policy, table) for m in self.moments))


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
        As `Moment.evaluate` of all rows: whole numbers add up in any order
        (`docs/theory/scale.md`, Proposition 4). Noise is added by the caller.
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
        summer = PartSummer(view, columns, tuple(moments))
        with hosted_parts(self.data, summer) as parts:
            answers = parts.ask(SumsOfPart())
        return [
            np.sum(sums, axis=0, dtype=np.int64) for sums in zip(*answers, strict=True)
        ]


def refuse_ledger(table: Any) -> None:
    """Raise: a fingerprint reads the rows in their order, which engines lack."""
    raise BudgetError(
        f"a ledger knows a table by its rows in order, and a {type(table).__name__} "
        "has none. Leave the ledger out and charge it by hand, or pass the files."
    )
