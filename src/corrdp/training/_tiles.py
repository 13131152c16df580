"""Rows cut into tiles, each stored column by column: what the kernels walk over.

A step of training is a sum over tiles of one function of (tile, parameters). Where
the tiles live is nobody's concern but the caller's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.training._layout import GradientLayout

TILE_ARRAYS = (
    "values",
    "columns",
    "starts",
    "binary",
    "binary_columns",
    "binary_starts",
    "constants",
    "fixed",
    "labels",
    "low",
    "high",
)
"""Fields of `RowTiles` that are arrays."""


@dataclass(frozen=True, eq=False)
class GroupRules:
    """What the kernels do to each group of adjacent columns."""

    starts: IntArray  # (n_groups + 1,): first column of every group, and the end
    # The first columns hold the sensitive features. The reference score leaves them
    # out, that is, puts them at the center.
    n_sensitive: int
    # (n_groups,): columns of the group are projected on a ball of this radius, in the
    # gradient and not in the score.
    feature_radius: FloatArray
    # (n_groups,): radius of the ball on which a record's gradient of the group is
    # projected.
    clip_norm: FloatArray
    # (n_groups,): how far the sensitive features may move a record's gradient of the
    # group, in units of the residual where the group is not clipped; infinite where
    # they act freely.
    influence_bound: FloatArray

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.clip_norm.size

    def columns(self, group: int) -> slice:
        """Return the columns of a group."""
        return slice(int(self.starts[group]), int(self.starts[group + 1]))

    def numbers(self, group: int) -> tuple[float, float, float]:
        """Return the feature radius, clip norm and influence bound of a group."""
        return (
            float(self.feature_radius[group]),
            float(self.clip_norm[group]),
            float(self.influence_bound[group]),
        )

    @cached_property
    def column_groups(self) -> IntArray:
        """Group of every column."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.starts))

    @cached_property
    def plain(self) -> NDArray[np.bool_]:
        """Groups whose gradient is the residual times the features, untouched."""
        untouched = [self.feature_radius, self.clip_norm, self.influence_bound]
        return np.asarray(np.all(np.isinf(untouched), axis=0))


@dataclass(frozen=True, eq=False)
class Model:
    """One model as kernels read it: public numbers, columns in the tiles' order."""

    coef: FloatArray  # (n_columns,); (n_columns, n_outputs) for softmax residuals
    offset: FloatArray  # (n_columns,): what is subtracted from every column
    rules: GroupRules
    # Residuals ``score - y`` are clipped to plus or minus this; None for logistic and
    # softmax residuals, which are bounded anyway.
    residual_bound: float | None
    anchor: FloatArray | None = None  # whose residuals are subtracted, as in SVRG


