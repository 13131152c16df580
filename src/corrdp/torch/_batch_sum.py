"""The clipped sum over a batch: what a step adds noise to, and nobody sees without."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.torch._capture import INPUT_CHANGED, Capture
from corrdp.torch._clipping import GroupClipper
from corrdp.torch._layers import Layer, LossFunction, check_losses
from corrdp.torch._layout import NetworkLayout
from corrdp.torch._randomness import LayerRandomness
from corrdp.torch._rows import Room, all_finite, bounded_residuals, same_values
from corrdp.torch._towers import SecondPass

_AS_IT_IS = nullcontext()


def _differentiating() -> AbstractContextManager[Any]:
    """Return where graphs are recorded whatever the caller chose, and not watched.

    Anomaly detection would stop at values that are not finite. Nothing to enter, as
    a rule: every context costs a step some microseconds.
    """
    if torch.is_grad_enabled() and not torch.is_anomaly_enabled():
        return _AS_IT_IS
    contexts = ExitStack()
    contexts.enter_context(torch.enable_grad())
    contexts.enter_context(torch.autograd.set_detect_anomaly(False))
    return contexts


class _Part(NamedTuple):
    """A parameter, the layer and the name that it has there, its part of a sum."""

    name: tuple[str, str]
    parameter: nn.Parameter
    view: Tensor


class BatchSum:
    """The sum over a batch of what its examples contribute, clipped by group.

    Batches of more than `max_rows` are taken in parts. The layer `entry`, if it has a
    name, must read the encoded columns. `total` holds all parts of the last sum, flat,
    and is not private; `reference` is what stands for sensitive codes in the second
    pass.

    Guarantee
    ---------
    What one record adds, and how far it moves that, is bounded group by group as
    `NetworkLayout.sensitivity_table` says: `docs/theory/networks.md`, sections 1 to 3.
    """

    def __init__(
        self,
        module: nn.Module,
        layers: Sequence[Layer],
        loss: LossFunction,
        layout: NetworkLayout,
        *,
        entry: str,
        randomness: LayerRandomness,
        max_rows: int,
    ) -> None:
        self._module = module
        self._layers = layers
        self._loss = loss
        self._layout = layout
        self._clips_influence = layout.clips_influence
        self._entry = entry
        self._randomness = randomness
        self._max_rows = max_rows
        self._clipper = GroupClipper(layers, layout)
        example = next(iter(layers[0].parameters.values()))
        self.total = example.new_zeros(sum(layer.size for layer in layers))
        self.reference = torch.as_tensor(layout.reference).to(example)
        self._sensitive = torch.as_tensor(layout.sensitive, device=example.device)
        self._views = {part.name: part.view for part in self.parts(self.total)}

    def parts(self, flat: Tensor) -> Iterator[_Part]:
        """Return parameters in their order, each with its part of a flat tensor."""
        start = 0
        for layer in self._layers:
            for key, parameter in layer.parameters.items():
                stop = start + parameter.numel()
                view = flat[start:stop].view(parameter.shape)
                yield _Part((layer.name, key), parameter, view)
                start = stop

    def write(self, features: Tensor, labels: Tensor) -> None:
        """Sum up a batch, which may be empty, in parts if one pass may have fewer rows.

        Guarantee
        ---------
        See the class; of parts, `docs/theory/networks.md`, section 4.
        """
        n_rows = len(features)
        if n_rows == 0:
            self.total.zero_()
            return
        with _differentiating():
            if n_rows <= self._max_rows:
                self._write_pass(features, labels)
                return
            total = torch.zeros_like(self.total)
            for start in range(0, n_rows, self._max_rows):
                own = slice(start, start + self._max_rows)
                self._write_pass(features[own], labels[own])
                total += self.total
            self.total.copy_(total)

    def _write_pass(self, features: Tensor, labels: Tensor) -> None:
        """Sum up rows that one pass through the module takes."""
        n_rows = len(features)
        pristine: tuple[Tensor, ...] = (features,)
        if self._clips_influence:
            masked = torch.where(self._sensitive, self.reference, features)
            pristine = (features, masked)
            features = torch.cat(pristine)
            labels = torch.cat([labels, labels])
        capture, backprops, residuals = self._passed(features, labels)
        room = None if residuals is None else Room.of(residuals, n_rows)
        activations = capture.activations()
        self._check_entry(capture, features, pristine)
        reference, second_passes = None, None
        if self._clips_influence:
            entry = self._layout.input_layer
            reference = backprops[entry][n_rows:] if entry else None
            second_passes = {
                name: SecondPass(activations[name][n_rows:], backprops[name][n_rows:])
                for name in self._layout.towers
            }
            activations = {name: rows[:n_rows] for name, rows in activations.items()}
            backprops = {name: rows[:n_rows] for name, rows in backprops.items()}
        # A look at every norm takes time, and a finite sum shows that none was needed.
        for check_finite in (False, True):
            self._clipper.add_sum(
                activations,
                backprops,
                reference,
                self._views,
                check_finite=check_finite,
                room=room,
                second_passes=second_passes,
            )
            if all_finite(self.total):
                return
        raise GuaranteeVoidError(
            "the clipped sum of a batch is not finite, although every contribution was "
            "bounded: a defect of corrdp. The step is charged and nothing is released. "
            "Report it with the module, without the data."
        )

    def _passed(
        self, features: Tensor, labels: Tensor
    ) -> tuple[Capture, dict[str, Tensor], Tensor | None]:
        """Return what layers were given, signals at their outputs, parts of residuals.

        What the module, the loss or its gradient raise is told without their words,
        which quote labels and indices. No value is looked at: a loss that is not finite
        is its own row's alone.
        """
        version = features._version  # noqa: SLF001
        try:
            with self._randomness.secret(), Capture(self._layers) as capture:
                outputs = self._module(features)
                losses = self._loss(outputs, labels)
            check_losses(losses, len(features))
            capture.check(len(features))
            if features._version != version:  # noqa: SLF001
                raise GuaranteeVoidError(INPUT_CHANGED)
            if not self._layout.bounds_residuals:
                return capture, capture.backprops(losses, torch.ones_like(losses)), None
            bound = self._layout.residual_bound
            signal, residuals = bounded_residuals(losses, outputs, bound)
            return capture, capture.backprops(outputs, signal), residuals
        except CorrDPError:
            raise
        except Exception as error:
            problem = type(error).__name__
        raise CorrDPError(
            f"the module, the loss or its gradient stopped at a batch ({problem}). The "
            "step is charged and nothing is released. A label or an index out of "
            "range? Call them on public rows to see where."
        )

    def _check_entry(
        self, capture: Capture, features: Tensor, pristine: tuple[Tensor, ...]
    ) -> None:
        """Raise unless the input layer was given the codes, with their values."""
        entry = self._entry
        if not entry:
            return
        seen = capture.activation(entry)
        if seen.data_ptr() != features.data_ptr() or seen.shape != features.shape:
            raise GuaranteeVoidError(
                f"input layer {entry!r} does not read the encoded columns as they are. "
                "Give it the module's input, or choose method='standard'."
            )
        if len(pristine) > 1:  # not all changes raise the version counter
            n_rows = len(pristine[0])
            if not all(map(same_values, (seen[:n_rows], seen[n_rows:]), pristine)):
                raise GuaranteeVoidError(INPUT_CHANGED)
