"""Junction trees: how a set of overlapping tables becomes one distribution.

Columns are numbered, and a *region* is a sorted tuple of column numbers. A graphical
model whose factors are tables of the regions can be computed exactly on a tree of
*cliques* that contain them; its cost is the number of cells of all cliques.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
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


def clique_cells(
    regions: Iterable[Region],
    sizes: Sequence[int],
    columns: Iterable[int] | None = None,
) -> int:
    """Return the number of cells of all cliques that the regions need.

    Of all columns, or of those that the regions are about.
    """
    return sum(n_cells(clique, sizes) for clique in _cliques(regions, sizes, columns))


class Room:
    """How many cells a model of some regions needs, and with one more of them.

    Columns that no chain of regions joins have cliques of their own, so that only those
    are found anew which one more region touches.

    Parameters
    ----------
    regions : sequence of Region
        What the model holds.
    sizes : sequence of int
        Numbers of codes of all columns.
    """

    def __init__(self, regions: Sequence[Region], sizes: Sequence[int]) -> None:
        self._sizes = sizes
        columns = {column: {column} for column in range(len(sizes))}
        for region in regions:
            together = set().union(*(columns[column] for column in region))
            columns.update(dict.fromkeys(together, together))
        self._columns = columns
        self._regions: dict[int, list[Region]] = {id(c): [] for c in columns.values()}
        for region in regions:
            self._regions[id(columns[region[0]])].append(region)
        self._cells = {
            id(own): clique_cells(self._regions[id(own)], sizes, own)
            for own in columns.values()
        }
        self._total = sum(self._cells.values())

    def cells_with(self, region: Region) -> int:
        """Return the number of cells of all cliques, were the region held as well."""
        touched = {id(own): own for own in (self._columns[c] for c in region)}
        anew = clique_cells(
            [region, *(held for part in touched for held in self._regions[part])],
            self._sizes,
            set().union(*touched.values()),
        )
        return self._total - sum(self._cells[part] for part in touched) + anew


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


def _cliques(
    regions: Iterable[Region],
    sizes: Sequence[int],
    columns: Iterable[int] | None = None,
) -> list[Region]:
    """Return the cliques of a triangulated graph: greedy elimination, fewest cells."""
    every = range(len(sizes)) if columns is None else columns
    neighbors: dict[int, set[int]] = {column: set() for column in every}
    for region in regions:
        for column in region:
            neighbors[column].update(region)
    for column, around in neighbors.items():
        around.discard(column)
    cells = {c: sizes[c] * n_cells(around, sizes) for c, around in neighbors.items()}
    waiting = [(own, column) for column, own in cells.items()]
    heapify(waiting)
    found: list[set[int]] = []
    holding: dict[int, list[set[int]]] = {column: [] for column in neighbors}
    while neighbors:
        own, column = heappop(waiting)
        if column not in neighbors or own != cells[column]:
            continue  # it has other neighbors by now
        around = neighbors.pop(column)
        for other in around:
            own_neighbors = neighbors[other]
            own_neighbors.remove(column)
            joined = around - own_neighbors
            joined.remove(other)
            own_neighbors |= joined
            cells[other] = cells[other] // sizes[column] * n_cells(joined, sizes)
            heappush(waiting, (cells[other], other))
        around.add(column)
        if not any(map(around.issubset, holding[column])):
            found.append(around)
            for member in around:
                holding[member].append(around)
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
