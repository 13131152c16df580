"""How far the score of a record reaches, and how far a class of neighbors moves it."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.policy import NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training.sensitivity._corners import ChangedFeatures, FeatureGeometry
from corrdp.training.sensitivity._residuals import Scores


class CornerScores(NamedTuple):
    """Corners of all features and what classes change, as arrays."""

    # (n_corners,): the single non-zero entry of every corner.
    columns: IntArray
    values: FloatArray
    starts: IntArray  # (n_features,): first corner of every feature
    first_columns: IntArray  # (n_features,): first column of every feature
    # (2 * n_classes, n_features): 1 where a class changes a feature; then 1 where it
    # changes one that the reference does not replace.
    changed: FloatArray
    sensitive: NDArray[np.bool_]  # (n_features,): features that the reference replaces
    # (n_columns,): offset of the columns, and the centered reference, 0 off the
    # sensitive ones.
    offset: FloatArray
    reference: FloatArray


class ScoreRanges:
    """Corner scores of every feature, gathered for one set of classes.

    The reference is the row that replaces the sensitive features in the reference
    residual, which the reach of the scores must cover; by default what centering maps
    to 0.
    """

    def __init__(
        self,
        layout: GradientLayout,
        geometries: Sequence[FeatureGeometry],
        classes: Sequence[NeighborClass],
        reference: FloatArray | None,
    ) -> None:
        sizes = [g.columns.size for g in geometries]
        intercept = np.zeros(layout.n_columns - layout.column_offset.size)
        at = np.zeros(layout.n_columns)
        if reference is not None:
            hidden = np.append(layout.sensitive_columns, intercept > 0.0)
            at[hidden] = layout.features(np.asarray(reference)[None])[0, hidden]
        lookup = ChangedFeatures(geometries)
        changed = np.zeros((len(classes), len(geometries)))
        for row, neighbor in enumerate(classes):
            changed[row, lookup.places(neighbor.features)] = 1.0
        sensitive = np.array([g.sensitive for g in geometries])
        self.corners = CornerScores(
            columns=np.concatenate([g.columns for g in geometries]),
            values=np.concatenate([g.values for g in geometries]),
            starts=np.cumsum([0, *sizes[:-1]]),
            first_columns=np.array([g.columns[0] for g in geometries]),
            changed=np.vstack([changed, changed * ~sensitive]),
            sensitive=sensitive,
            offset=np.append(layout.column_offset, intercept),
            reference=at,
        )
        self._sizes = sizes
        self._set_reach_per_radius(geometries)

    def at(self, coef: FloatArray) -> Scores:
        """Return the reach of ``features @ coef``."""
        if coef.ndim == 2:
            return self._at_matrix(coef)
        corner = coef[self.corners.columns] * self.corners.values
        high = np.maximum.reduceat(corner, self.corners.starts)
        low = np.minimum.reduceat(corner, self.corners.starts)
        change = self.corners.changed @ (high - low)
        shift = np.add.reduceat(coef * self.corners.offset, self.corners.first_columns)
        high -= shift
        low -= shift
        hidden, seen = self.corners.sensitive, ~self.corners.sensitive
        reference = float(coef @ self.corners.reference)
        return _scores(
            float(low[seen].sum()) + min(float(low[hidden].sum()), reference),
            float(high[seen].sum()) + max(float(high[hidden].sum()), reference),
            0.0,
            change,
            change,
        )

    def up_to(self, radius: float) -> Scores:
        """Return what holds for every `coef` of 2-norm (all entries) up to a radius."""
        reach = radius * self._reach_per_radius
        change = np.zeros(self.corners.changed.shape[0])
        moves = self._change_per_radius > 0.0
        change[moves] = radius * self._change_per_radius[moves]
        root = math.sqrt(2.0)
        return _scores(-reach, reach, root * reach, change, root * change)

    def _set_reach_per_radius(self, geometries: Sequence[FeatureGeometry]) -> None:
        squares = np.array([g.radius for g in geometries]) ** 2
        hidden = max(
            float(squares[self.corners.sensitive].sum()),
            float((self.corners.reference**2).sum()),
        )
        self._reach_per_radius = math.sqrt(
            squares[~self.corners.sensitive].sum() + hidden
        )
        diameters = np.array([g.diameter for g in geometries])
        self._change_per_radius = np.sqrt(self.corners.changed @ diameters**2)

    @cached_property
    def _pairs(self) -> "_CornerPairs":
        """Pairs of corners of a feature, which several outputs need."""
        moving = [index for index, size in enumerate(self._sizes) if size > 1]
        moving = moving or [0]  # a corner with itself, if features have one each
        pairs = [
            np.add(
                np.triu_indices(self._sizes[i], k=min(1, self._sizes[i] - 1)),
                self.corners.starts[i],
            )
            for i in moving
        ]
        first, second = np.hstack(pairs)
        return _CornerPairs(
            first=first,
            second=second,
            starts=np.cumsum([0, *(own.shape[1] for own in pairs[:-1])]),
            changed=self.corners.changed[:, moving],
        )

    def _at_matrix(self, coef: FloatArray) -> Scores:
        corner = coef[self.corners.columns] * self.corners.values[:, None]
        pairs = self._pairs
        farthest = np.maximum.reduceat(
            _norm_and_spread(corner[pairs.first] - corner[pairs.second]),
            pairs.starts,
        )
        change, spread = (pairs.changed @ farthest).T
        shift = np.add.reduceat(
            coef * self.corners.offset[:, None], self.corners.first_columns
        )
        centered = corner - np.repeat(
            shift, np.diff([*self.corners.starts, len(corner)]), axis=0
        )
        reach = np.maximum.reduceat(_norm_and_spread(centered), self.corners.starts)
        reference = _norm_and_spread((self.corners.reference @ coef)[None])[0]
        hidden = np.maximum(reach[self.corners.sensitive].sum(axis=0), reference)
        limit, spread_limit = reach[~self.corners.sensitive].sum(axis=0) + hidden
        limit, spread_limit = float(limit), float(spread_limit)
        return _scores(-limit, limit, spread_limit, change, spread)


def _scores(
    low: float, high: float, spread_limit: float, change: FloatArray, spread: FloatArray
) -> Scores:
    """Return scores; changes are those of all classes, then those at the reference."""
    return Scores(low, high, spread_limit, *np.split(change, 2), *np.split(spread, 2))


class _CornerPairs(NamedTuple):
    first: IntArray
    second: IntArray
    starts: IntArray
    changed: FloatArray


def _norm_and_spread(rows: FloatArray) -> FloatArray:
    """Return 2-norm, and largest minus smallest entry, of every row."""
    norm = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.column_stack([norm, rows.max(axis=1) - rows.min(axis=1)])
