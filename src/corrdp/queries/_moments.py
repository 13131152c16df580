"""Moments: the one statistic of which every query is made.

A moment is, for each declared group, the sum over rows of a product of at most two
numbers centered at the middle of their bounds, each row rounded to whole grid steps.
Sums of whole numbers are exact, so its movement between neighbors is exact too.
Theory: ``docs/theory/queries.md``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from corrdp._typing import IntArray
from corrdp.accounting import Group
from corrdp.exceptions import PolicyError
from corrdp.mechanisms.noise import Movement
from corrdp.policy import NeighborClass, Policy
from corrdp.queries._columns import (
    count_rows,
    group_names,
    may_be_missing,
    read_groups,
    read_numbers,
)

RESOLUTION = 2**20  # grid steps across the declared bounds of a number


@dataclass(frozen=True)
class Moment:
    """Sum of a product of centered numbers over the rows of each group.

    Parameters
    ----------
    factors : tuple of str
        No factor counts rows; one sums a number; two, possibly equal, a product.
    by : str, optional
        Column whose declared groups split the rows.
    groups : tuple of str, optional
        Which of the groups; all of them by default.
    present : str, optional
        Count only rows in which this column is not missing.
    """

    factors: tuple[str, ...]
    by: str | None = None
    groups: tuple[str, ...] | None = None
    present: str | None = None

    @property
    def steps(self) -> int:
        """Grid steps per unit of the product."""
        return RESOLUTION if self.factors else 1

    @property
    def span(self) -> int:
        """Largest difference between two rows of one group, in grid steps."""
        if len(self.factors) == 2:
            same = self.factors[0] == self.factors[1]
            return RESOLUTION // 4 if same else RESOLUTION // 2
        return self.steps

    @property
    def largest(self) -> int:
        """Largest absolute value of one row, in grid steps."""
        return {0: 1, 1: RESOLUTION // 2, 2: RESOLUTION // 4}[len(self.factors)]

    @property
    def name(self) -> str:
        """Name shown in plans."""
        what = " * ".join(self.factors) or "rows"
        if self.present is not None:
            what += f" with {self.present}"
        return (
            what
            if self.by is None
            else f"{what} by {self.by}"
            + ("" if self.groups is None else f" ({', '.join(self.groups)})")
        )

    def labels(self, policy: Policy) -> tuple[str, ...]:
        """Return the names of the groups, or raise `PolicyError` for unknown ones."""
        if self.by is None:
            return ("",)
        declared = group_names(policy, self.by)
        if self.groups is None:
            return declared
        for group in self.groups:
            if declared.count(group) != 1:
                raise PolicyError(
                    f"group {group!r} of column {self.by!r} is not in the policy, or "
                    f"not once. Its groups are: {', '.join(declared)}."
                )
        if len(set(self.groups)) != len(self.groups):
            raise PolicyError(
                f"groups of column {self.by!r} must differ, got {list(self.groups)}. "
                "Name each group once."
            )
        return self.groups

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
        across = across_squared = 0
        if self.by in changed:
            ends = min(2, len(self.labels(policy)))  # the group left, the group entered
            across, across_squared = ends * self.largest, ends * self.largest**2
        return max(within, across), max(within**2, across_squared)

    def evaluate(self, policy: Policy, table: Any) -> IntArray:
        """Return the exact sums, one whole number of grid steps per group."""
        rows = np.ones(count_rows(table), dtype=np.int64)
        if self.present is not None:
            rows = read_numbers(policy, table, self.present).present.astype(np.int64)
        if self.factors:
            product = np.full(rows.size, float(RESOLUTION))
            for name in self.factors:
                product = product * read_numbers(policy, table, name).values
            rows = np.floor(product + 0.5).astype(np.int64)
        if self.by is None:
            return np.array([rows.sum()], dtype=np.int64)
        declared = group_names(policy, self.by)
        codes = read_groups(policy, table, self.by)
        sums = np.zeros(len(declared), dtype=np.int64)
        np.add.at(sums, codes, rows)
        if self.groups is None:
            return sums
        return sums[[declared.index(label) for label in self.labels(policy)]]


def count_moment(policy: Policy, name: str, by: Moment) -> Moment | None:
    """Return the moment that counts the rows of a mean, or None if it is public."""
    present = name if may_be_missing(policy, name) else None
    if by.by is None and present is None:
        return None
    return Moment((), by.by, by.groups, present)


def moment_movement(
    moments: dict[Moment, float], policy: Policy, classes: tuple[NeighborClass, ...]
) -> Movement:
    """Return the movement of moments under the classes of a policy.

    Parameters
    ----------
    moments : dict of Moment to float
        With the weight of each moment's variance relative to its squared span.
    policy : Policy
        Declares the groups.
    classes : tuple of NeighborClass
        Of the policy, ``whole_record`` included.
    """
    label = () if policy.label is None else (policy.label.name,)
    bounds = [
        [
            moment.movement(
                policy,
                frozenset(
                    neighbor.features + (label if neighbor.label_changes else ())
                ),
            )
            for moment in moments
        ]
        for neighbor in classes
    ]
    array = np.array(bounds, dtype=np.int64).reshape(len(classes), len(moments), 2)
    return Movement(
        tuple(
            Group(
                moment.name,
                len(moment.labels(policy)),
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
