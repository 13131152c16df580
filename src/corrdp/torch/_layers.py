"""Which layers hold the parameters of a module, and what is refused, in words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import require_policy

LossFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer with parameters of its own that are trained.

    `name` is its path in the module, that of a parameter the one inside the layer.
    """

    name: str
    module: nn.Module
    parameters: dict[str, nn.Parameter]

    @property
    def is_linear(self) -> bool:
        """Whether norms follow from activations and backprops."""
        known = self.parameters.keys() <= {"weight", "bias"}
        return known and type(self.module) is nn.Linear

    @property
    def size(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters.values())


def trained_layers(module: nn.Module) -> tuple[Layer, ...]:
    """Return the layers that hold trained parameters, or raise.

    Guarantee
    ---------
    Refuses batch normalization and parameters shared by two layers, assumptions 1
    and 2 of `docs/theory/networks.md`.
    """
    layers: list[Layer] = []
    owner: dict[nn.Parameter, str] = {}
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001
            raise GuaranteeVoidError(
                f"layer {name!r} is a {type(part).__name__}, which mixes the examples "
                "of a batch: one record then moves the gradients of all others. "
                "Replace it by torch.nn.GroupNorm or torch.nn.LayerNorm."
            )
        own = {
            key: parameter
            for key, parameter in part.named_parameters(recurse=False)
            if parameter.requires_grad
        }
        for parameter in own.values():
            if parameter in owner:
                raise GuaranteeVoidError(
                    f"layers {owner[parameter]!r} and {name!r} share a parameter, so "
                    "clipping each by itself would not bound it. Give each its own."
                )
            owner[parameter] = name
        if own:
            layers.append(Layer(name, part, own))
    if not layers:
        raise GuaranteeVoidError(
            "the module has no parameter with requires_grad=True. Pass a module with "
            "something to train."
        )
    return tuple(layers)


def check_losses(losses: Tensor, n_rows: int) -> None:
    """Raise unless there is exactly one loss per example.

    Guarantee
    ---------
    A broadcast loss, for example of shape (n, 1) against (n,), would count every
    record many times and silently void clipping (`docs/theory/networks.md`).
    """
    if losses.shape != (n_rows,):
        raise GuaranteeVoidError(
            f"the loss must have one value per example, shape ({n_rows},), got shape "
            f"{tuple(losses.shape)}. Use reduction='none' and give outputs and labels "
            "the same shape, for example with outputs.squeeze(1)."
        )


_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention)


def refuse_unsupported(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    features: Tensor,
    policy: Any,
    method: str,
) -> None:
    """Raise for whatever is known not to work, with what to do instead.

    What is not refused here is tried afterwards.
    """
    require_policy(
        policy,
        remedy="A guarantee needs to say who is protected from what: declare one, with "
        "every feature sensitive for ordinary differential privacy.",
    )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise CorrDPError(
            "LBFGS evaluates the loss many times within a step, and every evaluation "
            "is a release. Use SGD, Adam or any optimizer that reads gradients once."
        )
    if method == "corr" and (features.ndim != 2 or not features.is_floating_point()):
        shape = ", ".join(map(str, ("n", *features.shape[1:])))
        raise CorrDPError(
            f"method='corr' needs encoded columns, numbers of shape (n, n_columns), "
            f"got {features.dtype} of shape ({shape}). Flatten and reshape inside the "
            "module, or choose method='standard'."
        )
    refuse_contexts()
    for name, parameter in module.named_parameters():
        if parameter.dtype in (torch.float16, torch.bfloat16):
            raise CorrDPError(
                f"parameter {name!r} is {parameter.dtype}, in which norms of gradients "
                "overflow or lose most digits, and sums of a batch, too. Call "
                "module.float() first."
            )
    for name, part in module.named_modules():
        _refuse_part(name, part)


def refuse_contexts() -> None:
    """Raise inside ``torch.autocast``: norms have the type of the parameters.

    Also inside ``torch.inference_mode``, in which nothing is differentiated.
    """
    if torch.is_inference_mode_enabled():
        raise CorrDPError(
            "inference mode is on, in which there are no gradients. Leave "
            "torch.inference_mode before make_private and module.backward."
        )
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise CorrDPError(
            "autocast is on: layers would compute in fewer digits than norms are "
            "bounded in. Leave torch.autocast before make_private and module.backward."
        )


def _refuse_part(name: str, part: nn.Module) -> None:
    if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None):
        raise CorrDPError(
            f"module {name!r} was compiled, by torch.compile or its own compile(), "
            "whose graph hides what each layer is given. Pass modules as they are, and "
            "compile a copy for predictions after training."
        )
    trained = any(p.requires_grad for p in part.parameters())
    if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.max_norm is not None:
        raise GuaranteeVoidError(
            f"layer {name!r} has max_norm={part.max_norm:g} and rewrites its weights "
            "while it reads rows, without noise. Set max_norm=None, or call fix_module."
        )
    if isinstance(part, _SEQUENCES) and trained:
        kind = type(part).__name__
        raise GuaranteeVoidError(
            f"layer {name!r} is a torch.nn.{kind}, whose gradient per example is not "
            f"known: it hides its layers. Use corrdp.torch.{kind}, which fix_module "
            "puts in its place, weights included."
        )
