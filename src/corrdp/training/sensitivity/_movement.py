"""How far every group moves, given pairs of residuals (sections 3 and 4 of the note).

In few array operations over all rows and groups, since training asks at every step.
"""

import math

import numpy as np

from corrdp._typing import FloatArray
from corrdp.training.sensitivity._corners import Corner
from corrdp.training.sensitivity._residuals import ResidualPairs
from corrdp.training.sensitivity._table import MovementTable

# Bounds are rounded up by more than all operations here can have rounded them down; a
# twelfth digit of noise is nothing that anybody would miss.
ROUNDING = 1e-12


def movement_bounds(
    table: MovementTable, pairs: ResidualPairs, *, scalar: bool
) -> FloatArray:
    """Return the bounds, shape (n_rows, n_groups).

    Of several residuals of a record, which is not `scalar` then, only norms count.

    Guarantee
    ---------
    docs/theory/glm_sensitivity.md, Theorem 2, and docs/theory/influence.md: clipping to
    a ball, adding the clipped influence and projecting features never move a group
    further than a convex combination of its rows allows.
    """
    gap = _gaps(table, pairs, pairs.largest_gap)
    moves = _uncapped(table, pairs, gap, scalar)
    if table.capped_rows.size:
        gap = _gaps(table, pairs, _cap_gaps(table, pairs, gap, moves))
        moves = _uncapped(table, pairs, gap, scalar)
    out = moves[: table.n_rows].copy()
    # Between two rows a movement is convex unless a cap cuts it: then the cap, which
    # is constant, must stand in both rows.
    over = out > table.cap * (1.0 + ROUNDING)
    if over.any():
        capped = over.copy()
        capped[1:] |= over[:-1] & table.continues
        capped[:-1] |= over[1:] & table.continues
        np.copyto(out, table.cap, where=capped)
    if table.reference_moves.size:
        _write_reference_moves(out, table, pairs, moves, scalar)
    out *= 1.0 + ROUNDING
    return out


def _gaps(
    table: MovementTable, pairs: ResidualPairs, cap_gap: FloatArray
) -> FloatArray:
    """Return the gap of every row; the inner corners of a chain in order of size."""
    by_corner = np.empty((len(Corner), pairs.largest_gap.size))
    by_corner[Corner.ZERO] = 0.0
    inner = by_corner[Corner.FIRST : Corner.END]
    inner[0] = pairs.peak_gap
    np.minimum(table.influence_gap, pairs.largest_gap, out=inner[1])
    inner[2] = cap_gap
    inner.sort(axis=0)
    by_corner[Corner.END] = pairs.largest_gap
    by_corner[Corner.FLIP] = pairs.largest_flip_gap
    by_corner[Corner.FREE] = pairs.largest_unrelated_gap
    by_corner[Corner.FREE_FLIP] = 2.0 * pairs.peak
    return np.asarray(by_corner[table.corner, table.row_class])


def _cap_gaps(
    table: MovementTable, pairs: ResidualPairs, gap: FloatArray, moves: FloatArray
) -> FloatArray:
    """Return per class the gap at which a group passes its cap, or the last gap.

    Between two corners a movement is convex, so it is within the cap at the gap at
    which the chord is.
    """
    inner = table.chain_ends[:-1] == table.chain_ends[1:]  # not the last of its chain
    rows, groups = table.capped_rows[:-1][inner], table.capped_groups[:-1][inner]
    here, there, cap = (
        moves[rows, groups],
        moves[rows + 1, groups],
        table.cap[rows, groups],
    )
    crossing = (here > cap) != (there > cap)
    cap_gap = pairs.largest_gap.copy()
    rows, here, there, cap = (a[crossing] for a in (rows, here, there, cap))
    share = (here - cap) / (here - there)
    cap_gap[table.row_class[rows]] = gap[rows] + share * (gap[rows + 1] - gap[rows])
    return cap_gap


