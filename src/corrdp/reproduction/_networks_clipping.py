"""Clipped sums of many two-layer networks in one pass over the rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corrdp._typing import FloatArray
from corrdp.torch.mlp import SOFTPLUS_AT_ZERO, build_network, shrink_first_layer
from corrdp.torch.networks import Layer, NetworkLayout, NetworkPlan, trained_layers


class Views(NamedTuple):
    """Parameters of many models, seen as matrices."""

    first_weight: Tensor  # shape (n_models, n_hidden, n_inputs)
    first_bias: Tensor  # shape (n_models, n_hidden)
    last_weight: Tensor  # shape (n_models, n_outputs, n_hidden)
    last_bias: Tensor  # shape (n_models, n_outputs)


@dataclass(frozen=True)
class NetworkShape:
    """Widths of a network with one hidden layer of softplus units."""

    n_inputs: int
    n_hidden: int
    n_outputs: int  # one means regression
    centered: bool = False  # trained with softplus that maps zero to zero

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


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table, each standing for one record or for several."""

    codes: Tensor  # shape (n, n_columns)
    labels: Tensor  # shape (n,): numbers, or indices of classes
    counts: Tensor | None = None  # records that each row stands for; one by default

    @classmethod
    def of(cls, codes: FloatArray, labels: NDArray[np.generic]) -> Self:
        """Return the rows in the types that the estimators train on."""
        kind = torch.int64 if labels.dtype.kind == "i" else torch.float32
        return cls(
            torch.tensor(codes, dtype=torch.float32), torch.tensor(labels, dtype=kind)
        )

    @classmethod
    def distinct(cls, codes: FloatArray, labels: NDArray[np.generic]) -> Self:
        """Return every different row once, with its count."""
        whole = np.column_stack([codes, labels])
        _, first, counts = np.unique(
            whole, axis=0, return_index=True, return_counts=True
        )
        rows = cls.of(codes[first], labels[first])
        return cls(rows.codes, rows.labels, torch.tensor(counts).to(rows.codes))

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.codes) if self.counts is None else int(self.counts.sum())

    def repeated(self) -> Tensor:
        """Return the codes of every record."""
        if self.counts is None:
            return self.codes
        return self.codes.repeat_interleave(self.counts.long(), 0)

    def draw(self, rate: float, generator: np.random.Generator) -> "Rows":
        """Return a Poisson sample, drawn as `corrdp.torch.PoissonLoader` draws it."""
        count = generator.binomial(len(self.codes), rate)
        chosen = generator.choice(
            len(self.codes), size=count, replace=False, shuffle=False
        )
        index = torch.from_numpy(chosen)
        return Rows(self.codes[index], self.labels[index])


class _Pass(NamedTuple):
    """One forward and backward pass of all models; the last axis runs over rows."""

    hidden: Tensor  # outputs of the hidden layer
    first: Tensor  # gradient of the loss at the input of the hidden units
    last: Tensor  # gradient of the loss at the outputs
    room: Tensor | None  # part of the clipping norms that a record may use


