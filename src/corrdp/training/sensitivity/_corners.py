"""Corners of the declared domain, and how far pairs of them can pull a gradient.

A feature takes values in the convex hull of finitely many corners, each with a single
non-zero code: the two ends of a number, the levels of a one-hot code, the missing flag.
All suprema that a bound needs are attained at corners.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

import numpy as np

from corrdp._names import INTERCEPT
from corrdp._typing import FloatArray, IntArray
from corrdp.policy import Block, BlockKind, ColumnRole, NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training.losses import Loss

_ABOVE = 1.0 + 1e-15  # rows are equal within rounding
# Pairs are as many as corners squared. Beyond so many one entry above them all stands
# for them, which costs a feature of many levels some noise and keeps tables small.
_MOST_CORNERS_IN_PAIRS = 64


@dataclass(frozen=True, eq=False)
class FeatureGeometry:
    """Corners of one raw feature, or of its curve, scaled and centered."""

    name: str  # the feature, or ``<feature>:curve``
    feature: str  # the raw feature, by which classes name it
    group: int
    sensitive: bool
    columns: IntArray  # (n_corners,): column of the non-zero code of every corner
    values: FloatArray  # (n_corners,): the non-zero code, scaled
    radius: float  # largest norm of a corner after centering
    diameter: float  # largest distance of two corners
    # (n_pairs, 3): for pairs of corners v, w: the squared norms of v - w and v + w, and
    # the difference of the squared norms of v and w; pairs that no residuals can make
    # the worst are left out.
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
        geometries.append(
            _geometry(
                name,
                blocks[0].feature,
                group_of[name],
                columns,
                np.array(codes) * layout.column_scale[columns],
                layout.column_offset[blocks[0].start : blocks[-1].stop],
                sensitive=blocks[0].role is ColumnRole.SENSITIVE,
            )
        )
    if layout.has_intercept:
        one, last = np.ones(1), [layout.n_columns - 1]
        group = group_of[INTERCEPT]
        geometries.append(
            _geometry(INTERCEPT, INTERCEPT, group, last, one, np.zeros(1))
        )
    return tuple(geometries)


def _geometry(
    name: str,
    feature: str,
    group: int,
    columns: Sequence[int],
    values: FloatArray,
    offset: FloatArray,
    *,
    sensitive: bool = False,
) -> FeatureGeometry:
    """Return the geometry of a feature from its corners."""
    places = np.array(columns, dtype=np.int64)
    extent = _extent(
        (places - columns[0]).tobytes(), values.tobytes(), offset.tobytes()
    )
    return FeatureGeometry(name, feature, group, sensitive, places, values, *extent)


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


def group_norms(
    geometries: Sequence[FeatureGeometry], layout: GradientLayout
) -> FloatArray:
    """Return the largest norm of each group's features, before projection."""
    squares = np.zeros(len(layout.groups))
    for geometry in geometries:
        squares[geometry.group] += geometry.radius**2
    return np.sqrt(squares)


@lru_cache(maxsize=4096)
def _extent(
    places: bytes, values: bytes, offset: bytes
) -> tuple[float, float, FloatArray]:
    """Return radius, diameter and pairs of corners after centering.

    Most features of a wide table have the same corners, and the candidates of a plan
    differ in groups only: what was found once is shared. Offsets are public. Arrays are
    bytes, which a cache can look up: the column of the non-zero code of every corner,
    counted within the feature; that code, scaled; what centering takes off.
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


class Corner(IntEnum):
    """Gap between the two residuals of a row.

    `FIRST` to `THIRD` are, in order of size: the gap at which the larger residual must
    begin to fall, the gap beyond which influence bounds hold, and the gap at which
    the movement of a changed group passes its clip norm. `FLIP` is the largest gap
    when the label changes the sign; `FREE` and `FREE_FLIP` ignore that the residuals
    of neighbors are close.
    """

    ZERO = 0
    FIRST = 1
    SECOND = 2
    THIRD = 3
    END = 4
    FLIP = 5
    FREE = 6
    FREE_FLIP = 7


@dataclass(frozen=True, slots=True)
class Chain:
    """Rows of one class for one case of the label, in order of the gap."""

    neighbor: NeighborClass
    flips: bool  # whether the label changes the sign of the residual
    # Whether the residual at the reference is the same for both records.
    reference_fixed: bool
    corners: tuple[Corner, ...]  # one row each
    capped_group: int = -1  # changed group whose clip norm gets a corner, -1 for none

    @property
    def probes(self) -> tuple[Corner, Corner, Corner]:
        """Smallest, largest and unrelated residuals, for groups bound by influence."""
        if self.flips:
            return Corner.FLIP, Corner.FLIP, Corner.FREE_FLIP
        return Corner.ZERO, Corner.END, Corner.FREE


def chains_of(
    loss: Loss,
    layout: GradientLayout,
    geometries: Sequence[FeatureGeometry],
    classes: Sequence[NeighborClass],
) -> Iterator[Chain]:
    """Yield the chains of all classes, in order.

    A logistic label that changes flips the sign of the residual and gets a chain of
    its own; for other losses a change of the label only widens the gap.
    """
    bounded = {
        index
        for index, group in enumerate(layout.groups)
        if math.isfinite(group.influence_bound)
    }
    signed = loss.label_fixes_sign
    all_changed = ChangedFeatures(geometries)
    for neighbor in classes:
        changed = all_changed.of(neighbor.features)
        flips = signed and neighbor.label_changes
        fixed = all(g.sensitive for g in changed)
        if changed or not flips:
            keeps = fixed and (signed or not neighbor.label_changes)
            shared = [g.group for g in changed if g.group not in bounded]
            if not shared or loss.n_outputs > 1:
                yield Chain(neighbor, False, keeps, (Corner.END,))
            else:
                clipped = [
                    i for i in shared if math.isfinite(layout.groups[i].clip_norm)
                ]
                n_inner = signed + (keeps and bool(bounded)) + bool(clipped)
                inner = (Corner.FIRST, Corner.SECOND, Corner.THIRD)[:n_inner]
                corners = (Corner.ZERO, *inner, Corner.END)
                largest = max(clipped, key=clipped.count, default=-1)
                yield Chain(neighbor, False, keeps, corners, largest)
        if flips:
            yield Chain(neighbor, True, False, (Corner.FLIP,))
