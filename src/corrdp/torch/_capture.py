"""Activations and backprops of layers, recorded during one forward pass."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor

from corrdp.exceptions import GuaranteeVoidError

if TYPE_CHECKING:
    from corrdp.torch._layers import Layer

_FORWARD = "forward"


class _Call(NamedTuple):
    given: Tensor
    output: Tensor
    versions: tuple[int, int]


class Capture:
    """Record inputs and outputs of layers while the context is open.

    Each layer's ``forward`` is replaced meanwhile: what it is given and returns
    determines the gradient of its parameters, whatever hooks do before and after. It
    is also quicker than hooks.

    Parameters
    ----------
    layers : sequence of Layer
        The layers to watch.
    """

    def __init__(self, layers: Sequence["Layer"]) -> None:
        self._layers = layers
        self._own: list[Any] = []
        self._seen: dict[str, _Call] = {}
        self._odd: dict[str, str] = {}

    def __enter__(self) -> Self:
        for layer in self._layers:
            attributes = vars(layer.module)
            self._own.append(attributes.get(_FORWARD))
            attributes[_FORWARD] = self._recording(layer.name, layer.module.forward)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for layer, own in zip(self._layers, self._own, strict=True):
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
        self, total: Tensor, *, retain_graph: bool = False
    ) -> dict[str, Tensor]:
        """Return the gradient of `total` at the output of every layer."""
        outputs = [self._seen[layer.name].output for layer in self._layers]
        gradients = torch.autograd.grad(
            total, outputs, retain_graph=retain_graph, materialize_grads=True
        )
        return {
            layer.name: gradient
            for layer, gradient in zip(self._layers, gradients, strict=True)
        }

    def check(self, n_rows: int) -> None:
        """Raise unless every layer was called once, on all rows, and left alone."""
        for layer in self._layers:
            problem = self._odd.get(layer.name)
            if layer.name not in self._seen and problem is None:
                problem = (
                    "was not called, although it holds trained parameters. Call it, or "
                    "set requires_grad=False on them"
                )
            if problem is None:
                given, output, versions = self._seen[layer.name]
                if _versions(given, output) != versions:
                    problem = (
                        "had its input or output changed in place. Use operations that "
                        "return a new tensor, for example ReLU(inplace=False)"
                    )
                elif not (len(given) == len(output) == n_rows):
                    problem = (
                        "does not map one row per example to one row per example. "
                        "Keep the examples on the first axis"
                    )
            if problem is not None:
                raise GuaranteeVoidError(f"layer {layer.name!r} {problem}.")

    def _recording(self, name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        def record(*given: Any, **named: Any) -> Any:
            output = forward(*given, **named)
            tensors = len(given) == 1 and not named and isinstance(given[0], Tensor)
            if not (tensors and isinstance(output, Tensor)):
                self._odd[name] = (
                    "does not map one tensor to one tensor, so its gradient per "
                    "example is not known. Build it from layers that do, or freeze it"
                )
            elif name in self._seen:
                self._odd[name] = (
                    "was called more than once in a forward pass. Use a layer of its "
                    "own for every call"
                )
            else:
                first = given[0].detach()
                self._seen[name] = _Call(first, output, _versions(first, output))
            return output

        return record


def _versions(given: Tensor, output: Tensor) -> tuple[int, int]:
    """Return counters that every change in place raises."""
    return given._version, output._version  # noqa: SLF001
