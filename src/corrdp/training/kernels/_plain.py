"""The gradient kernel in numpy: what one pass over the tiles adds up.

The gradient of a record in a group is its features times its residual, one number or
one per output. Its norm is the product of the two norms, so clipping the group, and
bounding what the sensitive features do to it, act on the residual.

Features, parameters and clipped residuals are rounded to integers on public grids, so
coarse that every product of matrices is exact: whatever order the linear algebra
library adds in, the result is the same (`docs/theory/solvers.md`, section 6). All else
is elementwise.
"""

import math
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from corrdp._typing import FloatArray, IntArray
from corrdp.training._tiles import GroupRules, Model, RowTiles

TILE_ROWS = 2048
# Integers below 2**53 are exact: 21 + 20 + 11 bits for sums over a tile's rows.
_FEATURE_BITS = 21
_RESIDUAL_BITS = 20
_SCORE_BITS = 31  # of a row of parameters, together
_LOW_BITS = 26  # totals are kept in two halves, for any number of tiles
_SMALLEST_EXPONENT = -900  # of a limit, so that no step is 0
_SMALLEST_NORM = 1e-30  # a record without features in a group has nothing to clip


def gradient_counts(rows: RowTiles, model: Model) -> tuple[IntArray, ...]:
    """Return the sum of clipped record gradients in steps of public grids.

    Counts of several sets of rows add up to those of all of them.

    Returns
    -------
    high, low : array of int, shape (n_columns, n_outputs)
        Halves of the sum over rows of what `record_gradients` gives for each.
    n_inside : array of int, shape (1,)
        Number of residuals inside the bound; 0 for logistic and softmax loss.

    Notes
    -----
    Sums before noise, not to be released (`docs/theory/solvers.md`, section 6);
    `docs/theory/influence.md` bounds how far they can move.
    """
    step, residual_step, limit, terms = _grid(rows, model)
    rules, residual_bound = model.rules, model.residual_bound
    high = np.zeros((model.offset.size, terms[0].counts.shape[0]), np.int64)
    low, n_inside = np.zeros_like(high), 0
    buffer = np.empty((model.offset.size, rows.labels.shape[1]))
    for raw_tile, labels in rows:
        counts = buffer[:, : labels.size]
        np.subtract(raw_tile, model.offset[:, None], out=counts)
        counts *= 1.0 / step  # a power of two
        np.rint(counts, out=counts)
        if model.anchor is not None and residual_bound is None:
            labels = np.zeros_like(labels)  # cancel in a difference, to the last bit
        residual, without = _residuals(counts, labels, terms[0], rules, residual_bound)
        if residual_bound is not None:
            n_inside += int(np.count_nonzero(np.abs(residual) < residual_bound))
        for weights in terms[1:]:
            there = _residuals(counts, labels, weights, rules, residual_bound)
            residual, without = residual - there[0], without - there[1]
        for group in range(rules.n_groups):
            columns = counts[rules.columns(group)]
            factor = _clipped_residual(columns, step, residual, without, rules, group)
            np.clip(factor, -limit, limit, out=factor)
            factor *= 1.0 / residual_step
            summed = (columns @ np.rint(factor, out=factor).T).astype(np.int64)
            high[rules.columns(group)] += summed >> _LOW_BITS
            low[rules.columns(group)] += summed & (2**_LOW_BITS - 1)
    return high, low, np.array([n_inside])


def counted_gradient(
    rows: RowTiles, total: tuple[IntArray, ...], model: Model
) -> tuple[FloatArray, int]:
    """Return the gradient, and the number of small residuals, that counts stand for.

    Of `rows` the declared ends of columns are read and nothing else.
    """
    grid = _grid(rows, model)
    high, low, n_inside = total
    high, low = high + (low >> _LOW_BITS), low & (2**_LOW_BITS - 1)
    gradient = (high * 2.0**_LOW_BITS + low) * (grid.step * grid.residual_step)
    return gradient.reshape(model.coef.shape), int(n_inside[0])


class _Grid(NamedTuple):
    step: float
    residual_step: float
    limit: float
    terms: "list[_Weights]"


