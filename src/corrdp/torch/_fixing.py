"""Put layers that can be trained privately in the place of those that cannot."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from corrdp.exceptions import CorrDPError
from corrdp.torch._sequences import GRU, LSTM, MultiheadAttention

_MOST_GROUPS = 32


class FixedModule(NamedTuple):
    """What `fix_module` returns; unpacks like a tuple.

    Parameters
    ----------
    module : torch.nn.Module
        A copy with other layers.
    changes : tuple of str
        What was done, one sentence per layer.
    """

    module: nn.Module
    changes: tuple[str, ...]


def fix_module(module: nn.Module) -> FixedModule:
    """Return a copy of a module that `make_private` takes, and what was changed.

    Batch normalization becomes `torch.nn.GroupNorm`, instance normalization forgets its
    running statistics, activations no longer work in place, embeddings lose `max_norm`,
    and `torch.nn.LSTM`, `GRU` and `MultiheadAttention` become those of `corrdp.torch`
    with the same weights.

    Parameters
    ----------
    module : torch.nn.Module
        Any module; it is not changed. `make_private` tries the result like any other.

    Examples
    --------
    >>> import torch
    >>> from corrdp.torch import fix_module
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.BatchNorm1d(8))
    >>> fix_module(network).changes
    ("layer '1': BatchNorm1d became GroupNorm(8, 8)",)
    """
    fixed = copy.deepcopy(module)
    changes: list[str] = []
    made = _replacement("", fixed, changes)
    if made is not None:
        return FixedModule(made, tuple(changes))
    for name, part in list(fixed.named_modules()):
        for key, child in list(part.named_children()):
            path = f"{name}.{key}" if name else key
            new = _replacement(path, child, changes)
            if new is not None:
                new.train(child.training)
                setattr(part, key, new)
    return FixedModule(fixed, tuple(changes))


def _replacement(name: str, part: nn.Module, changes: list[str]) -> nn.Module | None:
    """Return what stands for a layer; None if it stays, perhaps changed in place."""
    new: nn.Module | None = None
    said = ""
    if isinstance(part, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001
        n_groups = math.gcd(_MOST_GROUPS, part.num_features)
        new = nn.GroupNorm(n_groups, part.num_features, part.eps, part.affine)
        if part.affine:
            _copy(new, {"weight": part.weight, "bias": part.bias})
        said = f"became GroupNorm({n_groups}, {part.num_features})"
    elif isinstance(part, nn.modules.instancenorm._InstanceNorm):  # noqa: SLF001
        if part.track_running_stats:
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None
            said = "keeps no running statistics"
    elif getattr(part, "inplace", False) is True:
        part.inplace = False  # type: ignore[assignment]
        said = "no longer works in place"
    elif isinstance(part, (nn.Embedding, nn.EmbeddingBag)):
        if part.max_norm is not None:
            part.max_norm = None
            said = "has no max_norm"
    elif isinstance(part, nn.RNNBase):
        new, said = _recurrent(name, part)
    elif isinstance(part, nn.MultiheadAttention):
        new = _attention(name, part)
        said = "became corrdp.torch.MultiheadAttention"
    if said:
        changes.append(f"layer {name!r}: {type(part).__name__} {said}")
    return new


def _recurrent(name: str, part: nn.RNNBase) -> tuple[nn.Module, str]:
    kinds: dict[str, Callable[[int, int], Any]] = {"LSTM": LSTM, "GRU": GRU}
    plain = (
        part.num_layers == 1
        and part.batch_first
        and not part.bidirectional
        and part.bias
        and not part.proj_size
    )
    if part.mode not in kinds or not plain:
        raise CorrDPError(
            f"layer {name!r} is a {part.mode} with layers={part.num_layers}, "
            f"batch_first={part.batch_first}, bidirectional={part.bidirectional}, "
            f"bias={part.bias}: only one forward layer of LSTM or GRU with "
            "batch_first=True is replaced. Stack corrdp.torch.LSTM or GRU instead."
        )
    new = kinds[part.mode](part.input_size, part.hidden_size)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    _copy(new.cells, {key: getattr(part, f"{key}_l0") for key in names})
    return new, f"became corrdp.torch.{part.mode}"


def _attention(name: str, layer: nn.MultiheadAttention) -> nn.Module:
    part: Any = layer  # some of its parameters may be None, which torch does not type
    has_more = part.bias_k is not None or part.add_zero_attn
    if not part.batch_first or part.in_proj_weight is None or has_more:
        raise CorrDPError(
            f"layer {name!r} is a MultiheadAttention with batch_first="
            f"{part.batch_first}: only batch_first=True, equal widths, no bias_kv and "
            "no add_zero_attn are replaced. Use corrdp.torch.MultiheadAttention."
        )
    new = MultiheadAttention(part.embed_dim, part.num_heads, part.dropout)
    weights = part.in_proj_weight.chunk(3)
    biases: Any = (
        [torch.zeros(part.embed_dim)] * 3
        if part.in_proj_bias is None
        else part.in_proj_bias.chunk(3)
    )
    parts = (new.query, new.key, new.value)
    for own, weight, bias in zip(parts, weights, biases, strict=True):
        _copy(own, {"weight": weight, "bias": bias})
    out = part.out_proj
    _copy(
        new.out_proj,
        {
            "weight": out.weight,
            "bias": torch.zeros(part.embed_dim) if out.bias is None else out.bias,
        },
    )
    return new


def _copy(new: nn.Module, values: dict[str, torch.Tensor]) -> None:
    """Give a layer the values, types and devices of another's parameters."""
    for key, value in values.items():
        copied = value.detach().clone()
        setattr(new, key, nn.Parameter(copied, requires_grad=value.requires_grad))
