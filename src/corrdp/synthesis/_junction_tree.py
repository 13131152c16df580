"""Junction trees: how a set of overlapping tables becomes one distribution.

Columns are numbered, and a *region* is a sorted tuple of column numbers. A graphical
model whose factors are tables of the regions can be computed exactly on a tree of
*cliques* that contain them; its cost is the number of cells of all cliques.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from corrdp._typing import IntArray

Region: TypeAlias = tuple[int, ...]


def n_cells(region: Iterable[int], sizes: Sequence[int]) -> int:
    """Return the number of cells of the table of a region."""
    return math.prod(sizes[column] for column in region)


@dataclass(frozen=True)
class JunctionTree:
    """Cliques in an order in which every clique follows its parent.

    The first is the root, whose parent is -1.
    """

    cliques: tuple[Region, ...]
    parents: tuple[int, ...]

    @cached_property
    def separators(self) -> tuple[Region, ...]:
        """Columns that a clique shares with its parent; none for the root."""
        return tuple(
            tuple(c for c in clique if parent >= 0 and c in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    def holds(self, region: Region) -> bool:
        """Return whether some clique contains a region."""
        return any(set(region) <= set(clique) for clique in self.cliques)

    def home(self, region: Region) -> int:
        """Return the smallest clique that contains a region, or raise KeyError."""
        wanted = set(region)
        homes = [i for i, clique in enumerate(self.cliques) if wanted <= set(clique)]
        if not homes:
            raise KeyError(region)
        return min(homes, key=lambda i: (len(self.cliques[i]), i))


def clique_cells(regions: Iterable[Region], sizes: Sequence[int]) -> int:
    """Return the number of cells of all cliques that the regions need."""
    return sum(n_cells(clique, sizes) for clique in _cliques(regions, sizes))


def junction_tree(regions: Iterable[Region], sizes: Sequence[int]) -> JunctionTree:
    """Return a junction tree of all columns that holds every region in a clique.

    `sizes` are the numbers of codes of all columns.
    """
    cliques = sorted(_cliques(regions, sizes))
    # Prim's algorithm: a spanning tree of largest separators is a junction tree.
    order, parents = [0], [-1]
    waiting = dict.fromkeys(range(1, len(cliques)), 0)
    shared = [set(clique) for clique in cliques]
    while waiting:
        weight, child, parent = max(
            (len(shared[i] & shared[j]), -i, place)
            for i in waiting
            for place, j in enumerate(order)
        )
        del weight, waiting[-child]
        order.append(-child)
        parents.append(parent)
    return JunctionTree(tuple(cliques[i] for i in order), tuple(parents))


def _cliques(regions: Iterable[Region], sizes: Sequence[int]) -> list[Region]:
    """Return the cliques of a triangulated graph: greedy elimination, fewest cells."""
    neighbors: dict[int, set[int]] = {column: set() for column in range(len(sizes))}
    for region in regions:
        for column in region:
            neighbors[column].update(region)
    for column, around in neighbors.items():
        around.discard(column)
    cells = {c: sizes[c] * n_cells(around, sizes) for c, around in neighbors.items()}
    found: list[set[int]] = []
    while neighbors:
        _, column = min(zip(cells.values(), cells, strict=True))
        around = neighbors.pop(column)
        del cells[column]
        for other in around:
            own = neighbors[other]
            own.remove(column)
            joined = around - own
            joined.remove(other)
            own |= joined
            cells[other] = cells[other] // sizes[column] * n_cells(joined, sizes)
        around.add(column)
        if not any(map(around.issubset, found)):
            found.append(around)
    return [tuple(sorted(clique)) for clique in found]


def count_cells(codes: IntArray, region: Region, sizes: tuple[int, ...]) -> IntArray:
    """Return how many rows lie in each cell of a region's table.

    Exact, hence private: `noisy_table` adds noise to them.
    """
    shape = tuple(sizes[column] for column in region)
    cells = codes[:, region[0]].astype(np.int64, copy=False)  # no product overflows
    for column in region[1:]:
        cells = cells * sizes[column] + codes[:, column]
    counts = np.bincount(cells, minlength=n_cells(region, sizes))
    return counts.reshape(shape).astype(np.int64, copy=False)
