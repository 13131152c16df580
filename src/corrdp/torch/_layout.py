"""Groups of parameters: what is clipped together and shares one noise scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_real
from corrdp.accounting import Group, SensitivityTable
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import Block, ColumnRole, NeighborClass
from corrdp.torch._layers import Layer

WEIGHT = "weight"
BIAS = "bias"
ALL = "all"


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are clipped together, per example.

    `influence_bound` is how far sensitive features may move an example's part from what
    it would be at their reference, infinite for no bound; `features` are the raw ones
    whose input weights these are.
    """

    name: str
    size: int
    clip_norm: float = 1.0
    influence_bound: float = math.inf
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        owner = f"of group {self.name!r}"
        check_real(f"clip_norm {owner}", self.clip_norm, lower=0.0, open_lower=True)
        check_real(
            f"influence_bound {owner}",
            self.influence_bound,
            lower=0.0,
            allow_infinite=True,
        )


@dataclass(frozen=True, eq=False)
class NetworkLayout:
    """Where every parameter belongs, and what the second pass replaces.

    `parameter_groups` go by layer and name, without the input weights if their columns
    belong to several groups: those are `column_groups`, shape (n_columns,), which is
    empty if input weights are one parameter like all others. The layer `input_layer`
    reads the encoded columns, of which the second pass replaces `sensitive` by the
    public codes of `reference`, both of shape (n_columns,).

    An example whose gradient at the module's output is shorter than `residual_bound`
    has proportionally shorter clipping norms; infinite for plain clipping. `towers` are
    linear layers that sensitive features join only after, and whose influence bounds
    are kept by a rule of their own.
    """

    groups: tuple[ParameterGroup, ...]
    parameter_groups: dict[tuple[str, str], int]
    column_groups: IntArray
    input_layer: str
    sensitive: np.ndarray[tuple[int], np.dtype[np.bool_]]
    reference: FloatArray
    sensitive_features: frozenset[str] = frozenset()
    residual_bound: float = math.inf
    towers: tuple[str, ...] = ()

    @property
    def bounds_residuals(self) -> bool:
        """Whether clipping norms are in units of the residual."""
        return math.isfinite(self.residual_bound)

    @property
    def clips_influence(self) -> bool:
        """Whether a second pass is needed."""
        return any(math.isfinite(group.influence_bound) for group in self.groups)

    @property
    def clip_norm(self) -> float:
        """Largest norm of one example's whole gradient."""
        return math.hypot(*(group.clip_norm for group in self.groups))

    def with_clip_norm(self, clip_norm: float) -> "NetworkLayout":
        """Return the layout with one clipping norm for every group."""
        groups = tuple(replace(g, clip_norm=clip_norm) for g in self.groups)
        return replace(self, groups=groups)

    def sensitivity_table(self, classes: Sequence[NeighborClass]) -> SensitivityTable:
        r"""Return how far every group moves under every class.

        Guarantee
        ---------
        `docs/theory/networks.md`: :math:`2 C_G`, and :math:`\min(2 \tau_G, 2 C_G)`
        for groups with an influence bound under classes that change sensitive
        features alone.
        """
        return SensitivityTable(
            groups=self.table_groups(),
            classes=tuple(neighbor.name for neighbor in classes),
            bounds=np.array(
                [[self._bound(g, c) for g in self.groups] for c in classes]
            ),
            contribution=np.array([group.clip_norm for group in self.groups]),
        )

    def table_groups(self) -> tuple[Group, ...]:
        """Return the groups as columns of a sensitivity table."""
        return tuple(Group(g.name, g.size, g.features) for g in self.groups)

    def _bound(self, group: ParameterGroup, neighbor: NeighborClass) -> float:
        only_sensitive = (
            not neighbor.label_changes
            and self.sensitive_features.issuperset(neighbor.features)
        )
        influence = group.influence_bound if only_sensitive else math.inf
        return 2.0 * min(influence, group.clip_norm)


def flat_layout(layers: Sequence[Layer]) -> NetworkLayout:
    """Return one group of all parameters."""
    total = sum(layer.size for layer in layers)
    return NetworkLayout(
        groups=(ParameterGroup(ALL, total),),
        parameter_groups={(la.name, key): 0 for la in layers for key in la.parameters},
        column_groups=np.empty(0, dtype=np.int64),
        input_layer="",
        sensitive=np.empty(0, dtype=np.bool_),
        reference=np.empty(0),
    )


def layered_layout(layers: Sequence[Layer]) -> NetworkLayout:
    """Return one group per layer."""
    return replace(
        flat_layout(layers),
        groups=tuple(ParameterGroup(f"layer:{la.name}", la.size) for la in layers),
        parameter_groups={
            (layer.name, key): index
            for index, layer in enumerate(layers)
            for key in layer.parameters
        },
    )


