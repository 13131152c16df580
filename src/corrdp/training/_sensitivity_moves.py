"""From pairs of residuals to how far every group moves, in few array operations.

Rows are the corners of all chains, followed by probes: pairs of residuals at which
groups with an influence bound are evaluated when the reference residual moves too.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.policy import NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training._losses import Loss
from corrdp.training._sensitivity_geometry import FeatureGeometry, group_radius
from corrdp.training._sensitivity_residuals import ResidualPairs
from corrdp.training._sensitivity_rows import Chain, Corner

_ROUNDING = 1e-12


class _Entries(NamedTuple):
    """Pairs of corners of changed features, sorted by row, group and feature."""

    row: IntArray
    pairs: FloatArray
    feature_starts: IntArray
    cell_starts: IntArray
    cells: IntArray


class _Loose(NamedTuple):
    """Cells of groups with an influence bound that change while the reference moves.

    `cells` are (row, group) pairs; `probes` the three rows to look at for each.
    """

    rows: IntArray
    groups: IntArray
    probes: IntArray


class GroupMoves:
    """Bounds per row and group for given pairs of residuals.

    Guarantee
    ---------
    docs/theory/glm_sensitivity.md, Theorem 2, and docs/theory/influence.md: clipping to
    a ball, adding the clipped influence and projecting features never move a group
    further than the bound of its row.
    """

    def __init__(
        self,
        loss: Loss,
        layout: GradientLayout,
        geometries: Sequence[FeatureGeometry],
        classes: Sequence[NeighborClass],
        chains: Sequence[Chain],
    ) -> None:
        self._layout = layout
        self._geometries = geometries
        self._scalar = loss.n_outputs == 1
        self.radius = group_radius(geometries, layout)
        self._clip_norm = np.array([g.clip_norm for g in layout.groups])
        self._reach = self._influence_reach()
        self._bounded = np.flatnonzero(np.isfinite(self._reach))
        self._set_rows(classes, chains)
        self._set_caps(chains)
        self._entries = self._changed_entries()
        self._loose = self._loose_cells(chains)
        self._buffer = np.empty((self._n_rows, len(layout.groups)))

    def bounds(self, pairs: ResidualPairs) -> FloatArray:
        """Return the bounds, shape (n_rows, n_groups), in a reused buffer."""
        gap = self._gaps(pairs)
        larger = pairs.peak - self._falls * pairs.slope[self._class] * np.maximum(
            gap - pairs.bend[self._class], 0.0
        )
        moves = self._unclipped(pairs.peak, larger, gap)
        out = self._buffer
        n = self._n_rows
        np.copyto(out, moves[:n])
        if self._any_cap:
            over = out > self._cap_with_rounding
            if over.any():
                spread = over.copy()
                spread[1:] |= over[:-1] & self._continues
                spread[:-1] |= over[1:] & self._continues
                np.copyto(out, self._cap, where=spread)
        if self._uncoupled.size:
            self._write_uncoupled(out, pairs, moves)
        out *= 1.0 + _ROUNDING
        return out

    def _influence_reach(self) -> FloatArray:
        """Return the influence bound of every group in the norm of its gradient."""
        reach = []
        for group, radius in zip(self._layout.groups, self.radius, strict=True):
            unit = 1.0 if math.isfinite(group.clip_norm) else radius
            reach.append(group.influence_bound * unit)
        return np.array(reach)

    def _set_rows(
        self, classes: Sequence[NeighborClass], chains: Sequence[Chain]
    ) -> None:
        corners = [corner for chain in chains for corner in chain.corners]
        owner = [i for i, chain in enumerate(chains) for _ in chain.corners]
        self._n_rows = len(corners)
        self._row_chain = np.array(owner)
        self._continues = (self._row_chain[1:] == self._row_chain[:-1])[:, None]
        falls = [float(corner is not Corner.FLIP) for corner in corners]
        bounded = set(self._bounded.tolist())
        self._probed = {}
        for index, chain in enumerate(chains):
            changed = {g.group for g in self._changed_by(chain.neighbor)}
            if changed & bounded:
                start = len(corners)
                self._probed[index] = (start, start + 1, start + 2)
                corners += chain.probes
                owner += [index] * 3
                falls += [0.0] * 3
        class_index = {neighbor.name: i for i, neighbor in enumerate(classes)}
        self._neighbors = [chains[i].neighbor for i in owner]
        self._class = np.array([class_index[c.name] for c in self._neighbors])
        self._corner = np.array(corners, dtype=np.int64)
        self._falls = np.array(falls)
        kinked = [chain.reference_fixed and bool(bounded) for chain in chains]
        has_kink = np.zeros(len(classes), dtype=bool)
        for chain, kinks in zip(chains, kinked, strict=True):
            has_kink[class_index[chain.neighbor.name]] |= kinks
        kink = np.inf
        if bounded:
            radius = np.maximum(self.radius[self._bounded], np.finfo(float).tiny)
            kink = float((2.0 * self._reach[self._bounded] / radius).min())
        self._kink = np.where(has_kink, kink, np.inf)

    def _set_caps(self, chains: Sequence[Chain]) -> None:
        """Set the largest movement per row and group, whatever the residuals."""
        cap = np.tile(2.0 * self._clip_norm, (self._n_rows, 1))
        fixed = np.array([chains[i].reference_fixed for i in self._row_chain])
        reach = np.where(fixed[:, None], 2.0 * self._reach, np.inf)
        self._cap = np.minimum(cap, reach)
        self._cap_with_rounding = self._cap * (1.0 + _ROUNDING)
        self._any_cap = bool(np.isfinite(self._cap).any())
        self._uncoupled = np.flatnonzero(~fixed) if self._bounded.size else np.array([])
        self._flips = np.array([chains[i].flips for i in self._row_chain])

    def _changed_by(self, neighbor: NeighborClass) -> list[FeatureGeometry]:
        return [g for g in self._geometries if g.name in neighbor.features]

    def _changed_entries(self) -> _Entries:
        """Gather changed features, and set what the rest of each group adds."""
        n_groups = self.radius.size
        ball = np.array([g.feature_radius for g in self._layout.groups])
        squares = np.zeros(n_groups)
        for geometry in self._geometries:
            squares[geometry.group] += geometry.radius**2
        projected = ball**2 < squares
        self._projected = np.flatnonzero(projected)
        self._still = np.tile(self.radius**2, (len(self._neighbors), 1))
        diameter = np.zeros(self._still.shape)
        rows, pairs, features, cells, cell_index = [], [], [], [], []
        n_pairs = n_features = 0
        for row, neighbor in enumerate(self._neighbors):
            changed = sorted(self._changed_by(neighbor), key=lambda g: g.group)
            last = -1
            for geometry in changed:
                diameter[row, geometry.group] += geometry.diameter**2
                if projected[geometry.group]:
                    continue
                self._still[row, geometry.group] -= geometry.radius**2
                if geometry.group != last:
                    cells.append(n_features)
                    cell_index.append(row * n_groups + geometry.group)
                    last = geometry.group
                features.append(n_pairs)
                rows += [row] * len(geometry.pairs)
                pairs.append(geometry.pairs)
                n_pairs += len(geometry.pairs)
                n_features += 1
        self._still = np.maximum(self._still, 0.0)
        self._diameter = np.minimum(np.sqrt(diameter), 2.0 * self.radius)
        return _Entries(
            np.array(rows, dtype=np.int64),
            np.concatenate(pairs).T.copy() if pairs else np.empty((3, 0)),
            np.array(features, dtype=np.int64),
            np.array(cells, dtype=np.int64),
            np.array(cell_index, dtype=np.int64),
        )

    def _loose_cells(self, chains: Sequence[Chain]) -> _Loose:
        bounded = set(self._bounded.tolist())
        rows, groups, probes = [], [], []
        for row, index in enumerate(self._row_chain):
            neighbor = chains[index].neighbor
            for group in sorted(
                {g.group for g in self._changed_by(neighbor)} & bounded
            ):
                rows.append(row)
                groups.append(group)
                probes.append(self._probed[int(index)])
        return _Loose(
            np.array(rows, dtype=np.int64),
            np.array(groups, dtype=np.int64),
            np.array(probes, dtype=np.int64).reshape(-1, 3).T,
        )

    def _gaps(self, pairs: ResidualPairs) -> FloatArray:
        kink = np.minimum(self._kink, pairs.end)
        by_corner = np.empty((len(Corner), pairs.end.size))
        by_corner[Corner.ZERO] = 0.0
        by_corner[Corner.LOW] = np.minimum(pairs.bend, kink)
        by_corner[Corner.HIGH] = np.maximum(pairs.bend, kink)
        by_corner[Corner.END] = pairs.end
        by_corner[Corner.FLIP] = pairs.flip_end
        by_corner[Corner.FREE] = pairs.unrelated_end
        by_corner[Corner.FREE_FLIP] = 2.0 * pairs.peak
        return np.asarray(by_corner[self._corner, self._class])

    def _unclipped(
        self, peak: float, larger: FloatArray, gap: FloatArray
    ) -> FloatArray:
        """Return how far the unclipped product of residual and features moves."""
        half = 0.5 * gap
        if self._scalar:
            middle = larger - half
            weights = (middle * middle, half * half, 2.0 * middle * half)
            kept = np.maximum(larger - gap, 0.0)
        else:
            fall = np.minimum(gap, peak)
            weights = (
                np.full_like(gap, peak**2),
                half * half,
                0.5 * fall * (2.0 * peak - fall),
            )
            kept = np.full_like(gap, peak)
        squares = (gap * gap)[:, None] * self._still
        entries = self._entries
        if entries.row.size:
            values = sum(
                weight[entries.row] * pair
                for weight, pair in zip(weights, entries.pairs, strict=True)
            )
            features = np.maximum.reduceat(values, entries.feature_starts)
            cells = np.add.reduceat(features, entries.cell_starts)
            squares.reshape(-1)[entries.cells] += cells
        moves = np.sqrt(squares)
        if self._projected.size:
            columns = self._projected
            radius = self.radius[columns]
            moves[:, columns] = np.minimum(
                gap[:, None] * radius + kept[:, None] * self._diameter[:, columns],
                2.0 * peak * radius,
            )
        return np.asarray(moves)

    def _write_uncoupled(
        self, out: FloatArray, pairs: ResidualPairs, moves: FloatArray
    ) -> None:
        rows, columns = self._uncoupled, self._bounded
        owner, flips = self._class[rows], self._flips[rows]
        end = np.where(flips, pairs.flip_end[owner], pairs.end[owner])
        reference = np.where(
            flips, pairs.flip_reference_end[owner], pairs.reference_end[owner]
        )
        radius, reach = self.radius[columns], self._reach[columns]
        stretch = 1.0 if self._scalar else math.sqrt(2.0)
        out[rows[:, None], columns] = np.minimum(
            np.minimum(stretch * end[:, None] * radius, 2.0 * self._clip_norm[columns]),
            reference[:, None] * radius + 2.0 * reach,
        )
        loose = self._loose
        if loose.rows.size:
            first, last, free = moves[loose.probes, loose.groups]
            unrelated = np.maximum(first, free)
            moved = np.maximum(first, last)
            clip_norm = self._clip_norm[loose.groups]
            by_norm = np.minimum(
                np.minimum(
                    math.sqrt(2.0) * moved, moved + 2.0 * self._reach[loose.groups]
                ),
                np.minimum(unrelated, 2.0 * clip_norm),
            )
            by_residual = moved if self._scalar else unrelated
            out[loose.rows, loose.groups] = np.where(
                np.isfinite(clip_norm), by_norm, by_residual
            )
