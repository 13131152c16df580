"""The gradient of every parameter of a layer for every example of a batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from corrdp.torch._layers import Layer
from corrdp.torch._sequences import GRUCells, LSTMCells, RecurrentCells


def example_gradients(
    layer: Layer, activation: Tensor, backprop: Tensor
) -> dict[str, Tensor]:
    """Return the gradient of every parameter for every example.

    The layer maps one row per example to one row per example; `activation` and
    `backprop`, shape (n, ...), are what it was given and the gradient of the loss at
    its output. What is not finite there may have a gradient that is: whether an example
    counts is decided by the norm of that alone.

    Guarantee
    ---------
    A row of the result is a function of the same row of what is given
    (`docs/theory/networks.md`, section 5).
    """
    activation = activation.detach()
    known = _KNOWN.get(type(layer.module))
    gradients = known(layer.module, activation, backprop) if known else None
    if gradients is not None and layer.parameters.keys() <= gradients.keys():
        return {key: gradients[key] for key in layer.parameters}
    return differentiated(layer, activation, backprop)


def differentiated(
    layer: Layer, activation: Tensor, backprop: Tensor
) -> dict[str, Tensor]:
    """Return the same for any layer, by vectorized automatic differentiation."""
    values = {key: p.detach() for key, p in layer.parameters.items()}

    def of_one(one_input: Tensor, one_backprop: Tensor) -> dict[str, Tensor]:
        def apply(parameters: dict[str, Tensor]) -> Tensor:
            batch = one_input.unsqueeze(0)
            output: Tensor = functional_call(layer.module, parameters, (batch,))
            return output.squeeze(0)

        pull_back: Any = vjp(apply, values)[1]
        gradients: dict[str, Tensor] = pull_back(one_backprop)[0]
        return gradients

    gradients: dict[str, Tensor] = vmap(of_one)(activation, backprop)
    return gradients


def _of_linear(
    module: nn.Linear, activation: Tensor, backprop: Tensor
) -> dict[str, Tensor] | None:
    if activation.ndim < 3:
        return None
    given, signal = activation.flatten(1, -2), backprop.flatten(1, -2)
    return {
        "weight": torch.bmm(signal.transpose(1, 2), given),
        "bias": signal.sum(1),
    }


def _of_convolution(
    module: nn.Conv2d, activation: Tensor, backprop: Tensor
) -> dict[str, Tensor] | None:
    if (
        module.groups != 1
        or module.padding_mode != "zeros"
        or isinstance(module.padding, str)
        or activation.ndim != 4
    ):
        return None
    patches = nn.functional.unfold(
        activation, module.kernel_size, module.dilation, module.padding, module.stride
    )
    signal = backprop.flatten(2)
    weight = torch.bmm(signal, patches.transpose(1, 2))
    return {
        "weight": weight.view(len(activation), *module.weight.shape),
        "bias": signal.sum(2),
    }


def _of_embedding(
    module: nn.Embedding, activation: Tensor, backprop: Tensor
) -> dict[str, Tensor] | None:
    if module.scale_grad_by_freq:
        return None
    n_rows, width = len(activation), module.embedding_dim
    signal = backprop.reshape(n_rows, -1, width)
    places = activation.reshape(n_rows, -1, 1).long().expand_as(signal)
    weight = signal.new_zeros(n_rows, module.num_embeddings, width)
    weight.scatter_add_(1, places, signal)
    if module.padding_idx is not None:
        weight[:, module.padding_idx] = 0
    return {"weight": weight}


def _of_layer_norm(
    module: nn.LayerNorm, activation: Tensor, backprop: Tensor
) -> dict[str, Tensor]:
    shape = tuple(module.normalized_shape)
    normed = nn.functional.layer_norm(activation, shape, eps=module.eps)
    signal = backprop.reshape(len(backprop), -1, *shape)
    return {"weight": (normed.view_as(signal) * signal).sum(1), "bias": signal.sum(1)}


_KNOWN: dict[type[nn.Module], Callable[..., dict[str, Tensor] | None]] = {
    nn.Linear: _of_linear,
    nn.Conv2d: _of_convolution,
    nn.Embedding: _of_embedding,
    nn.LayerNorm: _of_layer_norm,
    LSTMCells: RecurrentCells.example_gradients,
    GRUCells: RecurrentCells.example_gradients,
}
