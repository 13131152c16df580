"""Does every example stand for itself, with all of its gradient? Tried before data."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.torch._capture import INPUT_CHANGED, Capture
from corrdp.torch._clipping import GroupClipper
from corrdp.torch._layers import Layer, LossFunction, check_losses
from corrdp.torch._layout import flat_layout
from corrdp.torch._randomness import generator_states
from corrdp.torch._rows import bounded_residuals

_ROWS = 3
_SPREADS = (1.0, 0.1, 3.0)  # of the other rows: one trial each
_ROUNDINGS = 2**10  # tolerated difference, in units of the machine precision
_SUM_ROUNDINGS = 2**12  # the same, of sums
_NO_CLIPPING = 1e30

_STOPS = (RuntimeError, ValueError, IndexError, AssertionError, ArithmeticError)


class Randomness(NamedTuple):
    """Whether a module draws random numbers, and some that rows of a pass share."""

    is_drawn: bool
    is_shared: bool


class _Pass(NamedTuple):
    inputs: Tensor
    outputs: object
    losses: Tensor
    capture: Capture
    draws: bool
    n_drawn: int


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count the random numbers that are drawn inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n_drawn = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags:
            first = result[0] if isinstance(result, (tuple, list)) else result
            self.n_drawn += first.numel()
        return result


def probe_independence(
    module: nn.Module,
    layers: tuple[Layer, ...],
    loss: LossFunction,
    features: Tensor,
    labels: Tensor,
    *,
    residual_bound: float = math.inf,
) -> Randomness:
    """Raise unless an example's loss and gradient depend on that example alone.

    Returns which random numbers the module draws. A `residual_bound` is tried, too.

    Shapes and types are those of the first rows of `features` and `labels`, values are
    random: no row is read. Tried in training mode, and in the mode the module is in.
    Parameters are moved a little, since those that are zero hide what they multiply.
    Parameters, buffers, modes and the random generator are put back.

    Guarantee
    ---------
    Assumptions 1 and 2 of `docs/theory/networks.md`, as far as random inputs can tell.
    """
    devices = [features.device] if features.is_cuda else []
    as_it_is = {part: part.training for part in module.modules()}
    found = Randomness(False, False)
    with torch.enable_grad(), torch.random.fork_rng(devices=devices), _restored(module):
        modes = [dict.fromkeys(as_it_is, True)]
        if not all(as_it_is.values()):
            modes.append(as_it_is)
        for mode in modes:
            for part, training in mode.items():
                part.training = training
            for trial, spread in enumerate(_SPREADS):
                _move_parameters(layers, trial)
                tried = _Trial(module, layers, loss, trial, devices, residual_bound)
                seen = _tried(tried, features, labels, spread)
                found = Randomness(*map(max, found, seen))
    return found


def _tried(
    trial: "_Trial", features: Tensor, labels: Tensor, spread: float
) -> Randomness:
    try:
        return trial.run(features, labels, spread)
    except RuntimeError as error:
        if "does not require grad" in str(error):
            raise GuaranteeVoidError(
                "a layer with trained parameters is called where nothing is "
                "differentiated, as under torch.no_grad. Call it outside, or set "
                "requires_grad=False on its parameters."
            ) from None
        if "use_reentrant" not in str(error):
            raise
        raise GuaranteeVoidError(
            "the module uses reentrant checkpointing, which gives no gradients at the "
            "outputs of layers. Pass use_reentrant=False to torch.utils.checkpoint."
        ) from None


class _Trial(NamedTuple):
    """Passes over random rows with the same random generator."""

    module: nn.Module
    layers: tuple[Layer, ...]
    loss: LossFunction
    seed: int
    devices: list[torch.device]
    residual_bound: float

    def run(self, features: Tensor, labels: Tensor, spread: float) -> Randomness:
        generator = torch.Generator().manual_seed(self.seed)
        inputs = _random_rows(features, generator, spread, center=0.0)
        targets = _random_rows(labels, generator, 0.1, center=0.5)
        first = self._pass(inputs, targets)
        if math.isfinite(self.residual_bound):
            bounded_residuals(first.losses, first.outputs, self.residual_bound)
        self._check_gradients(first)
        check_example_gradients(self.layers, first.capture, first.losses)
        for row in range(_ROWS):
            others = torch.arange(_ROWS) != row
            changed, labeled = inputs.clone(), targets.clone()
            other = _random_rows(features, generator, spread, center=0.0, whole=1)
            changed[others] = other[others]
            other = _random_rows(labels, generator, 0.1, center=0.5, whole=1)
            labeled[others] = other[others]
            self._check_same(first, self._pass(changed, labeled), row)
        n_alone = self._check_size(first, inputs, targets)
        self._check_places(first, inputs, targets)
        self._check_broken(first, inputs, targets)
        # Numbers of its own for every row are as many times as many as rows.
        is_own = 0 < first.n_drawn == _ROWS * n_alone
        return Randomness(first.draws, first.draws and not is_own)

    def _pass(
        self, inputs: Tensor, targets: Tensor, *, may_break: bool = False
    ) -> _Pass:
        torch.manual_seed(self.seed)
        inputs = inputs.clone()
        if inputs.is_floating_point():
            inputs.requires_grad_()
        before, drawn = _state(self.module), generator_states(self.devices)
        with Capture(self.layers) as capture, _Counting() as counting:
            # A copy: a leaf must not be changed in place.
            given = inputs.clone()
            version = given._version  # noqa: SLF001
            outputs = self.module(given)
            losses = self.loss(outputs, targets)
        _check_state(before, _state(self.module))
        check_losses(losses, len(inputs))
        capture.check(len(inputs))
        changed = given._version != version  # noqa: SLF001
        if changed or not torch.allclose(given, inputs, 0.0, 0.0, equal_nan=True):
            raise GuaranteeVoidError(INPUT_CHANGED)
        if not may_break and not torch.isfinite(losses).all():
            raise GuaranteeVoidError(
                "the loss of random inputs near zero, with labels between 0 and 1, is "
                "not finite, so whether it combines examples cannot be tried. Bound "
                "the outputs of the module, for example by clamping."
            )
        now = generator_states(self.devices)
        draws = not all(map(np.array_equal, drawn, now))
        return _Pass(inputs, outputs, losses, capture, draws, counting.n_drawn)

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

    def _check_same(
        self, own: _Pass, changed: _Pass, row: int, place: int | None = None
    ) -> None:
        """Raise if a row notices that others were changed, or its place, if given."""
        how = "" if place is None else "by its place among them, "
        size = _loss_size(own)
        if not _close(own.losses, changed.losses, row, place, size=size):
            _refuse(f"{how}by its value")
        signals = own.capture.backprops(own.losses.sum(), retain_graph=True)
        others = changed.capture.backprops(changed.losses.sum(), retain_graph=True)
        # Kernels may add in another order at another place, and a gradient near zero
        # may be the difference of large ones.
        steepest = 0.0 if place is None else max(map(_largest, signals.values()))
        for name, signal in signals.items():
            seen = own.capture.activation(name)
            if not _close(seen, changed.capture.activation(name), row, place):
                _refuse(f"{how}through what layer {name!r} is given")
            if not _close(signal, others[name], row, place, size=steepest):
                _refuse(f"{how}through the gradient at layer {name!r}")

    def _check_places(self, own: _Pass, inputs: Tensor, targets: Tensor) -> None:
        """Raise if a row notices its place, which others in a sample would shift.

        Random numbers go by place: dropout is left off meanwhile, and modules that draw
        others are not tried.
        """
        dropouts = [
            part
            for part in self.module.modules()
            if isinstance(part, nn.modules.dropout._DropoutNd)  # noqa: SLF001
        ]
        modes = [part.training for part in dropouts]
        for part in dropouts:
            part.training = False
        try:
            if own.draws:
                own = self._pass(inputs, targets)
            if not own.draws:
                moved = self._pass(inputs.roll(1, 0), targets.roll(1, 0))
                for row in range(_ROWS):
                    self._check_same(own, moved, row, (row + 1) % _ROWS)
        finally:
            for part, training in zip(dropouts, modes, strict=True):
                part.training = training

    def _check_size(self, own: _Pass, inputs: Tensor, targets: Tensor) -> int:
        """Raise if a row notices how many others there are.

        Returns how many random numbers are drawn for a row alone. Random layers draw
        other ones for fewer rows: then the loss alone is tried.
        """
        size = _loss_size(own)
        if isinstance(own.outputs, Tensor):
            alone = self.loss(own.outputs[:1], targets[:1])
            if not _close(own.losses[:1], alone, size=size):
                _refuse("by their number")
        by_itself = self._pass(inputs[:1], targets[:1])
        if not own.draws and not _close(own.losses[:1], by_itself.losses, size=size):
            _refuse("by their number")
        return by_itself.n_drawn

    def _check_broken(self, own: _Pass, inputs: Tensor, targets: Tensor) -> None:
        """Raise if others notice that values of one row are not finite."""
        others = torch.arange(_ROWS) > 0
        try:
            for value in (math.nan, math.inf):
                if isinstance(own.outputs, Tensor) and own.outputs.is_floating_point():
                    outputs = own.outputs.detach().clone()
                    outputs[0] = value
                    losses = self.loss(outputs, targets)
                    if not _close(own.losses[others], losses[others]):
                        _refuse("if its outputs are not finite")
                if inputs.is_floating_point():
                    broken = inputs.clone()
                    broken[0] = value
                    changed = self._pass(broken, targets, may_break=True)
                    for row in range(1, _ROWS):
                        self._check_same(own, changed, row)
        except CorrDPError:
            raise
        except _STOPS as error:
            raise GuaranteeVoidError(
                "the module or the loss stops at values that are not finite "
                f"({type(error).__name__}), and whether it stops would tell what a "
                "record holds. Let it return them, they contribute nothing: for "
                "example binary_cross_entropy_with_logits instead of "
                "binary_cross_entropy."
            ) from None


def check_example_gradients(
    layers: tuple[Layer, ...], capture: Capture, losses: Tensor
) -> None:
    """Raise unless what is clipped for an example is all of its gradient.

    It is not if a parameter is used beside its layer, as with weights that are tied by
    ``linear(hidden, encoder.weight.T)``, or if hooks change what a layer is given or
    returns and ``torch.func`` calls them once more. `capture` is of the pass over
    random rows that gave the losses.

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
    tolerance = _SUM_ROUNDINGS * torch.finfo(losses.dtype).eps
    for row in range(len(losses)):
        own = slice(row, row + 1)
        signals = capture.backprops(losses[row], retain_graph=True)
        backprops = {name: signal[own] for name, signal in signals.items()}
        activations = {
            name: seen[own].detach() for name, seen in capture.activations().items()
        }
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
            *(_mass(activations[name], backprops[name]) for name in activations),
            *(float(gradient.norm()) for gradient in true),
        )
        for (name, key), gradient in zip(ours, true, strict=True):
            if float((ours[name, key] - gradient).norm()) <= tolerance * size:
                continue
            raise GuaranteeVoidError(  # also of what is not a number
                f"the gradient of {'.'.join(filter(None, (name, key)))!r} is not what "
                "its layer's input and output say: the parameter is used elsewhere as "
                "well, or a hook changes what the layer is given or returns. Use every "
                "parameter in one layer only, for example an encoder and a decoder "
                "with weights of their own, and put what a hook does into a module."
            )


