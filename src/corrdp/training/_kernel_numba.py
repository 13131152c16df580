"""The gradient kernel fused in one pass per tile, compiled by numba.

The same sums as `corrdp.training._kernel_numpy`, where they are explained; a test
holds the two together. Loops run over the rows of a tile, which are adjacent in
memory, so that the compiler turns every one of them into vector instructions.
"""

import math
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from corrdp._typing import FloatArray
from corrdp.training._tiles import GroupRules, RowTiles

TILE_ROWS = 256
_TILES_PER_THREAD = 32  # fewer are done before a second thread has started
_UNBOUNDED = np.float32(1e30)
_SMALLEST_NORM = np.float32(1e-30)
_REORDER = {"reassoc", "contract", "arcp", "nsz"}  # no assumption on inf or NaN


@njit(fastmath=_REORDER, inline="always")
def _sigmoid(score: np.float32) -> np.float32:
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


@njit(fastmath=_REORDER)
def _add_tile(
    tile: Any, labels: Any, n_real: int, coef: Any, starts: Any, n_sensitive: int,
    radius: Any, clip: Any, influence: Any, residual_bound: Any, gradient: Any,
    work: Any,
) -> int:  # fmt: skip
    n_rows = labels.size
    one = np.float32(1)
    residual, without, scalar, norm = work[0], work[1], work[2], work[3]
    for i in range(n_rows):
        residual[i] = np.float32(0)
        without[i] = np.float32(0)
    for j in range(n_sensitive):
        for i in range(n_rows):
            residual[i] += coef[j] * tile[j, i]
    for j in range(n_sensitive, coef.size):
        for i in range(n_rows):
            without[i] += coef[j] * tile[j, i]
    n_inside = 0
    if residual_bound > 0:
        for i in range(n_rows):
            raw = residual[i] + without[i] - labels[i]
            if i < n_real and abs(raw) <= residual_bound:
                n_inside += 1
            residual[i] = min(max(raw, -residual_bound), residual_bound)
            base = without[i] - labels[i]
            without[i] = min(max(base, -residual_bound), residual_bound)
    else:
        for i in range(n_rows):
            residual[i] = _sigmoid(residual[i] + without[i]) - labels[i]
            without[i] = _sigmoid(without[i]) - labels[i]
    for g in range(clip.size):
        first, last = starts[g], starts[g + 1]
        free = influence[g] >= _UNBOUNDED
        if free and radius[g] >= _UNBOUNDED and clip[g] >= _UNBOUNDED:
            for i in range(n_rows):
                scalar[i] = residual[i]
        else:
            for i in range(n_rows):
                norm[i] = np.float32(0)
            for j in range(first, last):
                for i in range(n_rows):
                    norm[i] += tile[j, i] * tile[j, i]
            for i in range(n_rows):
                length = max(math.sqrt(norm[i]), _SMALLEST_NORM)
                shrink = min(np.float32(1), radius[g] / length)
                inverse = np.float32(1) / (length * shrink)
                cap = clip[g] * inverse
                room = influence[g] * (inverse if clip[g] < _UNBOUNDED else one)
                true = min(max(residual[i], -cap), cap)
                base = min(max(without[i], -cap), cap)
                step = min(max(true - base, -room), room)
                scalar[i] = shrink * (base + step)
        for j in range(first, last):
            total = np.float32(0)
            for i in range(n_rows):
                total += scalar[i] * tile[j, i]
            gradient[j] += total
    return n_inside


@njit(cache=True)
def _add_tiles(
    tiles: Any, labels: Any, n_rows: int, coef: Any, starts: Any, n_sensitive: int,
    radius: Any, clip: Any, influence: Any, residual_bound: Any, first: int, last: int,
    gradient: Any,
) -> int:  # fmt: skip
    tile_rows = labels.shape[1]
    work = np.empty((4, tile_rows), np.float32)
    n_inside = 0
    for k in range(first, last):
        n_inside += _add_tile(
            tiles[k], labels[k], min(tile_rows, n_rows - k * tile_rows), coef, starts,
            n_sensitive, radius, clip, influence, residual_bound, gradient, work,
        )  # fmt: skip
    return n_inside


@njit(parallel=True, cache=True)
def _add_parts(
    tiles: Any, labels: Any, n_rows: int, coef: Any, starts: Any, n_sensitive: int,
    radius: Any, clip: Any, influence: Any, residual_bound: Any, gradients: Any,
    inside: Any,
) -> None:  # fmt: skip
    n_tiles, n_parts = labels.shape[0], inside.size
    for part in prange(n_parts):
        inside[part] = _add_tiles(
            tiles, labels, n_rows, coef, starts, n_sensitive, radius, clip, influence,
            residual_bound, part * n_tiles // n_parts, (part + 1) * n_tiles // n_parts,
            gradients[part],
        )  # fmt: skip


def gradient_sum(
    rows: RowTiles, coef: FloatArray, rules: GroupRules, *, residual_bound: float
) -> tuple[FloatArray, int]:
    """Return the sum of clipped record gradients, and how many residuals are small.

    Parameters and results are those of the numpy kernel; tiles are float32.

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
        rules.starts,
        rules.n_sensitive,
        _finite(rules.feature_radius),
        _finite(rules.clip_norm),
        _finite(rules.influence_bound),
        np.float32(residual_bound),
    )
    n_tiles = len(rows.tiles)
    n_parts = max(1, min(get_num_threads(), n_tiles // _TILES_PER_THREAD))
    gradients = np.zeros((n_parts, coef.size))
    if n_parts == 1:
        return gradients[0], _add_tiles(*arguments, 0, n_tiles, gradients[0])
    inside = np.zeros(n_parts, np.int64)
    _add_parts(*arguments, gradients, inside)
    return gradients.sum(axis=0), int(inside.sum())


def _finite(values: FloatArray) -> Any:
    return np.minimum(values, _UNBOUNDED).astype(np.float32)
