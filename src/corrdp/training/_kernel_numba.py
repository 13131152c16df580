"""The gradient kernel fused in one pass per tile, compiled by numba.

The same sums as `corrdp.training._kernel_numpy`, where they are explained; a test
holds the two together. Loops run over the rows of a tile, which are adjacent in
memory, so that the compiler turns every one of them into vector instructions; columns
are taken four at a time, which quarters the traffic to the running sums. No number here
is infinite or NaN, so the compiler may assume so (`fastmath`).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange

from corrdp._typing import FloatArray, IntArray
from corrdp.training._tiles import GroupRules, RowTiles

TILE_ROWS = 512
_TILES_PER_THREAD = 32  # fewer are done before a second thread has started
_UNBOUNDED = np.float32(1e15)  # times the inverse of the smallest norm still finite
_SMALLEST_SQUARE = np.float32(1e-30)  # a record without features in a group
_LAMBERT = tuple(
    np.float32(number / 135135)
    for number in (135135, 17325, 378, 1, 135135, 62370, 3150, 28)
)


class _Tiles(NamedTuple):
    """The arrays of `RowTiles`."""

    values: Any
    columns: Any
    places: Any
    constants: Any
    fixed: Any
    labels: Any
    n_rows: Any


class _Models(NamedTuple):
    """Parameters, offsets and rules of every model; fewer groups are padded."""

    coef: Any
    offset: Any
    residual_bound: Any
    starts: Any
    n_groups: Any
    n_sensitive: Any
    radius: Any
    clip: Any
    influence: Any


@njit(inline="always", fastmath=True, error_model="numpy")
def _sigmoid(score: Any) -> Any:
    """Return 1 / (1 + exp(-score)), absolute error below 2e-7, without a branch.

    Lambert's continued fraction of tanh(score / 8), its angle doubled twice while it
    is still a fraction, so that one division is all.
    """
    z = min(max(score * np.float32(0.125), np.float32(-2.5)), np.float32(2.5))
    q = z * z
    above = z * (_LAMBERT[0] + q * (_LAMBERT[1] + q * (_LAMBERT[2] + q * _LAMBERT[3])))
    below = _LAMBERT[4] + q * (_LAMBERT[5] + q * (_LAMBERT[6] + q * _LAMBERT[7]))
    for _ in range(2):
        above, below = np.float32(2) * above * below, above * above + below * below
    return np.float32(0.5) + np.float32(0.5) * above / below


@njit(inline="always", fastmath=True, error_model="numpy")
def _add_scores(
    values: Any, first: int, last: int, n: int, coef: Any, offset: Any, score: Any,
    norm: Any,
) -> None:  # fmt: skip
    """Add stored columns of a group to the score, and their squares to the norm."""
    k = first
    while k + 7 < last:
        c0, c1, c2, c3 = coef[k], coef[k + 1], coef[k + 2], coef[k + 3]
        c4, c5, c6, c7 = coef[k + 4], coef[k + 5], coef[k + 6], coef[k + 7]
        o0, o1, o2, o3 = offset[k], offset[k + 1], offset[k + 2], offset[k + 3]
        o4, o5, o6, o7 = offset[k + 4], offset[k + 5], offset[k + 6], offset[k + 7]
        for i in range(n):
            x0, x1 = values[k, i] - o0, values[k + 1, i] - o1
            x2, x3 = values[k + 2, i] - o2, values[k + 3, i] - o3
            x4, x5 = values[k + 4, i] - o4, values[k + 5, i] - o5
            x6, x7 = values[k + 6, i] - o6, values[k + 7, i] - o7
            score[i] += ((c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3)) + (
                (c4 * x4 + c5 * x5) + (c6 * x6 + c7 * x7)
            )
            norm[i] += ((x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3)) + (
                (x4 * x4 + x5 * x5) + (x6 * x6 + x7 * x7)
            )
        k += 8
    while k + 3 < last:
        c0, c1, c2, c3 = coef[k], coef[k + 1], coef[k + 2], coef[k + 3]
        o0, o1, o2, o3 = offset[k], offset[k + 1], offset[k + 2], offset[k + 3]
        for i in range(n):
            x0, x1 = values[k, i] - o0, values[k + 1, i] - o1
            x2, x3 = values[k + 2, i] - o2, values[k + 3, i] - o3
            score[i] += (c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3)
            norm[i] += (x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3)
        k += 4
    while k + 1 < last:
        c0, c1, o0, o1 = coef[k], coef[k + 1], offset[k], offset[k + 1]
        for i in range(n):
            x0, x1 = values[k, i] - o0, values[k + 1, i] - o1
            score[i] += c0 * x0 + c1 * x1
            norm[i] += x0 * x0 + x1 * x1
        k += 2
    if k < last:
        c0, o0 = coef[k], offset[k]
        for i in range(n):
            x0 = values[k, i] - o0
            score[i] += c0 * x0
            norm[i] += x0 * x0


@njit(inline="always", fastmath=True, error_model="numpy")
def _set_scalar(
    n: int, residual: Any, without: Any, norm: Any, one_norm: bool, radius: Any,
    clip: Any, influence: Any, scalar: Any,
) -> Any:  # fmt: skip
    """Set by what each row's features of a group are multiplied in the gradient.

    Returns the sum of the scalars. With `one_norm` all rows have the same norm.
    """
    total = np.float32(0)
    least_inverse = np.float32(1) / radius
    in_norm = clip < _UNBOUNDED
    if influence >= _UNBOUNDED and not in_norm and radius >= _UNBOUNDED:
        for i in range(n):
            scalar[i] = residual[i]
            total += residual[i]
    elif one_norm:
        inverse = np.float32(1) / math.sqrt(max(norm[0], _SMALLEST_SQUARE))
        shrink = min(np.float32(1), radius * inverse)
        inverse = max(inverse, least_inverse)
        cap = clip * inverse
        room = influence * (inverse if in_norm else np.float32(1))
        for i in range(n):
            true = min(max(residual[i], -cap), cap)
            base = min(max(without[i], -cap), cap)
            scalar[i] = shrink * (base + min(max(true - base, -room), room))
            total += scalar[i]
    else:
        for i in range(n):
            inverse = np.float32(1) / math.sqrt(max(norm[i], _SMALLEST_SQUARE))
            shrink = min(np.float32(1), radius * inverse)
            inverse = max(inverse, least_inverse)
            cap = clip * inverse
            room = influence * (inverse if in_norm else np.float32(1))
            true = min(max(residual[i], -cap), cap)
            base = min(max(without[i], -cap), cap)
            scalar[i] = shrink * (base + min(max(true - base, -room), room))
            total += scalar[i]
    return total


@njit(inline="always", fastmath=True, error_model="numpy")
def _add_gradient(
    values: Any, columns: Any, first: int, last: int, n: int, scalar: Any, gradient: Any
) -> None:
    """Add the stored columns of a group, each row times its scalar."""
    k = first
    while k + 3 < last:
        s0, s1, s2, s3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for i in range(n):
            s0 += scalar[i] * values[k, i]
            s1 += scalar[i] * values[k + 1, i]
            s2 += scalar[i] * values[k + 2, i]
            s3 += scalar[i] * values[k + 3, i]
        gradient[columns[k]] += s0
        gradient[columns[k + 1]] += s1
        gradient[columns[k + 2]] += s2
        gradient[columns[k + 3]] += s3
        k += 4
    while k < last:
        s0 = np.float32(0)
        for i in range(n):
            s0 += scalar[i] * values[k, i]
        gradient[columns[k]] += s0
        k += 1


@njit(inline="always", fastmath=True, error_model="numpy")
def _add_tile(
    tiles: Any, k: int, models: Any, model: int, gradient: Any, work: Any, near: Any
) -> int:
    n_groups, n_sensitive = models.n_groups[model], models.n_sensitive[model]
    coef, offset, starts = (
        models.coef[model],
        models.offset[model],
        models.starts[model],
    )
    residual_bound = models.residual_bound[model]
    values = tiles.values[tiles.places[k] : tiles.places[k + 1]]
    columns = tiles.columns[tiles.places[k] : tiles.places[k + 1]]
    constants, fixed, labels = tiles.constants[k], tiles.fixed[k], tiles.labels[k]
    n = min(labels.size, tiles.n_rows - k * labels.size)
    residual, without, scalar, norms = work[0], work[1], work[2], work[3:]
    near_coef, near_offset = near[0], near[1]
    residual[:] = np.float32(0)
    without[:] = np.float32(0)
    for c in range(columns.size):
        near_coef[c], near_offset[c] = coef[columns[c]], offset[columns[c]]
    hidden, shown = np.float32(0), np.float32(0)
    last = 0
    for g in range(n_groups):
        still, square = np.float32(0), np.float32(0)
        for j in range(starts[g], starts[g + 1]):
            move = constants[j] - offset[j]
            still += fixed[j] * coef[j] * move
            square += fixed[j] * move * move
        first = last
        while last < columns.size and columns[last] < starts[g + 1]:
            last += 1
        norms[g, : n if first < last else 1] = square
        if starts[g] < n_sensitive:
            hidden += still
            score = residual
        else:
            shown += still
            score = without
        _add_scores(values, first, last, n, near_coef, near_offset, score, norms[g])
    n_inside = 0
    if residual_bound > 0:
        for i in range(n):
            base = without[i] + shown - labels[i]
            raw = residual[i] + hidden + base
            n_inside += abs(raw) < residual_bound
            residual[i] = min(max(raw, -residual_bound), residual_bound)
            without[i] = min(max(base, -residual_bound), residual_bound)
    elif n_sensitive > 0:
        for i in range(n):
            reference = without[i] + shown
            residual[i] = _sigmoid(residual[i] + hidden + reference) - labels[i]
            without[i] = _sigmoid(reference) - labels[i]
    else:  # nothing is left out of the reference score, so the two are one
        for i in range(n):
            residual[i] = _sigmoid(without[i] + shown) - labels[i]
            without[i] = residual[i]
    last = 0
    for g in range(n_groups):
        first = last
        while last < columns.size and columns[last] < starts[g + 1]:
            last += 1
        total = _set_scalar(
            n, residual, without, norms[g], first == last, models.radius[model, g],
            models.clip[model, g], models.influence[model, g], scalar,
        )  # fmt: skip
        for j in range(starts[g], starts[g + 1]):
            gradient[j] += total * (constants[j] - offset[j])
        _add_gradient(values, columns, first, last, n, scalar, gradient)
    return n_inside


@njit(cache=True, fastmath=True, error_model="numpy")
def _add_tiles(
    tiles: Any, models: Any, first: int, last: int, gradients: Any, inside: Any
) -> None:
    n_models, n_columns = models.coef.shape
    work = np.empty((3 + models.clip.shape[1], tiles.labels.shape[1]), np.float32)
    near = np.empty((2, n_columns), np.float32)
    # Sums of its own, because threads that write next to each other wait.
    own_gradients = np.zeros((n_models, n_columns))
    own_inside = np.zeros(n_models, np.int64)
    for k in range(first, last):
        for model in range(n_models):
            own_inside[model] += _add_tile(
                tiles, k, models, model, own_gradients[model], work, near
            )
    gradients += own_gradients
    inside += own_inside


@njit(parallel=True, cache=True)
def _add_parts(tiles: Any, models: Any, cuts: Any, gradients: Any, inside: Any) -> None:
    for part in prange(inside.shape[0]):
        _add_tiles(
            tiles, models, cuts[part], cuts[part + 1], gradients[part], inside[part]
        )


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
    tiles = _Tiles(
        rows.values,
        rows.columns,
        rows.starts,
        rows.constants,
        rows.fixed,
        rows.labels,
        rows.n_rows,
    )
    models = _Models(
        coefs.astype(np.float32),
        offsets.astype(np.float32),
        np.array(residual_bounds, np.float32),
        *_packed(tuple(rules)),
    )
    n_tiles = len(rows.labels)
    n_parts = max(1, min(get_num_threads(), n_tiles * len(rules) // _TILES_PER_THREAD))
    gradients = np.zeros((n_parts, *coefs.shape))
    inside = np.zeros((n_parts, len(rules)), np.int64)
    if n_parts == 1:
        _add_tiles(tiles, models, 0, n_tiles, gradients[0], inside[0])
    else:
        cuts = np.arange(n_parts + 1) * n_tiles // n_parts
        _add_parts(tiles, models, cuts, gradients, inside)
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
    gradients, inside = gradient_sums(
        rows, coef[None], offset[None], [rules], residual_bounds=[residual_bound]
    )
    return gradients[0], int(inside[0])


@lru_cache(maxsize=16)
def _packed(rules: tuple[GroupRules, ...]) -> tuple[Any, ...]:
    """Return the last fields of `_Models`."""
    most = max(rule.n_groups for rule in rules)
    return (
        np.array([_padded(rule.starts, most + 1) for rule in rules]),
        np.array([rule.n_groups for rule in rules]),
        np.array([rule.n_sensitive for rule in rules]),
        _finite(np.array([_padded(rule.feature_radius, most) for rule in rules])),
        _finite(np.array([_padded(rule.clip_norm, most) for rule in rules])),
        _finite(np.array([_padded(rule.influence_bound, most) for rule in rules])),
    )


def _finite(values: FloatArray) -> Any:
    return np.minimum(values, _UNBOUNDED).astype(np.float32)


def _padded(values: Any, size: int) -> Any:
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])
