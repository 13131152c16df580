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
    """Corner scores of every feature, gathered for one set of classes."""

    def __init__(
        self,
        layout: GradientLayout,
        geometries: Sequence[FeatureGeometry],
        classes: Sequence[NeighborClass],
    ) -> None:
        sizes = [g.columns.size for g in geometries]
        self._columns = np.concatenate([g.columns for g in geometries])
        self._values = np.concatenate([g.values for g in geometries])
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self._offset = layout.column_offset if layout.column_offset.any() else None
        changed = np.array(
            [[g.name in c.features for g in geometries] for c in classes], dtype=float
        )
        seen = np.array([not g.sensitive for g in geometries], dtype=float)
        self._n_classes = len(classes)
        self._changed = np.vstack([changed, changed * seen])
        self._radius = math.sqrt(sum(g.radius**2 for g in geometries))
        diameters = np.array([g.diameter for g in geometries])
        self._change_per_radius = np.sqrt(self._changed @ diameters**2)
        pairs = [np.triu_indices(size, k=1) for size in sizes]
        moving = [index for index, (first, _) in enumerate(pairs) if first.size]
        self._first = np.concatenate([pairs[i][0] + self._starts[i] for i in moving])
        self._second = np.concatenate([pairs[i][1] + self._starts[i] for i in moving])
        counts = [pairs[i][0].size for i in moving]
        self._pair_starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        self._pair_changed = self._changed[:, moving]

    def at(self, coef: FloatArray) -> Scores:
        """Return the reach of ``features @ coef``."""
        if coef.ndim == 2:
            return self._at_matrix(coef)
        corner = coef[self._columns] * self._values
        high = np.maximum.reduceat(corner, self._starts)
        low = np.minimum.reduceat(corner, self._starts)
        change = self._changed @ (high - low)
        shift = (
            0.0
            if self._offset is None
            else float(self._offset @ coef[: self._offset.size])
        )
        n = self._n_classes
        return Scores(
            low=float(low.sum()) - shift,
            high=float(high.sum()) - shift,
            spread_limit=0.0,
            change=change[:n],
            reference_change=change[n:],
            spread=change[:n],
            reference_spread=change[n:],
        )

    def up_to(self, radius: float) -> Scores:
        """Return what holds for every `coef` of 2-norm (all entries) up to a radius."""
        reach = radius * self._radius
        with np.errstate(invalid="ignore"):
            change = np.nan_to_num(radius * self._change_per_radius, posinf=np.inf)
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

    def _at_matrix(self, coef: FloatArray) -> Scores:
        corner = coef[self._columns] * self._values[:, None]
        moved = corner[self._first] - corner[self._second]
        norm = np.sqrt(np.einsum("ij,ij->i", moved, moved))
        spread = moved.max(axis=1) - moved.min(axis=1)
        farthest = np.maximum.reduceat(
            np.column_stack([norm, spread]), self._pair_starts
        )
        change, spreads = (self._pair_changed @ farthest).T
        n = self._n_classes
        reach, spread_limit = self._reach(coef, corner)
        return Scores(
            low=-reach,
            high=reach,
            spread_limit=spread_limit,
            change=change[:n],
            reference_change=change[n:],
            spread=spreads[:n],
            reference_spread=spreads[n:],
        )

    def _reach(self, coef: FloatArray, corner: FloatArray) -> tuple[float, float]:
        """Bound norm and spread of the scores, the offset counted as one more term."""
        norms = np.linalg.norm(corner, axis=1)
        spreads = corner.max(axis=1) - corner.min(axis=1)
        both = np.column_stack([norms, spreads])
        reach, spread = np.maximum.reduceat(both, self._starts).sum(axis=0)
        if self._offset is not None:
            shift = self._offset @ coef[: self._offset.size]
            reach += np.linalg.norm(shift)
            spread += shift.max() - shift.min()
        return float(reach), float(spread)
