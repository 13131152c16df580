"""How far the score of a record reaches, and how far a class of neighbors moves it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from corrdp._typing import FloatArray
from corrdp.policy import NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training._sensitivity_geometry import FeatureGeometry


class Scores(NamedTuple):
    """Reach of the scores over the domain, at given parameters.

    Attributes
    ----------
    low, high : float
        Smallest and largest score; with several outputs, minus and plus the largest
        2-norm.
    spread_limit : float
        Largest difference between two outputs of one record; 0 for one output.
    change, reference_change : array of float, shape (n_classes,)
        Largest 2-norm of the change of the score, over all changed features and
        over those that the reference does not replace.
    spread, reference_spread : array of float, shape (n_classes,)
        The same for the largest entry minus the smallest.
    """

    low: float
    high: float
    spread_limit: float
    change: FloatArray
    reference_change: FloatArray
    spread: FloatArray
    reference_spread: FloatArray


class ScoreRanges:
    """Corner scores of every feature, gathered for one set of classes.

    Parameters
    ----------
    reference : array of float, shape (n_codes,), optional
        Row that replaces the sensitive features in the reference residual, which
        the reach of the scores must cover; by default what centering maps to 0.
    """

    def __init__(
        self,
        layout: GradientLayout,
        geometries: Sequence[FeatureGeometry],
        classes: Sequence[NeighborClass],
        reference: FloatArray | None,
    ) -> None:
        sizes = [g.columns.size for g in geometries]
        self.columns = np.concatenate([g.columns for g in geometries])
        self.values = np.concatenate([g.values for g in geometries])
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        intercept = np.zeros(layout.n_columns - layout.column_offset.size)
        self.offset = np.append(layout.column_offset, intercept)
        self.first_columns = np.array([g.columns[0] for g in geometries])
        self.sensitive = np.array([g.sensitive for g in geometries])
        at = np.zeros(self.offset.size)
        if reference is not None:
            hidden = np.append(layout.sensitive_columns, intercept > 0.0)
            at[hidden] = layout.features(np.asarray(reference)[None])[0, hidden]
        self.reference = at
        changed = np.array(
            [[g.name in c.features for g in geometries] for c in classes], dtype=float
        )
        self.changed = np.vstack([changed, changed * ~self.sensitive])
        self._n_classes = len(classes)
        self._set_reach_per_radius(geometries)
        self._set_pairs(sizes)

    def at(self, coef: FloatArray) -> Scores:
        """Return the reach of ``features @ coef``."""
        if coef.ndim == 2:
            return self._at_matrix(coef)
        corner = coef[self.columns] * self.values
        high = np.maximum.reduceat(corner, self.starts)
        low = np.minimum.reduceat(corner, self.starts)
        change = self.changed @ (high - low)
        shift = np.add.reduceat(coef * self.offset, self.first_columns)
        high -= shift
        low -= shift
        hidden, seen = self.sensitive, ~self.sensitive
        reference = float(coef @ self.reference)
        n = self._n_classes
        return Scores(
            low=float(low[seen].sum()) + min(float(low[hidden].sum()), reference),
            high=float(high[seen].sum()) + max(float(high[hidden].sum()), reference),
            spread_limit=0.0,
            change=change[:n],
            reference_change=change[n:],
            spread=change[:n],
            reference_spread=change[n:],
        )

    def up_to(self, radius: float) -> Scores:
        """Return what holds for every `coef` of 2-norm (all entries) up to a radius."""
        reach = radius * self._reach_per_radius
        change = np.zeros(self.changed.shape[0])
        moves = self._change_per_radius > 0.0
        change[moves] = radius * self._change_per_radius[moves]
        n = self._n_classes
        spread = math.sqrt(2.0) * change
        return Scores(
            low=-reach,
            high=reach,
            spread_limit=math.sqrt(2.0) * reach,
            change=change[:n],
            reference_change=change[n:],
            spread=spread[:n],
            reference_spread=spread[n:],
        )

    def _set_reach_per_radius(self, geometries: Sequence[FeatureGeometry]) -> None:
        squares = np.array([g.radius for g in geometries]) ** 2
        hidden = max(
            float(squares[self.sensitive].sum()), float((self.reference**2).sum())
        )
        self._reach_per_radius = math.sqrt(squares[~self.sensitive].sum() + hidden)
        diameters = np.array([g.diameter for g in geometries])
        self._change_per_radius = np.sqrt(self.changed @ diameters**2)

    def _set_pairs(self, sizes: Sequence[int]) -> None:
        pairs = [np.triu_indices(size, k=1) for size in sizes]
        moving = [index for index, (first, _) in enumerate(pairs) if first.size]
        self._first = np.concatenate([pairs[i][0] + self.starts[i] for i in moving])
        self._second = np.concatenate([pairs[i][1] + self.starts[i] for i in moving])
        counts = [pairs[i][0].size for i in moving]
        self._pair_starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        self._pair_changed = self.changed[:, moving]

    def _at_matrix(self, coef: FloatArray) -> Scores:
        corner = coef[self.columns] * self.values[:, None]
        farthest = np.maximum.reduceat(
            _norm_and_spread(corner[self._first] - corner[self._second]),
            self._pair_starts,
        )
        change, spread = (self._pair_changed @ farthest).T
        shift = np.add.reduceat(coef * self.offset[:, None], self.first_columns)
        centered = corner - np.repeat(
            shift, np.diff([*self.starts, len(corner)]), axis=0
        )
        reach = np.maximum.reduceat(_norm_and_spread(centered), self.starts)
        reference = _norm_and_spread((self.reference @ coef)[None])[0]
        hidden = np.maximum(reach[self.sensitive].sum(axis=0), reference)
        limit, spread_limit = reach[~self.sensitive].sum(axis=0) + hidden
        n = self._n_classes
        return Scores(
            low=-float(limit),
            high=float(limit),
            spread_limit=float(spread_limit),
            change=change[:n],
            reference_change=change[n:],
            spread=spread[:n],
            reference_spread=spread[n:],
        )


def _norm_and_spread(rows: FloatArray) -> FloatArray:
    """Return 2-norm, and largest minus smallest entry, of every row."""
    norm = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.column_stack([norm, rows.max(axis=1) - rows.min(axis=1)])
