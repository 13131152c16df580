"""The sum over examples of gradients that were clipped by group."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, vjp, vmap

from corrdp.torch._layers import Layer
from corrdp.torch._layout import WEIGHT, NetworkLayout

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
        self._layout = layout
        example = next(iter(layers[0].parameters.values()))
        self._clip_norms = [group.clip_norm for group in layout.groups]
        n_column_groups = int(layout.column_groups.max(initial=-1)) + 1
        columns = torch.as_tensor(layout.column_groups)
        members = torch.nn.functional.one_hot(columns, max(n_column_groups, 1))
        self._members = members.to(example)  # (columns, groups of columns)
        entry = layout.groups[:n_column_groups]
        self._column_norms = example.new_tensor([g.clip_norm for g in entry])
        self._influence = example.new_tensor([g.influence_bound for g in entry])

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
        per_example = {
            layer.name: _example_gradients(
                layer, activations[layer.name], backprops[layer.name]
            )
            for layer in self._layers
            if not _is_plain(layer, activations[layer.name])
        }
        squares = self._squares(activations, backprops, per_example)
        broken = _broken(squares.values()) if squares else None
        factors = {
            group: _factor(_cleared(square, broken), self._clip_norms[group])
            for group, square in squares.items()
        }
        for layer in self._layers:
            activation = _cleared(activations[layer.name], broken)
            backprop = _cleared(backprops[layer.name], broken)
            scaled: dict[int, Tensor] = {}
            for key in layer.parameters:
                part = out[layer.name, key]
                group = self._layout.parameter_groups.get((layer.name, key))
                if group is None:
                    self._add_input_weights(
                        activations[layer.name],
                        backprops[layer.name],
                        reference_backprop,
                        part,
                    )
                    continue
                if layer.name in per_example:
                    gradients = _cleared(per_example[layer.name][key], broken)
                    part.copy_(torch.tensordot(factors[group], gradients, 1))
                    continue
                if group not in scaled:
                    scaled[group] = backprop * factors[group].unsqueeze(1)
                if key == WEIGHT:
                    torch.mm(scaled[group].T, activation, out=part)
                else:
                    torch.sum(scaled[group], 0, out=part)

    def _squares(
        self,
        activations: Mapping[str, Tensor],
        backprops: Mapping[str, Tensor],
        per_example: Mapping[str, Mapping[str, Tensor]],
    ) -> dict[int, Tensor]:
        """Return the squared norm of every example's part of every group."""
        squares: dict[int, Tensor] = {}
        for layer in self._layers:
            groups = {
                key: self._layout.parameter_groups[layer.name, key]
                for key in layer.parameters
                if (layer.name, key) in self._layout.parameter_groups
            }
            if layer.name in per_example:
                own = {
                    key: per_example[layer.name][key].flatten(1).square().sum(1)
                    for key in groups
                }
            else:
                own = _linear_squares(
                    groups, activations[layer.name], backprops[layer.name]
                )
            for key, group in groups.items():
                known = squares.get(group)
                squares[group] = own[key] if known is None else known + own[key]
        return squares

    def _add_input_weights(
        self,
        codes: Tensor,
        backprop: Tensor,
        reference_backprop: Tensor | None,
        out: Tensor,
    ) -> None:
        codes = torch.where(codes.square() <= _limit(codes) / codes.shape[1], codes, 0)
        usable = _row_square(backprop) <= _limit(backprop)  # False for NaN
        if reference_backprop is None:
            backprop = torch.where(usable, backprop, 0)
        else:
            # A signal that sensitive features break falls back to the reference: at
            # zero it would leave their influence (docs/theory/networks.md, section 3).
            known = _row_square(reference_backprop) <= _limit(backprop)
            reference_backprop = torch.where(known, reference_backprop, 0)
            backprop = torch.where(known & usable, backprop, reference_backprop)
        code_squares = codes.square() @ self._members  # (n, groups of columns)
        square = _row_square(backprop)
        if reference_backprop is None:
            factor = _factor(code_squares * square, self._column_norms)
            torch.mm(backprop.T, codes * (factor @ self._members.T), out=out)
            return
        # Influence first, then the norm: docs/theory/networks.md, section 3.
        difference = _row_square(backprop - reference_backprop)
        share = _factor(code_squares * difference, self._influence)
        rest = 1.0 - share
        mixed = (
            rest.square() * _row_square(reference_backprop)
            + 2 * rest * share * (backprop * reference_backprop).sum(1, keepdim=True)
            + share.square() * square
        ).clamp_min_(0.0)
        factor = _factor(code_squares * mixed, self._column_norms)
        torch.mm(backprop.T, codes * ((factor * share) @ self._members.T), out=out)
        out.addmm_(reference_backprop.T, codes * ((factor * rest) @ self._members.T))


def _factor(square: Tensor, norm: Tensor | float) -> Tensor:
    """Return ``min(1, norm / sqrt(square))``, 1 where the square is 0."""
    smallest = torch.finfo(square.dtype).tiny
    return (norm * square.clamp_min(smallest).rsqrt_()).clamp_max_(1.0)


def _row_square(rows: Tensor) -> Tensor:
    square: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True).square_()
    return square


def _limit(values: Tensor) -> float:
    """Return a bound on squares such that products of two stay finite."""
    return math.sqrt(torch.finfo(values.dtype).max) / 8


def _broken(squares: Iterable[Tensor]) -> Tensor | None:
    """Return which examples have a norm that is not finite; None if none has."""
    finite = torch.stack([torch.isfinite(square) for square in squares]).all(0)
    return None if bool(finite.all()) else ~finite


def _cleared(values: Tensor, broken: Tensor | None) -> Tensor:
    """Return the values with zeros for broken examples."""
    if broken is None:
        return values
    return values.masked_fill(broken.view(-1, *[1] * (values.ndim - 1)), 0)


def _is_plain(layer: Layer, activation: Tensor) -> bool:
    return layer.is_linear and activation.ndim == 2


def _linear_squares(
    keys: Iterable[str], activation: Tensor, backprop: Tensor
) -> dict[str, Tensor]:
    square = torch.linalg.vector_norm(backprop, dim=1).square_()
    return {
        key: square * torch.linalg.vector_norm(activation, dim=1).square_()
        if key == WEIGHT
        else square
        for key in keys
    }


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

    gradients: dict[str, Tensor] = vmap(of_one)(activation, backprop)
    return gradients
