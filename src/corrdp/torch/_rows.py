"""Matrices with one row per example, and residuals at a module's output among them."""

import math
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from corrdp.exceptions import GuaranteeVoidError

_ROUNDED_OFF = 2.0**12  # squares that are lost are below rounding of what is kept


def row_norms(rows: Tensor) -> Tensor:
    """Return the norm of every row, no less than `least_norm`.

    Guarantee
    ---------
    An upper bound, up to rounding, also where squares of small entries are lost in
    floating point (`docs/theory/networks.md`, section 5).
    """
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms.clamp_min_(least_norm(rows.dtype, rows.shape[1]))


@cache
def least_norm(dtype: torch.dtype, n_columns: int) -> float:
    """Return the norm above which squares that are lost do not matter.

    Every entry whose square is lost has a square below the smallest normal number.
    """
    return _ROUNDED_OFF * math.sqrt(max(n_columns, 1) * torch.finfo(dtype).tiny)


def shrinking_factors(norms: Tensor, bounds: Tensor) -> Tensor:
    """Return ``min(1, bound / norm)``; bounds are positive.

    Guarantee
    ---------
    What has a finite norm is no longer than its bound once multiplied by its factor:
    the projection of `docs/theory/networks.md`, section 2.
    """
    return (bounds / norms).clamp_max_(1.0)


def outer_sum(left: Tensor, right: Tensor, out: Tensor, *, adds: bool = False) -> None:
    """Write the sum over rows of outer products, ``left.T @ right``, or add it.

    Of the two ways to compute it, a wide matrix is quicker than a tall one, by up to
    four times.
    """
    if left.shape[1] > right.shape[1]:
        product = torch.mm(right.T, left).T
        (out.add_ if adds else out.copy_)(product)
    elif adds:
        out.addmm_(left.T, right)
    else:
        torch.mm(left.T, right, out=out)


def scaled_outer_sum(left: Tensor, right: Tensor, factor: Tensor, out: Tensor) -> None:
    """Write the sum over rows of outer products times a factor each.

    The narrower side is scaled.
    """
    if left.shape[1] <= right.shape[1]:
        torch.mm(left.T * factor, right, out=out)
    else:
        outer_sum(left, right * factor.unsqueeze(1), out)


def all_finite(values: Tensor) -> bool:
    """Whether no value is infinite or NaN.

    Either survives addition, so that a finite sum settles it. A sum that is not finite
    may have overflowed and calls for a closer look.
    """
    return math.isfinite(values.sum()) or bool(torch.isfinite(values).all())


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether all values are equal; numpy is several times as quick as torch."""
    if one.is_cpu and one.dtype in (torch.float32, torch.float64):
        return np.array_equal(one.detach().numpy(), other.detach().numpy())
    return torch.equal(one, other)


def versions(one: Tensor, other: Tensor) -> tuple[int, int]:
    """Return counters that every change in place raises."""
    return one._version, other._version  # noqa: SLF001


def cleared(values: Tensor, broken: Tensor | None) -> Tensor:
    """Return the values with zeros for the examples that are marked as broken."""
    if broken is None:
        return values
    return values.masked_fill(broken.view(-1, *[1] * (values.ndim - 1)), 0)


class Room(NamedTuple):
    """Part of the clipping norms that each example may use, in (0, 1].

    `own`, shape (n,), follows the residual of the example; `reference`, for groups
    whose influence is bounded, that with sensitive codes at their reference.

    Guarantee
    ---------
    A number that is computed from one record bounds what the record contributes as 1
    does; `reference` is the same whatever sensitive features are. Proof:
    `docs/theory/networks.md`, section 2.
    """

    own: Tensor
    reference: Tensor | None

    @classmethod
    def of(cls, parts: Tensor, n_rows: int) -> Self:
        """Return the parts of a batch that may be followed by the second pass."""
        return cls(parts[:n_rows], parts[n_rows:] if len(parts) > n_rows else None)


def bounded_residuals(
    losses: Tensor, outputs: Any, bound: float
) -> tuple[Tensor, Tensor]:
    """Return gradients of losses at the outputs, none longer than the bound.

    Longer rows are scaled to it. Beside them stand the norms in units of the bound,
    shape (n,), 1 for what is not a number.

    Guarantee
    ---------
    Row by row: each is computed from the example's own outputs and label
    (`docs/theory/networks.md`, section 2).
    """
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != losses.shape:
        raise GuaranteeVoidError(
            "residual_bound needs a module that returns one tensor with one row per "
            f"example, got {type(outputs).__name__}. Return one, or leave "
            "residual_bound=None."
        )
    (residuals,) = torch.autograd.grad(
        losses, outputs, torch.ones_like(losses), retain_graph=True
    )
    norms = row_norms(residuals.flatten(1))
    parts = norms / bound
    scale = parts.reciprocal().clamp_max_(1.0)
    residuals = residuals * scale.view(-1, *[1] * (residuals.ndim - 1))
    smallest = torch.finfo(norms.dtype).tiny  # 0 / 0 is not a number
    return residuals, parts.nan_to_num_(nan=1.0).clamp_(smallest, 1.0)
