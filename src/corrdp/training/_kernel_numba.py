"""The gradient kernel fused in one pass per tile, compiled by numba.

The same sums as `corrdp.training._kernel_numpy`, where they are explained; a test
holds the two together. Loops run over the rows of a tile, which are adjacent in
memory, so that the compiler turns every one of them into vector instructions; columns
are taken two at a time, which halves the traffic to the running sums. No number here
is infinite or NaN, so the compiler may assume so (`fastmath`).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from corrdp._typing import FloatArray, IntArray
from corrdp.training._tiles import GroupRules, RowTiles

TILE_ROWS = 256
_TILES_PER_THREAD = 32  # fewer are done before a second thread has started
_UNBOUNDED = np.float32(1e15)  # times the inverse of the smallest norm still finite
_SMALLEST_NORM = np.float32(1e-15)


@njit(inline="always", fastmath=True, error_model="numpy")
def _sigmoid(score: Any) -> Any:
    """Return 1 / (1 + exp(-score)), absolute error below 2e-7, without a branch.

    Lambert's continued fraction of tanh(score / 8), its angle doubled twice.
    """
    z = min(max(score * np.float32(0.125), np.float32(-2.5)), np.float32(2.5))
    q = z * z
    above = np.float32(135135) + q * (np.float32(17325) + q * (np.float32(378) + q))
    below = np.float32(135135) + q * (
        np.float32(62370) + q * (np.float32(3150) + np.float32(28) * q)
    )
    t = z * above / below
    t = np.float32(2) * t / (np.float32(1) + t * t)
    t = np.float32(2) * t / (np.float32(1) + t * t)
    return np.float32(0.5) + np.float32(0.5) * t


@njit(inline="always", fastmath=True, error_model="numpy")
def _add_scores(
    tile: Any, n: int, coef: Any, offset: Any, first: int, last: int, score: Any,
    norm: Any,
) -> None:  # fmt: skip
    """Add the columns of a group to the score, and their squares to the norm."""
    j = first
    while j + 1 < last:
        for i in range(n):
            left = tile[j, i] - offset[j]
            right = tile[j + 1, i] - offset[j + 1]
            score[i] += coef[j] * left + coef[j + 1] * right
            norm[i] += left * left + right * right
        j += 2
    if j < last:
        for i in range(n):
            left = tile[j, i] - offset[j]
            score[i] += coef[j] * left
            norm[i] += left * left


@njit(inline="always", fastmath=True, error_model="numpy")
def _add_gradient(
    tile: Any, n: int, offset: Any, first: int, last: int, scalar: Any, gradient: Any
) -> None:
    """Add the columns of a group times their scalars to the gradient."""
    total = np.float32(0)
    for i in range(n):
        total += scalar[i]
    j = first
    while j + 1 < last:
        left, right = np.float32(0), np.float32(0)
        for i in range(n):
            left += scalar[i] * tile[j, i]
            right += scalar[i] * tile[j + 1, i]
        gradient[j] += left - total * offset[j]
        gradient[j + 1] += right - total * offset[j + 1]
        j += 2
    if j < last:
        left = np.float32(0)
        for i in range(n):
            left += scalar[i] * tile[j, i]
        gradient[j] += left - total * offset[j]


@njit(inline="always", fastmath=True, error_model="numpy")
def _add_tile(
    tile: Any, labels: Any, n: int, coef: Any, offset: Any, starts: Any,
    n_sensitive: int, radius: Any, clip: Any, influence: Any, residual_bound: Any,
    gradient: Any, work: Any,
) -> int:  # fmt: skip
    n_groups = clip.size
    residual, without, scalar, norms = work[0], work[1], work[2], work[3:]
    work[:, :] = np.float32(0)
    for g in range(n_groups):
        score = residual if starts[g] < n_sensitive else without
        _add_scores(tile, n, coef, offset, starts[g], starts[g + 1], score, norms[g])
    n_inside = 0
    if residual_bound > 0:
        for i in range(n):
            raw = residual[i] + without[i] - labels[i]
            n_inside += abs(raw) <= residual_bound
            residual[i] = min(max(raw, -residual_bound), residual_bound)
            base = without[i] - labels[i]
            without[i] = min(max(base, -residual_bound), residual_bound)
    else:
        for i in range(n):
            residual[i] = _sigmoid(residual[i] + without[i]) - labels[i]
            without[i] = _sigmoid(without[i]) - labels[i]
    for g in range(n_groups):
        norm = norms[g]
        if influence[g] < _UNBOUNDED:
            in_norm = clip[g] < _UNBOUNDED
            for i in range(n):
                length = max(math.sqrt(norm[i]), _SMALLEST_NORM)
                shrink = min(np.float32(1), radius[g] / length)
                inverse = np.float32(1) / (length * shrink)
                cap = clip[g] * inverse
                room = influence[g] * (inverse if in_norm else np.float32(1))
                true = min(max(residual[i], -cap), cap)
                base = min(max(without[i], -cap), cap)
                step = min(max(true - base, -room), room)
                scalar[i] = shrink * (base + step)
        elif clip[g] >= _UNBOUNDED and radius[g] >= _UNBOUNDED:
            for i in range(n):
                scalar[i] = residual[i]
        else:
            for i in range(n):
                length = max(math.sqrt(norm[i]), _SMALLEST_NORM)
                shrink = min(np.float32(1), radius[g] / length)
                cap = clip[g] / length
                true = shrink * residual[i]
                scalar[i] = min(max(true, -cap), cap)
        _add_gradient(tile, n, offset, starts[g], starts[g + 1], scalar, gradient)
    return n_inside


@njit(cache=True, fastmath=True, error_model="numpy")
def _add_tiles(
    tiles: Any, labels: Any, n_rows: int, coef: Any, offset: Any, starts: Any,
    n_sensitive: int, radius: Any, clip: Any, influence: Any, residual_bound: Any,
    first: int, last: int, gradient: Any,
) -> int:  # fmt: skip
    tile_rows = labels.shape[1]
    work = np.empty((3 + clip.size, tile_rows), np.float32)
    n_inside = 0
    for k in range(first, last):
        n_inside += _add_tile(
            tiles[k], labels[k], min(tile_rows, n_rows - k * tile_rows), coef, offset,
            starts, n_sensitive, radius, clip, influence, residual_bound, gradient,
            work,
        )  # fmt: skip
    return n_inside


@njit(parallel=True, cache=True)
def _add_parts(
    tiles: Any, labels: Any, n_rows: int, coef: Any, offset: Any, starts: Any,
    n_sensitive: int, radius: Any, clip: Any, influence: Any, residual_bound: Any,
    gradients: Any, inside: Any,
) -> None:  # fmt: skip
    n_tiles, n_parts = labels.shape[0], inside.size
    for part in prange(n_parts):
        inside[part] = _add_tiles(
            tiles, labels, n_rows, coef, offset, starts, n_sensitive, radius, clip,
            influence, residual_bound, part * n_tiles // n_parts,
            (part + 1) * n_tiles // n_parts, gradients[part],
        )  # fmt: skip


@njit(cache=True, fastmath=True, error_model="numpy")
def _add_models(
    tiles: Any, labels: Any, n_rows: int, coef: Any, offset: Any, starts: Any,
    n_groups: Any, n_sensitive: Any, radius: Any, clip: Any, influence: Any,
    residual_bound: Any, first: int, last: int, gradients: Any, inside: Any,
) -> None:  # fmt: skip
    tile_rows = labels.shape[1]
    work = np.empty((3 + radius.shape[1], tile_rows), np.float32)
    for k in range(first, last):
        n = min(tile_rows, n_rows - k * tile_rows)
        for model in range(coef.shape[0]):
            g = n_groups[model]
            inside[model] += _add_tile(
                tiles[k], labels[k], n, coef[model], offset[model],
                starts[model, : g + 1], n_sensitive[model], radius[model, :g],
                clip[model, :g], influence[model, :g], residual_bound[model],
                gradients[model], work[: 3 + g],
            )  # fmt: skip


@njit(parallel=True, cache=True)
def _add_model_parts(
    tiles: Any, labels: Any, n_rows: int, coef: Any, offset: Any, starts: Any,
    n_groups: Any, n_sensitive: Any, radius: Any, clip: Any, influence: Any,
    residual_bound: Any, gradients: Any, inside: Any,
) -> None:  # fmt: skip
    n_tiles, n_parts = labels.shape[0], inside.shape[0]
    for part in prange(n_parts):
        _add_models(
            tiles, labels, n_rows, coef, offset, starts, n_groups, n_sensitive, radius,
            clip, influence, residual_bound, part * n_tiles // n_parts,
            (part + 1) * n_tiles // n_parts, gradients[part], inside[part],
        )  # fmt: skip


def gradient_sums(
    rows: RowTiles,
    coefs: FloatArray,
    offsets: FloatArray,
    rules: Sequence[GroupRules],
    *,
    residual_bounds: Sequence[float],
) -> tuple[FloatArray, IntArray]:
    """Return gradients of many models in one pass over the tiles.

    Parameters
    ----------
    rows : RowTiles
        As for `gradient_sum`.
    coefs, offsets : array of float, shape (n_models, n_columns)
        One row per model.
    rules : sequence of GroupRules
        One per model.
    residual_bounds : sequence of float
        One per model.

    Guarantee
    ---------
    None: these are the sums before noise (`docs/theory/solvers.md`, section 1).
    """
    most = max(rule.n_groups for rule in rules)
    arguments = (
        rows.tiles,
        rows.labels,
        rows.n_rows,
        coefs.astype(np.float32),
        offsets.astype(np.float32),
        np.array([_padded(rule.starts, most + 1) for rule in rules]),
        np.array([rule.n_groups for rule in rules]),
        np.array([rule.n_sensitive for rule in rules]),
        _finite(np.array([_padded(rule.feature_radius, most) for rule in rules])),
        _finite(np.array([_padded(rule.clip_norm, most) for rule in rules])),
        _finite(np.array([_padded(rule.influence_bound, most) for rule in rules])),
        np.array(residual_bounds, np.float32),
    )
    n_tiles = len(rows.tiles)
    n_parts = _n_parts(n_tiles)
    gradients = np.zeros((n_parts, *coefs.shape))
    inside = np.zeros((n_parts, len(rules)), np.int64)
    if n_parts == 1:
        _add_models(*arguments, 0, n_tiles, gradients[0], inside[0])
    else:
        _add_model_parts(*arguments, gradients, inside)
    return gradients.sum(axis=0), inside.sum(axis=0)


def gradient_sum(
    rows: RowTiles,
    coef: FloatArray,
    offset: FloatArray,
    rules: GroupRules,
    *,
    residual_bound: float,
) -> tuple[FloatArray, int]:
    """Return the sum of clipped record gradients, and how many residuals are small.

    Parameters and results are those of the numpy kernel.

    Guarantee
    ---------
    None: this is the sum before noise (`docs/theory/influence.md` bounds how far it
    can move).
    """
    arguments = (
        rows.tiles,
        rows.labels,
        rows.n_rows,
        coef.astype(np.float32),
        offset.astype(np.float32),
        rules.starts,
        rules.n_sensitive,
        _finite(rules.feature_radius),
        _finite(rules.clip_norm),
        _finite(rules.influence_bound),
        np.float32(residual_bound),
    )
    n_tiles = len(rows.tiles)
    n_parts = _n_parts(n_tiles)
    gradients = np.zeros((n_parts, coef.size))
    if n_parts == 1:
        return gradients[0], _add_tiles(*arguments, 0, n_tiles, gradients[0])
    inside = np.zeros(n_parts, np.int64)
    _add_parts(*arguments, gradients, inside)
    return gradients.sum(axis=0), int(inside.sum())


def _n_parts(n_tiles: int) -> int:
    return max(1, min(get_num_threads(), n_tiles // _TILES_PER_THREAD))


def _finite(values: FloatArray) -> Any:
    return np.minimum(values, _UNBOUNDED).astype(np.float32)


def _padded(values: Any, size: int) -> Any:
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])
