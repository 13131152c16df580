"""Which coordinates of a gradient share a clipping norm and a noise scale."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from corrdp._names import INTERCEPT
from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_real
from corrdp.accounting import Group
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, PolicyError
from corrdp.policy import Block, BlockKind, ColumnRole


@dataclass(frozen=True, slots=True)
class GradientGroup:
    """Raw features whose coordinates of the gradient are treated together.

    Parameters
    ----------
    name : str
        Name shown in plans.
    features : tuple of str
        Raw features, or ``<feature>:curve`` for the hats of a number with knots;
        ``"intercept"`` stands for the constant column.
    clip_norm : float
        One record's part of the group is scaled down to this norm; infinite for none.
    influence_bound : float
        How far the sensitive features of a record may pull its part of the group away
        from the part computed with the sensitive features at their reference: in
        the norm of the group if `clip_norm` is finite, else in units of the residual.
        Infinite for no bound, 0 if the group must not see the sensitive features.
    feature_radius : float
        Features of the group are projected on a ball of this radius before they
        are multiplied by the residual; infinite for none.
    held : bool
        Whether parameters of the group stay where they are: its part of the gradient
        is not released.
    """

    name: str
    features: tuple[str, ...]
    clip_norm: float = math.inf
    influence_bound: float = math.inf
    feature_radius: float = math.inf
    held: bool = False

    def __post_init__(self) -> None:
        owner = f"of group {self.name!r}"
        for key, open_lower in (
            ("clip_norm", True),
            ("influence_bound", False),
            ("feature_radius", True),
        ):
            check_real(
                f"{key} {owner}",
                getattr(self, key),
                lower=0.0,
                open_lower=open_lower,
                allow_infinite=True,
                remedy="Pass a public number, or infinity for none.",
            )


@dataclass(frozen=True, eq=False)
class GradientLayout:
    """Groups of a gradient, and the public map from codes to features.

    A row of codes becomes ``codes * column_scale - column_offset``, followed by a
    constant 1 if a group holds the intercept.

    Parameters
    ----------
    blocks : tuple of Block
        Blocks of the encoder.
    groups : tuple of GradientGroup
        Every feature in exactly one group; the intercept in at most one.
    column_scale, column_offset : array of float, shape (n_codes,), optional
        Public numbers per encoded column; 1 and 0 if empty. An offset may be a mean
        that was released with noise; its price is the caller's.
    """

    blocks: tuple[Block, ...]
    groups: tuple[GradientGroup, ...]
    column_scale: FloatArray = field(default_factory=lambda: np.empty(0))
    column_offset: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        n_codes = self.blocks[-1].stop
        for name, default in (("column_scale", 1.0), ("column_offset", 0.0)):
            array = np.array(getattr(self, name), dtype=np.float64)
            if not array.size:
                array = np.full(n_codes, default)
            if array.shape != (n_codes,) or not np.isfinite(array).all():
                raise CorrDPError(
                    f"{name} must hold one finite number per encoded column, "
                    f"{n_codes} in all, got shape {array.shape}. Pass them all."
                )
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        declared = {block.part for block in self.blocks}
        if INTERCEPT in declared:
            raise _taken(INTERCEPT, "the constant of a model")
        named = [feature for group in self.groups for feature in group.features]
        if sorted(named) != sorted(declared | ({INTERCEPT} & set(named))):
            raise CorrDPError(
                f"groups must name every feature once, got {named} for the features "
                f"{sorted(declared)}. List each in one group."
            )
        for group in self.groups:
            bounded = math.isfinite(group.influence_bound)
            if bounded and ColumnRole.SENSITIVE in self._roles(group):
                raise GuaranteeVoidError(
                    f"influence_bound={group.influence_bound!r} of group "
                    f"{group.name!r} cannot hold: the group contains sensitive "
                    "features. Bound the influence on other groups only."
                )

    @classmethod
    def by_role(
        cls,
        blocks: Sequence[Block],
        *,
        joint_sensitive: bool = True,
        joint_insensitive: bool = False,
        joint_public: bool = True,
        clip_norms: Mapping[str, float] | None = None,
        influence_bounds: Mapping[str, float] | None = None,
        feature_radii: Mapping[str, float] | None = None,
        column_scale: FloatArray | Sequence[float] = (),
        column_offset: FloatArray | Sequence[float] = (),
    ) -> "GradientLayout":
        """Return groups by role: sensitive features, then the others.

        Groups are ``sensitive``, or one per sensitive feature under its own name;
        ``insensitive`` and ``public`` likewise; ``intercept``. The curve of a number
        with knots counts as a feature here. The mappings give numbers by group name;
        groups left out have none.
        """
        by_role: dict[ColumnRole, dict[str, None]] = {role: {} for role in ColumnRole}
        for block in blocks:
            by_role[block.role][block.part] = None
        members: dict[str, tuple[str, ...]] = {}
        is_joint = {
            ColumnRole.SENSITIVE: joint_sensitive,
            ColumnRole.INSENSITIVE: joint_insensitive,
            ColumnRole.PUBLIC: joint_public,
        }
        for role, names in by_role.items():
            own: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
            if is_joint[role]:
                own = {role.value: tuple(names)} if names else {}
            for name in own.keys() & members.keys():
                raise _taken(name, "a group of features")
            members |= own
        members[INTERCEPT] = (INTERCEPT,)
        groups = tuple(
            GradientGroup(
                name,
                features,
                clip_norm=(clip_norms or {}).get(name, math.inf),
                influence_bound=(influence_bounds or {}).get(name, math.inf),
                feature_radius=(feature_radii or {}).get(name, math.inf),
            )
            for name, features in members.items()
        )
        numbers = np.asarray(column_scale), np.asarray(column_offset)
        return cls(tuple(blocks), groups, *numbers)

    @classmethod
    def flat(
        cls,
        blocks: Sequence[Block],
        *,
        clip_norm: float,
        feature_radius: float = math.inf,
        column_scale: FloatArray | Sequence[float] = (),
        column_offset: FloatArray | Sequence[float] = (),
    ) -> "GradientLayout":
        """Return one group of everything: ordinary clipping of the whole gradient."""
        features = tuple(dict.fromkeys(block.part for block in blocks))
        group = GradientGroup(
            "all",
            (*features, INTERCEPT),
            clip_norm=clip_norm,
            feature_radius=feature_radius,
        )
        numbers = np.asarray(column_scale), np.asarray(column_offset)
        return cls(tuple(blocks), (group,), *numbers)

    def holding(self, names: Collection[str]) -> "GradientLayout":
        """Return the layout with these groups, and no others, held."""
        groups = (replace(group, held=group.name in names) for group in self.groups)
        return replace(self, groups=tuple(groups))

    @property
    def has_intercept(self) -> bool:
        """Whether a constant column follows the encoded ones."""
        return any(INTERCEPT in group.features for group in self.groups)

    @property
    def n_columns(self) -> int:
        """Number of coefficients (per output): encoded columns, then the intercept."""
        return self.blocks[-1].stop + self.has_intercept

    @cached_property
    def column_groups(self) -> IntArray:
        """Index of the group of every column, shape (n_columns,)."""
        index = {f: i for i, group in enumerate(self.groups) for f in group.features}
        columns = [index[b.part] for b in self.blocks for _ in range(b.start, b.stop)]
        if self.has_intercept:
            columns.append(index[INTERCEPT])
        return np.array(columns, dtype=np.int64)

    @cached_property
    def held_groups(self) -> Any:
        """Mask of the groups that are held, shape (n_groups,)."""
        return np.array([group.held for group in self.groups])

    @property
    def held_columns(self) -> Any:
        """Mask of the columns that are held, shape (n_columns,)."""
        return self.held_groups[self.column_groups]

    @property
    def code_ends(self) -> tuple[FloatArray, FloatArray]:
        """Smallest and largest code that the encoder writes, per encoded column."""
        low, high = np.zeros(self.blocks[-1].stop), np.ones(self.blocks[-1].stop)
        for block in self.blocks:
            if block.kind is BlockKind.NUMBER:
                low[block.columns], high[block.columns] = -0.5, 0.5
        return low, high

    @property
    def binary_columns(self) -> Any:
        """Mask of the encoded columns whose scaled codes are 0 or 1, shape (n_codes,).

        A promise of the policy's encoder, not of the rows.
        """
        mask = np.zeros(self.blocks[-1].stop, dtype=bool)
        for block in self.blocks:
            mask[block.columns] = block.kind in (BlockKind.ONE_HOT, BlockKind.FLAG)
        return mask & (self.column_scale == 1.0)

    @property
    def sensitive_columns(self) -> Any:
        """Mask of the encoded columns of sensitive features, shape (n_codes,)."""
        mask = np.zeros(self.blocks[-1].stop, dtype=bool)
        for block in self.blocks:
            mask[block.columns] = block.role is ColumnRole.SENSITIVE
        return mask

    def table_groups(self, n_outputs: int = 1) -> tuple[Group, ...]:
        """Return the groups as columns of a sensitivity table."""
        sizes = np.bincount(self.column_groups, minlength=len(self.groups))
        return tuple(
            Group(
                group.name,
                int(size) * n_outputs,
                self._raw_features(group),
            )
            for group, size in zip(self.groups, sizes, strict=True)
        )

    def features(self, codes: FloatArray) -> FloatArray:
        """Return scaled and centered rows with the constant, shape (n, n_columns)."""
        rows = np.empty((codes.shape[0], self.n_columns))
        rows[:, : codes.shape[1]] = codes * self.column_scale - self.column_offset
        rows[:, codes.shape[1] :] = 1.0
        return rows

    def _raw_features(self, group: GradientGroup) -> tuple[str, ...]:
        own = sorted(self._places[f] for f in group.features if f in self._places)
        return tuple(dict.fromkeys(self.blocks[i].feature for i in own))

    def _roles(self, group: GradientGroup) -> set[ColumnRole]:
        own = (self._places[f] for f in group.features if f in self._places)
        return {self.blocks[i].role for i in own}

    @cached_property
    def _places(self) -> dict[str, int]:
        """First block of every part; a part has one feature and one role."""
        places: dict[str, int] = {}
        for place, block in enumerate(self.blocks):
            places.setdefault(block.part, place)
        return places


def _taken(name: str, by: str) -> PolicyError:
    return PolicyError(
        f"a feature is called {name!r}, as {by} is. Rename it, in the policy and in "
        "the table."
    )


def standardizing_scale(blocks: Sequence[Block]) -> FloatArray:
    """Return scales under which a uniform number has standard deviation 1.

    Codes of numbers span an interval of length 1, hence the factor ``sqrt(12)``;
    one-hot codes and flags keep their scale. The two ends of a boolean come to lie
    ``sqrt(2)`` apart, as the codes of two levels do: written as a boolean or as a
    category, a feature trains the same model.
    """
    scale = np.ones(blocks[-1].stop)
    for block in blocks:
        if block.kind is BlockKind.NUMBER:
            scale[block.columns] = math.sqrt(2.0 if block.boolean else 12.0)
    return scale


def central_reference(blocks: Sequence[Block]) -> FloatArray:
    """Return one row of codes: numbers at their center, one-hot codes uniform."""
    reference = np.zeros(blocks[-1].stop)
    for block in blocks:
        if block.kind in (BlockKind.ONE_HOT, BlockKind.HATS):
            reference[block.columns] = 1.0 / (block.stop - block.start)
    return reference
