"""Junction trees: how a set of overlapping tables becomes one distribution.

Columns are numbered, and a *region* is a sorted tuple of column numbers. A graphical
model whose factors are tables of the regions can be computed exactly on a tree of
*cliques* that contain them; its cost is the number of cells of all cliques.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from heapq import heapify, heappop, heappush
from operator import or_
from typing import NamedTuple, TypeAlias

Region: TypeAlias = tuple[int, ...]


def n_cells(region: Iterable[int], sizes: Sequence[int]) -> int:
    """Return the number of cells of the table of a region."""
    return math.prod(sizes[column] for column in region)


Index: TypeAlias = tuple[slice | None, ...]


class Link(NamedTuple):
    """How a clique hangs on its parent: axes that they do not share, and places."""

    parent: int
    own_axes: tuple[int, ...]
    parent_axes: tuple[int, ...]
    in_own: Index
    in_parent: Index


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

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """How every clique hangs on its parent; that of the root says nothing."""
        return tuple(
            Link(
                parent,
                axes_beside(shared, clique),
                axes_beside(shared, self.cliques[parent]),
                _axes_among(shared, clique),
                _axes_among(shared, self.cliques[parent]),
            )
            for clique, parent, shared in zip(
                self.cliques, self.parents, self.separators, strict=True
            )
        )

    @cached_property
    def _members(self) -> list[frozenset[int]]:
        return [frozenset(clique) for clique in self.cliques]

    def holds(self, region: Region) -> bool:
        """Return whether some clique contains a region."""
        return any(members.issuperset(region) for members in self._members)

    def home(self, region: Region) -> int:
        """Return the smallest clique that contains a region, or raise KeyError."""
        homes = [i for i, own in enumerate(self._members) if own.issuperset(region)]
        if not homes:
            raise KeyError(region)
        return min(homes, key=lambda i: (len(self.cliques[i]), i))


def axes_beside(region: Region, within: Region) -> tuple[int, ...]:
    """Return the axes of a table, over which it is summed to that of a region."""
    return tuple(i for i, column in enumerate(within) if column not in region)


def _axes_among(region: Region, within: Region) -> Index:
    """Return the index that gives a table of a region the axes of a larger one."""
    return tuple(slice(None) if column in region else None for column in within)


def clique_cells(regions: Iterable[Region], sizes: Sequence[int]) -> int:
    """Return the number of cells of all cliques that the regions need."""
    return sum(n_cells(clique, sizes) for clique in _cliques(regions, sizes))


class Room:
    """How many cells a model of some regions needs, and with one more of them.

    Columns that no chain of regions joins have cliques of their own, so that only those
    are found anew which one more region touches. Columns are eliminated as before up to
    the first that the region joins with another: its clique grows, so that it comes no
    earlier, and nothing else has changed by then. All cliques together may have `most`
    cells.
    """

    def __init__(
        self, regions: Sequence[Region], sizes: Sequence[int], most: float = math.inf
    ) -> None:
        self._most = most
        self._graph = _Graph.joining(regions, sizes)
        self._joined = list(map(_bit, range(len(sizes))))  # with all that it hangs with
        for region in regions:
            together = reduce(or_, (self._joined[column] for column in region))
            for column in _columns(together):
                self._joined[column] = together
        graph = self._graph.copy()
        self._before: list[_Graph] = []  # every step
        self._steps: dict[int, int] = {}
        self._left: dict[int, int] = {}  # what a column leaves joined, and when
        self._cells: list[tuple[int, int]] = []  # of the clique of every step
        for column, around, own in graph.eliminated(range(len(sizes))):
            is_new = around | (1 << column) not in self._left
            self._before.append(graph.copy(column, own))
            self._steps[column] = len(self._steps)
            self._left.setdefault(around, self._steps[column])
            self._cells.append((column, own if is_new else 0))
        self._total = sum(own for _, own in self._cells)
        self._found: dict[tuple[tuple[int, int], ...], int] = {(): self._total}

    def holds(self, region: Region) -> bool:
        """Return whether the cells allowed suffice, were the region held as well."""
        return self.cells_with(region) <= self._most

    def cells_with(self, region: Region) -> int:
        """Return the number of cells of all cliques, were the region held as well."""
        together = sum(map(_bit, region))
        known = self._graph.neighbors
        news = ((c, together & ~known[c] & ~(1 << c)) for c in region)
        new = tuple(pair for pair in news if pair[1])
        if new not in self._found:
            self._found[new] = self._joining(new)
        return self._found[new]

    def _joining(self, new: tuple[tuple[int, int], ...]) -> int:
        """Return the number of cells if columns have more neighbors, given as bits."""
        start = min(self._steps[column] for column, _ in new)
        touched = reduce(or_, (self._joined[column] for column, _ in new))
        graph = self._before[start].copy()
        for column, around in new:
            graph.join(column, around)
        total = self._total
        columns = []
        for column, own in self._cells[start:]:
            if touched >> column & 1:
                total -= own
                columns.append(column)
        left = set()
        for column, around, own in graph.eliminated(columns):
            clique = around | 1 << column
            if clique not in left and self._left.get(clique, start) >= start:
                total += own
            left.add(around)
        return total


def junction_tree(regions: Iterable[Region], sizes: Sequence[int]) -> JunctionTree:
    """Return a junction tree of all columns that holds every region in a clique.

    `sizes` are the numbers of codes of all columns.
    """
    cliques = sorted(_cliques(regions, sizes))
    # Prim's algorithm: a spanning tree of largest separators is a junction tree.
    order, parents = [0], [-1]
    shared = [set(clique) for clique in cliques]
    nearest = {i: (len(shared[i] & shared[0]), 0) for i in range(1, len(cliques))}
    while nearest:
        child = max(nearest, key=lambda i: (nearest[i][0], -i))
        parents.append(nearest.pop(child)[1])
        order.append(child)
        for i, (weight, _) in nearest.items():
            own = len(shared[i] & shared[child])
            if own >= weight:
                nearest[i] = (own, len(order) - 1)
    return JunctionTree(tuple(cliques[i] for i in order), tuple(parents))


class _Products(dict[int, int]):
    """Numbers of cells of columns that are given as bits, once they were asked for."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.sizes = sizes

    def __missing__(self, bits: int) -> int:
        self[bits] = n_cells(_columns(bits), self.sizes)
        return self[bits]


