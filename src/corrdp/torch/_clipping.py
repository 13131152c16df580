"""The sum over examples of gradients that were clipped by group."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, vjp, vmap

from corrdp.torch._input_weights import InputWeightClipper
from corrdp.torch._layers import Layer
from corrdp.torch._layout import WEIGHT, NetworkLayout
from corrdp.torch._rows import (
    all_finite,
    cleared,
    row_norms,
    scaled_outer_sum,
    shrinking_factors,
)

Parameters = Mapping[tuple[str, str], Tensor]


class GroupClipper:
    r"""Sum per-example gradients, clipped by group, without storing them.

    Parameters
    ----------
    layers : sequence of Layer
        Layers with trained parameters.
    layout : NetworkLayout
        Groups, clipping norms, influence bounds.

    Guarantee
    ---------
    One example contributes at most ``clip_norm`` to a group; how far it moves is
    `NetworkLayout.sensitivity_table`. Proof: `docs/theory/networks.md`. An example
    whose gradient is not finite contributes nothing (section 2). Rounding in floating
    point is not covered.
    """

    def __init__(self, layers: Sequence[Layer], layout: NetworkLayout) -> None:
        self._layers = layers
        self._groups = {
            layer.name: {
                key: layout.parameter_groups.get((layer.name, key))
                for key in layer.parameters
            }
            for layer in layers
        }
        self._linear = {layer.name for layer in layers if layer.is_linear}
        example = next(iter(layers[0].parameters.values()))
        clip_norms = [group.clip_norm for group in layout.groups]
        self._clip_norms = example.new_tensor(clip_norms).unbind()
        self._undifferentiated = torch.inference_mode()  # slow to make, quick to enter
        self._input = (
            InputWeightClipper(layout, example) if len(layout.column_groups) else None
        )

    def add_sum(
        self,
        activations: Mapping[str, Tensor],
        backprops: Mapping[str, Tensor],
        reference_backprop: Tensor | None,
        out: Parameters,
    ) -> None:
        """Write the clipped sum of every parameter into `out`.

        Parameters
        ----------
        activations, backprops : mapping of str to Tensor
            Input of every layer and gradient of the summed loss at its output.
        reference_backprop : Tensor, optional
            Gradient at the output of the input layer when sensitive codes are at their
            reference; needed if influence is clipped.
        out : mapping of (str, str) to Tensor
            One tensor per parameter, by layer and name.
        """
        gradients = {
            layer.name: _example_gradients(
                layer, activations[layer.name], backprops[layer.name]
            )
            for layer in self._layers
            if layer.name not in self._linear or activations[layer.name].ndim != 2
        }
        with self._undifferentiated:
            self._write_sum(activations, backprops, reference_backprop, gradients, out)

    def _write_sum(
        self,
        activations: Mapping[str, Tensor],
        backprops: Mapping[str, Tensor],
        reference_backprop: Tensor | None,
        gradients: Mapping[str, Mapping[str, Tensor]],
        out: Parameters,
    ) -> None:
        factors, broken = self._factors(activations, backprops, gradients)
        for name, groups in self._groups.items():
            activation, backprop = activations[name], backprops[name]
            if broken is not None:
                activation = cleared(activation, broken)
                backprop = cleared(backprop, broken)
            for key, group in groups.items():
                part = out[name, key]
                if group is None:
                    assert self._input is not None
                    self._input.write_sum(
                        activations[name], backprops[name], reference_backprop, part
                    )
                elif name in gradients:
                    own = gradients[name][key]
                    if broken is not None:
                        own = cleared(own, broken)
                    part.copy_(torch.tensordot(factors[group], own, 1))
                elif key == WEIGHT:
                    scaled_outer_sum(backprop, activation, factors[group], part)
                else:
                    torch.mv(backprop.T, factors[group], out=part)

    def _factors(
        self,
        activations: Mapping[str, Tensor],
        backprops: Mapping[str, Tensor],
        gradients: Mapping[str, Mapping[str, Tensor]],
    ) -> tuple[dict[int, Tensor], Tensor | None]:
        """Return the factors of every group, and which examples are not finite."""
        norms = self._norms(activations, backprops, gradients)
        broken = None
        if not all(map(all_finite, norms.values())):
            broken = ~torch.isfinite(torch.stack(list(norms.values()))).all(0)
            norms = {group: n.masked_fill(broken, 0) for group, n in norms.items()}
        factors = {
            group: shrinking_factors(n, self._clip_norms[group])
            for group, n in norms.items()
        }
        return factors, broken

    def _norms(
        self,
        activations: Mapping[str, Tensor],
        backprops: Mapping[str, Tensor],
        gradients: Mapping[str, Mapping[str, Tensor]],
    ) -> dict[int, Tensor]:
        """Return the norm of every example's gradient, by group."""
        norms: dict[int, Tensor] = {}
        for name, groups in self._groups.items():
            signal = None if name in gradients else row_norms(backprops[name])
            for key, group in groups.items():
                if group is None:
                    continue
                if signal is None:
                    own = row_norms(gradients[name][key].flatten(1))
                elif key == WEIGHT:
                    own = row_norms(activations[name]).mul_(signal)
                else:
                    own = signal
                norms[group] = torch.hypot(norms[group], own) if group in norms else own
        return norms


def _example_gradients(
    layer: Layer, activation: Tensor, backprop: Tensor
) -> dict[str, Tensor]:
    """Return the gradient of every parameter for every example."""
    values = {key: p.detach() for key, p in layer.parameters.items()}

    def of_one(one_input: Tensor, one_backprop: Tensor) -> dict[str, Tensor]:
        def apply(parameters: dict[str, Tensor]) -> Tensor:
            batch = one_input.unsqueeze(0)
            output: Tensor = functional_call(layer.module, parameters, (batch,))
            return output.squeeze(0)

        pull_back: Any = vjp(apply, values)[1]
        gradients: dict[str, Tensor] = pull_back(one_backprop)[0]
        return gradients

    gradients: dict[str, Tensor] = vmap(of_one)(activation.detach(), backprop)
    return gradients
