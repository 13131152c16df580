"""Which layers hold the parameters of a module, and which modules are refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from corrdp.exceptions import GuaranteeVoidError
from corrdp.torch._capture import Capture

LossFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]

_PROBE_ROWS = 3


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer with parameters of its own that are trained.

    Parameters
    ----------
    name : str
        Path of the layer in the module.
    module : torch.nn.Module
        The layer.
    parameters : mapping of str to Parameter
        Trained parameters by their name inside the layer.
    """

    name: str
    module: nn.Module
    parameters: dict[str, nn.Parameter]

    @property
    def is_linear(self) -> bool:
        """Whether norms follow from activations and backprops."""
        return type(self.module) is nn.Linear

    @property
    def size(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters.values())


def trained_layers(module: nn.Module) -> tuple[Layer, ...]:
    """Return the layers that hold trained parameters, or raise.

    Guarantee
    ---------
    Refuses batch normalization and parameters shared by two layers, assumptions 1
    and 2 of `docs/theory/networks.md`.
    """
    layers: list[Layer] = []
    owner: dict[nn.Parameter, str] = {}
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001
            raise GuaranteeVoidError(
                f"layer {name!r} is a {type(part).__name__}, which mixes the examples "
                "of a batch: one record then moves the gradients of all others. "
                "Replace it by torch.nn.GroupNorm or torch.nn.LayerNorm."
            )
        own = {
            key: parameter
            for key, parameter in part.named_parameters(recurse=False)
            if parameter.requires_grad
        }
        for parameter in own.values():
            if parameter in owner:
                raise GuaranteeVoidError(
                    f"layers {owner[parameter]!r} and {name!r} share a parameter, so "
                    "clipping each by itself would not bound it. Give each its own."
                )
            owner[parameter] = name
        if own:
            layers.append(Layer(name, part, own))
    if not layers:
        raise GuaranteeVoidError(
            "the module has no parameter with requires_grad=True. Pass a module with "
            "something to train."
        )
    return tuple(layers)


def check_losses(losses: Tensor, n_rows: int) -> None:
    """Raise unless there is exactly one loss per example.

    Guarantee
    ---------
    A broadcast loss, for example of shape (n, 1) against (n,), would count every
    record many times and silently void clipping (`docs/theory/networks.md`).
    """
    if losses.shape != (n_rows,):
        raise GuaranteeVoidError(
            f"the loss must have one value per example, shape ({n_rows},), got shape "
            f"{tuple(losses.shape)}. Use reduction='none' and give outputs and labels "
            "the same shape, for example with outputs.squeeze(1)."
        )


def probe_independence(
    module: nn.Module,
    layers: tuple[Layer, ...],
    loss: LossFunction,
    features: Tensor,
    labels: Tensor,
) -> None:
    """Raise unless the loss of an example depends on that example alone.

    Shapes and types are those of the first rows of `features` and `labels`; their
    values are replaced by random and zero ones, so that no row is read.

    Guarantee
    ---------
    Assumption 1 of `docs/theory/networks.md`, as far as one random input can tell:
    the gradient of one loss at the activations of other examples must vanish.
    """
    inputs = torch.zeros_like(features[:1]).repeat(
        _PROBE_ROWS, *[1] * (features.ndim - 1)
    )
    if inputs.is_floating_point():
        inputs = torch.linspace(-0.4, 0.5, inputs.numel(), dtype=inputs.dtype).reshape(
            inputs.shape
        )
    targets = torch.zeros_like(labels[:1]).repeat(_PROBE_ROWS, *[1] * (labels.ndim - 1))
    with Capture(layers) as capture:
        losses = loss(module(inputs), targets)
    check_losses(losses, _PROBE_ROWS)
    capture.check()
    for name, backprop in capture.backprops(losses[0]).items():
        if torch.count_nonzero(backprop[1:]) > 0:
            raise GuaranteeVoidError(
                f"the loss of one example depends on other examples through layer "
                f"{name!r}. Remove whatever combines rows of a batch, in the module "
                "or in the loss."
            )
