"""Layers that read insensitive inputs alone: their gradients, too, are bounded.

A tower is a part of a network that sensitive features join only after it. What its
layers are given does not depend on them, so that their influence on its gradients comes
through the backprop signal alone and can be bounded as for input columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from corrdp.exceptions import CorrDPError
from corrdp.torch._capture import Capture
from corrdp.torch._input_weights import InputWeightClipper
from corrdp.torch._layers import Layer
from corrdp.torch._layout import BIAS, WEIGHT, NetworkLayout
from corrdp.torch._rows import Room

_N_TRIED = 8
_ROUNDINGS = 2.0**12


class SecondPass(NamedTuple):
    """What a layer was given, and its backprop signal, at the reference."""

    activation: Tensor
    backprop: Tensor


class TowerClipper:
    """Sum gradients of the layers of towers.

    Guarantee
    ---------
    Proposition 2a of `docs/theory/networks.md`: what multiplies the signals was
    computed without sensitive codes, whatever the layer was given.
    """

    def __init__(self, layers: Sequence[Layer], layout: NetworkLayout) -> None:
        self._clippers: dict[str, InputWeightClipper] = {}
        self._has_bias: dict[str, bool] = {}
        for layer in layers:
            if layer.name not in layout.towers:
                continue
            weight = layer.parameters[WEIGHT]
            self._has_bias[layer.name] = BIAS in layer.parameters
            width = weight.shape[1] + self._has_bias[layer.name]
            group = layout.groups[layout.parameter_groups[layer.name, WEIGHT]]
            one_group = replace(
                layout, groups=(group,), column_groups=np.zeros(width, dtype=np.int64)
            )
            self._clippers[layer.name] = InputWeightClipper(one_group, weight)

    def write_sums(
        self,
        backprops: Mapping[str, Tensor],
        second_passes: Mapping[str, SecondPass],
        out: Mapping[tuple[str, str], Tensor],
        *,
        room: Room | None,
    ) -> None:
        """Write the clipped sums of weights and biases; see `GroupClipper.add_sum`."""
        for name, clipper in self._clippers.items():
            given, reference = second_passes[name]
            weight = out[name, WEIGHT]
            if not self._has_bias[name]:
                clipper.write_sum(given, backprops[name], reference, weight, room=room)
                continue
            # The bias is the weight of a column of ones.
            codes = torch.cat((given, given.new_ones(len(given), 1)), dim=1)
            both = weight.new_empty(weight.shape[0], weight.shape[1] + 1)
            clipper.write_sum(codes, backprops[name], reference, both, room=room)
            weight.copy_(both[:, :-1])
            out[name, BIAS].copy_(both[:, -1])


def check_towers(
    module: nn.Module, layers: Sequence[Layer], layout: NetworkLayout, like: Tensor
) -> None:
    """Raise if a layer of a tower is given what depends on sensitive columns.

    Tried on random rows. The bound would hold; the gradient would be wrong.
    """
    generator = torch.Generator().manual_seed(0)
    shape = (_N_TRIED, len(layout.sensitive))
    rows = (torch.rand(shape, generator=generator) - 0.5).to(like)
    others = (torch.rand(shape, generator=generator) - 0.5).to(like)
    changed = torch.where(torch.as_tensor(layout.sensitive), others, rows)
    seen = []
    for batch in (rows, changed):
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same masks
            with Capture(layers) as capture:
                module(batch)
            seen.append({name: capture.activation(name) for name in layout.towers})
    tolerance = _ROUNDINGS * torch.finfo(rows.dtype).eps
    for name in layout.towers:
        one, other = seen[0][name], seen[1][name]
        if one.ndim != 2 or one.shape != other.shape:
            raise CorrDPError(
                f"layer {name!r} of a tower is given {one.ndim} axes instead of rows "
                "and columns. Flatten what it reads, or leave it out of towers."
            )
        if float((one - other).abs().max()) > tolerance * float(one.abs().max()):
            raise CorrDPError(
                f"layer {name!r} of a tower is given what sensitive columns change. "
                "Let them join after the tower, or leave the layer out of towers."
            )
