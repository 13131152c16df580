"""The encoder: a table in, a matrix of blocks with declared geometry out."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import PolicyError
from corrdp.policy._coding import (
    Coded,
    binned,
    centered,
    coded_levels,
    coded_numbers,
    hat_codes,
    knot_positions,
    knots_of,
    level_count,
)
from corrdp.policy._domains import CategoryDomain, NumberDomain, Slot
from corrdp.policy._features import ColumnRole, Feature, Label
from corrdp.policy._policy import Policy
from corrdp.tables import (
    canonical_text,
    check_columns,
    read_distinct,
    read_series,
)


class BlockKind(StrEnum):
    """Shape of the codes of a block."""

    NUMBER = "number"
    ONE_HOT = "one_hot"
    FLAG = "flag"
    HATS = "hats"


@dataclass(frozen=True, slots=True)
class Block:
    """Adjacent columns that encode one raw feature, and how far they can move.

    Parameters
    ----------
    name : str
        The feature, or ``<feature>:missing`` for its missing flag.
    feature : str
        The raw feature.
    start, stop : int
        Columns ``start`` to ``stop - 1`` of the matrix.
    kind : BlockKind
        A number in [-1/2, 1/2] (booleans are its two ends), a one-hot code, a
        flag in {0, 1}, or hats: weights of at most two neighboring knots that add up
        to 1.
    role : ColumnRole
        Role of the raw feature.
    radius : float
        Largest 2-norm of a code.
    diameter : float
        Largest 2-norm of the difference of two codes.
    includes_zero : bool
        Whether the code can be all zero: include 0 in every maximum and minimum.
    boolean : bool
        Whether a number is a boolean: a present value is one of the two ends.
    curve : bool
        Whether the block belongs to the curve of a number with knots; the number
        itself has a column of its own before it.
    positions : tuple of float
        Code of the number at each knot of a block of hats, in [-1/2, 1/2].
    """

    name: str
    feature: str
    start: int
    stop: int
    kind: BlockKind
    role: ColumnRole
    radius: float
    diameter: float
    includes_zero: bool
    boolean: bool = False
    curve: bool = False
    positions: tuple[float, ...] = ()

    @property
    def columns(self) -> slice:
        """Columns of the block, to index the second axis of the matrix."""
        return slice(self.start, self.stop)

    @property
    def part(self) -> str:
        """What is grouped by itself: the feature, or ``<feature>:curve``."""
        return f"{self.feature}:curve" if self.curve else self.feature


def policy_blocks(policy: Policy) -> tuple[Block, ...]:
    """Return the blocks into which a policy encodes any table that fits it."""
    blocks: list[Block] = []
    for feature in policy.features:
        for kind, name, width in _parts(feature):
            of_curve = kind in (BlockKind.HATS, BlockKind.FLAG)
            start = blocks[-1].stop if blocks else 0
            radius, diameter, zero = _geometry(feature, kind, width)
            blocks.append(
                Block(
                    name=name,
                    feature=feature.name,
                    start=start,
                    stop=start + width,
                    kind=kind,
                    role=feature.role,
                    radius=radius,
                    diameter=diameter,
                    includes_zero=zero,
                    boolean=(
                        kind is BlockKind.NUMBER
                        and not isinstance(feature.domain, NumberDomain)
                    ),
                    curve=of_curve and bool(knots_of(feature)),
                    positions=(
                        knot_positions(feature) if kind is BlockKind.HATS else ()
                    ),
                )
            )
    _refuse_repeated_names("Blocks", [block.name for block in blocks])
    return tuple(blocks)


class PolicyEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode tables by declared domains; learn nothing from them.

    Parameters
    ----------
    policy : Policy
        Features, domains, treatments of missing and unknown values.
    dtype : numpy dtype
        ``float64`` or ``float32``.

    Guarantee
    ---------
    The row of the matrix is a function of the same row of the table and of the policy
    alone, and every block of it lies in the declared set: radius and diameter hold
    for any table whatsoever. A change of one raw feature moves its own blocks only.
    Not covered: that a table is refused is visible, and it depends on its rows;
    declare slots or replacements where refusals must not happen.
    Proof: docs/theory/encoder.md.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.policy import CategoryDomain, Feature, NumberDomain, Policy
    >>> age = Feature("age", "sensitive", NumberDomain(0, 100))
    >>> sex = Feature("sex", "insensitive", CategoryDomain(("f", "m")), leakage=0.1)
    >>> encoder = PolicyEncoder(Policy((age, sex)))
    >>> encoder.transform(np.array([[75, "f"], [120, "m"]], dtype=object))
    array([[0.25, 1.  , 0.  ],
           [0.5 , 0.  , 1.  ]])
    >>> encoder.describe_columns()
    ('age (0 to 100)', 'sex = f', 'sex = m')
    """

    def __init__(self, policy: Policy, *, dtype: DTypeLike = np.float64) -> None:
        self.policy = policy
        self.dtype = dtype

    @property
    def blocks_(self) -> tuple[Block, ...]:
        """Blocks of the matrix in column order; known from the policy, before `fit`."""
        self.policy.require_single_rows("an encoded table")
        return policy_blocks(self.policy)

    @property
    def n_codes(self) -> dict[str, int]:
        """Number of codes of each feature that has a declared resolution."""
        self.policy.require_single_rows("an encoded table")
        return {
            feature.name: count + isinstance(feature.domain.missing, Slot)
            for feature in self.policy.features
            if (count := level_count(feature.domain)) is not None
        }

    def fit(self, X: Any, y: Any = None) -> "PolicyEncoder":
        """Check that the table has the policy's columns; learn nothing."""
        self._float_type()
        _refuse_repeated_names("Encoded columns", self.get_feature_names_out())
        check_columns(X, self._names())
        self.n_features_in_ = len(self._names())
        self.feature_names_in_ = np.asarray(self._names(), dtype=object)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the encoded matrix, one row per row of the table."""
        return self._matrix(X, "C")

    def transform_columns(self, X: Any) -> NDArray[Any]:
        """Return the encoded matrix with each column together in memory.

        A method of its own: scikit-learn would route an option of `transform`.
        """
        return self._matrix(X, "F")

    def _matrix(self, X: Any, order: Literal["C", "F"]) -> NDArray[Any]:
        columns = read_distinct(X, self._names())
        blocks = self.blocks_
        shape = (len(columns[0]), blocks[-1].stop)
        matrix = np.zeros(shape, dtype=self._float_type(), order=order)
        blocks_of: dict[str, list[Block]] = {}
        for block in blocks:
            blocks_of.setdefault(block.feature, []).append(block)
        for feature, column in zip(self.policy.features, columns, strict=True):
            coded = read_cells(feature, column)
            for block in blocks_of[feature.name]:
                _write_block(matrix[:, block.columns], feature, block.kind, coded)
        return matrix

    def codes(self, X: Any, features: Sequence[str] | None = None) -> IntArray:
        """Return discrete codes at the declared resolution, one column per feature.

        A category is coded by its level after merging, then ``other``; a number by
        its bin; a boolean by 0 or 1; a missing slot is the last code. `n_codes` says
        how many codes a feature has. All features by default.
        """
        names = self._names()
        wanted = names if features is None else tuple(features)
        chosen = [self.policy.feature(name) for name in wanted]
        for feature in chosen:
            if level_count(feature.domain) is None:
                raise PolicyError(
                    f"features.{feature.name} is a number without bins and has no "
                    f"discrete codes. Declare features.{feature.name}.bins."
                )
        columns = read_distinct(X, names, only=wanted)
        coded = [
            _resolved(f, column) for f, column in zip(chosen, columns, strict=True)
        ]
        return np.stack(coded, axis=1)

    def encode_label(self, y: Any) -> FloatArray | IntArray:
        """Return labels: numbers in [-1/2, 1/2], categories and booleans as indices."""
        self.policy.require_single_rows("an encoded table")
        label = self.policy.label
        if label is None:
            raise PolicyError(
                "The policy declares no label (label=None). Declare target and [label]."
            )
        coded = read_cells(label, read_series(y, label.name))
        if isinstance(label.domain, NumberDomain):
            return centered(label.domain, coded.values)
        return coded.values

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return one name per column, such as ``age`` or ``race=White``."""
        names = [name for f in self.policy.features for name, _ in _columns(f)]
        return np.asarray(names, dtype=object)

    def describe_columns(self) -> tuple[str, ...]:
        """Return one text per column for reports, such as ``race = White``."""
        return tuple(text for f in self.policy.features for _, text in _columns(f))

    def __sklearn_is_fitted__(self) -> bool:
        return True  # there is nothing to learn

    def _names(self) -> tuple[str, ...]:
        self.policy.require_single_rows("an encoded table")
        return tuple(feature.name for feature in self.policy.features)

    def _float_type(self) -> np.dtype[Any]:
        if self.dtype not in (np.float64, np.float32, "float64", "float32"):
            raise PolicyError(
                f"dtype must be float64 or float32, got dtype={self.dtype!r}. "
                "Choose one of them."
            )
        return np.dtype(self.dtype)


