"""Moments: the one statistic of which every query is made.

A moment is, for each cell of declared groups, the sum over the rows that meet a
condition of a product of at most two numbers centered at the middle of their bounds,
each row rounded to whole grid steps.
Sums of whole numbers are exact, so its movement between neighbors is exact too.
Theory: ``docs/theory/queries.md``.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from corrdp._typing import IntArray
from corrdp.accounting import Group
from corrdp.exceptions import PolicyError
from corrdp.mechanisms.noise import LARGEST_MOVEMENT, Movement
from corrdp.policy import NeighborClass, Policy
from corrdp.queries._columns import (
    DerivedColumns,
    count_rows,
    group_names,
    read_groups,
    read_numbers,
)
from corrdp.queries._conditions import Condition
from corrdp.queries._estimates import Estimate
from corrdp.queries._question_text import condition_text

MOST_CELLS = 2**20
RESOLUTION = 2**20  # grid steps across the declared bounds of a number


@dataclass(frozen=True)
class Moment:
    """Sum of a product of centered numbers over the rows of each cell.

    Parameters
    ----------
    factors : tuple of str
        No factor counts rows; one sums a number; two, possibly equal, a product.
    by : tuple of str
        Columns whose declared groups, crossed, are the cells.
    groups : tuple of str, optional
        Which groups of the first of these columns; all of them by default.
    present : str, optional
        Count only rows in which this column is not missing.
    where : Condition, optional
        Count only rows for which this is true.
    """

    factors: tuple[str, ...]
    by: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    present: str | None = None
    where: Condition | None = None

    @property
    def steps(self) -> int:
        """Grid steps per unit of the product."""
        return RESOLUTION if self.factors else 1

    @property
    def span(self) -> int:
        """Largest difference between two rows of one cell, in grid steps."""
        if len(self.factors) == 2:
            same = self.factors[0] == self.factors[1]
            return RESOLUTION // 4 if same else RESOLUTION // 2
        return self.steps

    @property
    def largest(self) -> int:
        """Largest absolute value of one row, in grid steps."""
        return {0: 1, 1: RESOLUTION // 2, 2: RESOLUTION // 4}[len(self.factors)]

    @property
    def most_rows(self) -> float:
        """Rows up to which `movement` holds: any number, one row moves by itself."""
        return math.inf

    @property
    def columns(self) -> frozenset[str]:
        """Every column that the sums read."""
        filtered = self.where.columns if self.where is not None else frozenset()
        present = {self.present} if self.present is not None else set()
        return filtered | {*self.factors, *self.by} | present

    @property
    def name(self) -> str:
        """Name shown in plans."""
        name = " * ".join(self.factors) or "rows"
        if self.present is not None:
            name += f" with {self.present}"
        if self.by:
            first, *rest = self.by
            listed = "" if self.groups is None else f" ({', '.join(self.groups)})"
            name += " by " + ", ".join([first + listed, *rest])
        if self.where is not None:
            name += f" where {condition_text(self.where)}"
        return name

    def levels(self, policy: Policy) -> tuple[tuple[str, ...], ...]:
        """Return the released groups of each column, or raise `PolicyError`."""
        if len(set(self.by)) != len(self.by):
            raise PolicyError(
                f"columns to split by must differ, got {list(self.by)}. Name each "
                "column once."
            )
        levels = [group_names(policy, name) for name in self.by]
        n_cells = math.prod(map(len, levels))
        if n_cells > MOST_CELLS:
            raise PolicyError(
                f"a table by {', '.join(self.by)} has {n_cells} cells, at most "
                f"{MOST_CELLS} can be released. Declare fewer bins or merge categories."
            )
        if self.where is not None:
            self.where.check(policy)
        if self.groups is not None:
            _check_groups(self.by[0], self.groups, levels[0])
            levels[0] = self.groups
        return tuple(levels)

    def cells(self, policy: Policy) -> tuple[tuple[str, ...], ...]:
        """Return the groups of every cell; one cell without groups if nothing splits.

        Examples
        --------
        >>> from corrdp.policy import BooleanDomain, Feature
        >>> policy = Policy((Feature("smoker", "sensitive", BooleanDomain()),))
        >>> Moment((), ("smoker",)).cells(policy)
        (('false',), ('true',))
        """
        return tuple(itertools.product(*self.levels(policy)))

    def movement(self, policy: Policy, changed: frozenset[str]) -> tuple[int, int]:
        """Bound the 1-norm and squared 2-norm of the movement, in grid steps.

        Guarantee
        ---------
        Holds for any two tables of equal length that differ in the `changed` columns
        of one row (`docs/theory/queries.md`).
        """
        within = 0
        read = set(self.factors) | ({self.present} if self.present else set())
        if read & changed:
            within = self.span
        ends = self._ends(policy, changed)
        across, across_squared = ends * self.largest, ends * self.largest**2
        return max(within, across), max(within**2, across_squared)

    def _ends(self, policy: Policy, changed: frozenset[str]) -> int:
        """Return how many cells gain or lose a whole row: left and entered."""
        reached, may_leave = 1, False
        for name, released in zip(self.by, self.levels(policy), strict=True):
            if name in changed:
                reached *= len(released)
                may_leave |= len(released) < len(group_names(policy, name))
        if self.where is not None and self.where.columns & changed:
            may_leave = True
        if reached > 1:
            return 2
        return 1 if may_leave else 0

    def evaluate(self, policy: Policy, table: Any) -> IntArray:
        """Return the exact sums, one whole number of grid steps per cell."""
        rows = np.ones(count_rows(table), dtype=np.int64)
        if self.present is not None:
            rows = read_numbers(policy, table, self.present).present.astype(np.int64)
        if self.factors:
            product = np.full(rows.size, float(RESOLUTION))
            for name in self.factors:
                product = product * read_numbers(policy, table, name).values
            rows = np.floor(product + 0.5).astype(np.int64)
        if self.where is not None:
            rows = np.where(self.where.evaluate(policy, table).true, rows, 0)
        cell, n_cells, released = self._cells_of(policy, table, rows.size)
        sums = np.zeros(n_cells, dtype=np.int64)
        np.add.at(sums, cell, rows)
        return sums[released]

    def typical(
        self, policy: Policy, parts: Iterator[float], *, scale: Fraction, n_rows: int
    ) -> list[Estimate]:
        """Return sums as rows might have them, from public numbers, without noise.

        Most rows are counted; means, variances and covariances of these sums lie inside
        their ranges, and `parts`, numbers in [0, 1), say where.
        """
        del scale
        least, most = {0: (0.5, 0.9), 1: (0.05, 0.1), 2: (0.06, 0.1)}[len(self.factors)]
        n_cells = len(self.cells(policy))
        return [
            Estimate.exactly(n_rows / n_cells * (least + (most - least) * part))
            for part in itertools.islice(parts, n_cells)
        ]

    def _cells_of(
        self, policy: Policy, table: Any, n_rows: int
    ) -> tuple[IntArray, int, IntArray]:
        """Return the cell of each row, how many there are, and which are released."""
        declared = tuple(group_names(policy, name) for name in self.by)
        cell = np.zeros(n_rows, dtype=np.int64)
        for name, names in zip(self.by, declared, strict=True):
            cell = cell * len(names) + read_groups(policy, table, name)
        n_cells = math.prod(map(len, declared))
        released = np.arange(n_cells)
        if self.groups is not None:
            first = [declared[0].index(label) for label in self.groups]
            released = released.reshape(len(declared[0]), -1)[first].reshape(-1)
        return cell, n_cells, released


def _check_groups(
    name: str, groups: tuple[str, ...], declared: tuple[str, ...]
) -> None:
    for group in groups:
        if declared.count(group) != 1:
            raise PolicyError(
                f"group {group!r} of column {name!r} is not in the policy, or "
                f"not once. Its groups are: {', '.join(declared)}."
            )
    if len(set(groups)) != len(groups):
        raise PolicyError(
            f"groups of column {name!r} must differ, got {list(groups)}. "
            "Name each group once."
        )


def moment_movement(
    moments: Mapping[Moment, float],
    policy: Policy,
    classes: tuple[NeighborClass, ...],
    derived: DerivedColumns | None = None,
) -> Movement:
    """Return the movement of moments under the classes of a policy.

    Every moment has the weight of its variance relative to its squared span; `derived`
    columns change with others.

    Guarantee
    ---------
    A class moves a sum through the columns that it changes and those that are computed
    from them, and through no other; where all rows of a unit change together, as often
    as it has places (``docs/theory/queries.md``).
    """
    asked = [(moment, moment.columns) for moment in moments]

    # A sum moves through the columns that it reads: most classes change none of them.
    @cache
    def movement(place: int, changed: frozenset[str]) -> tuple[int, int]:
        return asked[place][0].movement(policy, changed)

    bounds = []
    for neighbor in classes:
        changed = neighbor.columns(policy)
        reached = changed if derived is None else derived.reached(changed)
        moved = [
            _of_all_rows(
                movement(place, changed & columns),
                movement(place, reached & columns),
                policy.max_rows,
            )
            for place, (_, columns) in enumerate(asked)
        ]
        if policy.max_rows is not None:
            far = max((absolute for absolute, _ in moved), default=0)
            if far > LARGEST_MOVEMENT:
                raise PolicyError(
                    f"max_rows={policy.max_rows} rows of one unit move a sum by {far} "
                    f"grid steps, at most {LARGEST_MOVEMENT} can be protected. Declare "
                    "fewer."
                )
        bounds.append(moved)
    array = np.array(bounds, dtype=np.int64).reshape(len(classes), len(moments), 2)
    return Movement(
        tuple(
            Group(
                moment.name,
                len(moment.cells(policy)),
                tuple(dict.fromkeys(moment.factors)),
                weight / moment.span**2,
            )
            for moment, weight in moments.items()
        ),
        tuple(neighbor.name for neighbor in classes),
        array[:, :, 0],
        array[:, :, 1],
        tuple(moment.span for moment in moments),
    )


def _of_all_rows(
    first: tuple[int, int], other: tuple[int, int], max_rows: int | None
) -> tuple[int, int]:
    """Return how far all rows of a unit move a sum together.

    Every unit has a first row, so in its place `first` bounds a change in which no row
    appears or disappears. Norms add up.
    """
    if max_rows is None:
        return other
    times = max_rows - 1
    mixed = first[1] * other[1]
    root = math.isqrt(mixed - 1) + 1 if mixed else 0  # rounded up
    return (
        first[0] + times * other[0],
        first[1] + times**2 * other[1] + 2 * times * root,
    )
