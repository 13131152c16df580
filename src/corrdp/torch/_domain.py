"""Codes of a policy lie in the hull of its domain: checked once, and enforced."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from corrdp._typing import FloatArray
from corrdp.exceptions import PolicyError
from corrdp.policy import Block, BlockKind
from corrdp.training import central_reference

_ROUNDINGS = 32  # tolerated beyond the domain, in units of the machine precision
_LEAST_ROUNDING = 2.0**-52  # of what is computed here
_ROWS_AT_ONCE = 65_536


def check_codes(
    features: Tensor,
    blocks: Sequence[Block],
    center: FloatArray | None = None,
    scale: FloatArray | None = None,
) -> None:
    """Raise unless every row holds codes of the policy, shape (n, n_columns).

    With `center` and `scale`, public numbers of shape (n_columns,), rows are codes that
    were moved so that their center is `center`, and multiplied by `scale`.

    Guarantee
    ---------
    What the price of the released reference assumes of the rows holds for them
    (`docs/theory/networks.md`, section 3). A refusal tells that some row is outside:
    the one message that depends on a value, before anything is released.
    """
    if len(features) == 0:
        return
    middle = central_reference(blocks)
    center = middle if center is None else center
    scale = np.ones(middle.size) if scale is None else scale
    rounding = torch.finfo(features.dtype).eps if features.is_floating_point() else 0.0
    outside = []
    for block in blocks:
        own = block.columns
        factor = torch.as_tensor(1.0 / scale[own])
        shift = torch.as_tensor(middle[own] - center[own] / scale[own])
        size = 1.0 + float(np.abs(center[own] / scale[own]).max())
        tolerance = _ROUNDINGS * (rounding + _LEAST_ROUNDING) * size * len(factor)
        if not all(
            _are_inside(rows[:, own].cpu().double() * factor + shift, block, tolerance)
            for rows in torch.split(features, _ROWS_AT_ONCE)
        ):
            outside.append(block.feature)
    if outside:
        names = ", ".join(repr(name) for name in dict.fromkeys(outside))
        raise PolicyError(
            f"features hold values of {names} that are no codes of the policy. Pass "
            "what PolicyEncoder(policy) returns; say with code_scale and reference how "
            "codes were scaled and moved, if they were."
        )


def projected(codes: FloatArray, block: Block) -> FloatArray:
    """Return codes of one block, each row drawn into the hull of the domain.

    What is not finite counts as the center.

    Guarantee
    ---------
    A row of the result is a function of the same row, and two rows differ by at most
    the diameter of the block (`docs/theory/networks.md`, section 3).
    """
    low, high = code_range(block)
    middle = central_reference((block,))[block.columns]
    inside = np.where(np.isfinite(codes), codes, middle).clip(low, high)
    if block.kind is not BlockKind.ONE_HOT:
        return inside
    total = inside.sum(axis=1, keepdims=True)
    if block.includes_zero:
        shrunk: FloatArray = inside / np.maximum(total, 1.0)
        return shrunk
    return np.where(total > 0.0, inside / np.where(total > 0.0, total, 1.0), middle)


def code_range(block: Block) -> tuple[float, float]:
    """Return the least and the largest code of a column."""
    return (-0.5, 0.5) if block.kind is BlockKind.NUMBER else (0.0, 1.0)


def _are_inside(codes: Tensor, block: Block, tolerance: float) -> bool:
    low, high = code_range(block)
    # NaN is inside of nothing.
    inside = bool(((codes >= low - tolerance) & (codes <= high + tolerance)).all())
    if block.kind is not BlockKind.ONE_HOT or not inside:
        return inside
    total = codes.sum(1)
    least = 0.0 if block.includes_zero else 1.0
    return bool(((total >= least - tolerance) & (total <= 1.0 + tolerance)).all())