def _grid(rows: RowTiles, model: Model) -> _Grid:
    """Return the public grids of features and residuals, and parameters on theirs."""
    coef, offset, anchor = model.coef, model.offset, model.anchor
    reach = np.maximum(np.abs(rows.low - offset), np.abs(rows.high - offset))
    step = _step(float(reach.max()), _FEATURE_BITS)
    terms = [_Weights(coef, reach, step)]
    if anchor is not None:
        terms.append(_Weights(anchor, reach, step))
    limit = sum(term.residual_limit(model.residual_bound) for term in terms)
    if anchor is not None:  # a difference is at most what the scores have moved
        limit = min(limit, float(np.sum(np.abs(coef - anchor).T @ reach)))
    return _Grid(step, _step(limit, _RESIDUAL_BITS), limit, terms)


def _step(limit: float, n_bits: int) -> float:
    """Return the power of two of which numbers up to `limit` are 2**n_bits at most."""
    return math.ldexp(1.0, max(math.frexp(limit)[1], _SMALLEST_EXPONENT) - n_bits)


class _Weights:
    """Parameters as integers, one row per output, that make scores of counts exact."""

    def __init__(self, coef: FloatArray, reach: FloatArray, step: float) -> None:
        weights = coef.reshape(coef.shape[0], -1).T
        largest = float(np.abs(weights).sum(axis=1).max())
        self.step = _step(largest, _SCORE_BITS)
        self.counts = np.rint(weights / self.step)
        self.step *= step
        self._score_limit = float((np.abs(weights) @ reach).max())

    def residual_limit(self, residual_bound: float | None) -> float:
        """Return the largest size of a residual; labels are at most 1."""
        if residual_bound is None:
            return 1.0
        return min(residual_bound, self._score_limit + 1.0)


def _residuals(
    counts: NDArray[Any],
    labels: NDArray[Any],
    weights: _Weights,
    rules: GroupRules,
    residual_bound: float | None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return residuals, and those with the sensitive features at their center.

    Shape (n_outputs, n_rows).
    """
    hidden = rules.n_sensitive
    reference = weights.counts[:, hidden:] @ counts[hidden:]
    without = _residual(reference * weights.step, labels, residual_bound)
    if hidden == 0:
        return without, without
    score = reference + weights.counts[:, :hidden] @ counts[:hidden]
    return _residual(score * weights.step, labels, residual_bound), without


def _residual(
    score: NDArray[Any], labels: NDArray[Any], residual_bound: float | None
) -> NDArray[Any]:
    if residual_bound is not None:
        return _clipped(score - labels, residual_bound)
    if score.shape[0] == 1:
        return np.asarray(expit(score) - labels)
    chance = np.exp(score - score.max(axis=0))
    residual = np.asarray(chance / _summed(chance))
    residual[labels.astype(np.int64), np.arange(labels.size)] -= 1.0
    return residual


def _clipped_residual(
    columns: NDArray[Any],
    step: float,
    residual: NDArray[Any],
    without: NDArray[Any],
    rules: GroupRules,
    group: int,
) -> NDArray[Any]:
    """Return by what each row's features are multiplied in the gradient."""
    if rules.plain[group]:
        return residual.copy()
    radius, clip_norm, influence_bound = rules.numbers(group)
    norm = step * np.sqrt(np.einsum("ij,ij->j", columns, columns))
    np.maximum(norm, _SMALLEST_NORM, out=norm)
    shrink = np.minimum(radius / norm, 1.0)
    norm *= shrink
    cap = clip_norm / norm
    factor = _clipped(residual, cap)
    if np.isfinite(influence_bound):
        base = _clipped(without, cap)
        room = influence_bound / norm if np.isfinite(clip_norm) else influence_bound
        factor = base + _clipped(factor - base, room)
    return np.asarray(factor * shrink)


def _clipped(values: NDArray[Any], limit: Any) -> NDArray[Any]:
    """Return the columns of a matrix, each scaled down to a norm."""
    if values.shape[0] == 1:
        return np.asarray(np.minimum(np.maximum(values, -limit), limit))
    norm = np.sqrt(_summed(values * values))
    return np.asarray(values * np.minimum(limit / np.maximum(norm, _SMALLEST_NORM), 1))


def _summed(outputs: NDArray[Any]) -> NDArray[Any]:
    """Return the sum over outputs, in their order for every row.

    A reduction of numpy adds eight and more of them in another order if a tile has one
    row, and which row that is depends on the others.
    """
    return np.asarray(reduce(np.add, outputs))
