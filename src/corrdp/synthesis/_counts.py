"""How many rows lie in each cell of a table: exact counts, hence private if rows are.

`measure` and `measure_adaptively` add noise to them; rows that a model drew are counted
in the same way, and cost nothing.
"""

import math
from collections.abc import Container, Sequence

import numpy as np

from corrdp._typing import IntArray
from corrdp.synthesis._junction_tree import Region


def count_cells(codes: IntArray, region: Region, sizes: tuple[int, ...]) -> IntArray:
    """Return how many rows lie in each cell of a region's table.

    Exact, hence private: `noisy_table` adds noise to them.
    """
    return counted([codes[:, c] for c in region], [sizes[c] for c in region])


def counted(columns: Sequence[IntArray], sizes: Sequence[int]) -> IntArray:
    """Return how many rows hold each combination of the codes of some columns."""
    cells = columns[0].astype(np.int64, copy=False)  # no product overflows
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        cells = cells * size
        cells += column
    counts = np.bincount(cells, minlength=math.prod(sizes))
    return counts.reshape(sizes).astype(np.int64, copy=False)


class DrawnCounts:
    """Tables of rows that a model drew, counted when they are asked for.

    Thousands are: columns are joined with the label, the last one, in advance, and a
    table whose columns are also in a candidate with the label is the sum of that one,
    which is kept until it is asked for itself.
    """

    def __init__(
        self,
        drawn: IntArray,
        sizes: tuple[int, ...],
        label: int | None,
        candidates: Container[Region],
    ) -> None:
        self._sizes, self._label = sizes, label
        self._columns = list(np.asfortranarray(drawn).T)
        self._candidates = candidates
        self._kept: dict[Region, IntArray] = {}
        self._joined: list[IntArray] = []
        if self._label is not None:
            label, n_labels = self._columns[self._label], self._sizes[self._label]
            self._joined = [own * n_labels + label for own in self._columns]

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, region: Region) -> IntArray:
        if region in self._kept:
            return self._kept.pop(region)
        if self._label is not None and self._label not in region:
            larger = (*region, self._label)
            if larger in self._candidates:
                self._kept[larger] = self._counted(larger)
                return np.asarray(self._kept[larger].sum(axis=-1))
        return self._counted(region)

    def _counted(self, region: Region) -> IntArray:
        sizes = [self._sizes[column] for column in region]
        columns = [self._columns[column] for column in region]
        if region[-1] == self._label and len(region) > 1:
            columns[-2:] = [self._joined[region[-2]]]
            return counted(columns, [*sizes[:-2], sizes[-2] * sizes[-1]]).reshape(sizes)
        return counted(columns, sizes)
