"""Contingency counts: joint sensitive cells against each insensitive feature.

Counts of row chunks add up, so a table in memory, a file in batches and several
machines are the same code.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import IntArray
from corrdp._validate import check_count
from corrdp.exceptions import CorrDPError, PolicyError

CodeColumns: TypeAlias = Mapping[str, NDArray[Any]]
"""Codes at the declared resolution, one integer array per feature."""

MAX_CELLS = 2**26
"""Cells of all tables together that are counted unless told otherwise: 512 MB."""

_FEWEST_TILE_ROWS = 2**20
_MOST_TILE_ROWS = 2**22


@dataclass(frozen=True)
class TableShape:
    """One contingency table: the features whose values are compared, and its size.

    Parameters
    ----------
    name : str
        The feature, or ``block`` for all insensitive features together.
    features : tuple of str
        Features whose joint value indexes the rows, the last one fastest.
    n_values : int
        Number of rows.
    n_cells : int
        Number of joint sensitive cells: the columns.
    """

    name: str
    features: tuple[str, ...]
    n_values: int
    n_cells: int


@dataclass(frozen=True)
class CountLayout:
    """Which tables are counted, over which codes.

    Parameters
    ----------
    n_codes : mapping of str to int
        Number of codes of every feature that takes part.
    sensitive : tuple of str
        Features whose joint code indexes the columns, the last one fastest.
    targets : mapping of str to tuple of str
        Name of each table, and the features whose joint code indexes its rows.
    max_cells : int
        Limit on the cells of all tables together.
    """

    n_codes: Mapping[str, int]
    sensitive: tuple[str, ...]
    targets: Mapping[str, tuple[str, ...]]
    max_cells: int = MAX_CELLS

    def __post_init__(self) -> None:
        check_count("max_cells", self.max_cells)
        n_cells = sum(shape.n_values * shape.n_cells for shape in self.shapes)
        if n_cells > self.max_cells:
            sizes = sorted(
                {n for names in self.targets.values() for n in names}
                | set(self.sensitive),
                key=lambda name: -self.n_codes[name],
            )
            largest = ", ".join(f"{n} ({self.n_codes[n]})" for n in sizes[:5])
            raise PolicyError(
                f"The contingency tables have {n_cells:,} joint cells, the limit is "
                f"max_cells={self.max_cells:,}. Declare fewer bins or merge categories "
                f"by groups; the features with the most codes: {largest}."
            )

    @cached_property
    def shapes(self) -> tuple[TableShape, ...]:
        """Shapes of all tables."""
        return tuple(
            TableShape(name, features, self._size(features), self._size(self.sensitive))
            for name, features in self.targets.items()
        )

    @property
    def features(self) -> tuple[str, ...]:
        """Every feature whose codes are read, without repetition."""
        targets = [name for names in self.targets.values() for name in names]
        return tuple(dict.fromkeys([*self.sensitive, *targets]))

    def _size(self, features: Iterable[str]) -> int:
        return math.prod(self.n_codes[name] for name in features)


@dataclass(frozen=True, eq=False)
class ContingencyCounts:
    """Counted tables, which add up over disjoint sets of rows.

    Parameters
    ----------
    layout : CountLayout
        What was counted.
    tables : tuple of arrays of int, shape (n_values, n_cells)
        One table per target, in the layout's order.
    """

    layout: CountLayout
    tables: tuple[IntArray, ...]

    @classmethod
    def empty(cls, layout: CountLayout) -> "ContingencyCounts":
        """Return the counts of no rows."""
        return cls(
            layout,
            tuple(
                np.zeros((shape.n_values, shape.n_cells), dtype=np.int64)
                for shape in layout.shapes
            ),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows counted."""
        return int(self.tables[0].sum()) if self.tables else 0

    def __add__(self, other: "ContingencyCounts") -> "ContingencyCounts":
        if self.layout != other.layout:
            raise CorrDPError(
                "counts of different layouts cannot be added: features, codes or "
                "relation differ. Count every shard with one layout."
            )
        return ContingencyCounts(
            self.layout,
            tuple(a + b for a, b in zip(self.tables, other.tables, strict=True)),
        )