def _two_norms(
    moves: FloatArray,
    table: MovementTable,
    pairs: ResidualPairs,
    larger: FloatArray,
    gap: FloatArray,
) -> None:
    """Bound a clipped group by its two norms (section 4) if the last row gains.

    The smaller of two residuals leaves a norm of at most itself times the radius, the
    larger one at most the clip norm. One formula for a whole chain keeps it convex;
    the first row must be beyond the cap, so that it loses nothing.
    """
    rows, groups = table.capped_rows, table.capped_groups
    smaller = larger[rows] - gap[rows]
    if pairs.largest_unrelated_gap > pairs.peak:  # either sign
        smaller = np.maximum(smaller, 0.5 * gap[rows])
    by_norms = table.clip_norm[groups] + smaller * table.radius[groups]
    plain = moves[rows, groups]
    better = (by_norms < plain)[table.chain_ends]
    better &= (plain > table.cap[rows, groups])[table.chain_starts]
    moves[rows, groups] = np.where(better, by_norms, plain)


def _uncapped(
    table: MovementTable, pairs: ResidualPairs, gap: FloatArray, scalar: bool
) -> FloatArray:
    """Return how far residual times features moves before caps (Lemmas 6 and 7)."""
    peak = pairs.peak
    own = table.row_class
    fall = pairs.slope[own] * np.maximum(gap - pairs.peak_gap[own], 0.0)
    larger = peak - table.follows_line * fall
    half = 0.5 * gap
    if scalar:
        middle = larger - half
        weights = (middle * middle, half * half, 2.0 * middle * half)
        smaller = np.maximum(larger - gap, 0.0)
    else:
        fall = np.minimum(gap, peak)
        level = np.full_like(gap, peak**2)
        weights = (level, half * half, fall * (peak - 0.5 * fall))
        smaller = np.full_like(gap, peak)
    squares = (gap * gap)[:, None] * table.unchanged_square
    changed = table.changed
    if changed.row.size:
        values = weights[0][changed.row] * changed.weights[0]
        values += weights[1][changed.row] * changed.weights[1]
        values += weights[2][changed.row] * changed.weights[2]
        features = np.maximum.reduceat(values, changed.feature_starts)
        cells = np.add.reduceat(features, changed.cell_starts)
        squares.reshape(-1)[changed.cells] += cells
    moves = np.sqrt(squares)
    if table.projected.size:
        columns = table.projected
        radius = table.radius[columns]
        moves[:, columns] = np.minimum(
            gap[:, None] * radius + smaller[:, None] * table.diameter[:, columns],
            2.0 * peak * radius,
        )
    if table.capped_rows.size:
        _two_norms(moves, table, pairs, larger, gap)
    return moves


def _write_reference_moves(
    out: FloatArray,
    table: MovementTable,
    pairs: ResidualPairs,
    moves: FloatArray,
    scalar: bool,
) -> None:
    """Bound groups with an influence bound where the reference residual moves.

    docs/theory/influence.md, section 3: Lemma 2, and Lemmas 4 and 5 for `influenced`.
    """
    rows, columns = table.reference_moves, table.bounded
    own, flips = table.row_class[rows], table.flips[rows]
    gap = np.where(flips, pairs.largest_flip_gap[own], pairs.largest_gap[own])
    reference_gap = np.where(
        flips, pairs.largest_flip_reference_gap[own], pairs.largest_reference_gap[own]
    )
    radius, influence_norm = table.radius[columns], table.influence_norm[columns]
    stretch = 1.0 if scalar else math.sqrt(2.0)
    out[rows[:, None], columns] = np.minimum(
        np.minimum(stretch * gap[:, None] * radius, 2.0 * table.clip_norm[columns]),
        reference_gap[:, None] * radius + 2.0 * influence_norm,
    )
    cells = table.influenced
    if cells.rows.size:
        first, last, free = moves[cells.probes, cells.groups]
        moved, unrelated = np.maximum(first, last), np.maximum(first, free)
        clip_norm = table.clip_norm[cells.groups]
        influence_norm = table.influence_norm[cells.groups]
        in_norm = np.minimum(
            np.minimum(math.sqrt(2.0) * moved, moved + 2.0 * influence_norm),
            np.minimum(unrelated, 2.0 * clip_norm),
        )
        in_residual = moved if scalar else unrelated
        out[cells.rows, cells.groups] = np.where(
            np.isfinite(clip_norm), in_norm, in_residual
        )
