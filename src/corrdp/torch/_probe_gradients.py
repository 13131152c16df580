"""Are gradients per example those of autograd? Tried before training."""

import torch
from torch import Tensor

from corrdp.exceptions import GuaranteeVoidError
from corrdp.torch._capture import Capture
from corrdp.torch._clipping import GroupClipper
from corrdp.torch._layers import Layer
from corrdp.torch._layout import flat_layout

_ROUNDINGS = 2**12  # tolerated difference, in units of the machine precision
_NO_CLIPPING = 1e30


def check_example_gradients(
    layers: tuple[Layer, ...], capture: Capture, losses: Tensor
) -> None:
    """Raise unless what is clipped for an example is all of its gradient.

    It is not if a parameter is used beside its layer, as with weights that are tied by
    ``linear(hidden, encoder.weight.T)``, or if hooks change what a layer is given or
    returns and ``torch.func`` calls them once more.

    Parameters
    ----------
    layers : tuple of Layer
        Layers with trained parameters.
    capture : Capture
        Of a pass over random rows.
    losses : Tensor, shape (n,)
        Losses of the pass.

    Guarantee
    ---------
    Assumption 2 of `docs/theory/networks.md`, as far as random inputs can tell.
    """
    clipper = GroupClipper(layers, flat_layout(layers).with_clip_norm(_NO_CLIPPING))
    parameters = {
        (layer.name, key): parameter
        for layer in layers
        for key, parameter in layer.parameters.items()
    }
    tolerance = _ROUNDINGS * torch.finfo(losses.dtype).eps
    for row in range(len(losses)):
        signals = capture.backprops(losses[row], retain_graph=True)
        activations = {
            name: seen[row : row + 1].detach()
            for name, seen in capture.activations().items()
        }
        backprops = {name: signal[row : row + 1] for name, signal in signals.items()}
        ours = {name: torch.zeros_like(p).detach() for name, p in parameters.items()}
        try:
            clipper.add_sum(activations, backprops, None, ours)
        except RuntimeError as error:
            raise GuaranteeVoidError(
                "the gradient per example of a layer cannot be computed by torch.func "
                f"({type(error).__name__}), for example because the layer draws random "
                "numbers. Put such operations into modules of their own."
            ) from None
        true = torch.autograd.grad(
            losses[row],
            tuple(parameters.values()),
            retain_graph=True,
            materialize_grads=True,
        )
        size = max(
            _mass(activations[name], backprops[name]) for name in capture.activations()
        )
        size = max([size, *(float(gradient.norm()) for gradient in true)])
        for (name, own), gradient in zip(ours.items(), true, strict=True):
            if not float((own - gradient).norm()) <= tolerance * size:
                _refuse(name)


def _mass(activation: Tensor, backprop: Tensor) -> float:
    """Return the size of the terms whose sum a gradient is."""
    length = float(activation.norm()) if activation.is_floating_point() else 1.0
    return max(length, 1.0) * float(backprop.norm())


def _refuse(name: tuple[str, str]) -> None:
    raise GuaranteeVoidError(
        f"the gradient of {'.'.join(part for part in name if part)!r} is not what its "
        "layer's input and output say: the parameter is used elsewhere as well, or a "
        "hook changes what the layer is given or returns. Use every parameter in one "
        "layer only, for example an encoder and a decoder with weights of their own, "
        "and put what a hook does into a module."
    )