def grouped_layout(
    layers: Sequence[Layer],
    blocks: Sequence[Block],
    reference: FloatArray,
    *,
    input_layer: str | None = None,
    by_feature: bool = False,
) -> NetworkLayout:
    """Return groups of input columns by role or by raw feature, others by layer.

    `reference`, shape (n_columns,), are public codes that stand for those of sensitive
    features; `input_layer` names the linear layer that reads the encoded columns, the
    first one by default.
    """
    entry = find_input_layer(layers, blocks, input_layer)
    labels = [block.feature if by_feature else block.role.value for block in blocks]
    names = list(dict.fromkeys(labels))
    n_units = entry.parameters[WEIGHT].shape[0]
    groups = []
    for name in names:
        own = [b for b, label in zip(blocks, labels, strict=True) if label == name]
        width = sum(block.stop - block.start for block in own)
        features = tuple(dict.fromkeys(block.feature for block in own))
        groups.append(
            ParameterGroup(f"input:{name}", width * n_units, features=features)
        )
    parameter_groups: dict[tuple[str, str], int] = {}
    for layer in layers:
        keys = [k for k in layer.parameters if not (layer is entry and k == WEIGHT)]
        if not keys:
            continue
        suffix = f".{BIAS}" if layer is entry else ""
        size = sum(layer.parameters[key].numel() for key in keys)
        parameter_groups |= {(layer.name, key): len(groups) for key in keys}
        groups.append(ParameterGroup(f"layer:{layer.name}{suffix}", size))
    columns = np.zeros(blocks[-1].stop, dtype=np.int64)
    for block, label in zip(blocks, labels, strict=True):
        columns[block.columns] = names.index(label)
    layout = replace(
        flat_layout(layers),
        groups=tuple(groups),
        parameter_groups=parameter_groups,
        column_groups=columns,
        input_layer=entry.name,
    )
    return _with_inputs(layout, blocks, reference)


def tower_layout(
    layers: Sequence[Layer],
    blocks: Sequence[Block],
    reference: FloatArray,
    towers: Sequence[str],
) -> NetworkLayout:
    """Return one group per layer; `towers` names layers, or modules that hold them."""
    names = tuple(layer.name for layer in tower_layers(layers, towers))
    layout = replace(layered_layout(layers), towers=names)
    return _with_inputs(layout, blocks, reference)


def _with_inputs(
    layout: NetworkLayout, blocks: Sequence[Block], reference: FloatArray
) -> NetworkLayout:
    """Return the layout with what the second pass replaces in encoded columns."""
    sensitive = np.zeros(blocks[-1].stop, dtype=np.bool_)
    for block in blocks:
        sensitive[block.columns] = block.role is ColumnRole.SENSITIVE
    return replace(
        layout,
        sensitive=sensitive,
        reference=np.asarray(reference, dtype=np.float64),
        sensitive_features=frozenset(
            b.feature for b in blocks if b.role is ColumnRole.SENSITIVE
        ),
    )


def tower_layers(layers: Sequence[Layer], towers: Sequence[str]) -> tuple[Layer, ...]:
    """Return the layers of towers that are named by themselves or by their parents."""
    found: list[Layer] = []
    for name in towers:
        inside = [la for la in layers if f"{la.name}.".startswith(f"{name}.")]
        if not inside:
            raise CorrDPError(
                f"towers names {name!r}, which holds no trained layer. Name layers, or "
                "modules that hold them, as module.named_modules() does."
            )
        found += [layer for layer in inside if layer not in found]
    for layer in found:
        if not layer.is_linear or WEIGHT not in layer.parameters:
            raise CorrDPError(
                f"layer {layer.name!r} of a tower is a {type(layer.module).__name__}; "
                "influence is bounded for torch.nn.Linear with trained weights. "
                "Build towers from these, or leave the layer out of towers."
            )
    return tuple(found)


def find_input_layer(
    layers: Sequence[Layer], blocks: Sequence[Block], name: str | None
) -> Layer:
    """Return the linear layer that reads the encoded columns, or raise."""
    linear = [
        layer for layer in layers if layer.is_linear and WEIGHT in layer.parameters
    ]
    if name is not None:
        linear = [layer for layer in linear if layer.name == name]
        if not linear:
            raise CorrDPError(
                f"input_layer={name!r} is not a trained torch.nn.Linear of the module. "
                "Name one as module.named_modules() does."
            )
    elif not linear or linear[0] is not layers[0]:
        raise CorrDPError(
            f"the first layer with parameters is {layers[0].name!r}, a "
            f"{type(layers[0].module).__name__}, and no torch.nn.Linear comes before "
            "it to read the encoded columns. Name the layer that does with "
            "input_layer='...', or choose method='standard'."
        )
    width = linear[0].parameters[WEIGHT].shape[1]
    if width != blocks[-1].stop:
        raise PolicyError(
            f"input layer {linear[0].name!r} reads {width} columns, the policy encodes "
            f"{blocks[-1].stop}. Build the module with in_features={blocks[-1].stop}."
        )
    return linear[0]