@dataclass(frozen=True, eq=False)
class _Graph:
    """Columns that are joined, while one after the other is eliminated.

    `neighbors` of every column are bits of a number; `cells` are those of the table of
    a column and its neighbors, for columns that are left.
    """

    neighbors: list[int]
    cells: dict[int, int]
    products: "_Products"

    @classmethod
    def joining(cls, regions: Iterable[Region], sizes: Sequence[int]) -> "_Graph":
        """Return the graph in which the columns of every region are joined."""
        graph = cls([0] * len(sizes), dict(enumerate(sizes)), _Products(sizes))
        for region in regions:
            together = sum(map(_bit, region))
            for column in region:
                graph.join(column, together & ~(1 << column))
        return graph

    def copy(self, *put_back: int) -> "_Graph":
        """Return a graph to be changed; a column and its cells may be put back."""
        cells = self.cells.copy()
        if put_back:
            column, own = put_back
            cells[column] = own
        return _Graph(self.neighbors.copy(), cells, self.products)

    def join(self, column: int, around: int) -> None:
        """Give a column more neighbors, as bits."""
        new = around & ~self.neighbors[column]
        if new:
            self.neighbors[column] |= new
            self.cells[column] *= self.products[new]

    def eliminated(self, columns: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        """Yield columns, their neighbors and the cells of both: fewest cells first.

        A column that is eliminated leaves its neighbors joined with each other.
        """
        neighbors, cells, sizes = self.neighbors, self.cells, self.products.sizes
        products = self.products
        waiting = [(cells[column], column) for column in columns]
        heapify(waiting)
        while waiting:
            own, column = heappop(waiting)
            if own != cells.get(column):
                continue  # it has other neighbors by now, or is done
            del cells[column]
            around = neighbors[column]
            yield column, around, own
            for other in _columns(around):
                before = neighbors[other]
                joined = around & ~before & ~(1 << other)
                neighbors[other] = (before | joined) ^ (1 << column)
                count = cells[other] // sizes[column] * products[joined]
                cells[other] = count
                heappush(waiting, (count, other))


def _cliques(regions: Iterable[Region], sizes: Sequence[int]) -> list[Region]:
    """Return the cliques of a triangulated graph: greedy elimination, fewest cells.

    What a column and its neighbors are is part of a clique that was found before if and
    only if they are what another column left joined.
    """
    found, left = [], set()
    for column, around, _ in _Graph.joining(regions, sizes).eliminated(
        range(len(sizes))
    ):
        clique = around | 1 << column
        if clique not in left:
            found.append(_columns(clique))
        left.add(around)
    return found


def _bit(column: int) -> int:
    return 1 << column


@lru_cache(maxsize=2**14)
def _columns(bits: int) -> Region:
    """Return the columns that bits stand for, in order."""
    return tuple(column for column in range(bits.bit_length()) if bits >> column & 1)
