"""The gradient kernel fused in one pass per tile, compiled by numba.

The same sums as `corrdp.training.kernels._plain`, where they are explained; a test
holds the two together. Loops run over the rows of a tile, which are adjacent in
memory, so that the compiler turns every one of them into vector instructions; columns
are taken four at a time, which quarters the traffic to the running sums. Columns of
numbers and those of one byte pass through the same loops, each compiled for its type.

Sums are sums of integers (`docs/theory/solvers.md`, section 6): a term ``a * b``
becomes the bits of ``a * b + magic``, rounded once, whose low bits count steps of a
public grid. Adding integers has no order, so neither the arrangement of the rows, nor
columns left out of a tile, nor the number of threads can change a bit of the result.
What remains is elementwise, and runs over whole tiles, padding included: a row in a
remainder loop might otherwise be rounded in another way than the same row elsewhere.
No number here is infinite or NaN, and the compiler may assume just that.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import CorrDPError
from corrdp.training.kernels._grids import Models, Tiles, counted, public_grids
from corrdp.training.rows._tiles import GroupRules, Model, RowTiles

TILE_ROWS = 512
_TILES_PER_THREAD = 32  # fewer are done before a second thread has started
_UNBOUNDED = np.float32(1e15)  # times the inverse of the smallest norm still finite
_SMALLEST_SQUARE = np.float32(1e-30)  # a record without features in a group
# No operation may be replaced by another, or a row's place would decide its rounding.
_FINITE = {"nnan", "ninf", "nsz"}
_LAMBERT = tuple(
    np.float32(number / 135135)
    for number in (135135, 17325, 378, 1, 135135, 62370, 3150, 28)
)


@njit(inline="always", fastmath=_FINITE, error_model="numpy")
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


@njit(inline="always")
def _before(columns: Any, first: int, end: int) -> int:
    """Return the place from `first` on whose column is not before `end`."""
    last = first
    while last < columns.size and columns[last] < end:
        last += 1
    return last


@njit(inline="always", fastmath=_FINITE, error_model="numpy")
def _add_scores(
    values: Any, columns: Any, first: int, last: int, n: int, coef: Any, magic: Any,
    offset: Any, norm_magic: Any, score: Any, norm: Any,
) -> None:  # fmt: skip
    """Count stored columns of a group into the score, and their squares into the norm.

    The score's magic number holds the offset: the term is ``coef * (value - offset)``.
    """
    k = first
    while k + 3 < last:
        j0, j1, j2, j3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        c0, c1, c2, c3 = coef[j0], coef[j1], coef[j2], coef[j3]
        o0, o1, o2, o3 = offset[j0], offset[j1], offset[j2], offset[j3]
        m0, m1, m2, m3 = magic[j0], magic[j1], magic[j2], magic[j3]
        for i in range(n):
            v0, v1 = np.float32(values[k, i]), np.float32(values[k + 1, i])
            v2, v3 = np.float32(values[k + 2, i]), np.float32(values[k + 3, i])
            score[i] += (counted(c0, v0, m0) + counted(c1, v1, m1)) + (
                counted(c2, v2, m2) + counted(c3, v3, m3)
            )
            x0, x1, x2, x3 = v0 - o0, v1 - o1, v2 - o2, v3 - o3
            norm[i] += (counted(x0, x0, norm_magic) + counted(x1, x1, norm_magic)) + (
                counted(x2, x2, norm_magic) + counted(x3, x3, norm_magic)
            )
        k += 4
    while k < last:
        c0, o0, m0 = coef[columns[k]], offset[columns[k]], magic[columns[k]]
        for i in range(n):
            v0 = np.float32(values[k, i])
            x0 = v0 - o0
            score[i] += counted(c0, v0, m0)
            norm[i] += counted(x0, x0, norm_magic)
        k += 1


@njit(inline="always", fastmath=_FINITE, error_model="numpy")
def _limits(
    norm: Any, step: Any, slack: Any, radius: Any, clip: Any, influence: Any
) -> Any:
    """Return what a row's norm in a group makes of its radius, clip norm and influence.

    `norm` counts the squared norm in steps; `slack` is what rounding may have taken
    off, so that no norm is taken for smaller than it is.
    """
    square = np.float32(norm) * step + slack
    inverse = np.float32(1) / math.sqrt(max(square, _SMALLEST_SQUARE))
    shrink = min(np.float32(1), radius * inverse)
    inverse = max(inverse, np.float32(1) / radius)
    room = influence * (inverse if clip < _UNBOUNDED else np.float32(1))
    return shrink, clip * inverse, room


@njit(inline="always", fastmath=_FINITE, error_model="numpy")
def _within(value: Any, limit: Any) -> Any:
    return min(max(value, -limit), limit)


@njit(inline="always", fastmath=_FINITE, error_model="numpy")
def _limited(residual: Any, without: Any, shrink: Any, cap: Any, room: Any) -> Any:
    """Return by what a row's features of a group are multiplied in the gradient."""
    true, base = _within(residual, cap), _within(without, cap)
    return shrink * (base + _within(true - base, room))


