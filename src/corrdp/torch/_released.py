"""Gradients that were released, and a watch over what else is added to them."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from corrdp.exceptions import GuaranteeVoidError


class _Place(NamedTuple):
    parameter: nn.Parameter
    shape: torch.Size
    stride: tuple[int, ...]
    offset: int | torch.SymInt


class ReleasedGradients:
    """The ``grad`` of trained parameters, as the last private step left it.

    Made of every parameter with its part of the flat gradient.

    Guarantee
    ---------
    An optimizer steps on what was released and on nothing else
    (`docs/theory/networks.md`, section 4). Changes in place that read released numbers
    alone, such as clipping the gradient once more, are post-processing and left to
    the caller.
    """

    def __init__(self, parts: Iterable[tuple[nn.Parameter, Tensor]]) -> None:
        self._places = [
            _Place(parameter, view.shape, view.stride(), view.storage_offset())
            for parameter, view in parts
        ]
        self._held: list[Tensor] = []
        self._has_raw_part = False
        for place in self._places:
            place.parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                self._notice
            )

    def place(self, gradient: Tensor) -> None:
        """Put the parts of a flat noisy gradient where optimizers look for them."""
        held = []
        for parameter, shape, stride, offset in self._places:
            part = gradient.as_strided(shape, stride, offset)
            parameter.grad = part
            held.append(part)
        self._held, self._has_raw_part = held, False

    def check(self) -> None:
        """Raise if gradients are not those of `place`, or more was added to them."""
        same = all(
            place.parameter.grad is part
            for place, part in zip(self._places, self._held, strict=True)
        )
        if same and not self._has_raw_part:
            return
        for place in self._places:
            place.parameter.grad = None
        raise GuaranteeVoidError(
            "gradients changed after module.backward(features, labels): loss.backward()"
            " adds one without noise, and an assignment to grad puts another in its "
            "place. Both were dropped, and the step is spent. Do neither between "
            "module.backward and optimizer.step."
        )

    def _notice(self, parameter: Tensor) -> None:
        del parameter  # any of them
        self._has_raw_part = True
