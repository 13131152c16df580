"""Residuals at a module's output: what gradients are clipped in units of."""

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from corrdp.exceptions import GuaranteeVoidError
from corrdp.torch._rows import row_norms


class Room(NamedTuple):
    """Part of the clipping norms that each example may use, in (0, 1].

    Parameters
    ----------
    own : Tensor, shape (n,)
        By the residual of the example.
    reference : Tensor, shape (n,), optional
        By its residual with sensitive codes at their reference, for groups whose
        influence is bounded.

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

    Parameters
    ----------
    losses : Tensor, shape (n,)
        One loss per example.
    outputs : Tensor, shape (n, ...)
        What the module returned; the graph from it to the losses is not kept.
    bound : float
        Largest norm.

    Returns
    -------
    residuals : Tensor, shape (n, ...)
        Rows that were longer are scaled to the bound.
    parts : Tensor, shape (n,)
        Their norms, in units of the bound; 1 for what is not a number.

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