@dataclass(frozen=True, eq=False)
class RowTiles:
    """A matrix and its labels in tiles of equally many rows, the last one padded.

    Of a column that is 0 in all rows of a tile, or 1, that number is kept. Rows that
    are zero in the same columns lie next to each other, so that most tiles keep
    little more of a one-hot code than numbers. Where rows lie depends on other rows:
    only a kernel whose sums have no order may read arranged tiles
    (`docs/theory/solvers.md`, section 6). Columns that can hold 0 and 1 alone, which
    the layout knows, take one byte a row: a pass over a file is as long as its bytes.
    """

    # (n_stored, tile_rows): scaled features, not yet centered, inside their declared
    # domain: the columns of the first tile that are stored, then those of the second,
    # and so on.
    values: NDArray[Any]
    columns: IntArray  # (n_stored,): which column each is, rising within a tile
    # (n_tiles + 1,): tile ``k`` stores ``values[starts[k] : starts[k + 1]]``.
    starts: IntArray
    # The same of the layout's binary columns.
    binary: NDArray[np.uint8]
    binary_columns: IntArray
    binary_starts: IntArray
    # (n_tiles, n_columns): value of the columns that are not stored, 0 or 1, such as
    # the intercept's column of ones; 0 for the others.
    constants: NDArray[Any]
    fixed: NDArray[np.bool_]  # (n_tiles, n_columns): columns that are not stored
    # (n_columns,): ends of the declared domain of every column, scaled: public.
    low: FloatArray
    high: FloatArray
    labels: NDArray[Any]  # (n_tiles, tile_rows): one label per row
    n_rows: int  # number of rows without padding

    def __post_init__(self) -> None:
        # Tiles in memory are of the type of mapped ones, which nobody may write to:
        # the kernel is compiled once for both.
        for name in TILE_ARRAYS:
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @classmethod
    def from_codes(
        cls,
        codes: FloatArray,
        y: NDArray[Any],
        layout: GradientLayout,
        order: IntArray,
        *,
        tile_rows: int,
        arrange: bool = True,
    ) -> "RowTiles":
        """Scale and cut encoded rows; one column at a time is in flight.

        `arrange` brings like rows together, which pays where there are many passes.
        """
        low, high = (_scaled(end, layout)[order] for end in layout.code_ends)
        low, high = np.minimum(low, high), np.maximum(low, high)
        rows = _like_rows_together(codes) if arrange else np.arange(len(codes))
        n_tiles = max(1, -(-len(codes) // tile_rows))
        constants = np.zeros((n_tiles, order.size), dtype=np.float32)
        fixed = np.zeros((n_tiles, order.size), dtype=bool)
        labels = np.zeros((n_tiles, tile_rows), dtype=np.float32)
        labels.reshape(-1)[: rows.size] = y[rows]
        binary = np.append(layout.binary_columns, False)[order]
        kept = []
        for place, tiles in enumerate(
            _scaled_columns(codes, rows, layout, order, labels.shape)
        ):
            ones = (tiles == 1.0).all(axis=1)
            constants[:, place] = ones
            fixed[:, place] = ones | (tiles == 0.0).all(axis=1)
            tiles.reshape(-1)[rows.size :] = 0.0
            dtype = np.uint8 if binary[place] else np.float32
            kept.append(tiles[~fixed[:, place]].astype(dtype, copy=False))
        return cls(
            *_tile_by_tile(kept, ~fixed & ~binary, tile_rows, np.float32),
            *_tile_by_tile(kept, ~fixed & binary, tile_rows, np.uint8),
            constants,
            fixed,
            low,
            high,
            labels,
            len(codes),
        )

    def taken(self, rows: IntArray) -> "RowTiles":
        """Return some of the rows, in tiles that store all of their columns.

        Their numbers rise; only in tiles that were not arranged they are those of the
        rows that were tiled.
        """
        tile_rows, n_columns = self.labels.shape[1], self.low.size
        n_tiles = max(1, -(-rows.size // tile_rows))
        dense = np.zeros((n_columns, n_tiles * tile_rows), dtype=np.float32)
        labels = np.zeros(n_tiles * tile_rows, dtype=np.float32)
        tiles, cuts = np.unique(rows // tile_rows, return_index=True)
        for k, place in zip(tiles, pairwise([*cuts, rows.size]), strict=True):
            own, inside = slice(*place), rows[slice(*place)] % tile_rows
            dense[:, own] = self._dense(k, inside)
            labels[own] = self.labels[k, inside]
        values = dense.reshape(n_columns, n_tiles, tile_rows).swapaxes(0, 1)
        stored = np.ones((n_tiles, n_columns), dtype=bool)
        return RowTiles(
            values.reshape(-1, tile_rows),
            *_places(stored),
            np.empty((0, tile_rows), dtype=np.uint8),
            *_places(~stored),
            np.zeros((n_tiles, n_columns), dtype=np.float32),
            ~stored,
            self.low,
            self.high,
            labels.reshape(n_tiles, tile_rows),
            rows.size,
        )

    def __iter__(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield all columns of each tile and its labels, without the padding."""
        tile_rows = self.labels.shape[1]
        for k, labels in enumerate(self.labels):
            real = slice(min(tile_rows, self.n_rows - k * tile_rows))
            yield self._dense(k, real), labels[real]

    def _dense(self, k: int, rows: slice | IntArray) -> NDArray[Any]:
        """Return all columns of some rows of a tile."""
        n_rows = self.labels[k, rows].size
        dense = np.repeat(self.constants[k][:, None], n_rows, axis=1)
        for values, columns, starts in (
            (self.values, self.columns, self.starts),
            (self.binary, self.binary_columns, self.binary_starts),
        ):
            stored = slice(starts[k], starts[k + 1])
            dense[columns[stored]] = values[stored][:, rows]
        return dense


def _places(stored: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Return the stored columns, tile after tile, and where those of each begin."""
    counts = np.count_nonzero(stored, axis=1)
    return stored.nonzero()[1], np.concatenate([[0], np.cumsum(counts)])


def _tile_by_tile(
    kept: list[NDArray[Any]], stored: NDArray[np.bool_], tile_rows: int, dtype: Any
) -> tuple[NDArray[Any], IntArray, IntArray]:
    """Return columns that are stored in some tiles, tile after tile, and `_places`."""
    columns, starts = _places(stored)
    values = np.empty((columns.size, tile_rows), dtype=dtype)
    places = np.cumsum(stored).reshape(stored.shape) - 1
    for column in np.flatnonzero(stored.any(axis=0)):
        values[places[stored[:, column], column]] = kept[column]
    return values, columns, starts


def _like_rows_together(codes: FloatArray) -> IntArray:
    """Return an order in which rows that are zero in the same columns are neighbors.

    Columns that divide the rows most evenly come first, which leaves fewest tiles with
    rows of both kinds.
    """
    nonzero = np.ascontiguousarray((codes != 0).T)
    share = np.count_nonzero(nonzero, axis=1) / max(len(codes), 1)
    evenly = np.argsort(np.abs(share - 0.5), kind="stable")
    # Eight columns to a byte, the first in its highest bit: fewer keys to sort by.
    packed = np.zeros((-(-evenly.size // 8), len(codes)), dtype=np.uint8)
    for place, column in enumerate(evenly):
        packed[place // 8] |= nonzero[column].view(np.uint8) << (7 - place % 8)
    return np.lexsort(packed[::-1])


def _scaled_columns(
    codes: FloatArray,
    rows: IntArray,
    layout: GradientLayout,
    order: IntArray,
    shape: tuple[int, ...],
) -> Iterator[NDArray[Any]]:
    """Yield each column inside its domain and scaled, shape (tiles, rows).

    The last tile is filled with its last row. All are written to the same memory.
    """
    tiles = np.empty(shape, dtype=np.float32)
    flat = tiles.reshape(-1)
    low, high = layout.code_ends
    inside = np.empty(rows.size)
    for column in order.tolist():
        if column < low.size:
            np.take(codes[:, column], rows, out=inside, mode="clip")  # in place
            np.clip(inside, low[column], high[column], out=inside)
            np.multiply(inside, layout.column_scale[column], out=inside)
            flat[: rows.size] = inside
            flat[rows.size :] = flat[rows.size - 1] if rows.size else 0.0
        else:  # the intercept's follows the encoded ones
            flat[:] = 1.0
        yield tiles


def _scaled(codes: FloatArray, layout: GradientLayout) -> FloatArray:
    """Return scaled codes with the constant, not centered, shape (..., n_columns)."""
    n_codes = codes.shape[-1]
    scaled = np.ones((*codes.shape[:-1], n_codes + int(layout.has_intercept)))
    np.multiply(codes, layout.column_scale, out=scaled[..., :n_codes])
    return scaled
