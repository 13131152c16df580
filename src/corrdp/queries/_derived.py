"""Columns computed from other columns of the same row, such as a model's prediction.

A derived column has a declared domain and is a function of its inputs in that row. It
belongs to no neighbor class of its own: it changes whenever one of its inputs does, and
that is how it is priced. Theory: ``docs/theory/queries.md``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.exceptions import PolicyError
from corrdp.policy import CategoryDomain, Feature, NumberDomain, Policy

Computed = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class DerivedColumns:
    """Columns that are computed from a row, their domains and what they read.

    Parameters
    ----------
    domains : mapping of str to domain
        What each column may hold; values are clipped to it like any other.
    inputs : mapping of str to frozenset of str
        Columns of the policy that each one reads.
    compute : callable
        From the table to one value per row of every column; called once paid for. The
        value of a row must depend on that row alone.
    """

    domains: Mapping[str, NumberDomain | CategoryDomain]
    inputs: Mapping[str, frozenset[str]]
    compute: Callable[[Any], Computed]

    def view(self, policy: Policy) -> Policy:
        """Return the policy with the columns, for their domains.

        They stand as public there only because no class of the policy names them:
        prices go through `reached`.
        """
        taken = {feature.name for feature in policy.features} & set(self.domains)
        if taken:
            raise PolicyError(
                f"column {sorted(taken)[0]!r} has a name that evaluation needs. Rename "
                "it in the policy and in the table."
            )
        extra = tuple(
            Feature(name, "public", domain)  # type: ignore[arg-type]
            for name, domain in self.domains.items()
        )
        return replace(policy, features=(*policy.features, *extra))

    def reached(self, changed: frozenset[str]) -> frozenset[str]:
        """Return the columns that change with the changed ones.

        Guarantee
        ---------
        A derived column is a function of its inputs, so it stays where it is unless one
        of them changes (``docs/theory/queries.md``).
        """
        follows = {name for name, inputs in self.inputs.items() if inputs & changed}
        return changed | follows

    def extend(self, table: Any) -> "ExtendedTable":
        """Return the table with the computed columns."""
        return ExtendedTable(table, dict(self.compute(table)))


@dataclass(frozen=True, eq=False)
class ExtendedTable:
    """A table, and columns beside it that are read first."""

    table: Any
    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.table)

    def column(self, name: str) -> FloatArray | NDArray[Any]:
        """Return a computed column as a table of one column."""
        return np.asarray(self.columns[name]).reshape(-1, 1)
