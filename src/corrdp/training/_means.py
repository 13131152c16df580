"""Noisy column means: where features are centered before gradients are clipped.

Sums of encoded columns are taken without rounding, so that no order of rows can be
seen. Every code is rounded to a whole number of steps of 2**-72, alone; whole numbers
add up exactly (`docs/theory/scale.md`, Proposition 3). A sum is kept in three integers:
whole units, then twice 36 bits of fraction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import allocate_noise, step_mu
from corrdp.exceptions import CorrDPError
from corrdp.mechanisms import column_sum_sensitivity, noisy_column_sums
from corrdp.policy import Block, BlockKind
from corrdp.training._layout import central_reference, standardizing_scale

if TYPE_CHECKING:  # spending asks what means cost
    from corrdp.training._budget_split import BudgetSplit

LARGEST_CODE = 8.0
_BITS = 36
_ROWS_AT_ONCE = 2**12  # whose steps add up below 2**53, exactly in floats


def exact_sums(codes: FloatArray) -> IntArray:
    """Return the sum of every column, shape (3, n_columns).

    Parameters
    ----------
    codes : array of float, shape (n_rows, n_columns)
        Between plus and minus `LARGEST_CODE`.

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
    codes: FloatArray | CodeTotals,
    blocks: Sequence[Block],
    spending: "BudgetSplit",
    rng: np.random.Generator,
) -> tuple[FloatArray, dict[str, float]]:
    """Release the mean of every encoded column, brought back into its domain.

    Returns
    -------
    means : array of float, shape (n_codes,)
        The center of the domain instead, if nothing may be spent.
    cost : dict of str to float
        Gaussian-DP parameter of the release, per class.

    Guarantee
    ---------
    ``cost[c]``-Gaussian-DP for every class ``c``, within ``spending.means_mu``:
    `docs/theory/allocation.md` on the sensitivity of `docs/theory/encoder.md`. Columns
    of ``spending.known_means`` are overwritten by what was released before, so their
    sums, which get no noise, do not leave (`docs/theory/leakage.md`, Theorem 7).
    """
    noise_scale, cost = means_noise(blocks, spending)
    if spending.means_share == 0:
        return central_reference(blocks), cost
    if all(block.name in spending.known_means for block in blocks):
        return _with_known(np.zeros(blocks[-1].stop), blocks, spending), cost
    totals = CodeTotals.of(codes)
    means = noisy_column_sums(totals.sums, noise_scale, blocks, rng) / totals.n_rows
    for block in blocks:
        low, high = (-0.5, 0.5) if block.kind is BlockKind.NUMBER else (0.0, 1.0)
        np.clip(means[block.columns], low, high, out=means[block.columns])
    return _with_known(means, blocks, spending), cost


def _with_known(
    means: FloatArray, blocks: Sequence[Block], spending: "BudgetSplit"
) -> FloatArray:
    """Put what an earlier release has told in place of exact sums."""
    for block in blocks:
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
    can be charged, before a row is read (`docs/theory/allocation.md`).
    """
    if tuple(blocks) == spending.blocks:
        noise_scale, cost = spending.means_noise
        return noise_scale, dict(cost)
    return plan_means_noise(blocks, spending)


def plan_means_noise(
    blocks: Sequence[Block], spending: "BudgetSplit"
) -> tuple[FloatArray, dict[str, float]]:
    """Return `means_noise` from nothing; a split remembers that of its own blocks."""
    unknown = [block.name not in spending.known_means for block in blocks]
    table = column_sum_sensitivity(
        [block for block, asked in zip(blocks, unknown, strict=True) if asked],
        spending.classes,
    )
    if spending.means_share == 0 or not any(unknown):
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
