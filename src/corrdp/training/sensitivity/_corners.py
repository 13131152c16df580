"""Corners of the declared domain, and how far pairs of them can pull a gradient.

A feature takes values in the convex hull of finitely many corners, each with a single
non-zero code: the two ends of a number, the levels of a one-hot code, the missing flag.
All suprema that a bound needs are attained at corners.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.policy import Block, BlockKind, ColumnRole
from corrdp.training._layout import INTERCEPT, GradientLayout

_ABOVE = 1.0 + 1e-15  # rows are equal within rounding
_MOST_CORNERS_IN_PAIRS = 64


@dataclass(frozen=True, eq=False)
class FeatureGeometry:
    """Corners of one raw feature, or of its curve, scaled and centered.

    Attributes
    ----------
    name : str
        The feature, or ``<feature>:curve``.
    feature : str
        The raw feature, by which classes name it.
    columns : array of int, shape (n_corners,)
        Column of the non-zero code of every corner.
    values : array of float, shape (n_corners,)
        The non-zero code, scaled.
    radius : float
        Largest norm of a corner after centering.
    diameter : float
        Largest distance of two corners.
    pairs : array of float, shape (n_pairs, 3)
        For pairs of corners v, w: the squared norms of v - w and v + w, and the
        difference of the squared norms of v and w; pairs that no residuals can
        make the worst are left out.
    """

    name: str
    feature: str
    group: int
    sensitive: bool
    columns: IntArray
    values: FloatArray
    radius: float
    diameter: float
    pairs: FloatArray


def feature_geometries(layout: GradientLayout) -> tuple[FeatureGeometry, ...]:
    """Return the geometry of every feature in column order, the intercept last."""
    group_of = {f: i for i, g in enumerate(layout.groups) for f in g.features}
    parts: dict[str, list[Block]] = defaultdict(list)
    for block in layout.blocks:
        parts[block.part].append(block)
    geometries = []
    for name, blocks in parts.items():
        columns: list[int] = []
        codes: list[float] = []
        for block in blocks:
            ends = (-0.5, 0.5) if block.kind is BlockKind.NUMBER else (1.0,)
            for column in range(block.start, block.stop):
                columns += [column] * len(ends)
                codes += ends
        values = np.array(codes) * layout.column_scale[columns]
        offset = layout.column_offset[blocks[0].start : blocks[-1].stop]
        places = np.array(columns, dtype=np.int64)
        geometries.append(
            FeatureGeometry(
                name,
                blocks[0].feature,
                group_of[name],
                blocks[0].role is ColumnRole.SENSITIVE,
                places,
                values,
                *_extent(
                    (places - blocks[0].start).tobytes(),
                    values.tobytes(),
                    offset.tobytes(),
                ),
            )
        )
    if layout.has_intercept:
        last = np.array([layout.n_columns - 1], dtype=np.int64)
        one = np.ones(1)
        geometries.append(
            FeatureGeometry(
                INTERCEPT,
                INTERCEPT,
                group_of[INTERCEPT],
                False,
                last,
                one,
                *_extent(
                    np.zeros_like(last).tobytes(), one.tobytes(), np.zeros(1).tobytes()
                ),
            )
        )
    return tuple(geometries)


def regrouped(
    geometries: Sequence[FeatureGeometry], layout: GradientLayout
) -> tuple[FeatureGeometry, ...]:
    """Return geometries under a layout that differs from theirs in groups alone."""
    group_of = {f: i for i, g in enumerate(layout.groups) for f in g.features}
    return tuple(
        geometry
        if geometry.group == group_of[geometry.name]
        else replace(geometry, group=group_of[geometry.name])
        for geometry in geometries
    )


class ChangedFeatures:
    """Which geometries a class of neighbors changes, looked up by feature."""

    def __init__(self, geometries: Sequence[FeatureGeometry]) -> None:
        self._geometries = geometries
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, geometry in enumerate(geometries):
            self._places[geometry.feature].append(place)

    def places(self, features: Iterable[str]) -> list[int]:
        """Return the places of the geometries of some features, rising."""
        named = dict.fromkeys(features)
        return sorted(i for name in named for i in self._places.get(name, ()))

    def of(self, features: Iterable[str]) -> list[FeatureGeometry]:
        """Return the geometries of some features, in column order."""
        return [self._geometries[place] for place in self.places(features)]


def group_radius(
    geometries: Sequence[FeatureGeometry], layout: GradientLayout
) -> FloatArray:
    """Return the largest norm of each group's features, after projection."""
    squares = np.zeros(len(layout.groups))
    for geometry in geometries:
        squares[geometry.group] += geometry.radius**2
    ball = np.array([group.feature_radius for group in layout.groups])
    return np.asarray(np.minimum(np.sqrt(squares), ball))


@lru_cache(maxsize=4096)
def _extent(
    places: bytes, values: bytes, offset: bytes
) -> tuple[float, float, FloatArray]:
    """Return radius, diameter and pairs of corners after centering.

    Most features of a wide table have the same corners, and the candidates of a plan
    differ in groups only: what was found once is shared. Offsets are public.

    Parameters
    ----------
    places : bytes of int64
        Column of the non-zero code of every corner, counted within the feature.
    values, offset : bytes of float64
        That code, scaled; what centering takes off every column of the feature.
    """
    at, center = np.frombuffer(places, np.int64), np.frombuffer(offset)
    corners = np.zeros((at.size, center.size))
    corners[np.arange(at.size), at] = np.frombuffer(values)
    corners -= center
    squares = (corners**2).sum(axis=1)
    radius = math.sqrt(squares.max())
    same = np.array([[0.0, 4.0 * squares.max(), 0.0]])
    same.flags.writeable = False  # shared by all who ask
    if len(corners) == 1:
        return radius, 0.0, same
    first, second = _places_of_pairs(len(corners))
    inner = (corners @ corners.T)[first, second]
    both = squares[first] + squares[second]
    pairs = np.column_stack(
        [
            both - 2.0 * inner,
            both + 2.0 * inner,
            np.abs(squares[first] - squares[second]),
        ]
    )
    if len(corners) > _MOST_CORNERS_IN_PAIRS:
        pairs = pairs.max(axis=0, keepdims=True)  # one entry above them all
    worst = _undominated(np.vstack([same, pairs]))
    worst.flags.writeable = False
    return radius, math.sqrt(pairs[:, 0].max()), worst


@lru_cache(maxsize=64)
def _places_of_pairs(n_corners: int) -> tuple[IntArray, IntArray]:
    """Return the first and the second corner of every pair."""
    first, second = np.triu_indices(n_corners, k=1)
    first.flags.writeable = second.flags.writeable = False
    return first, second


def _undominated(pairs: FloatArray) -> FloatArray:
    """Return the rows that no other row exceeds in all three entries.

    In plain numbers: a feature has few pairs, and every release of means asks anew.
    """
    kept: list[tuple[float, float, float]] = []
    limits: list[tuple[float, float, float]] = []
    for first, second, third in sorted(set(map(tuple, pairs.tolist())), reverse=True):
        if not any(first <= a and second <= b and third <= c for a, b, c in limits):
            kept.append((first, second, third))
            limits.append((first * _ABOVE, second * _ABOVE, third * _ABOVE))
    return np.array(kept)