def _refuse_repeated_names(what: str, names: Sequence[str] | NDArray[Any]) -> None:
    counts = Counter(names)
    repeated = [name for name in counts if counts[name] > 1]
    if repeated:
        raise PolicyError(
            f"{what} must have distinct names, got {repeated[0]!r} twice. Rename the "
            "feature or the category, in the policy and in the table."
        )


def _parts(feature: Feature) -> Iterator[tuple[BlockKind, str, int]]:
    if isinstance(feature.domain, CategoryDomain):
        yield BlockKind.ONE_HOT, feature.name, level_count(feature.domain) or 0
    else:
        yield BlockKind.NUMBER, feature.name, 1
    if knots := knots_of(feature):
        yield BlockKind.HATS, f"{feature.name}:curve", len(knots)
    if isinstance(feature.domain.missing, Slot):
        yield BlockKind.FLAG, f"{feature.name}:missing", 1


def _geometry(
    feature: Feature, kind: BlockKind, width: int
) -> tuple[float, float, bool]:
    """Return radius, diameter, and whether the code can be all zero."""
    zero = isinstance(feature.domain.missing, Slot)
    if kind is BlockKind.NUMBER:
        return 0.5, 1.0, zero or isinstance(feature.domain, NumberDomain)
    if kind is BlockKind.FLAG:
        return 1.0, 1.0, True
    return 1.0, math.sqrt(2.0) if width > 1 else float(zero), zero


