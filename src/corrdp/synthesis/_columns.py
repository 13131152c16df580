"""Columns of a table as codes, and codes as values again.

Every column has finitely many codes at its declared resolution; numbers without
declared bins get `DEFAULT_BINS` equal ones. Values are drawn inside a bin, so that the
synthetic table has the columns, types and bounds that the policy declares.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_choice
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Domain,
    Feature,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Slot,
    number_columns,
)
from corrdp.tables import check_columns

DEFAULT_BINS = 16
OTHER = "(other)"
_NARWHALS_TYPES: dict[type, Any] = {
    str: nw.String,
    bool: nw.Boolean,
    int: nw.Int64,
    float: nw.Float64,
}


def opened(table: Any) -> nw.DataFrame[Any]:
    """Return a pandas, polars or pyarrow table, or refuse what is none."""
    if isinstance(table, np.ndarray):
        raise CorrDPError(
            "a numpy array has no column names and no label. Pass a pandas, "
            "polars or pyarrow table."
        )
    check_columns(table, ())
    return nw.from_native(table, eager_only=True)


class Shape(StrEnum):
    """Where inside its bin a synthetic number lies."""

    UNIFORM = "uniform"
    WHOLE = "whole"
    LOWER = "lower"


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The columns of a policy, the label last, with their numbers of codes.

    By `shapes` numbers are drawn inside their bins: ``uniform``, ``whole`` numbers only
    (the default of numbers declared whole), or at the ``lower`` edge, for numbers that
    pile up there.
    """

    policy: Policy
    bins: int  # of numbers that declare none
    shapes: Mapping[str, str]

    def __post_init__(self) -> None:
        numbers = number_columns(self._features)
        if not isinstance(self.shapes, Mapping):
            raise PolicyError(
                f"shapes maps numbers to shapes, got shapes={self.shapes!r}. Name the "
                "columns."
            )
        for name in self.shapes:
            if name not in numbers:
                raise PolicyError(
                    f"shapes names {name!r}, which is not a number of the policy. "
                    f"Numbers: {', '.join(numbers) or 'none'}."
                )
            check_choice(f"shapes[{name!r}]", self.shapes[name], Shape)

    @cached_property
    def _features(self) -> tuple[Feature, ...]:
        """All columns as features with declared resolution; the label is one of them.

        Roles are of no matter here: they are only used to name columns.
        """
        return tuple(
            Feature(
                column.name,
                "sensitive",  # type: ignore[arg-type]
                replace(column.domain, bins=self.bins)
                if isinstance(column.domain, NumberDomain)
                and column.domain.bins is None
                else column.domain,
            )
            for column in self.policy.columns
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of their numbers."""
        return tuple(feature.name for feature in self._features)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of every column."""
        counts = self._encoder.n_codes
        return tuple(counts[name] for name in self.names)

    @property
    def label(self) -> int | None:
        """Number of the label's column, if there is one."""
        return None if self.policy.label is None else len(self.names) - 1

    def index(self, name: str) -> int:
        """Return the number of a column, or raise `PolicyError`."""
        if name not in self.names:
            raise PolicyError(
                f"there is no column {name!r}. Columns: {', '.join(self.names)}."
            )
        return self.names.index(name)

    def largest(self, columns: Iterable[int]) -> str:
        """Return the largest of some columns by name, for who has to coarsen them."""
        ranked = sorted(columns, key=lambda column: (-self.sizes[column], column))
        return ", ".join(
            f"{self.names[column]!r} ({self.sizes[column]} codes)"
            for column in ranked[:3]
        )

    def domain(self, name: str) -> Domain:
        """Return the domain of a column, numbers with bins."""
        return self._features[self.index(name)].domain

    def codes(self, table: Any, names: Sequence[str] | None = None) -> IntArray:
        """Return one row of codes per row of a table: a function of that row alone."""
        if names is None:
            return self._encoder.codes(table)
        chosen = tuple(self._features[self.index(name)] for name in names)
        return PolicyEncoder(Policy(chosen)).codes(table)

    def values(
        self, codes: IntArray, generator: np.random.Generator
    ) -> dict[str, list[Any]]:
        """Return the columns of a synthetic table by name."""
        return {
            feature.name: self._decoded(feature, codes[:, column], generator)
            for column, feature in enumerate(self._features)
        }

    def schema(self, output: str) -> dict[str, Any]:
        """Return the type of every synthetic column: declared, never read off rows.

        In pandas whole numbers with gaps are floats.
        """
        types = {}
        for feature in self._features:
            kind = _NARWHALS_TYPES[self._type(feature)]
            gaps = isinstance(feature.domain.missing, Slot) and output == "pandas"
            types[feature.name] = nw.Float64 if gaps and kind is nw.Int64 else kind
        return types

    def _type(self, feature: Feature) -> type:
        """Return the type of a column's values as the policy declares them."""
        domain = feature.domain
        if isinstance(domain, CategoryDomain):
            # Groups and the slot of other values have names, which are texts.
            as_listed = domain.levels == domain.categories and not domain.other
            kind = (as_listed and domain.value_type) or str
            if kind is int and not _are_held(domain.values):
                kind = str
        elif isinstance(domain, BooleanDomain):
            kind = int if domain.digits else bool
        else:
            is_whole = self._shape(feature) is Shape.WHOLE
            kind = (
                int if is_whole and _are_held((domain.lower, domain.upper)) else float
            )
        # A column with gaps cannot be boolean in every kind of table.
        return str if kind is bool and isinstance(domain.missing, Slot) else kind

    def _shape(self, feature: Feature) -> Shape:
        is_whole = isinstance(feature.domain, NumberDomain) and feature.domain.whole
        return Shape(
            self.shapes.get(feature.name, Shape.WHOLE if is_whole else Shape.UNIFORM)
        )

    @cached_property
    def _encoder(self) -> PolicyEncoder:
        return PolicyEncoder(Policy(self._features))

    def _decoded(
        self, feature: Feature, codes: IntArray, generator: np.random.Generator
    ) -> list[Any]:
        domain = feature.domain
        kind = self._type(feature)
        if isinstance(domain, NumberDomain):
            numbers = _inside_bins(domain, codes, self._shape(feature), generator)
            found: list[Any] = numbers.tolist()
            if kind is int:
                found = [int(number) for number in found]
        else:
            if not isinstance(domain, CategoryDomain):
                levels: tuple[Any, ...] = ("false", "true")
                levels = levels if kind is str else (kind(False), kind(True))
            elif kind is str:
                levels = domain.written + ((OTHER,) if domain.other else ())
            else:
                levels = domain.values
            known = np.array([*levels, None], dtype=object)
            found = known[np.minimum(codes, len(levels))].tolist()
        if isinstance(domain.missing, Slot):
            missing = codes == self._encoder.n_codes[feature.name] - 1
            for row in np.flatnonzero(missing):
                found[row] = None
        return found


def _are_held(numbers: Iterable[Any]) -> bool:
    """Return whether tables of every kind hold such whole numbers."""
    return all(-(2**63) <= number < 2**63 for number in numbers)


def _inside_bins(
    domain: NumberDomain,
    codes: IntArray,
    shape: Shape,
    generator: np.random.Generator,
) -> FloatArray:
    n_bins = domain.n_levels or 1
    edges = np.asarray(domain.edges, dtype=np.float64)
    places = np.minimum(codes, n_bins - 1)
    lower: FloatArray = np.take(edges, places)
    width: FloatArray = np.take(edges, places + 1) - lower
    if shape is Shape.LOWER:
        return lower
    if shape is Shape.UNIFORM:
        drawn = lower + width * generator.random(codes.size)
        return np.asarray(np.clip(drawn, domain.lower, domain.upper))
    first, last = np.ceil(lower), np.ceil(lower + width) - 1.0
    # The last bin is closed; a bin without any whole number keeps its nearest one.
    last = np.where(codes >= n_bins - 1, np.floor(domain.upper), last)
    span = np.maximum(last - first, 0.0)
    drawn = first + np.floor(generator.random(codes.size) * (span + 1.0))
    smallest, largest = np.ceil(domain.lower), np.floor(domain.upper)
    # Beyond the last whole number the nearest one lies below.
    return np.asarray(np.clip(drawn, min(smallest, largest), largest))
