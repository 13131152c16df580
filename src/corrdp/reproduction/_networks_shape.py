"""Where the parameters of a two-layer network lie in one flat vector."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from corrdp.torch.mlp import SOFTPLUS_AT_ZERO, build_network, shrink_first_layer
from corrdp.torch.networks import Layer, NetworkPlan, trained_layers


class Views(NamedTuple):
    """Parameters of many models, seen as matrices.

    Parameters
    ----------
    first_weight, first_bias, last_weight, last_bias : Tensor
        Shapes (n_models, n_hidden, n_inputs), (n_models, n_hidden),
        (n_models, n_outputs, n_hidden), (n_models, n_outputs).
    """

    first_weight: Tensor
    first_bias: Tensor
    last_weight: Tensor
    last_bias: Tensor


@dataclass(frozen=True)
class NetworkShape:
    """Widths of a network with one hidden layer of softplus units.

    Parameters
    ----------
    n_inputs, n_hidden, n_outputs : int
        Widths; one output means regression.
    centered : bool
        Whether units are trained with softplus that maps zero to zero.
    """

    n_inputs: int
    n_hidden: int
    n_outputs: int
    centered: bool = False

    def build(self, random_state: int | None) -> nn.Sequential:
        """Return a network with the initial parameters of torch."""
        return build_network(
            self.n_inputs,
            (self.n_hidden,),
            self.n_outputs,
            random_state,
            centered=self.centered,
        )

    def layers(self) -> tuple[Layer, ...]:
        """Return its layers, which plans are made of."""
        return trained_layers(self.build(0))

    def start(self, random_state: int, *, calm: bool = False) -> Tensor:
        """Return the initial parameters as one vector; calm as estimators start."""
        network = self.build(random_state)
        if calm:
            shrink_first_layer(network)
        return torch.cat([p.detach().flatten() for p in network.parameters()])

    def views(self, flat: Tensor) -> Views:
        """Return the parameters of models, shape (n_models, n_parameters)."""
        n, h, k = self.n_inputs, self.n_hidden, self.n_outputs
        first_weight, first_bias, last_weight, last_bias = torch.split(
            flat, [h * n, h, k * h, k], dim=1
        )
        return Views(
            first_weight.reshape(-1, h, n),
            first_bias,
            last_weight.reshape(-1, k, h),
            last_bias,
        )

    def noise_scale(self, plan: NetworkPlan) -> Tensor:
        """Return the deviation of the noise on every parameter's sum."""
        layout, scale = plan.noise_layout, torch.tensor(plan.noise.noise_scale)
        parts = []
        for layer in self.layers():
            for key, parameter in layer.parameters.items():
                group = layout.parameter_groups.get((layer.name, key))
                own = (
                    scale[torch.as_tensor(layout.column_groups)]
                    if group is None
                    else scale[group]
                )
                parts.append(own.expand(parameter.shape).flatten())
        return torch.cat(parts)

    def uncentered(self, flat: Tensor) -> Tensor:
        """Return parameters with which plain softplus says the same."""
        if not self.centered:
            return flat
        moved = flat.clone()
        views = self.views(moved)
        views.last_bias.sub_(SOFTPLUS_AT_ZERO * views.last_weight.sum(2))
        return moved

    def outputs(self, flat: Tensor, codes: Tensor) -> Tensor:
        """Return what models with plain softplus say, (n_models, n_outputs, n_rows)."""
        views = self.views(flat)
        hidden = nn.functional.softplus(
            views.first_weight @ codes.T + views.first_bias[:, :, None]
        )
        return views.last_weight @ hidden + views.last_bias[:, :, None]
