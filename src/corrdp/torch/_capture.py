"""Activations and backprops of layers, recorded during one forward pass."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from corrdp.exceptions import GuaranteeVoidError
from corrdp.torch._rows import versions

if TYPE_CHECKING:
    from corrdp.torch._layers import Layer

_FORWARD = "forward"
INPUT_CHANGED = (
    "the module changes its input in place, so that its first weights do not belong to "
    "the encoded columns, and the rows themselves may be changed for later steps. Use "
    "operations that return a new tensor, or start forward with features.clone()."
)


class _Recorder:
    """Stands for the ``forward`` of a layer and remembers what went through it.

    By itself, with slots: closures and tuples made anew for every layer and step take
    several times as long. `own` is the forward that is the instance's own attribute;
    None if it is of the class.
    """

    __slots__ = ("_forward", "calls", "given", "output", "own", "problem", "versions")

    given: Tensor
    output: Tensor
    versions: tuple[int, int]

    def __init__(self, forward: Callable[..., Any], own: Any) -> None:
        self._forward = forward
        self.own = own
        self.calls = 0
        self.problem: str | None = (
            "was not called, although it holds trained parameters. Call it, or "
            "set requires_grad=False on them"
        )

    def __call__(self, *given: Any, **named: Any) -> Any:
        output = self._forward(*given, **named)
        self.calls += 1
        if named or len(given) != 1 or not _are_tensors(given[0], output):
            self.problem = (
                "does not map one tensor to one tensor, so its gradient per "
                "example is not known. Build it from layers that do, or freeze it"
            )
        elif self.calls > 1:
            self.problem = (
                "was called more than once in a forward pass. Use a layer of its "
                "own for every call"
            )
        else:
            self.given, self.output = given[0], output
            self.versions = versions(given[0], output)
            self.problem = None
        return output

    def problem_with(self, n_rows: int) -> str | None:
        """Return why the gradient per example is not known; None if it is."""
        if self.problem is not None:
            return self.problem
        if versions(self.given, self.output) != self.versions:
            return (
                "had its input or output changed in place. Use operations that "
                "return a new tensor, for example ReLU(inplace=False)"
            )
        if not (self.given.shape[:1] == self.output.shape[:1] == (n_rows,)):
            return (
                "does not map one row per example to one row per example. "
                "Keep the examples on the first axis"
            )
        return None


class Capture:
    """Record inputs and outputs of layers while the context is open.

    Each layer's ``forward`` is replaced meanwhile: what it is given and returns
    determines the gradient of its parameters, whatever hooks do before and after. It
    is also quicker than hooks.
    """

    def __init__(self, layers: Sequence["Layer"]) -> None:
        self._layers = layers
        self._seen: dict[str, _Recorder] = {}

    def __enter__(self) -> Self:
        for layer in self._layers:
            attributes = vars(layer.module)
            recorder = _Recorder(layer.module.forward, attributes.get(_FORWARD))
            self._seen[layer.name] = attributes[_FORWARD] = recorder
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for layer in self._layers:
            own = self._seen[layer.name].own
            if own is None:  # that of the class
                del vars(layer.module)[_FORWARD]
            else:
                vars(layer.module)[_FORWARD] = own

    def activation(self, name: str) -> Tensor:
        """Return what the layer was given."""
        return self._seen[name].given

    def activations(self) -> dict[str, Tensor]:
        """Return what every layer was given."""
        return {name: call.given for name, call in self._seen.items()}

    def backprops(
        self,
        total: Tensor,
        signal: Tensor | None = None,
        *,
        retain_graph: bool = False,
    ) -> dict[str, Tensor]:
        """Return the gradient of `total`, times a signal, at every layer's output."""
        outputs = [call.output for call in self._seen.values()]
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
            total, outputs, signal, retain_graph=retain_graph, allow_unused=True
        )
        return {
            name: torch.zeros_like(output) if gradient is None else gradient
            for name, output, gradient in zip(
                self._seen, outputs, gradients, strict=True
            )
        }

    def check(self, n_rows: int) -> None:
        """Raise unless every layer was called once, on all rows, and left alone."""
        for name, call in self._seen.items():
            problem = call.problem_with(n_rows)
            if problem is not None:
                raise GuaranteeVoidError(f"layer {name!r} {problem}.")


def _are_tensors(given: Any, output: Any) -> bool:
    return isinstance(given, Tensor) and isinstance(output, Tensor)
