"""The sum over examples of gradients that were clipped by group."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from corrdp.torch._input_weights import InputWeightClipper
from corrdp.torch._layer_gradients import example_gradients
from corrdp.torch._layers import Layer
from corrdp.torch._layout import BIAS, WEIGHT, NetworkLayout
from corrdp.torch._passes import one_pass_factors
from corrdp.torch._rows import (
    Room,
    all_finite,
    cleared,
    outer_sum,
    row_norms,
    scaled_outer_sum,
    shrinking_factors,
)
from corrdp.torch._towers import SecondPass, TowerClipper

Parameters = Mapping[tuple[str, str], Tensor]


class _Share(NamedTuple):
    """What a group holds of a linear layer."""

    layer: str
    weight: bool
    bias: bool


class GroupClipper:
    """Sum per-example gradients, clipped by group, without storing them.

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
            (layer.name, key): layout.parameter_groups.get((layer.name, key))
            for layer in layers
            for key in layer.parameters
        }
        self._linear = {layer.name for layer in layers if layer.is_linear}
        self._joined = {
            name
            for name in self._linear
            if self._groups.get((name, WEIGHT)) is not None
            and self._groups.get((name, WEIGHT)) == self._groups.get((name, BIAS))
        }
        example = next(iter(layers[0].parameters.values()))
        self._one = example.new_tensor(1.0)
        self._whole = example.new_ones(1)
        clip_norms = [group.clip_norm for group in layout.groups]
        self._clip_norms = example.new_tensor(clip_norms).unbind()
        self._norm_values = [float(norm) for norm in self._clip_norms]
        self._input = (
            InputWeightClipper(layout, example) if len(layout.column_groups) else None
        )
        self._together = self._linear_groups()
        self._towers = TowerClipper(layers, layout)
        for layer in layers:
            if layer.name in layout.towers:  # by a rule of their own
                for key in layer.parameters:
                    del self._groups[layer.name, key]
                self._together.clear()

    def add_sum(
        self,
        activations: Mapping[str, Tensor],
        backprops: Mapping[str, Tensor],
        reference_backprop: Tensor | None,
        out: Parameters,
        *,
        check_finite: bool = True,
        room: Room | None = None,
        second_passes: Mapping[str, SecondPass] | None = None,
    ) -> None:
        """Write the clipped sum of every parameter into `out`.

        By layer, `activations` are what it was given, `backprops` the gradient of the
        summed loss at its output. With sensitive codes at their reference the latter is
        `reference_backprop` for the input layer, needed if influence is clipped, and
        `second_passes` hold both for towers. Every example may use its part, `room`, of
        the clipping norms; all by default.

        Unless norms that are not finite are looked for, what has one may make the sum
        NaN instead of contributing nothing.
        """
        gradients = {
            layer.name: example_gradients(
                layer, activations[layer.name], backprops[layer.name]
            )
            for layer in self._layers
            if layer.name not in self._linear or activations[layer.name].ndim != 2
        }
        with torch.inference_mode():  # nothing in here is differentiated
            if second_passes:
                self._towers.write_sums(backprops, second_passes, out, room=room)
            done = (
                set()
                if check_finite or gradients
                else self._write_together(activations, backprops, out, room)
            )
            norms = self._norms(activations, backprops, gradients, done)
            broken = _not_finite(norms) if check_finite else {}
            factors = {
                group: shrinking_factors(
                    cleared(norm, broken.get(group)),
                    self._clip_norms[group]
                    if room is None
                    else room.own * self._clip_norms[group],
                )
                for group, norm in norms.items()
            }
            for (name, key), group in self._groups.items():
                if group in done:
                    continue
                activation, backprop = activations[name], backprops[name]
                part = out[name, key]
                if group is None:
                    assert self._input is not None
                    self._input.write_sum(
                        activation, backprop, reference_backprop, part, room=room
                    )
                    continue
                factor, rows = factors[group], broken.get(group)
                if name in gradients:
                    own = cleared(gradients[name][key], rows)
                    part.copy_(torch.tensordot(factor, own, 1))
                elif key == WEIGHT:
                    scaled_outer_sum(
                        cleared(backprop, rows), cleared(activation, rows), factor, part
                    )
                else:
                    torch.mv(cleared(backprop, rows).T, factor, out=part)

    def _linear_groups(self) -> dict[int, tuple[_Share, ...]]:
        """Return the groups that are made of linear layers, with what they hold."""
        held: dict[int | None, dict[str, set[str]]] = {}
        for (name, key), group in self._groups.items():
            held.setdefault(group, {}).setdefault(name, set()).add(key)
        return {
            group: tuple(_Share(n, WEIGHT in k, BIAS in k) for n, k in own.items())
            for group, own in held.items()
            if group is not None and own.keys() <= self._linear
        }

    def _write_together(
        self,
        activations: Mapping[str, Tensor],
        backprops: Mapping[str, Tensor],
        out: Parameters,
        room: Room | None,
    ) -> set[int | None]:
        """Write the sums of groups that one compiled pass is enough for; return them.

        The same sums as those of `add_sum`, up to rounding.
        """
        done: set[int | None] = set()
        for group, shares in self._together.items():
            # Of a bias alone no inputs count, but the one that it reads.
            inputs = [
                activations[own.layer] if own.weight else activations[own.layer][:, :0]
                for own in shares
            ]
            signals = [backprops[own.layer] for own in shares]
            result = one_pass_factors(
                inputs,
                signals,
                tuple([float(own.bias) for own in shares]),
                self._norm_values[group],
                self._whole if room is None else room.own,
            )
            if result is None:
                continue
            factors, scaled = result
            for own, given, signal, part in zip(
                shares, inputs, signals, scaled, strict=True
            ):
                if own.weight and signal.shape[1] <= given.shape[1]:
                    outer_sum(part, given, out[own.layer, WEIGHT])
                elif own.weight:
                    outer_sum(signal, part, out[own.layer, WEIGHT])
                if own.bias:
                    torch.mv(signal.T, factors, out=out[own.layer, BIAS])
            done.add(group)
        return done

    def _norms(
        self,
        activations: Mapping[str, Tensor],
        backprops: Mapping[str, Tensor],
        gradients: Mapping[str, Mapping[str, Tensor]],
        done: Collection[int | None],
    ) -> dict[int, Tensor]:
        """Return the norm of every example's gradient, by group that is not done."""
        norms: dict[int, Tensor] = {}
        signals: dict[str, Tensor] = {}
        joined = self._joined - gradients.keys()
        for (name, key), group in self._groups.items():
            if group is None or group in done or (name in joined and key == BIAS):
                continue
            if name not in gradients and name not in signals:
                signals[name] = row_norms(backprops[name])
            if name in gradients:
                own = row_norms(gradients[name][key].flatten(1))
            elif key == BIAS:
                own = signals[name]
            elif name in joined:
                # The bias reads a one, beside which lost squares are nothing.
                lengths = torch.linalg.vector_norm(activations[name], dim=1)
                own = torch.hypot(lengths, self._one).mul_(signals[name])
            else:
                own = row_norms(activations[name]).mul_(signals[name])
            norms[group] = torch.hypot(norms[group], own) if group in norms else own
        return norms


def _not_finite(norms: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """Return by group which examples have a norm that is not finite, if any has."""
    return {
        group: ~torch.isfinite(norm)
        for group, norm in norms.items()
        if not all_finite(norm)
    }
