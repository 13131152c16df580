"""Rows cut into tiles, each stored column by column: what the kernels walk over.

A step of training is a sum over tiles of one function of (tile, parameters). Where
the tiles live is nobody's concern but the caller's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.training._layout import GradientLayout

_ROWS_AT_ONCE = 4096  # whose zeros are looked up while little memory is in use


@dataclass(frozen=True, eq=False)
class GroupRules:
    """What the kernels do to each group of adjacent columns.

    Parameters
    ----------
    starts : array of int, shape (n_groups + 1,)
        Group ``g`` is the columns ``starts[g]`` to ``starts[g + 1] - 1``.
    n_sensitive : int
        The first columns hold the sensitive features. The reference score leaves
        them out, that is, puts them at the center.
    feature_radius : array of float, shape (n_groups,)
        Columns of the group are projected on a ball of this radius, in the gradient
        and not in the score.
    clip_norm : array of float, shape (n_groups,)
        Radius of the ball on which a record's gradient of the group is projected.
    influence_bound : array of float, shape (n_groups,)
        How far the sensitive features may move a record's gradient of the group, in
        units of the residual where the group is not clipped; infinite where they act
        freely.
    """

    starts: IntArray
    n_sensitive: int
    feature_radius: FloatArray
    clip_norm: FloatArray
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
    def plain(self) -> NDArray[np.bool_]:
        """Groups whose gradient is the residual times the features, untouched."""
        untouched = [self.feature_radius, self.clip_norm, self.influence_bound]
        return np.asarray(np.all(np.isinf(untouched), axis=0))


@dataclass(frozen=True, eq=False)
class RowTiles:
    """A matrix and its labels in tiles of equally many rows, the last one padded.

    Of a column that is the same in all rows of a tile one number is kept. Rows that
    are zero in the same columns lie next to each other, so that most tiles keep
    little more of a one-hot code than numbers.

    Parameters
    ----------
    values : array of float, shape (n_stored, tile_rows)
        Scaled features, not yet centered: the columns of the first tile that vary,
        then those of the second, and so on.
    columns : array of int, shape (n_stored,)
        Which column each is, rising within a tile.
    starts : array of int, shape (n_tiles + 1,)
        Tile ``k`` stores ``values[starts[k] : starts[k + 1]]``.
    constants : array of float, shape (n_tiles, n_columns)
        Value of the columns that do not vary, such as the intercept's column of ones;
        0 for the others.
    fixed : array of float, shape (n_tiles, n_columns)
        1 for columns that do not vary, 0 for the others.
    labels : array of float, shape (n_tiles, tile_rows)
        One label per row.
    n_rows : int
        Number of rows without padding.
    """

    values: NDArray[Any]
    columns: IntArray
    starts: IntArray
    constants: NDArray[Any]
    fixed: NDArray[Any]
    labels: NDArray[Any]
    n_rows: int

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
        """Scale and cut encoded rows; one tile at a time is in flight.

        `arrange` brings like rows together, which pays where there are many passes.
        """
        plain = replace(layout, column_offset=np.zeros_like(layout.column_offset))
        rows = _like_rows_together(codes) if arrange else np.arange(len(codes))
        n_tiles = max(1, -(-len(codes) // tile_rows))
        members = [rows[k * tile_rows : (k + 1) * tile_rows] for k in range(n_tiles)]
        varying = [_varying(codes[rows], layout)[order] for rows in members]
        starts = np.cumsum([0, *(np.count_nonzero(v) for v in varying)])
        values = np.zeros((starts[-1], tile_rows), dtype=np.float32)
        constants = np.zeros((n_tiles, order.size), dtype=np.float32)
        labels = np.zeros((n_tiles, tile_rows), dtype=np.float32)
        for k, rows in enumerate(members):
            if not rows.size:
                break
            features = plain.features(codes[rows])[:, order].T
            values[starts[k] : starts[k + 1], : rows.size] = features[varying[k]]
            constants[k] = np.where(varying[k], 0.0, features[:, 0])
            labels[k, : rows.size] = y[rows]
        columns = np.concatenate([v.nonzero()[0] for v in varying])
        fixed = (~np.array(varying)).astype(np.float32)
        return cls(values, columns, starts, constants, fixed, labels, len(codes))

    def __iter__(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield all columns of each tile and its labels, without the padding."""
        tile_rows = self.labels.shape[1]
        for k, (first, last) in enumerate(pairwise(self.starts)):
            n_real = min(tile_rows, self.n_rows - k * tile_rows)
            dense = np.repeat(self.constants[k][:, None], n_real, axis=1)
            dense[self.columns[first:last]] = self.values[first:last, :n_real]
            yield dense, self.labels[k, :n_real]


def _like_rows_together(codes: FloatArray) -> IntArray:
    """Return an order in which rows that are zero in the same columns are neighbors.

    Columns that divide the rows most evenly come first, which leaves fewest tiles with
    rows of both kinds.
    """
    share = np.count_nonzero(codes, axis=0) / max(len(codes), 1)
    evenly = np.argsort(np.abs(share - 0.5), kind="stable")
    nonzero = np.empty((len(codes), -(-codes.shape[1] // 8)), dtype=np.uint8)
    for first in range(0, len(codes), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        nonzero[rows] = np.packbits(codes[rows][:, evenly] != 0, axis=1)
    return np.lexsort(nonzero.T[::-1])


def _varying(codes: FloatArray, layout: GradientLayout) -> NDArray[np.bool_]:
    """Return which columns differ between rows; the constant does not."""
    varying = np.zeros(layout.n_columns, dtype=bool)
    varying[: codes.shape[1]] = (codes != codes[:1]).any(axis=0)
    return varying
