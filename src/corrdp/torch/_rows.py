"""Small operations on matrices with one row per example."""

import math

import torch
from torch import Tensor


def row_norms(rows: Tensor) -> Tensor:
    """Return the norm of every row."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms


def shrinking_factors(norms: Tensor, bounds: Tensor) -> Tensor:
    """Return ``min(1, bound / norm)``, 1 where the norm is 0; bounds are positive.

    Guarantee
    ---------
    What has a finite norm is no longer than its bound once multiplied by its factor:
    the projection of `docs/theory/networks.md`, section 2.
    """
    return (bounds / norms).clamp_max_(1.0)


def outer_sum(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Write the sum over rows of outer products, ``left.T @ right``.

    Of the two ways to compute it, a wide matrix is quicker than a tall one.
    """
    if left.shape[1] <= right.shape[1]:
        torch.mm(left.T, right, out=out)
    else:
        out.copy_(torch.mm(right.T, left).T)


def scaled_outer_sum(left: Tensor, right: Tensor, factor: Tensor, out: Tensor) -> None:
    """Write the sum over rows of outer products times a factor each.

    As `outer_sum`; the narrower side is scaled.
    """
    if left.shape[1] <= right.shape[1]:
        torch.mm(left.T * factor, right, out=out)
    else:
        out.copy_(torch.mm(right.T * factor, left).T)


def all_finite(values: Tensor) -> bool:
    """Whether no value is infinite or NaN.

    Either survives addition, so that a finite sum settles it. A sum that is not finite
    may have overflowed and calls for a closer look.
    """
    return math.isfinite(values.sum()) or bool(torch.isfinite(values).all())


def cleared(values: Tensor, broken: Tensor | None) -> Tensor:
    """Return the values with zeros for the examples that are marked as broken."""
    if broken is None:
        return values
    return values.masked_fill(broken.view(-1, *[1] * (values.ndim - 1)), 0)