@njit(inline="always", fastmath=_FINITE, error_model="numpy")
def _set_scalar(
    n: int, residual: Any, without: Any, norm: Any, step: Any, slack: Any, radius: Any,
    clip: Any, influence: Any, scalar: Any, magic: Any, alike: bool, influenced: bool,
) -> Any:  # fmt: skip
    """Set by what each row's features of a group are multiplied in the gradient.

    Returns their counts, added up. Rows that are `alike` have one norm, whose limits
    are computed once: a root and a division for each row are what takes longest here.
    Unless sensitive columns `influenced` it, `without` is the residual itself, and a
    bound on the difference of the two does nothing.
    """
    total, one = np.int32(0), np.float32(1)
    if influence >= _UNBOUNDED and clip >= _UNBOUNDED and radius >= _UNBOUNDED:
        for i in range(n):
            scalar[i] = residual[i]
            total = np.int32(total + counted(residual[i], one, magic))
    else:
        shrink, cap, room = _limits(norm[0], step, slack, radius, clip, influence)
        if alike and influenced:
            for i in range(n):
                scalar[i] = _limited(residual[i], without[i], shrink, cap, room)
        elif alike:
            for i in range(n):
                scalar[i] = shrink * _within(residual[i], cap)
        elif influenced:
            for i in range(n):
                own = _limits(norm[i], step, slack, radius, clip, influence)
                scalar[i] = _limited(residual[i], without[i], own[0], own[1], own[2])
        else:
            for i in range(n):
                own = _limits(norm[i], step, slack, radius, clip, influence)
                scalar[i] = own[0] * _within(residual[i], own[1])
        for i in range(n):
            total = np.int32(total + counted(scalar[i], one, magic))
    return np.int32(total - np.int64(n) * counted(np.float32(0), one, magic))


@njit(inline="always", fastmath=_FINITE, error_model="numpy")
def _add_gradient(
    values: Any, columns: Any, first: int, last: int, n: int, scalar: Any, magic: Any,
    gradient: Any,
) -> None:  # fmt: skip
    """Count the stored columns of a group, each row times its scalar."""
    nothing = np.int64(n) * counted(np.float32(0), np.float32(0), magic)
    k = first
    while k + 3 < last:
        s0, s1, s2, s3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
        for i in range(n):
            v0, v1 = np.float32(values[k, i]), np.float32(values[k + 1, i])
            v2, v3 = np.float32(values[k + 2, i]), np.float32(values[k + 3, i])
            s0 = np.int32(s0 + counted(scalar[i], v0, magic))
            s1 = np.int32(s1 + counted(scalar[i], v1, magic))
            s2 = np.int32(s2 + counted(scalar[i], v2, magic))
            s3 = np.int32(s3 + counted(scalar[i], v3, magic))
        gradient[columns[k]] += np.int32(s0 - nothing)
        gradient[columns[k + 1]] += np.int32(s1 - nothing)
        gradient[columns[k + 2]] += np.int32(s2 - nothing)
        gradient[columns[k + 3]] += np.int32(s3 - nothing)
        k += 4
    while k < last:
        s0 = np.int32(0)
        for i in range(n):
            v0 = np.float32(values[k, i])
            s0 = np.int32(s0 + counted(scalar[i], v0, magic))
        gradient[columns[k]] += np.int32(s0 - nothing)
        k += 1