def _mass(activation: Tensor, backprop: Tensor) -> float:
    """Return the size of the terms whose sum a gradient is."""
    length = float(activation.norm()) if activation.is_floating_point() else 1.0
    return max(length, 1.0) * float(backprop.norm())


def _refuse(how: str) -> None:
    raise GuaranteeVoidError(
        f"the loss of one example depends on other examples, {how}. Remove whatever "
        "combines rows of a batch, or of earlier ones, in the module or in the loss; "
        "random layers must draw from torch's generator."
    )


def _loss_size(own: _Pass) -> float:
    """Return what rounding of losses is measured by.

    A loss may be near zero although it is the difference of large numbers: outputs
    count with the gradient that they have.
    """
    size = float(own.losses.detach().abs().max())
    if isinstance(own.outputs, Tensor) and own.outputs.requires_grad:
        (slope,) = torch.autograd.grad(
            own.losses.sum(), own.outputs, retain_graph=True, materialize_grads=True
        )
        mass = (slope * own.outputs.detach()).abs().flatten(1).sum(1).max()
        size = max(size, float(mass))
    return size


def _close(
    one: Tensor,
    other: Tensor,
    row: int | None = None,
    place: int | None = None,
    *,
    size: float = 0.0,
) -> bool:
    """Whether rows agree, up to rounding of the largest number among all rows.

    One row with the same of the other, or with that at another place there.
    """
    if one.shape != other.shape:
        return False
    own = slice(None) if row is None else row
    others = own if place is None else place
    if not one.is_floating_point():
        return torch.equal(one[own], other[others])
    tolerance = _ROUNDINGS * torch.finfo(one.dtype).eps
    return bool(
        torch.allclose(
            one[own],
            other[others],
            rtol=0.0,
            atol=tolerance * max(_largest(one), size),
            equal_nan=True,
        )
    )


def _largest(numbers: Tensor) -> float:
    return float(numbers.detach().abs().max()) if numbers.numel() else 0.0


def _random_rows(
    like: Tensor,
    generator: torch.Generator,
    spread: float,
    *,
    center: float,
    whole: int = 0,
) -> Tensor:
    """Return rows around a center; all `whole` if they are not real numbers."""
    shape = (_ROWS, *like.shape[1:])
    if not like.is_floating_point():
        return torch.full(shape, whole, dtype=like.dtype, device=like.device)
    rows = center + spread * torch.randn(shape, generator=generator).clamp(-3.0, 3.0)
    return rows.to(like)


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
