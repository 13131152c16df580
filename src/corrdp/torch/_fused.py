"""Norms and factors of a batch in one pass over its rows, compiled by numba.

The same numbers as `corrdp.torch._clipping` and `corrdp.torch._input_weights`, where
they are explained, up to rounding; a test holds the two together. Squares are added in
double precision, in which those of single precision neither overflow nor are lost.
"""

import math
from typing import Any

import numpy as np
from numba import njit

# Sums may be taken in any order; what is not a number stays so.
_ANY_ORDER = {"reassoc", "contract", "nsz"}
_SMALLEST = 1e-300  # not 0 / 0


@njit(inline="always", fastmath=_ANY_ORDER, error_model="numpy")
def _square(rows: Any, i: int) -> Any:
    total = 0.0
    for j in range(rows.shape[1]):
        total += np.float64(rows[i, j]) * np.float64(rows[i, j])
    return total


@njit(error_model="numpy")
def _write_scaled(rows: Any, factors: Any, scaled: Any) -> None:
    for i in range(rows.shape[0]):
        factor = factors[i]
        for j in range(rows.shape[1]):
            scaled[i, j] = rows[i, j] * factor


@njit(cache=True, fastmath=_ANY_ORDER, error_model="numpy")
def write_factors(
    inputs: Any, signals: Any, has_bias: Any, clip_norm: Any, room: Any, least: Any,
    limit: Any, factors: Any, scaled: Any,
) -> bool:  # fmt: skip
    """Write the factor of every example, and each layer's narrower side times it.

    By layer, of shape (n, ...): `inputs` are what a linear one was given, `signals` the
    gradient of the loss at its output; `has_bias` is 1 for a bias, which reads a one,
    else 0. Every example may use its part `room`, shape (n,) or (1,), of the clipping
    norm of the layers together. Squares of rows count as `least` per column at least,
    and none above `limit` is taken, of rows or of their products.

    Writes to `factors`, shape (n,), and `scaled`, one per layer: signals where they are
    no wider than inputs, else inputs. Returns whether all rows were within the limit;
    nothing of use is written if not.
    """
    varies = room.shape[0] > 1
    for i in range(factors.shape[0]):
        total = 0.0
        for k in range(len(inputs)):
            given, signal = _square(inputs[k], i), _square(signals[k], i)
            if not (given <= limit and signal <= limit):  # also what is not a number
                return False
            given = max(given, least * inputs[k].shape[1])
            signal = max(signal, least * signals[k].shape[1])
            total += (given + has_bias[k]) * signal
        if not total <= limit:
            return False
        bound = clip_norm * np.float64(room[i if varies else 0])
        factors[i] = min(1.0, bound / math.sqrt(total))
    for k in range(len(inputs)):
        if signals[k].shape[1] <= inputs[k].shape[1]:
            _write_scaled(signals[k], factors, scaled[k])
        else:
            _write_scaled(inputs[k], factors, scaled[k])
    return True


@njit(inline="always", fastmath=_ANY_ORDER, error_model="numpy")
def _write_products(signal: Any, reference: Any, least: Any, products: Any) -> None:
    """Write the products of every row of a signal with itself and its reference."""
    smallest = least * signal.shape[1]
    for i in range(signal.shape[0]):
        a = b = gap = shift = product = 0.0
        for j in range(signal.shape[1]):
            first, second = np.float64(signal[i, j]), np.float64(reference[i, j])
            a += first * first
            b += second * second
            gap += (first - second) * (first - second)
            shift += (first - second) * second
            product += first * second
        # What is not a number stays so.
        products[0, i] = smallest if a < smallest else a
        products[1, i] = smallest if b < smallest else b
        products[2, i] = smallest if gap < smallest else gap
        products[3, i], products[4, i] = shift, product


@njit(inline="always", fastmath=_ANY_ORDER, error_model="numpy")
def _write_factors(
    squares: Any, products: Any, clip_norms: Any, bound: Any, own: Any, other: Any
) -> None:
    """Write what multiplies signal and reference in one group, over all rows."""
    varies = clip_norms.shape[0] > 1
    for i in range(squares.shape[0]):
        a, b, gap = products[0, i], products[1, i], products[2, i]
        length = math.sqrt(squares[i])
        cut = min(1.0, bound / max(length * math.sqrt(b), _SMALLEST))
        square = cut * cut * b + gap + 2.0 * cut * products[3, i]
        moved = math.sqrt(max(0.0, square)) * length
        share = min(1.0, bound / max(moved, _SMALLEST))
        rest = (1.0 - share) * (1.0 - cut)
        square = rest * rest * b + share * share * a
        square += 2.0 * rest * share * products[4, i]
        norm = math.sqrt(max(0.0, square)) * length
        clip_norm = np.float64(clip_norms[i if varies else 0])
        factor = min(1.0, clip_norm / max(norm, _SMALLEST))
        own[i], other[i] = factor * share, factor * rest


@njit(cache=True, fastmath=_ANY_ORDER, error_model="numpy")
def write_scaled_codes(
    codes: Any, signal: Any, reference: Any, runs: Any, clip_norms: Any,
    influence: Any, least: Any, limits: Any, scaled: Any,
) -> bool:  # fmt: skip
    """Write what multiplies the signal, and below it what multiplies the reference.

    Anchor, influence, then the norm: `docs/theory/networks.md`, section 3.

    `codes`, shape (n, n_columns), are what the input layer was given, `signal` and
    `reference`, shape (n, n_units), the gradient at its output, and that with sensitive
    codes at their reference. `runs`, shape (n_runs, 3), are first column, end and group
    of columns that lie beside each other; clipping norms have the shape (n_groups, n or
    1), influence bounds (n_groups,). Squares of rows count as `least` per column at
    least, and none above `limits`, of codes and of signals, is taken.

    Writes to `scaled`, shape (2 n, n_columns). Returns whether all rows were within the
    limits; nothing of use is written if not.
    """
    n, n_groups = codes.shape[0], influence.shape[0]
    products, squares = np.empty((5, n)), np.zeros((n_groups, n))
    own, other = np.empty((n_groups, n)), np.empty((n_groups, n))
    _write_products(signal, reference, least, products)
    for i in range(n):
        total = 0.0
        for k in range(runs.shape[0]):
            square = 0.0
            for j in range(runs[k, 0], runs[k, 1]):
                square += np.float64(codes[i, j]) * np.float64(codes[i, j])
            squares[runs[k, 2], i] += square
            total += square
        within = products[0, i] <= limits[1] and products[1, i] <= limits[1]
        if not (within and total <= limits[0]):  # also what is not a number
            return False
        for g in range(n_groups):
            squares[g, i] = max(squares[g, i], least * codes.shape[1])
    for g in range(n_groups):
        _write_factors(
            squares[g], products, clip_norms[g], influence[g], own[g], other[g]
        )
    for i in range(n):
        for k in range(runs.shape[0]):
            first = np.float32(own[runs[k, 2], i])
            second = np.float32(other[runs[k, 2], i])
            for j in range(runs[k, 0], runs[k, 1]):
                scaled[i, j] = codes[i, j] * first
                scaled[n + i, j] = codes[i, j] * second
    return True
