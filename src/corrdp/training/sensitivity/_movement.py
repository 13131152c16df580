"""From pairs of residuals to how far every group moves, in few array operations."""

import math

import numpy as np

from corrdp._typing import FloatArray
from corrdp.training.sensitivity._residuals import ResidualPairs
from corrdp.training.sensitivity._rows import Corner
from corrdp.training.sensitivity._table import MoveTable

ROUNDING = 1e-12


def group_moves(table: MoveTable, pairs: ResidualPairs, *, scalar: bool) -> FloatArray:
    """Return the bounds, shape (n_rows, n_groups).

    Parameters
    ----------
    table : MoveTable
        Rows, groups and what changes in them.
    pairs : ResidualPairs
        Which residuals a record and its neighbor can have.
    scalar : bool
        Whether a record has one residual; with several, only their norms count.

    Guarantee
    ---------
    docs/theory/glm_sensitivity.md, Theorem 2, and docs/theory/influence.md: clipping to
    a ball, adding the clipped influence and projecting features never move a group
    further than a convex combination of its rows allows.
    """
    gap = _gaps(table, pairs, pairs.end)
    moves = _uncapped(table, pairs, gap, scalar)
    if table.cut_rows.size:
        gap = _gaps(table, pairs, _cuts(table, pairs, gap, moves))
        moves = _uncapped(table, pairs, gap, scalar)
    out = moves[: table.n_rows].copy()
    # Between two rows a movement is convex unless a cap cuts it: then the cap, which
    # is constant, must stand in both rows.
    over = out > table.cap * (1.0 + ROUNDING)
    if over.any():
        cut = over.copy()
        cut[1:] |= over[:-1] & table.continues
        cut[:-1] |= over[1:] & table.continues
        np.copyto(out, table.cap, where=cut)
    if table.uncoupled.size:
        _write_uncoupled(out, table, pairs, moves, scalar)
    out *= 1.0 + ROUNDING
    return out


def _gaps(table: MoveTable, pairs: ResidualPairs, cut: FloatArray) -> FloatArray:
    by_corner = np.empty((len(Corner), pairs.end.size))
    by_corner[Corner.ZERO] = 0.0
    inner = by_corner[Corner.FIRST : Corner.END]
    inner[0] = pairs.bend
    np.minimum(table.kink, pairs.end, out=inner[1])
    inner[2] = cut
    inner.sort(axis=0)
    by_corner[Corner.END] = pairs.end
    by_corner[Corner.FLIP] = pairs.flip_end
    by_corner[Corner.FREE] = pairs.unrelated_end
    by_corner[Corner.FREE_FLIP] = 2.0 * pairs.peak
    return np.asarray(by_corner[table.corner, table.owner])


def _cuts(
    table: MoveTable, pairs: ResidualPairs, gap: FloatArray, moves: FloatArray
) -> FloatArray:
    """Return per class the gap at which a group passes its cap, or the last gap.

    Between two corners a movement is convex, so it is within the cap at the gap at
    which the chord is.
    """
    inner = table.cut_ends[:-1] == table.cut_ends[1:]  # not the last of its chain
    rows, groups = table.cut_rows[:-1][inner], table.cut_groups[:-1][inner]
    here, there, cap = (
        moves[rows, groups],
        moves[rows + 1, groups],
        table.cap[rows, groups],
    )
    crossing = (here > cap) != (there > cap)
    cut = pairs.end.copy()
    rows, here, there, cap = (a[crossing] for a in (rows, here, there, cap))
    share = (here - cap) / (here - there)
    cut[table.owner[rows]] = gap[rows] + share * (gap[rows + 1] - gap[rows])
    return cut


def _prefer_norms(
    moves: FloatArray,
    table: MoveTable,
    pairs: ResidualPairs,
    larger: FloatArray,
    gap: FloatArray,
) -> None:
    """Bound a clipped group by its two norms if the last row of the chain gains.

    The smaller of two residuals leaves a norm of at most itself times the radius, the
    larger one at most the clip norm. One formula for a whole chain keeps it convex;
    the first row must be beyond the cap, so that it loses nothing.
    """
    rows, groups = table.cut_rows, table.cut_groups
    smaller = larger[rows] - gap[rows]
    if pairs.unrelated_end > pairs.peak:  # either sign
        smaller = np.maximum(smaller, 0.5 * gap[rows])
    by_norms = table.clip_norm[groups] + smaller * table.radius[groups]
    plain = moves[rows, groups]
    better = (by_norms < plain)[table.cut_ends]
    better &= (plain > table.cap[rows, groups])[table.cut_starts]
    moves[rows, groups] = np.where(better, by_norms, plain)


def _uncapped(
    table: MoveTable, pairs: ResidualPairs, gap: FloatArray, scalar: bool
) -> FloatArray:
    """Return how far residual times features moves, before caps are applied."""
    peak = pairs.peak
    fall = pairs.slope[table.owner] * np.maximum(gap - pairs.bend[table.owner], 0.0)
    larger = peak - table.falls * fall
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
    squares = (gap * gap)[:, None] * table.still
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
    if table.cut_rows.size:
        _prefer_norms(moves, table, pairs, larger, gap)
    return moves


def _write_uncoupled(
    out: FloatArray,
    table: MoveTable,
    pairs: ResidualPairs,
    moves: FloatArray,
    scalar: bool,
) -> None:
    """Bound groups with an influence bound where the reference residual moves."""
    rows, columns = table.uncoupled, table.bounded
    owner, flips = table.owner[rows], table.flips[rows]
    end = np.where(flips, pairs.flip_end[owner], pairs.end[owner])
    reference = np.where(
        flips, pairs.flip_reference_end[owner], pairs.reference_end[owner]
    )
    radius, reach = table.radius[columns], table.reach[columns]
    stretch = 1.0 if scalar else math.sqrt(2.0)
    out[rows[:, None], columns] = np.minimum(
        np.minimum(stretch * end[:, None] * radius, 2.0 * table.clip_norm[columns]),
        reference[:, None] * radius + 2.0 * reach,
    )
    loose = table.loose
    if loose.rows.size:
        first, last, free = moves[loose.probes, loose.groups]
        moved, unrelated = np.maximum(first, last), np.maximum(first, free)
        clip_norm, reach = table.clip_norm[loose.groups], table.reach[loose.groups]
        in_norm = np.minimum(
            np.minimum(math.sqrt(2.0) * moved, moved + 2.0 * reach),
            np.minimum(unrelated, 2.0 * clip_norm),
        )
        in_residual = moved if scalar else unrelated
        out[loose.rows, loose.groups] = np.where(
            np.isfinite(clip_norm), in_norm, in_residual
        )
