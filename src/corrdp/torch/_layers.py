"""Which layers hold the parameters of a module, and which modules are refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor, nn

from corrdp.exceptions import GuaranteeVoidError

LossFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]


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
        known = self.parameters.keys() <= {"weight", "bias"}
        return known and type(self.module) is nn.Linear

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