@njit(inline="always", fastmath=_FINITE, error_model="numpy")
def _add_tile(
    tiles: Any, k: int, models: Any, grids: Any, model: int, gradient: Any, totals: Any,
    counts: Any, work: Any, single: Any,
) -> int:  # fmt: skip
    n_groups, n_sensitive = models.n_groups[model], models.n_sensitive[model]
    coef, offset, starts = (
        models.coef[model],
        models.offset[model],
        models.starts[model],
    )
    magic, limit = grids.magic[model], grids.residual_limit[model]
    values = tiles.values[tiles.starts[k] : tiles.starts[k + 1]]
    columns = tiles.columns[tiles.starts[k] : tiles.starts[k + 1]]
    binary = tiles.binary[tiles.binary_starts[k] : tiles.binary_starts[k + 1]]
    binary_columns = tiles.binary_columns[
        tiles.binary_starts[k] : tiles.binary_starts[k + 1]
    ]
    constants, fixed, labels = tiles.constants[k], tiles.fixed[k], tiles.labels[k]
    n = labels.size
    n_real = min(n, tiles.n_rows - k * n)
    residual, without, scalar = work[0], work[1], work[2]
    hidden, shown, norms = counts[0], counts[1], counts[2:]
    # Terms of columns that do not vary, minus the magic numbers of all terms.
    nothing = np.int64(counted(np.float32(0), np.float32(0), magic[coef.size]))
    still_hidden, still_shown = np.int64(0), np.int64(0)
    for g in range(n_groups):
        square = np.int64(0)
        norm_magic = grids.norm_magic[model, g]
        no_square = np.int64(counted(np.float32(0), np.float32(0), norm_magic))
        for j in range(starts[g], starts[g + 1]):
            still = -nothing
            square -= no_square
            if fixed[j]:
                move = constants[j] - np.float32(offset[j])
                still += counted(np.float32(coef[j]), constants[j], magic[j])
                square += counted(move, move, norm_magic)
            if j < n_sensitive:
                still_hidden += still
            else:
                still_shown += still
        norms[g, :] = np.int32(square)
    hidden[:] = np.int32(still_hidden)
    shown[:] = np.int32(still_shown)
    last, binary_last = 0, 0
    for g in range(n_groups):
        for part in range(2):  # sensitive columns of the group, then the others
            end = min(starts[g + 1], n_sensitive) if part == 0 else starts[g + 1]
            first, last = last, _before(columns, last, end)
            _add_scores(
                values, columns, first, last, n, single[0], magic, single[1],
                grids.norm_magic[model, g], counts[part], norms[g],
            )  # fmt: skip
            first, binary_last = binary_last, _before(binary_columns, binary_last, end)
            _add_scores(
                binary, binary_columns, first, binary_last, n, single[0], magic,
                single[1], grids.norm_magic[model, g], counts[part], norms[g],
            )  # fmt: skip
    n_inside = 0
    step = grids.score[model]
    if models.clips_residuals[model]:
        bound = np.float32(models.residual_bound[model])
        for i in range(n):
            raw = np.float32(np.int32(hidden[i] + shown[i])) * step - labels[i]
            base = np.float32(shown[i]) * step - labels[i]
            residual[i] = min(max(raw, -limit), limit)
            without[i] = min(max(base, -limit), limit)
            n_inside += (i < n_real) & (abs(raw) < bound)
    elif n_sensitive > 0:
        for i in range(n):
            score_of_all = np.float32(np.int32(hidden[i] + shown[i])) * step
            raw = _sigmoid(score_of_all) - labels[i]
            base = _sigmoid(np.float32(shown[i]) * step) - labels[i]
            residual[i] = min(max(raw, -limit), limit)
            without[i] = min(max(base, -limit), limit)
    else:  # nothing is left out of the reference score, so the two are one
        for i in range(n):
            raw = _sigmoid(np.float32(shown[i]) * step) - labels[i]
            residual[i] = min(max(raw, -limit), limit)
            without[i] = residual[i]
    residual[n_real:] = np.float32(0)  # padding counts for nothing
    without[n_real:] = np.float32(0)
    last, binary_last = 0, 0
    gradient_magic = grids.gradient_magic[model]
    for g in range(n_groups):
        norm_step = grids.norm[model, g]
        slack = np.float32(0.5) * norm_step * np.float32(starts[g + 1] - starts[g])
        end = starts[g + 1]
        first, last = last, _before(columns, last, end)
        binary_first = binary_last
        binary_last = _before(binary_columns, binary_first, end)
        total = _set_scalar(
            n, residual, without, norms[g], norm_step, slack, models.radius[model, g],
            models.clip[model, g], models.influence[model, g], scalar, gradient_magic,
            alike=first == last and binary_first == binary_last,
            influenced=n_sensitive > 0,
        )  # fmt: skip
        totals[g] += total
        for j in range(starts[g], starts[g + 1]):
            if constants[j] != 0:  # then it is 1
                gradient[j] += total
        _add_gradient(values, columns, first, last, n, scalar, gradient_magic, gradient)
        _add_gradient(
            binary, binary_columns, binary_first, binary_last, n, scalar,
            gradient_magic, gradient,
        )  # fmt: skip
    return n_inside


@njit(cache=True, fastmath=_FINITE, error_model="numpy")
def _count_tiles(tiles: Any, models: Any, first: int, last: int, sums: Any) -> None:
    grids = public_grids(tiles.low, tiles.high, models)
    n_models, n_columns = models.coef.shape
    n_groups = models.clip.shape[1]
    work = np.empty((3, tiles.labels.shape[1]), np.float32)
    counts = np.empty((2 + n_groups, tiles.labels.shape[1]), np.int32)
    # Single precision is exact: `_packed_models` has rounded both.
    single = np.empty((n_models, 2, n_columns), np.float32)
    single[:, 0], single[:, 1] = models.coef, models.offset
    # Sums of its own, because threads that write next to each other wait.
    own_gradients = np.zeros((n_models, n_columns), np.int64)
    own_totals = np.zeros((n_models, n_groups), np.int64)
    own_inside = np.zeros(n_models, np.int64)
    for k in range(first, last):
        for model in range(n_models):
            own_inside[model] += _add_tile(
                tiles, k, models, grids, model, own_gradients[model], own_totals[model],
                counts=counts, work=work, single=single[model],
            )  # fmt: skip
    sums[:, :n_columns] = own_gradients
    sums[:, n_columns:-1] = own_totals
    sums[:, -1] = own_inside


