"""Public grids on which the compiled kernel counts, so that sums have no order.

A float32 between 2**23 and 2**24 steps is a whole number of steps. Adding a number of
that size, the *magic* one, to a product rounds the product to the grid, and the bits of
the sum count its steps: integer addition of such bits is exact. Steps depend on the
parameters, on the declared domain and on bounds, all of them public, never on a row.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_SCORE_BITS = 22  # of one term; sums over columns stay below 2**31
_GRADIENT_BITS = 21  # 512 rows of them stay below 2**31
_SMALLEST_EXPONENT = -60  # of a limit, so that no step is too small for a float32


class Tiles(NamedTuple):
    """The arrays of `RowTiles`."""

    values: Any
    columns: Any
    starts: Any
    constants: Any
    fixed: Any
    labels: Any
    low: Any
    high: Any
    n_rows: Any
    binary: Any
    binary_columns: Any
    binary_starts: Any


class Models(NamedTuple):
    """Parameters, offsets and rules of every model; fewer groups are padded."""

    coef: Any
    offset: Any
    clips_residuals: Any
    residual_bound: Any
    starts: Any
    n_groups: Any
    n_sensitive: Any
    radius: Any
    clip: Any
    influence: Any


class Grids(NamedTuple):
    """Public steps on which the terms of every model are counted.

    A magic number is 3/2 times the power of two above which floats are one step apart,
    so that all of ``magic + term`` has the same exponent.
    """

    score: Any
    magic: Any  # of the score, minus coef * offset, per column
    norm: Any
    norm_magic: Any
    gradient: Any
    gradient_magic: Any
    residual_limit: Any


def _counted(_: Any, a: Any, b: Any, magic: Any) -> Any:
    """Return the bits of ``a * b + magic``, rounded once, as an int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fma(*arguments), ir.IntType(32))

    return types.int32(types.float32, types.float32, types.float32), generate


counted: Any = intrinsic(_counted)


@njit(inline="always")
def _power(limit: float) -> int:
    """Return the exponent of a power of two that is at least `limit`."""
    return max(math.frexp(limit)[1], _SMALLEST_EXPONENT)


@njit(inline="always")
def _magic(exponent: int, n_bits: int) -> Any:
    """Return the number that counts terms up to 2**exponent in 2**n_bits steps."""
    return np.float32(math.ldexp(1.5, exponent - n_bits + 23))


@njit(cache=True)
def public_grids(low: Any, high: Any, models: Any) -> Any:
    """Return the steps for all models, from parameters and the declared domain.

    A sum over columns has one term per column of at most `largest`, and is at most
    `total`: both fit. A residual is at most its bound, or the largest score plus a
    label of at most 1. Grids are computed where they are needed, which takes less time
    than to hand them over.

    Guarantee
    ---------
    No row is looked at: `docs/theory/solvers.md`, section 6.
    """
    n_models, n_columns = models.coef.shape
    n_groups = models.clip.shape[1]
    score = np.empty(n_models, np.float32)
    magic = np.empty((n_models, n_columns + 1), np.float32)
    norm = np.ones((n_models, n_groups), np.float32)
    norm_magic = np.empty((n_models, n_groups), np.float32)
    gradient = np.empty(n_models)
    gradient_magic = np.empty(n_models, np.float32)
    residual_limit = np.empty(n_models, np.float32)
    for model in range(n_models):
        coef, offset = models.coef[model], models.offset[model]
        largest, total, side = 0.0, 0.0, 1.0
        for g in range(models.n_groups[model]):
            square, squares = 0.0, 0.0
            for j in range(models.starts[model, g], models.starts[model, g + 1]):
                above = max(abs(low[j]), abs(high[j]))
                reach = above + abs(offset[j])
                side = max(side, above)
                largest = max(largest, abs(coef[j]) * reach)
                total += abs(coef[j]) * reach
                square = max(square, reach * reach)
                squares += reach * reach
            exponent = _power(max(square, squares / 256))
            norm[model, g] = math.ldexp(1.0, exponent - _SCORE_BITS)
            norm_magic[model, g] = _magic(exponent, _SCORE_BITS)
        exponent = _power(max(largest, total / 256))
        score[model] = math.ldexp(1.0, exponent - _SCORE_BITS)
        middle = _magic(exponent, _SCORE_BITS)
        for j in range(n_columns):
            magic[model, j] = np.float32(middle - coef[j] * offset[j])
        magic[model, n_columns] = middle
        limit = 1.0
        if models.clips_residuals[model]:
            limit = min(models.residual_bound[model], total + 1.0)
        residual_limit[model] = np.float32(limit)
        exponent = _power(limit * side)
        gradient[model] = math.ldexp(1.0, exponent - _GRADIENT_BITS)
        gradient_magic[model] = _magic(exponent, _GRADIENT_BITS)
    return Grids(
        score, magic, norm, norm_magic, gradient, gradient_magic, residual_limit
    )
