"""Exact sums of codes and of labels, and what leaves of them.

Means of columns, with noise: where features are centered before gradients are clipped.
The mean of labels, a model of its own for budgets that buy no more: with noise where a
class changes labels, and without where none does; then a walk starts at it, and sizes
follow their deviation.

Sums are taken without rounding, so that no order of rows can be seen. Every code is
rounded to a whole number of steps of 2**-72, alone; whole numbers add up exactly
(`docs/theory/scale.md`, Proposition 3). A sum is kept in three integers: whole units,
then twice 36 bits of fraction.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import allocate_noise, step_mu
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.mechanisms import column_sum_sensitivity, noisy_column_sums
from corrdp.policy import Block, BlockKind, NeighborClass
from corrdp.training._expectations import LABEL_DEVIATION
from corrdp.training._layout import standardizing_scale
from corrdp.training.losses import Loss

if TYPE_CHECKING:  # spending asks what means cost
    from corrdp.training._budget_split import BudgetSplit

LARGEST_CODE = 8.0  # codes are 1 at most; what is larger was not encoded
_BITS = 36
_ROWS_AT_ONCE = 2**12  # 2**(12 + 3 + 36) is below 2**53: exact, even in floats
LEAST_DEVIATION = 1e-4
"""Of labels, in units of their range; with less they are as good as equal."""


def exact_sums(codes: FloatArray) -> IntArray:
    """Return the sum of columns between plus and minus `LARGEST_CODE`.

    Shape (3, n_columns): an exact sum is three integers.

    Examples
    --------
    >>> rounded(exact_sums(np.full((10, 1), 0.1))).tolist()
    [1.0]
    """
    total = np.zeros((3, codes.shape[1]), dtype=np.int64)
    for start in range(0, len(codes), _ROWS_AT_ONCE):
        part = np.asarray(codes[start : start + _ROWS_AT_ONCE], dtype=np.float64)
        if not (
            part.min(initial=0.0) >= -LARGEST_CODE
            and part.max(initial=0.0) <= LARGEST_CODE
        ):
            raise CorrDPError(
                f"codes must lie between plus and minus {LARGEST_CODE:g}. Encode rows "
                "with a PolicyEncoder."
            )
        high = part * 2.0**_BITS
        np.rint(high, out=high)
        low = high * 2.0**-_BITS
        np.subtract(part, low, out=low)
        low *= 2.0 ** (2 * _BITS)
        np.rint(low, out=low)
        total[1] += high.sum(axis=0).astype(np.int64)
        total[2] += low.sum(axis=0).astype(np.int64)
        total = _carried(total)
    return total


def add_exact(sums: Sequence[IntArray]) -> IntArray:
    """Return the sum of exact sums, which is exact."""
    total = np.zeros_like(sums[0])
    for one in sums:
        total = _carried(total + one)
    return total


def rounded(total: IntArray) -> FloatArray:
    """Return an exact sum as floats, each rounded once and correctly."""
    whole, high, low = total.tolist()
    steps = [
        (((a << _BITS) + b) << _BITS) + c
        for a, b, c in zip(whole, high, low, strict=True)
    ]
    return np.array([number / 2 ** (2 * _BITS) for number in steps], dtype=np.float64)


def _carried(total: IntArray) -> IntArray:
    """Return the same sum with both fractions in [0, 2**36): one way to write it."""
    whole, high, low = total
    high = high + (low >> _BITS)
    rest = 2**_BITS - 1
    return np.stack([whole + (high >> _BITS), high & rest, low & rest])


@dataclass(frozen=True, eq=False)
class CodeTotals:
    """Sum of encoded rows, and their number: all that means are computed from.

    Sums are exact and rounded once, so that no order of rows can be seen in them
    (`docs/theory/scale.md`, Proposition 3).
    """

    sums: FloatArray
    n_rows: int

    @classmethod
    def of(cls, codes: "FloatArray | CodeTotals") -> "CodeTotals":
        """Return the totals of rows, or totals as they are."""
        if isinstance(codes, CodeTotals):
            return codes
        return cls(rounded(exact_sums(codes)), codes.shape[0])


def release_means(
    codes: FloatArray | CodeTotals, spending: "BudgetSplit", rng: np.random.Generator
) -> FloatArray:
    """Release the mean of every encoded column, shape (n_codes,), inside its domain.

    Guarantee
    ---------
    Gaussian-DP with ``spending.means_cost[c]`` for every class ``c``:
    `docs/theory/allocation.md` on the sensitivity of `docs/theory/encoder.md`. Columns
    of ``spending.known_means`` are overwritten by what was released before, so their
    sums, which get no noise, do not leave (`docs/theory/leakage.md`, Theorem 7).
    """
    blocks, (noise_scale, _) = spending.blocks, spending.means_noise
    if all(block.name in spending.known_means for block in blocks):
        return _with_known(np.zeros(blocks[-1].stop), spending)  # rows are not asked
    totals = CodeTotals.of(codes)
    means = noisy_column_sums(totals.sums, noise_scale, blocks, rng) / totals.n_rows
    for block in blocks:
        low, high = (-0.5, 0.5) if block.kind is BlockKind.NUMBER else (0.0, 1.0)
        np.clip(means[block.columns], low, high, out=means[block.columns])
    return _with_known(means, spending)


def _with_known(means: FloatArray, spending: "BudgetSplit") -> FloatArray:
    """Put what an earlier release has told in place of exact sums."""
    for block in spending.blocks:
        if block.name in spending.known_means:
            means[block.columns] = spending.known_means[block.name]
    return means


def means_noise(
    blocks: Sequence[Block], spending: "BudgetSplit"
) -> tuple[FloatArray, dict[str, float]]:
    """Return the noise on every block of column sums, and what it costs each class.

    Guarantee
    ---------
    A function of the policy and the budget: the cost of `release_means` is known, and
    can be charged, before a row is read (`docs/theory/allocation.md`). Whoever has a
    split asks it, which remembers: `BudgetSplit.means_noise`.
    """
    unknown = [block.name not in spending.known_means for block in blocks]
    table = column_sum_sensitivity(
        [block for block, asked in zip(blocks, unknown, strict=True) if asked],
        spending.classes,
    )
    if not any(unknown):
        return np.zeros(len(blocks)), dict.fromkeys(table.class_names, 0.0)
    allowed = spending.means_mu
    scale = standardizing_scale(blocks)
    noise_scale = allocate_noise(
        table.bounds,
        budget_mu=np.array([allowed[name] for name in table.classes]),
        sizes=table.sizes,
        weights=np.array([scale[block.start] ** 2 for block in blocks])[unknown],
    ).noise_scale
    cost = step_mu(table.bounds, noise_scale)
    every = np.zeros(len(blocks))
    every[unknown] = noise_scale
    every.setflags(write=False)
    return every, dict(zip(table.classes, cost.tolist(), strict=True))


def constant_noise(
    loss: Loss, classes: Sequence[NeighborClass], total_mu: Mapping[str, float]
) -> tuple[float, dict[str, float]]:
    """Return the noise on the sum of labels, and what it costs each class.

    Guarantee
    ---------
    A function of the policy and the budget. A class that leaves labels alone does not
    move the sum; another moves it by at most 1, or by the root of 2 if there is one
    indicator per label (`docs/theory/default_rule.md`, Proposition 4).
    """
    reach = loss.label_reach
    moved = [c.name for c in classes if c.label_changes]
    if not moved:
        return 0.0, dict.fromkeys((c.name for c in classes), 0.0)
    noise_scale = reach / min(total_mu[name] for name in moved)
    return noise_scale, {
        c.name: reach / noise_scale if c.label_changes else 0.0 for c in classes
    }


@dataclass(frozen=True, eq=False)
class LabelTotals:
    """Sum of labels, or one count per label, and the number of rows.

    Parameters
    ----------
    sums : array of float, shape (1,) or (n_classes,)
        Exact, and rounded once (`docs/theory/scale.md`, Proposition 3).
    n_rows : int
        How many labels there are.
    squares : float
        Sum of the squares of labels that are numbers.
    """

    sums: FloatArray
    n_rows: int
    squares: float = 0.0

    @classmethod
    def rounded(cls, exact: IntArray, n_rows: int, loss: Loss) -> "LabelTotals":
        """Return the totals of `n_rows` labels from what `label_sums` says of them."""
        sums = rounded(exact)
        if loss.is_likelihood:
            return cls(sums, n_rows)
        return cls(sums[:1], n_rows, float(sums[1]))

    @classmethod
    def of(cls, labels: "NDArray[Any] | LabelTotals", loss: Loss) -> "LabelTotals":
        """Return the totals of labels, or totals as they are."""
        if isinstance(labels, LabelTotals):
            return labels
        return cls.rounded(label_sums(labels, loss), len(labels), loss)


def label_sums(labels: NDArray[Any], loss: Loss) -> IntArray:
    """Return what the constant is computed from, as an exact sum.

    One count per label if there are several; of numbers the sum, and that of squares;
    else the sum of labels that are 0 or 1.
    """
    if not loss.is_likelihood:
        return exact_sums(np.stack([labels, labels**2], axis=1))
    if loss.n_outputs == 1:
        return exact_sums(labels[:, None])
    counts = np.bincount(labels.astype(np.int64), minlength=loss.n_outputs)
    none = np.zeros_like(counts)
    return np.stack([counts, none, none])


def release_constant(
    labels: NDArray[Any] | LabelTotals,
    loss: Loss,
    noise_scale: float,
    rng: np.random.Generator,
) -> float | FloatArray:
    """Return the intercept of the best constant, from a noisy sum of labels.

    Labels are as encoded, 0 or 1, indices, or numbers in [-1/2, 1/2], or their totals.

    Guarantee
    ---------
    What `constant_noise` states; the rest is a function of the noisy sum
    (`docs/theory/default_rule.md`, Proposition 4).
    """
    totals = LabelTotals.of(labels, loss)
    noise = noise_scale * rng.standard_normal(loss.n_outputs)
    return loss.best_constant(totals.sums + noise, totals.n_rows)


def free_constant(
    labels: NDArray[Any] | LabelTotals, loss: Loss, classes: Sequence[NeighborClass]
) -> float | FloatArray:
    """Return the intercept of the best constant, of labels that no class changes.

    Guarantee
    ---------
    Equal on all neighbors, so it costs nothing and needs no noise; refused if a class
    changes labels (`docs/theory/default_rule.md`, Proposition 4a).
    """
    _refuse_changed_labels(classes)
    totals = LabelTotals.of(labels, loss)
    return loss.best_constant(totals.sums, totals.n_rows)


def labels_are_free(classes: Sequence[NeighborClass]) -> bool:
    """Return whether no class changes labels: what they are is equal on neighbors."""
    return not any(c.label_changes for c in classes)


def free_deviation(
    labels: NDArray[Any] | LabelTotals, loss: Loss, classes: Sequence[NeighborClass]
) -> float:
    """Return the deviation of labels that are numbers and that no class changes.

    Parameters
    ----------
    labels : array of float, shape (n_rows,), or LabelTotals
        Numbers in [-1/2, 1/2], or their totals.
    loss : Loss
        Squared or Huber.
    classes : sequence of NeighborClass
        Classes of the policy.

    Returns
    -------
    deviation : float
        In units of the range; at most what is assumed of labels that are not free.

    Guarantee
    ---------
    Equal on all neighbors, so it costs nothing and needs no noise; refused if a class
    changes labels (`docs/theory/default_rule.md`, Proposition 4b).
    """
    _refuse_changed_labels(classes)
    totals = LabelTotals.of(labels, loss)
    mean = float(totals.sums[0]) / totals.n_rows
    variance = max(totals.squares / totals.n_rows - mean**2, 0.0)
    return min(max(math.sqrt(variance), LEAST_DEVIATION), LABEL_DEVIATION)


def _refuse_changed_labels(classes: Sequence[NeighborClass]) -> None:
    moved = [c.name for c in classes if c.label_changes]
    if moved:
        raise GuaranteeVoidError(
            f"the class {moved[0]!r} changes labels, so nothing about them is free. "
            "Start at 0, or release the constant with noise."
        )