class Clipper:
    r"""Sum per-example gradients of many models, clipped as their layouts say.

    Layouts, one per model, have the same groups and their own norms: flat clipping, one
    group per layer, or groups of input columns whose influence may be bounded. All
    numbers have the type of `example`.

    Guarantee
    ---------
    The sums of `corrdp.torch`, whose bounds are proved in `docs/theory/networks.md`;
    tests hold the two equal. Gradients that are not finite are not treated: parameters
    are checked after training.
    """

    def __init__(
        self, layouts: Sequence[NetworkLayout], shape: NetworkShape, example: Tensor
    ) -> None:
        self._shape = shape
        self._layout = layouts[0]
        self._example = example
        groups = [layout.groups for layout in layouts]
        self._norms = example.new_tensor([[g.clip_norm for g in own] for own in groups])
        self._influence = example.new_tensor(
            [[g.influence_bound for g in own] for own in groups]
        )
        self._sensitive = torch.as_tensor(layouts[0].sensitive)
        self._residual_bound = layouts[0].residual_bound
        self._references = example.new_tensor(
            np.stack([layout.reference for layout in layouts])
        )

    def read(self, rows: Rows) -> None:
        """Take the rows of the next sums."""
        self._codes = rows.codes.to(self._example)
        self._with_ones = torch.nn.functional.pad(self._codes, (0, 1), value=1.0)
        self._labels = rows.labels
        self._counts = rows.counts
        if self._layout.clips_influence:
            self._masked = self._codes.masked_fill(self._sensitive, 0.0)

    def clipped_sum(self, parameters: Tensor) -> Tensor:
        """Return the clipped sums, shape (n_models, n_parameters)."""
        if self._layout.input_layer == "":
            return self._layer_sum(parameters)
        return self._grouped_sum(parameters)

    def _layer_sum(self, parameters: Tensor) -> Tensor:
        """Return sums of whole layers, clipped together or each by itself."""
        seen = self._run(parameters, self._codes)
        square = [
            _square(self._with_ones) * _square(seen.first),
            (1.0 + _square(seen.hidden)) * _square(seen.last),
        ]
        if self._norms.shape[1] == 1:
            square = [square[0] + square[1]] * 2
        group = [0, self._norms.shape[1] - 1]
        factor = [
            self._weighed(_factor(one, self._norm(index, seen.room)))[:, None]
            for one, index in zip(square, group, strict=True)
        ]
        first = (seen.first * factor[0]) @ self._with_ones
        last = seen.last * factor[1]
        return self._flatten(
            first[:, :, :-1], first[:, :, -1], last @ seen.hidden.mT, last.sum(2)
        )

    def _grouped_sum(self, parameters: Tensor) -> Tensor:
        seen = self._run(parameters, self._codes)
        n_column_groups = int(self._layout.column_groups.max()) + 1
        bias, last_layer = n_column_groups, n_column_groups + 1
        weight = torch.empty_like(self._shape.views(parameters).first_weight)
        masked = (
            self._run(parameters, self._masked, self._references)
            if self._layout.clips_influence
            else seen
        )
        reference = masked.first
        difference = seen.first - reference
        for group in range(n_column_groups):
            columns = torch.as_tensor(self._layout.column_groups == group)
            codes = self._codes[:, columns]
            is_bounded = bool(torch.isfinite(self._influence[0, group]))
            norm = self._norm(group, masked.room if is_bounded else seen.room)
            signal = self._signal(reference, difference, _square(codes), group, norm)
            if self._counts is not None:
                signal *= self._counts
            weight[:, :, columns] = signal @ codes
        factor = _factor(_square(seen.first), self._norm(bias, seen.room))
        first_bias = (seen.first * self._weighed(factor)[:, None]).sum(2)
        square = (1.0 + _square(seen.hidden)) * _square(seen.last)
        factor = _factor(square, self._norm(last_layer, seen.room))
        last = seen.last * self._weighed(factor)[:, None]
        return self._flatten(weight, first_bias, last @ seen.hidden.mT, last.sum(2))

    def _norm(self, group: int, room: Tensor | None) -> Tensor:
        """Return the clipping norm of a group, by model, or by model and record."""
        norm = self._norms[:, group, None]
        return norm if room is None else norm * room

    def _signal(
        self,
        reference: Tensor,
        difference: Tensor,
        code_square: Tensor,
        group: int,
        norm: Tensor,
    ) -> Tensor:
        """Return the backprop signal that a group of input columns is given."""
        # Anchor, influence, then the norm: docs/theory/networks.md, section 3.
        bound = self._influence[:, group, None]
        cut = _factor(code_square * _square(reference), bound)
        apart = torch.addcmul(difference, cut[:, None], reference)
        share = _factor(code_square * _square(apart), bound)
        anchor = reference * (1.0 - cut)[:, None]
        signal = anchor.addcmul_(share[:, None], apart)
        factor = _factor(code_square * _square(signal), norm)
        return signal.mul_(factor[:, None])

    def _run(
        self, parameters: Tensor, codes: Tensor, references: Tensor | None = None
    ) -> _Pass:
        """Run all models; sensitive codes that were left out have their references."""
        views = self._shape.views(parameters)
        n_models, n_hidden, _ = views.first_weight.shape
        bias = views.first_bias
        if references is not None:
            own = self._sensitive
            left_out = views.first_weight[:, :, own] @ references[:, own, None]
            bias = bias + left_out.squeeze(2)
        inputs = torch.addmm(
            bias.reshape(-1, 1),
            views.first_weight.reshape(n_models * n_hidden, -1),
            codes.T,
        ).view(n_models, n_hidden, -1)
        hidden = torch.nn.functional.softplus(inputs)
        if self._shape.centered:
            hidden -= SOFTPLUS_AT_ZERO
        outputs = torch.baddbmm(views.last_bias[:, :, None], views.last_weight, hidden)
        if self._shape.n_outputs == 1:
            last = 2.0 * (outputs - self._labels.to(outputs))
        else:
            last = torch.softmax(outputs, 1)
            index = self._labels.expand(n_models, 1, -1)
            last.scatter_add_(1, index, -torch.ones_like(last[:, :1]))
        room = None
        if math.isfinite(self._residual_bound):
            part = last.norm(dim=1) / self._residual_bound
            last *= part.reciprocal().clamp_max(1.0)[:, None]
            room = part.clamp_max(1.0)
        first = (views.last_weight.mT @ last).mul_(inputs.sigmoid_())
        return _Pass(hidden, first, last, room)

    def _weighed(self, factor: Tensor) -> Tensor:
        return factor if self._counts is None else factor * self._counts

    @staticmethod
    def _flatten(*parts: Tensor) -> Tensor:
        return torch.cat([part.flatten(1) for part in parts], dim=1)


def _square(values: Tensor) -> Tensor:
    """Return the squared norm along the second axis."""
    return values.square().sum(1)


def _factor(square: Tensor, norm: Tensor) -> Tensor:
    """Return ``min(1, norm / sqrt(square))``, 1 where the square is 0."""
    smallest = torch.finfo(square.dtype).tiny
    return (norm * square.clamp_min(smallest).rsqrt_()).clamp_max_(1.0)
