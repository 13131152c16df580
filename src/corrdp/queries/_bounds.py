"""Bounds of numbers, drawn with noise on a public grid and paid for.

Nothing is known of a table before its policy is written, so every class of neighbors
stands at distance 1. Theory: ``docs/theory/queries.md``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.exceptions import PolicyError
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    NeighborRelation,
    NumberDomain,
    Policy,
    Refuse,
    Slot,
)
from corrdp.queries._columns import DerivedColumns
from corrdp.queries._kinds import Count
from corrdp.queries._plan import QueryPlan, plan_queries
from corrdp.queries._result import Answer
from corrdp.queries._sketches import FrequentTexts
from corrdp.tables import number_of, read_columns

_POSITIVE = [m * 10.0**k for k in range(-3, 10) for m in (1, 2, 5)]
GRID: FloatArray = np.array([*(-x for x in reversed(_POSITIVE)), 0.0, *_POSITIVE])
"""Public edges between which bounds are drawn: 1, 2, 5 times powers of ten."""

TAIL = 0.005
"""Share of rows that may lie outside of each bound; they are clipped to it."""

_LEVELS = tuple(f"cell {number}" for number in range(GRID.size + 1))


@dataclass(frozen=True)
class DrawnBounds:
    """Bounds of one column."""

    lower: float
    upper: float


def provisional_policy(policy: Policy) -> Policy:
    """Return roles without domains: what is known before a row is read.

    Every column may hold anything, and every insensitive one may tell all about the
    sensitive ones (leakage 1).
    """
    width = float(GRID[-1])

    def unknown(domain: Any) -> NumberDomain | CategoryDomain:
        if isinstance(domain, NumberDomain):
            return NumberDomain(-width, width, missing=Slot())
        return CategoryDomain(("declared later",), other=True, missing=Slot())

    features = tuple(
        Feature(
            feature.name,
            feature.role,
            unknown(feature.domain),
            leakage=1.0 if feature.role == "insensitive" else None,
        )
        for feature in policy.features
    )
    label = policy.label
    if label is not None:
        label = replace(label, domain=replace(unknown(label.domain), missing=Refuse()))
    known = replace(policy, features=features, label=label, unconfirmed=())
    if policy.relation is NeighborRelation.ALL_INSENSITIVE:
        known = replace(known, block_leakage=1.0)
    return known


def plan_bounds(
    policy: Policy,
    names: Sequence[str],
    *,
    budget: Budget,
    n_rows: int,
    texts: Sequence[str] = (),
) -> QueryPlan:
    """Plan the noise of counts on the grid of several columns, and of frequent texts.

    Parameters
    ----------
    policy : Policy
        From `provisional_policy`.
    names : sequence of str
        Columns of numbers.
    budget : Budget
        For all columns together.
    n_rows : int
        Public number of rows.
    texts : sequence of str
        Columns whose frequent texts are drawn, answered after the numbers.

    Guarantee
    ---------
    That of `plan_queries`: the cell of the grid, and the bits of a text, are
    functions of one cell of the table
    (``docs/theory/queries.md``).
    """
    if not names and not texts:
        raise PolicyError(
            "no column of numbers awaits bounds, and with --delta no column awaits "
            "categories. Leave --epsilon out: nothing would be drawn."
        )

    def compute(table: Any) -> Mapping[str, NDArray[Any]]:
        levels = np.array(_LEVELS, dtype=object)
        columns = {}
        for name, column in zip(names, read_columns(table, names), strict=True):
            numbers = np.array([number_of(cell) for cell in column])
            cells = levels[np.searchsorted(GRID, numbers, side="right")]
            cells[np.isnan(numbers)] = None  # says no number
            columns[_grid_name(name)] = cells
        return columns

    derived = DerivedColumns(
        {_grid_name(name): CategoryDomain(_LEVELS, missing=Slot()) for name in names},
        {_grid_name(name): frozenset({name}) for name in names},
        compute,
    )
    return plan_queries(
        policy,
        [*(Count(_grid_name(name)) for name in names), *map(FrequentTexts, texts)],
        budget=budget,
        n_rows=n_rows,
        derived=derived,
    )


def bounds_from(answer: Answer) -> DrawnBounds:
    """Return the edges between which all but small tails of the rows lie.

    Post-processing of noisy counts: cells that noise alone may have filled are left
    out, then the tails. A table without numbers has the bounds 0 and 1.
    """
    counts = np.array(answer.values[: GRID.size + 1])
    counts = np.where(counts > np.array(answer.radii[: GRID.size + 1]), counts, 0.0)
    total = counts.sum()
    if total <= 0.0:
        return DrawnBounds(0.0, 1.0)
    below = np.cumsum(counts)
    first = int(np.searchsorted(below, TAIL * total, side="right"))
    last = int(np.searchsorted(below, (1.0 - TAIL) * total, side="left"))
    lower = float(GRID[max(first - 1, 0)])
    upper = float(GRID[min(last, GRID.size - 1)])
    if not lower < upper:  # all rows beyond the last edge, on one side
        lower, upper = sorted((lower, -math.copysign(lower or 1.0, lower)))
    return DrawnBounds(lower, upper)


def _grid_name(name: str) -> str:
    return f"(grid of {name})"
