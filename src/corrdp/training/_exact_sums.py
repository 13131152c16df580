"""Sums of encoded columns without rounding, so that no order of rows can be seen.

Every code is rounded to a whole number of steps of 2**-72, alone; whole numbers add up
exactly (`docs/theory/scale.md`, Proposition 3). A sum is kept in three integers: whole
units, then twice 36 bits of fraction.
"""

from collections.abc import Sequence

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import CorrDPError

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
        if not np.abs(part).max(initial=0.0) <= LARGEST_CODE:
            raise CorrDPError(
                f"codes must lie between plus and minus {LARGEST_CODE:g}. Encode rows "
                "with a PolicyEncoder."
            )
        high = np.rint(part * 2.0**_BITS)
        low = np.rint((part - high * 2.0**-_BITS) * 2.0 ** (2 * _BITS))
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
