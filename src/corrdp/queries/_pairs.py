"""Pairs of rows that a score orders rightly: the sum behind the area under a curve.

Theory: ``docs/theory/queries.md``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from corrdp._typing import IntArray
from corrdp.policy import Policy
from corrdp.queries._columns import group_names, read_groups, read_numbers
from corrdp.queries._moments import Moment


@dataclass(frozen=True)
class PairMoment(Moment):
    """Pairs ordered rightly minus pairs ordered wrongly, in every cell.

    A pair is a row with the positive label and one without it, of the same cell; equal
    scores count for neither.

    Parameters
    ----------
    score, label : str
        Columns of the score and of the label.
    positive : str
        The group of the label that should score higher.
    n_rows : int
        Public number of rows, which bounds the pairs of one row.
    """

    score: str = ""
    label: str = ""
    positive: str = ""
    n_rows: int = 1

    @property
    def name(self) -> str:
        """Name shown in plans."""
        return f"pairs of {self.label} ordered by {self.score}" + (
            f" by {', '.join(self.by)}" if self.by else ""
        )

    @property
    def most_rows(self) -> float:
        """Rows up to which `movement` holds: each is in a pair with the others."""
        return self.n_rows

    @property
    def columns(self) -> frozenset[str]:
        """Score, label and what splits the rows."""
        return frozenset({self.score, self.label, *self.by})

    @property
    def span(self) -> int:
        """Largest movement: one row is in fewer pairs than there are rows."""
        return 2 * max(self.n_rows - 1, 1)

    def movement(self, policy: Policy, changed: frozenset[str]) -> tuple[int, int]:
        """Bound the movement under a change of some columns of one row.

        Guarantee
        ---------
        At most twice the other rows if score or cell may change, as many as the other
        rows if the label alone does (``docs/theory/queries.md``).
        """
        others = max(self.n_rows - 1, 1)
        if ({self.score} | set(self.by)) & changed:
            return 2 * others, 4 * others**2
        if self.label in changed:
            return others, others**2
        return 0, 0

    def evaluate(self, policy: Policy, table: Any) -> IntArray:
        """Return the exact number of every cell."""
        scores = read_numbers(policy, table, self.score).values
        places = group_names(policy, self.label)
        positive = read_groups(policy, table, self.label) == places.index(self.positive)
        cell = np.zeros(scores.size, dtype=np.int64)
        n_cells = 1
        for name in self.by:
            names = group_names(policy, name)
            cell = cell * len(names) + read_groups(policy, table, name)
            n_cells *= len(names)
        found = np.zeros(n_cells, dtype=np.int64)
        for number in range(n_cells):
            inside = cell == number
            others = np.sort(scores[inside & ~positive])
            ours = scores[inside & positive]
            below = np.searchsorted(others, ours, side="left")
            above = others.size - np.searchsorted(others, ours, side="right")
            found[number] = int(np.sum(below - above))
        return found
