"""Corners of the declared domain, and how far pairs of them can pull a gradient.

A feature takes values in the convex hull of finitely many corners, each with a single
non-zero code: the two ends of a number, the levels of a one-hot code, the missing flag.
All suprema that a bound needs are attained at corners.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.policy import BlockKind, ColumnRole
from corrdp.training._layout import INTERCEPT, GradientLayout

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
    geometries = []
    for name in dict.fromkeys(block.part for block in layout.blocks):
        columns: list[int] = []
        codes: list[float] = []
        blocks = [block for block in layout.blocks if block.part == name]
        for block in blocks:
            ends = (-0.5, 0.5) if block.kind is BlockKind.NUMBER else (1.0,)
            for column in range(block.start, block.stop):
                columns += [column] * len(ends)
                codes += ends
        values = np.array(codes) * layout.column_scale[columns]
        offset = layout.column_offset[blocks[0].start : blocks[-1].stop]
        corners = np.zeros((len(columns), offset.size))
        corners[np.arange(len(columns)), np.array(columns) - blocks[0].start] = values
        geometries.append(
            FeatureGeometry(
                name,
                blocks[0].feature,
                group_of[name],
                blocks[0].role is ColumnRole.SENSITIVE,
                np.array(columns, dtype=np.int64),
                values,
                *_extent(corners - offset),
            )
        )
    if layout.has_intercept:
        last = np.array([layout.n_columns - 1], dtype=np.int64)
        one = np.ones((1, 1))
        geometries.append(
            FeatureGeometry(
                INTERCEPT,
                INTERCEPT,
                group_of[INTERCEPT],
                False,
                last,
                one[0],
                *_extent(one),
            )
        )
    return tuple(geometries)


def group_radius(
    geometries: Sequence[FeatureGeometry], layout: GradientLayout
) -> FloatArray:
    """Return the largest norm of each group's features, after projection."""
    squares = np.zeros(len(layout.groups))
    for geometry in geometries:
        squares[geometry.group] += geometry.radius**2
    ball = np.array([group.feature_radius for group in layout.groups])
    return np.asarray(np.minimum(np.sqrt(squares), ball))


def _extent(corners: FloatArray) -> tuple[float, float, FloatArray]:
    """Return radius, diameter and pairs of corners after centering."""
    squares = (corners**2).sum(axis=1)
    radius = math.sqrt(squares.max())
    same = np.array([[0.0, 4.0 * squares.max(), 0.0]])
    if len(corners) == 1:
        return radius, 0.0, same
    first, second = np.triu_indices(len(corners), k=1)
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
    return radius, math.sqrt(pairs[:, 0].max()), _undominated(np.vstack([same, pairs]))


def _undominated(pairs: FloatArray) -> FloatArray:
    """Return the rows that no other row exceeds in all three entries."""
    unique = np.unique(pairs, axis=0)[::-1]
    kept: list[FloatArray] = []
    for row in unique:
        if not any((row <= other * (1.0 + 1e-15)).all() for other in kept):
            kept.append(row)
    return np.array(kept)
