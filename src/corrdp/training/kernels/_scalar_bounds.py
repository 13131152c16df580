"""The bounds of scalar losses in one compiled pass, for use at every step.

The same formulas as `_scores`, `_residuals` and `_movement` of `training/sensitivity`,
where they are explained; a test holds the two together.
"""

import math
from typing import Any

import numpy as np
from numba import njit

_LARGEST_SCORE = 700.0
_ROUNDING = 1e-12
_ZERO, _FIRST, _SECOND, _THIRD, _END, _FLIP, _FREE = range(7)


@njit(cache=True)
def _score_reach(coef: Any, scores: Any) -> Any:
    """Return smallest and largest score, and the change per class (twice)."""
    n_features = scores.starts.size
    change = np.zeros(scores.changed.shape[0])
    low = high = hidden_low = hidden_high = 0.0
    for f in range(n_features):
        last = f + 1 == n_features
        stop = scores.columns.size if last else scores.starts[f + 1]
        feature_low, feature_high = math.inf, -math.inf
        for corner in range(scores.starts[f], stop):
            value = coef[scores.columns[corner]] * scores.values[corner]
            feature_low = min(feature_low, value)
            feature_high = max(feature_high, value)
        for c in range(change.size):
            change[c] += scores.changed[c, f] * (feature_high - feature_low)
        column_stop = coef.size if last else scores.first_columns[f + 1]
        shift = 0.0
        for j in range(scores.first_columns[f], column_stop):
            shift += coef[j] * scores.offset[j]
        if scores.sensitive[f]:
            hidden_low += feature_low - shift
            hidden_high += feature_high - shift
        else:
            low += feature_low - shift
            high += feature_high - shift
    reference = 0.0
    for j in range(coef.size):
        reference += coef[j] * scores.reference[j]
    return low + min(hidden_low, reference), high + max(hidden_high, reference), change


@njit(cache=True)
def _expit(score: float) -> float:
    return 1.0 / (1.0 + math.exp(-score)) if score > -_LARGEST_SCORE else 0.0


@njit(cache=True)
def _logistic_pairs(limit: float, change: Any) -> Any:
    """Return peak and, per class: peak_gap, end, slope, reference end."""
    n = change.size // 2
    limit = min(limit, _LARGEST_SCORE)
    peak, rest = _expit(limit), math.exp(-limit) / (1.0 + math.exp(-limit))
    pairs = np.empty((4, n))
    for c in range(n):
        end = math.tanh(change[c] / 4.0)
        lower = _expit(limit - change[c])
        peak_gap = min(max(peak - lower, 0.0) + _ROUNDING, end)
        steepness = lower * _expit(change[c] - limit) / (peak * rest)
        pairs[0, c] = peak_gap
        pairs[1, c] = end
        pairs[2, c] = 1.0 / (max(steepness - 1.0, 0.0) + _ROUNDING)
        pairs[3, c] = math.tanh(change[n + c] / 4.0)
    return peak, pairs


@njit(cache=True)
def _box_pairs(peak: float, change: Any, label_gap: Any) -> Any:
    n = change.size // 2
    pairs = np.zeros((4, n))
    for c in range(n):
        pairs[0, c] = pairs[1, c] = min(change[c] + label_gap[c], 2.0 * peak)
        pairs[3, c] = min(change[n + c] + label_gap[c], 2.0 * peak)
    return peak, pairs


@njit(cache=True)
def _gaps(table: Any, peak: float, pairs: Any, cap_gap: Any, signed: bool) -> Any:
    gaps = np.empty(table.row_class.size)
    for row in range(gaps.size):
        c, corner = table.row_class[row], table.corner[row]
        peak_gap, end = pairs[0, c], pairs[1, c]
        influence_gap = min(table.influence_gap[c], end)
        low, high = min(peak_gap, influence_gap), max(peak_gap, influence_gap)
        if corner == _ZERO:
            gaps[row] = 0.0
        elif corner == _FIRST:
            gaps[row] = min(low, cap_gap[c])
        elif corner == _SECOND:
            gaps[row] = max(low, min(high, cap_gap[c]))
        elif corner == _THIRD:
            gaps[row] = max(high, cap_gap[c])
        elif corner == _END:
            gaps[row] = end
        elif corner == _FLIP:
            gaps[row] = min(1.0 + end, 2.0 * peak)
        elif corner == _FREE and signed:
            gaps[row] = peak
        else:
            gaps[row] = 2.0 * peak
    return gaps


@njit(cache=True)
def _cap_gaps(table: Any, pairs: Any, gaps: Any, moves: Any) -> Any:
    cap_gap = pairs[1].copy()
    for i in range(table.capped_rows.size - 1):
        row, g = table.capped_rows[i], table.capped_groups[i]
        here, there, cap = moves[row, g], moves[row + 1, g], table.cap[row, g]
        inner = table.chain_ends[i] == table.chain_ends[i + 1]
        if inner and (here > cap) != (there > cap):
            share = (here - cap) / (here - there)
            between = share * (gaps[row + 1] - gaps[row])
            cap_gap[table.row_class[row]] = gaps[row] + between
    return cap_gap


@njit(cache=True)
def _two_norms(moves: Any, table: Any, smaller: Any) -> None:
    better = False
    for i in range(table.capped_rows.size):
        row, g = table.capped_rows[i], table.capped_groups[i]
        clip_norm, radius = table.clip_norm[g], table.radius[g]
        if table.chain_starts[i] == i:
            end = table.capped_rows[table.chain_ends[i]]
            better = moves[row, g] > table.cap[row, g]
            better = better and clip_norm + smaller[end] * radius < moves[end, g]
        if better:
            moves[row, g] = clip_norm + smaller[row] * radius