@njit(parallel=True, cache=True)
def _count_parts(tiles: Any, models: Any, cuts: Any, sums: Any) -> None:
    for part in prange(sums.shape[0]):
        _count_tiles(tiles, models, cuts[part], cuts[part + 1], sums[part])


@njit(cache=True)
def _shifted(low: Any, high: Any, models: Any, gradients: Any, totals: Any) -> Any:
    """Return counted gradients as numbers, with the offsets of columns subtracted."""
    step = public_grids(low, high, models).gradient
    shifted = np.empty(gradients.shape)
    for model in range(gradients.shape[0]):
        starts, offset = models.starts[model], models.offset[model]
        for g in range(models.n_groups[model]):
            for j in range(starts[g], starts[g + 1]):
                move = totals[model, g] * offset[j]
                shifted[model, j] = (gradients[model, j] - move) * step[model]
    return shifted


def gradient_sums(
    rows: RowTiles, models: Sequence[Model]
) -> tuple[FloatArray, IntArray]:
    """Return gradients of many models in one pass over the tiles, one row for each.

    Notes
    -----
    Sums before noise, not to be released (`docs/theory/solvers.md`, section 1).
    """
    packed = _packed_models(models)
    return _counted_gradients(rows, _gradient_counts(rows, packed), packed)


def gradient_counts(rows: RowTiles, model: Model) -> tuple[IntArray, ...]:
    """Return the sum in steps of public grids: columns, groups, small residuals.

    As `_plain.gradient_counts`, with counts of its own.
    """
    return _gradient_counts(rows, _packed_models([model]))


def counted_gradient(
    rows: RowTiles, total: tuple[IntArray, ...], model: Model
) -> tuple[FloatArray, int]:
    """Return the gradient, and the number of small residuals, that counts stand for."""
    gradients, inside = _counted_gradients(rows, total, _packed_models([model]))
    return gradients[0], int(inside[0])


def _packed_models(models: Sequence[Model]) -> Models:
    residual_bounds = [model.residual_bound for model in models]
    coefs, offsets = [m.coef for m in models], [m.offset for m in models]
    return Models(
        np.array(coefs, np.float32).astype(np.float64),
        np.array(offsets, np.float32).astype(np.float64),
        np.array([bound is not None for bound in residual_bounds]),
        np.array([1.0 if bound is None else bound for bound in residual_bounds]),
        *_packed(tuple(model.rules for model in models)),
    )


def _gradient_counts(rows: RowTiles, models: Models) -> tuple[IntArray, ...]:
    tiles = Tiles(*(getattr(rows, name) for name in Tiles._fields))
    n_tiles, (n_models, n_columns) = len(rows.labels), models.coef.shape
    n_parts = max(1, min(get_num_threads(), n_tiles * n_models // _TILES_PER_THREAD))
    n_sums = n_columns + models.clip.shape[1] + 1
    sums = np.empty((n_parts, n_models, n_sums), np.int64)
    if n_parts == 1:
        _count_tiles(tiles, models, 0, n_tiles, sums[0])
    else:
        cuts = np.arange(n_parts + 1) * n_tiles // n_parts
        _count_parts(tiles, models, cuts, sums)
    total = np.add.reduce(sums)
    return total[:, :n_columns], total[:, n_columns:-1], total[:, -1]


def _counted_gradients(
    rows: RowTiles, total: tuple[IntArray, ...], models: Models
) -> tuple[FloatArray, IntArray]:
    gradients, totals = (np.ascontiguousarray(part) for part in total[:2])
    # Counts may come from other processes, and compiled code looks at no bounds.
    if (gradients.shape, totals.shape) != (models.coef.shape, models.clip.shape):
        raise CorrDPError(
            f"counts of a gradient have the shapes {gradients.shape} and "
            f"{totals.shape}, and {models.coef.shape} and {models.clip.shape} were "
            "asked for. Run the same version and kernel in all processes."
        )
    return _shifted(rows.low, rows.high, models, gradients, totals), total[2]


@lru_cache(maxsize=16)
def _packed(rules: tuple[GroupRules, ...]) -> tuple[Any, ...]:
    """Return the last fields of `Models`."""
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
