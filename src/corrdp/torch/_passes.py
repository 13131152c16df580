"""Whether a batch is taken in one compiled pass, and what torch is told of it."""

from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from corrdp._typing import FloatArray, IntArray
from corrdp.torch._rows import least_norm

_kernel: ModuleType | None = None
with suppress(ImportError):  # numba comes with the extra "fast"
    from corrdp.torch import _fused

    _kernel = _fused

# Of longer gradients factors have few digits, or none, in single precision.
LARGEST_SQUARE = 1e30
LEAST_SQUARE = least_norm(torch.float32, 1) ** 2  # of one column, as torch is told
MOST_ROWS = 16_384  # of more, torch takes several on as many threads as there are


def one_pass_factors(
    inputs: Sequence[Tensor],
    signals: Sequence[Tensor],
    has_bias: tuple[float, ...],
    clip_norm: float,
    room: Tensor,
) -> tuple[Tensor, list[Tensor]] | None:
    """Return what `_fused.write_factors` writes; None where torch is to compute it.

    That is also for rows beyond `LARGEST_SQUARE`.

    Guarantee
    ---------
    Lemma 1 of `docs/theory/networks.md`, up to rounding.
    """
    if _kernel is None or not _are_simple(*inputs, *signals):
        return None
    factors = signals[0].new_empty(len(signals[0]))
    scaled = [
        torch.empty_like(signal if signal.shape[1] <= given.shape[1] else given)
        for given, signal in zip(inputs, signals, strict=True)
    ]
    is_done = _kernel.write_factors(
        tuple([rows.numpy() for rows in inputs]),
        tuple([rows.numpy() for rows in signals]),
        has_bias,
        clip_norm,
        room.numpy(),
        LEAST_SQUARE,
        LARGEST_SQUARE,
        factors.numpy(),
        tuple([rows.numpy() for rows in scaled]),
    )
    return (factors, scaled) if is_done else None


def one_pass_codes(
    codes: Tensor,
    signal: Tensor,
    reference: Tensor,
    *,
    runs: IntArray,
    clip_norms: Tensor,
    influence: FloatArray,
    limits: tuple[float, float],
) -> tuple[Tensor, Tensor] | None:
    """Return what multiplies a signal and its reference in the clipped sum.

    As `_fused.write_scaled_codes` writes it; None where torch is to compute it, also
    for rows beyond the limits.

    Guarantee
    ---------
    Proposition 2 of `docs/theory/networks.md`, up to rounding.
    """
    if _kernel is None or not _are_simple(codes, signal, reference):
        return None
    n_rows, n_columns = codes.shape
    scaled = codes.new_empty(2 * n_rows, n_columns)
    is_done = _kernel.write_scaled_codes(
        codes.numpy(),
        signal.numpy(),
        reference.numpy(),
        runs,
        clip_norms.numpy(),
        influence,
        LEAST_SQUARE,
        limits,
        scaled.numpy(),
    )
    return (scaled[:n_rows], scaled[n_rows:]) if is_done else None


def column_runs(column_groups: IntArray) -> IntArray:
    """Return first column, end and group of columns that lie beside each other."""
    edges = np.flatnonzero(np.diff(column_groups)) + 1
    first = np.concatenate(([0], edges))
    end = np.concatenate((edges, [len(column_groups)]))
    return np.stack((first, end, np.asarray(column_groups)[first]), axis=1)


def _are_simple(*parts: Tensor) -> bool:
    for rows in parts:
        if not (
            rows.dtype == torch.float32
            and rows.is_cpu
            and rows.ndim == 2
            and len(rows) <= MOST_ROWS
            and rows.is_contiguous()
        ):
            return False
    return True