@njit(cache=True)
def _uncapped(table: Any, peak: float, pairs: Any, gaps: Any, signed: bool) -> Any:
    moves = np.empty(table.unchanged_square.shape)
    weights = np.empty((3, table.row_class.size))
    left = np.empty(table.row_class.size)
    for row in range(table.row_class.size):
        pair = pairs[:, table.row_class[row]]
        gap = gaps[row]
        larger = peak - table.follows_line[row] * pair[2] * max(gap - pair[0], 0.0)
        half = 0.5 * gap
        middle = larger - half
        weights[0, row] = middle * middle
        weights[1, row] = half * half
        weights[2, row] = 2.0 * middle * half
        for g in range(table.radius.size):
            moves[row, g] = gap * gap * table.unchanged_square[row, g]
        smaller = max(larger - gap, 0.0)
        left[row] = larger - gap if signed else max(larger - gap, half)
        for g in table.projected:
            radius = table.radius[g]
            move = gap * radius + smaller * table.diameter[row, g]
            moves[row, g] = min(move, 2.0 * peak * radius) ** 2
    changed = table.changed
    flat = moves.reshape(-1)
    n_cells, n_features = changed.cells.size, changed.feature_starts.size
    for cell in range(n_cells):
        stop = changed.cell_starts[cell + 1] if cell + 1 < n_cells else n_features
        for feature in range(changed.cell_starts[cell], stop):
            first = changed.feature_starts[feature]
            end = changed.row.size
            if feature + 1 < n_features:
                end = changed.feature_starts[feature + 1]
            largest = 0.0
            for pair in range(first, end):
                row = changed.row[pair]
                value = weights[0, row] * changed.weights[0, pair]
                value += weights[1, row] * changed.weights[1, pair]
                value += weights[2, row] * changed.weights[2, pair]
                largest = max(largest, value)
            flat[changed.cells[cell]] += largest
    moves = np.sqrt(moves)
    _two_norms(moves, table, left)
    return moves


@njit(cache=True)
def _capped(table: Any, moves: Any) -> Any:
    out = moves[: table.n_rows].copy()
    for row in range(table.n_rows):
        for g in range(table.radius.size):
            capped = moves[row, g] > table.cap[row, g] * (1.0 + _ROUNDING)
            if row > 0 and table.continues[row - 1, 0]:
                before = table.cap[row - 1, g] * (1.0 + _ROUNDING)
                capped = capped or moves[row - 1, g] > before
            if row + 1 < table.n_rows and table.continues[row, 0]:
                after = table.cap[row + 1, g] * (1.0 + _ROUNDING)
                capped = capped or moves[row + 1, g] > after
            if capped:
                out[row, g] = table.cap[row, g]
    return out


@njit(cache=True)
def _write_reference_moves(
    table: Any, out: Any, moves: Any, peak: float, pairs: Any
) -> None:
    for row in table.reference_moves:
        end, reference = pairs[1, table.row_class[row]], pairs[3, table.row_class[row]]
        if table.flips[row]:
            end = min(1.0 + end, 2.0 * peak)
            reference = min(1.0 + reference, 2.0 * peak)
        for g in table.bounded:
            radius = table.radius[g]
            by_reference = reference * radius + 2.0 * table.influence_norm[g]
            out[row, g] = min(end * radius, 2.0 * table.clip_norm[g], by_reference)
    influenced = table.influenced
    for cell in range(influenced.rows.size):
        g = influenced.groups[cell]
        first = moves[influenced.probes[0, cell], g]
        moved = max(first, moves[influenced.probes[1, cell], g])
        bound = moved
        if table.clip_norm[g] < math.inf:
            unrelated = max(first, moves[influenced.probes[2, cell], g])
            bound = min(math.sqrt(2.0) * moved, moved + 2.0 * table.influence_norm[g])
            bound = min(bound, unrelated, 2.0 * table.clip_norm[g])
        out[influenced.rows[cell], g] = bound


@njit(cache=True)
def scalar_bounds(
    coef: Any,
    scores: Any,
    table: Any,
    signed: bool,
    residual_limit: float,
    label_bounds: Any,
    label_gap: Any,
) -> Any:
    """Return the bounds of a loss with one residual, shape (n_rows, n_groups).

    `signed` is true for the logistic loss, whose label fixes the sign.
    """
    low, high, change = _score_reach(coef, scores)
    if signed:
        peak, pairs = _logistic_pairs(max(high, -low), change)
    else:
        farthest = max(high - label_bounds[0], label_bounds[1] - low)
        peak, pairs = _box_pairs(min(residual_limit, farthest), change, label_gap)
    gaps = _gaps(table, peak, pairs, pairs[1], signed)
    moves = _uncapped(table, peak, pairs, gaps, signed)
    if table.capped_rows.size:
        cap_gap = _cap_gaps(table, pairs, gaps, moves)
        gaps = _gaps(table, peak, pairs, cap_gap, signed)
        moves = _uncapped(table, peak, pairs, gaps, signed)
    out = _capped(table, moves)
    _write_reference_moves(table, out, moves, peak, pairs)
    for row in range(out.shape[0]):
        for g in range(out.shape[1]):
            out[row, g] *= 1.0 + _ROUNDING
    return out
