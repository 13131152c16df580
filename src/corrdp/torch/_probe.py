"""Does every example stand for itself? Tried on a module before it sees data."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from corrdp.exceptions import GuaranteeVoidError
from corrdp.torch._capture import Capture
from corrdp.torch._layers import Layer, LossFunction, check_losses

_ROWS = 3
_SPREADS = (1.0, 0.1, 3.0)  # of the other rows: one trial each
_ROUNDINGS = 16  # tolerated difference, in units of the machine precision


class _Pass(NamedTuple):
    inputs: Tensor
    outputs: object
    losses: Tensor
    capture: Capture


def probe_independence(
    module: nn.Module,
    layers: tuple[Layer, ...],
    loss: LossFunction,
    features: Tensor,
    labels: Tensor,
) -> None:
    """Raise unless an example's loss and gradient depend on that example alone.

    Shapes and types are those of the first rows of `features` and `labels`, values are
    random: no row is read. Tried in training mode, and in the mode the module is in.
    Parameters are moved a little, since those that are zero hide what they multiply.
    Parameters, buffers, modes and the random generator are put back.

    Guarantee
    ---------
    Assumption 1 of `docs/theory/networks.md`, as far as random inputs can tell.
    """
    devices = [features.device] if features.is_cuda else []
    as_it_is = {part: part.training for part in module.modules()}
    with torch.enable_grad(), torch.random.fork_rng(devices=devices), _restored(module):
        modes = [dict.fromkeys(as_it_is, True)]
        if not all(as_it_is.values()):
            modes.append(as_it_is)
        for mode in modes:
            for part, training in mode.items():
                part.training = training
            for trial, spread in enumerate(_SPREADS):
                _move_parameters(layers, trial)
                _Trial(module, layers, loss, trial).run(features, labels, spread)


class _Trial:
    """Passes over random rows with the same random generator."""

    def __init__(
        self,
        module: nn.Module,
        layers: tuple[Layer, ...],
        loss: LossFunction,
        seed: int,
    ) -> None:
        self._module = module
        self._layers = layers
        self._loss = loss
        self._seed = seed

    def run(self, features: Tensor, labels: Tensor, spread: float) -> None:
        generator = torch.Generator().manual_seed(self._seed)
        inputs = _random_rows(features, generator, spread, center=0.0)
        targets = _random_rows(labels, generator, 0.1, center=0.5)
        first = self._pass(inputs, targets)
        self._check_gradients(first)
        for row in range(_ROWS):
            others = torch.arange(_ROWS) != row
            changed, labeled = inputs.clone(), targets.clone()
            changed[others] = _other_rows(features, generator, spread, 0.0)[others]
            labeled[others] = _other_rows(labels, generator, 0.1, 0.5)[others]
            self._check_same(first, self._pass(changed, labeled), row)
        self._check_size(first, inputs, targets)

    def _pass(self, inputs: Tensor, targets: Tensor, seed: int | None = None) -> _Pass:
        torch.manual_seed(self._seed if seed is None else seed)
        inputs = inputs.clone()
        if inputs.is_floating_point():
            inputs.requires_grad_()
        before = _state(self._module)
        with Capture(self._layers) as capture:
            # A copy: a module may change its input in place, a leaf may not be.
            outputs = self._module(inputs.clone())
            losses = self._loss(outputs, targets)
        _check_state(before, _state(self._module))
        check_losses(losses, len(inputs))
        capture.check(len(inputs))
        if not torch.isfinite(losses).all():
            raise GuaranteeVoidError(
                "the loss of random inputs near zero, with labels between 0 and 1, is "
                "not finite, so whether it combines examples cannot be tried. Bound "
                "the outputs of the module, for example by clamping."
            )
        return _Pass(inputs, outputs, losses, capture)

    def _check_gradients(self, own: _Pass) -> None:
        """Raise if a loss has a gradient at other rows, of inputs or of outputs."""
        for row in range(_ROWS):
            one = own.losses[row]
            signals = own.capture.backprops(one, retain_graph=True)
            if own.inputs.requires_grad:
                signals[""] = torch.autograd.grad(
                    one, own.inputs, retain_graph=True, materialize_grads=True
                )[0]
            for name, signal in signals.items():
                others = torch.arange(_ROWS, device=signal.device) != row
                if torch.count_nonzero(signal[others]) > 0:
                    _refuse(f"through layer {name!r}" if name else "through the input")

    def _check_same(self, own: _Pass, changed: _Pass, row: int) -> None:
        """Raise if one row notices that all others were changed."""
        if not _close(own.losses[row], changed.losses[row]):
            _refuse("by its value")
        signals = own.capture.backprops(own.losses.sum(), retain_graph=True)
        others = changed.capture.backprops(changed.losses.sum())
        for name, signal in signals.items():
            seen = own.capture.activation(name)[row]
            if not _close(seen, changed.capture.activation(name)[row]):
                _refuse(f"through what layer {name!r} is given")
            if not _close(signal[row], others[name][row]):
                _refuse(f"through the gradient at layer {name!r}")

    def _check_size(self, own: _Pass, inputs: Tensor, targets: Tensor) -> None:
        """Raise if a row notices how many others there are.

        Random layers draw other numbers for fewer rows: then the loss alone is tried.
        """
        if isinstance(own.outputs, Tensor):
            alone = self._loss(own.outputs[:1], targets[:1])
            if not _close(own.losses[:1], alone):
                _refuse("by their number")
        again = self._pass(inputs, targets, seed=self._seed + 1)
        if not torch.equal(own.losses, again.losses):
            return
        alone = self._pass(inputs[:1], targets[:1]).losses
        if not _close(own.losses[:1], alone, roundings=2**10):
            _refuse("by their number")


def _refuse(how: str) -> None:
    raise GuaranteeVoidError(
        f"the loss of one example depends on other examples, {how}. Remove whatever "
        "combines rows of a batch, or of earlier ones, in the module or in the loss; "
        "random layers must draw from torch's generator."
    )


def _close(one: Tensor, other: Tensor, roundings: int = _ROUNDINGS) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, other)
    if one.shape != other.shape:
        return False
    tolerance = roundings * torch.finfo(one.dtype).eps
    largest = float(one.detach().abs().max()) if one.numel() else 0.0
    return bool(
        torch.allclose(one, other, rtol=0.0, atol=tolerance * largest, equal_nan=True)
    )


def _random_rows(
    like: Tensor, generator: torch.Generator, spread: float, center: float
) -> Tensor:
    """Return rows around a center; zeros if they are not real numbers."""
    shape = (_ROWS, *like.shape[1:])
    if not like.is_floating_point():
        return torch.zeros(shape, dtype=like.dtype, device=like.device)
    rows = center + spread * torch.randn(shape, generator=generator).clamp(-3.0, 3.0)
    return rows.to(like)


def _other_rows(
    like: Tensor, generator: torch.Generator, spread: float, center: float
) -> Tensor:
    """Return rows that differ from those of `_random_rows`; ones if not real."""
    rows = _random_rows(like, generator, spread, center)
    return rows if like.is_floating_point() else torch.ones_like(rows)


def _move_parameters(layers: tuple[Layer, ...], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in layers:
            for parameter in layer.parameters.values():
                fan_in = parameter[0].numel() if parameter.ndim > 1 else 1
                step = torch.randn(parameter.shape, generator=generator)
                parameter.add_(step.to(parameter), alpha=0.3 / fan_in**0.5)


def _state(module: nn.Module) -> dict[str, Tensor]:
    """Return copies of all parameters and buffers."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.detach().clone() for name, tensor in tensors}


def _check_state(before: dict[str, Tensor], after: dict[str, Tensor]) -> None:
    changed = sorted(
        name
        for name in before.keys() | after.keys()
        if name not in before
        or name not in after
        or not torch.equal(before[name], after[name])
    )
    if changed:
        raise GuaranteeVoidError(
            f"a forward pass in training mode changes {', '.join(changed)}: what is "
            "kept there is released without noise. Use layers that keep nothing, for "
            "example track_running_stats=False, torch.nn.GroupNorm for normalization, "
            "and no spectral_norm."
        )


@contextmanager
def _restored(module: nn.Module) -> Iterator[None]:
    """Put parameters, buffers and modes back as they were."""
    saved = [
        (part, part.training, dict(part._buffers))  # noqa: SLF001
        for part in module.modules()
    ]
    tensors = [*module.parameters(), *module.buffers()]
    values = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        for part, training, buffers in saved:
            part.training = training
            part._buffers.clear()  # noqa: SLF001
            part._buffers.update(buffers)  # noqa: SLF001
        with torch.no_grad():
            for tensor, value in zip(tensors, values, strict=True):
                tensor.copy_(value)