def count_codes(
    chunks: Iterable[CodeColumns], layout: CountLayout, *, n_threads: int = 2
) -> ContingencyCounts:
    """Count every table of a layout in one pass over chunks of rows.

    Parameters
    ----------
    chunks : iterable of mappings from feature to codes
        Arrays of integers of equal length, each code below ``layout.n_codes``.
    layout : CountLayout
        Which tables to count.
    n_threads : int
        Tables counted at the same time.

    Guarantee
    ---------
    Exact counts of all rows: nothing here is private. What may be released of them is
    decided by the caller (docs/theory/leakage.md).
    """
    check_count("n_threads", n_threads)
    counts = ContingencyCounts.empty(layout)
    with ThreadPoolExecutor(n_threads) as pool:
        for tile in _row_tiles(chunks, layout):
            _add_tile(counts, tile, pool)
    return counts


def _row_tiles(
    chunks: Iterable[CodeColumns], layout: CountLayout
) -> Iterator[CodeColumns]:
    """Cut or join chunks: each tile costs a pass over every table, so it is large."""
    largest = max((s.n_values * s.n_cells for s in layout.shapes), default=1)
    step = min(max(4 * largest, _FEWEST_TILE_ROWS), _MOST_TILE_ROWS)
    held: list[CodeColumns] = []
    n_held = 0
    for chunk in chunks:
        n_rows = _checked_length(chunk, layout.features)
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            held.append({name: chunk[name][start:stop] for name in layout.features})
            n_held += stop - start
            if n_held >= step:
                yield _joined(held)
                held, n_held = [], 0
    if held:
        yield _joined(held)


def _checked_length(chunk: CodeColumns, features: Sequence[str]) -> int:
    lengths = {len(chunk[name]) for name in features}
    if len(lengths) > 1:
        raise CorrDPError(
            "code columns of one chunk must have equal lengths, got "
            f"{sorted(lengths)}. Pass one code per row and feature."
        )
    return lengths.pop() if lengths else 0


def _joined(parts: Sequence[CodeColumns]) -> CodeColumns:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _add_tile(
    counts: ContingencyCounts, tile: CodeColumns, pool: ThreadPoolExecutor
) -> None:
    layout = counts.layout
    for name in layout.features:
        _check_codes(name, tile[name], layout.n_codes[name])
    cells = _joint_code(tile, layout.sensitive, layout.n_codes)

    def add(shape: TableShape, table: IntArray) -> None:
        index = _joint_code(tile, shape.features, layout.n_codes)
        index = index * shape.n_cells + cells
        table += np.bincount(index, minlength=table.size).reshape(table.shape)

    list(pool.map(add, layout.shapes, counts.tables))


def _check_codes(name: str, codes: NDArray[Any], n_codes: int) -> None:
    if codes.dtype.kind not in "iu":
        raise CorrDPError(
            f"codes of feature {name!r} must be integers, got {codes.dtype}. "
            "Encode the table with PolicyEncoder.codes."
        )
    if codes.size and (codes.min() < 0 or codes.max() >= n_codes):
        raise CorrDPError(
            f"codes of feature {name!r} must lie in 0..{n_codes - 1}. "
            "Encode the table with the policy that the layout was made from."
        )


def _joint_code(
    tile: CodeColumns, features: Sequence[str], n_codes: Mapping[str, int]
) -> IntArray:
    n_rows = len(next(iter(tile.values()))) if tile else 0
    if not features:
        return np.zeros(n_rows, dtype=np.int64)
    sizes = tuple(n_codes[name] for name in features)
    return np.ravel_multi_index(tuple(tile[name] for name in features), sizes)
