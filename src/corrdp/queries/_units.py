"""Tables in which one person has several rows: contributions bounded unit by unit.

Every unit gets the same number of places. Its first rows stand in them, and the rest
are marked as empty, so that the number of places is public where the number of rows is
not. Theory: ``docs/theory/queries.md``.
"""

from functools import partial
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from corrdp._typing import IntArray
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import CategoryDomain, Policy
from corrdp.queries._ask import split_and_filtered
from corrdp.queries._columns import (
    Computed,
    DerivedColumns,
    ExtendedTable,
    count_rows,
)
from corrdp.queries._conditions import Comparison
from corrdp.queries._query import Query
from corrdp.tables import MISSING_TEXTS, canonical_text, read_columns

ROW = "(row)"
_EMPTY, _FILLED = "no", "yes"


def public_size(table: Any, policy: Policy) -> int:
    """Return the public size of a table: its units if there are such, else its rows."""
    if policy.unit is None:
        return count_rows(table)
    return int(_units(table, policy).max(initial=-1)) + 1


def n_places(policy: Policy, size: int) -> int:
    """Return how many rows are summed over, from the public size."""
    return size * (policy.max_rows or 1)


def place_column(policy: Policy) -> DerivedColumns:
    """Return the column that says whether a place holds a row.

    It changes along with sensitive features: how many rows a unit has is as sensitive
    as they are.
    """
    return DerivedColumns(
        {ROW: CategoryDomain((_EMPTY, _FILLED))},
        {ROW: frozenset(policy.sensitive)},
        partial(_marks, policy=policy),
    )


def _marks(table: Any, policy: Policy) -> Computed:
    return bounded_rows(table, policy).columns


def of_filled_places(query: Query) -> Query:
    """Return a question about the places that hold a row."""
    try:
        return split_and_filtered(query, None, None, Comparison(ROW, "=", _FILLED))
    except CorrDPError as error:
        name = str(error).partition(" ")[0]
    raise CorrDPError(
        f"{name} cannot be asked of a policy with a unit: it would read the empty "
        "places of units with few rows. Ask for means, sums, counts or quantiles."
    )


def bounded_rows(table: Any, policy: Policy) -> ExtendedTable:
    """Return the first rows of every unit, in as many places for each.

    Guarantee
    ---------
    The places of a unit are a function of its own rows and of their order among
    themselves: no other unit and no cell of a declared column decides which rows stay
    (`docs/theory/queries.md`).
    """
    assert policy.max_rows is not None
    units = _units(table, policy)
    order = np.argsort(units, kind="stable")
    starts = np.searchsorted(units[order], np.arange(units.max(initial=-1) + 1))
    sizes = np.bincount(units, minlength=starts.size)
    places = np.arange(policy.max_rows)
    filled = places[None, :] < sizes[:, None]
    # An empty place repeats the first row of its unit and counts for nothing.
    taken = order[starts[:, None] + np.where(filled, places[None, :], 0)]
    frame = nw.from_native(table, eager_only=True)
    rows = frame[taken.reshape(-1).tolist()].to_native()
    marks = np.where(filled.reshape(-1), _FILLED, _EMPTY).astype(object)
    return ExtendedTable(rows, {ROW: marks})


def _units(table: Any, policy: Policy) -> IntArray:
    """Return the number of the unit of every row."""
    assert policy.unit is not None
    if isinstance(table, np.ndarray):
        raise PolicyError(
            f"the unit {policy.unit!r} cannot be found in a numpy array, whose columns "
            "are the features of the policy. Pass a table with column names."
        )
    (column,) = read_columns(table, [policy.unit])
    names = [canonical_text(cell) for cell in column]
    if None in names or not MISSING_TEXTS.isdisjoint(names):
        raise PolicyError(
            f"column {policy.unit!r} has missing values, and every row must say whose "
            "it is. Fill them in."
        )
    numbers: dict[str | None, int] = {}
    return np.array(
        [numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64
    )