def read_cells(column_of: Feature | Label, column: Any) -> Coded:
    """Return a column in its domain, or raise `PolicyError` if a cell has no place."""
    domain = column_of.domain
    if isinstance(domain, NumberDomain):
        return coded_numbers(column_of.name, domain, column)
    return coded_levels(column_of.name, domain, column)


def _write_block(
    out: NDArray[Any], feature: Feature, kind: BlockKind, coded: Coded
) -> None:
    if kind is BlockKind.FLAG:
        out[:, 0] = coded.missing
    elif kind is BlockKind.HATS:
        out[:] = hat_codes(knots_of(feature), coded.values)
        out[coded.missing] = 0.0
    elif kind is BlockKind.ONE_HOT:
        rows = np.flatnonzero(~coded.missing)
        out[rows, coded.values[rows]] = 1.0
    else:
        if isinstance(feature.domain, NumberDomain):
            values = centered(feature.domain, coded.values)
        else:
            values = coded.values - 0.5
        out[:, 0] = np.where(coded.missing, 0.0, values)


def _resolved(feature: Feature, column: Any) -> IntArray:
    domain = feature.domain
    coded = read_cells(feature, column)
    codes: IntArray = coded.values
    if isinstance(domain, NumberDomain):
        codes = binned(domain, coded.values)
    return np.where(coded.missing, level_count(domain) or 0, codes)


def _columns(feature: Feature) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every column of a feature."""
    name, domain = feature.name, feature.domain
    if isinstance(domain, CategoryDomain):
        for level in domain.levels:
            yield f"{name}={level}", f"{name} = {level}"
        if domain.other:
            yield f"{name}=(other)", f"{name} = any other value"
    elif isinstance(domain, NumberDomain):
        lower, upper = canonical_text(domain.lower), canonical_text(domain.upper)
        yield name, f"{name} ({lower} to {upper})"
        for knot in map(canonical_text, domain.knots or ()):
            yield f"{name}@{knot}", f"{name} near {knot}"
    else:
        yield name, f"{name} (false to true)"
    if isinstance(domain.missing, Slot):
        yield f"{name}=(missing)", f"{name} is missing"
