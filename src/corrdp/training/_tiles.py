"""Rows cut into tiles, each stored column by column: what the kernels walk over.

A step of training is a sum over tiles of one function of (tile, parameters). Where
the tiles live is nobody's concern but the caller's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.training._layout import GradientLayout


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

    Parameters
    ----------
    tiles : array of float, shape (n_tiles, n_columns, tile_rows)
        Scaled features and a column of ones, not yet centered.
    labels : array of float, shape (n_tiles, tile_rows)
        One label per row.
    n_rows : int
        Number of rows without padding.
    """

    tiles: NDArray[Any]
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
    ) -> "RowTiles":
        """Scale and cut encoded rows; one tile at a time is in flight."""
        plain = replace(layout, column_offset=np.zeros_like(layout.column_offset))
        n_rows = len(codes)
        n_tiles = max(1, -(-n_rows // tile_rows))
        tiles = np.zeros((n_tiles, order.size, tile_rows), dtype=np.float32)
        labels = np.zeros((n_tiles, tile_rows), dtype=np.float32)
        for tile in range(n_tiles):
            rows = slice(tile * tile_rows, min((tile + 1) * tile_rows, n_rows))
            count = rows.stop - rows.start
            tiles[tile, :, :count] = plain.features(codes[rows])[:, order].T
            labels[tile, :count] = y[rows]
        return cls(tiles, labels, n_rows)

    def __iter__(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield the rows of each tile and their labels, without the padding."""
        tile_rows = self.labels.shape[1]
        for index in range(len(self.tiles)):
            n_real = min(tile_rows, self.n_rows - index * tile_rows)
            yield self.tiles[index, :, :n_real], self.labels[index, :n_real]
