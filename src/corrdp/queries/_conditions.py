"""Conditions on declared columns: which rows a question is about.

A condition is evaluated row by row on the declared code of each cell, in the logic of
SQL: a comparison with a missing cell is neither true nor false, and only rows for which
the whole condition is true are counted.
Theory: ``docs/theory/queries.md``.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import BooleanDomain, CategoryDomain, NumberDomain, Policy
from corrdp.queries._columns import (
    column,
    group_names,
    may_be_missing,
    read_centered,
    read_groups,
    read_numbers,
)
from corrdp.tables import canonical_text, spelled_number

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TRUE, _FALSE = ("true", "1"), ("false", "0")

Value: TypeAlias = str | float | bool


class Truth(NamedTuple):
    """Rows for which a condition is true, and rows for which it is false."""

    true: NDArray[np.bool_]
    false: NDArray[np.bool_]


class _Combinable:
    """What conditions and columns, which stand for one, are combined by."""

    def __and__(self, other: "Condition | Column") -> "Condition":
        return Both(as_condition(self), as_condition(other))

    def __or__(self, other: "Condition | Column") -> "Condition":
        return Either(as_condition(self), as_condition(other))

    def __invert__(self) -> "Condition":
        return Negation(as_condition(self))


class Condition(_Combinable, ABC):
    """A statement about one row, made of declared columns and constants.

    Combine with ``&``, ``|`` and ``~``.
    """

    @property
    def parts(self) -> tuple["Condition", ...]:
        """Conditions of which it is made."""
        return ()

    @property
    def columns(self) -> frozenset[str]:
        """Columns that the condition reads."""
        return frozenset[str]().union(*(part.columns for part in self.parts))

    def check(self, policy: Policy) -> None:
        """Raise unless every column and constant is declared."""
        for part in self.parts:
            part.check(policy)

    @abstractmethod
    def evaluate(self, policy: Policy, table: Any) -> Truth:
        """Return where it is true and where it is false, row by row."""

    def __bool__(self) -> bool:
        raise CorrDPError(
            "a condition has no truth before it meets a row. Combine conditions with "
            "&, | and ~, not with and, or, not."
        )


def _comparing(sign: str) -> "Callable[[Column, Value], Condition]":
    """Return what compares a column with a constant."""
    return lambda own, other: Comparison(own.name, sign, _literal(other))


class Column(_Combinable):
    """A column in a condition: ``col("age") >= 40``, ``col("smoker")``.

    Parameters
    ----------
    name : str
        A column of the policy. A boolean stands for itself.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self.name = name

    __eq__ = _comparing("=")  # type: ignore[assignment]
    __ne__ = _comparing("!=")  # type: ignore[assignment]
    __lt__ = _comparing("<")
    __le__ = _comparing("<=")
    __gt__ = _comparing(">")
    __ge__ = _comparing(">=")

    def is_in(self, *values: Value) -> Condition:
        """Return whether the cell is one of the values."""
        return Membership(self.name, tuple(map(_literal, values)))

    def is_missing(self) -> Condition:
        """Return whether the cell is missing."""
        return Absence(self.name)

    def __bool__(self) -> bool:
        raise CorrDPError(
            f"column {self.name!r} has no truth before it meets a row. Combine "
            "conditions with &, | and ~, not with and, or, not."
        )


def col(name: str) -> Column:
    """Return a column to be compared in a condition.

    Examples
    --------
    >>> (col("age") >= 40) & col("smoker")
    Both(left=Comparison(column='age', operator='>=', value='40'), \
right=Comparison(column='smoker', operator='=', value='true'))
    """
    return Column(name)


def as_condition(given: object) -> Condition:
    """Return a condition; a column alone says that it is true."""
    if isinstance(given, Column):
        return Comparison(given.name, "=", "true")
    if isinstance(given, Condition):
        return given
    raise CorrDPError(
        f"a condition must be made of columns, got a {type(given).__name__}. Write for "
        'example col("age") >= 40.'
    )


@dataclass(frozen=True)
class _One(Condition):
    """A statement about one column."""

    column: str

    @property
    def columns(self) -> frozenset[str]:
        """The column."""
        return frozenset({self.column})


@dataclass(frozen=True)
class Comparison(_One):
    """A column compared with a constant, written as its canonical text."""

    operator: str
    value: str

    def check(self, policy: Policy) -> None:
        """Raise unless the constant is in the declared domain."""
        if _is_number(policy, self.column, self.value):
            _checked_bound(policy, self.column, self.value)
            return
        _code(policy, self.column, self.value)
        if self.operator not in ("=", "!="):
            raise PolicyError(
                f"column {self.column!r} is compared by {self.operator!r}, which needs "
                "a number on both sides. Compare by = or !=, or list values with in."
            )

    def evaluate(self, policy: Policy, table: Any) -> Truth:
        """Compare every present cell."""
        self.check(policy)
        compare = OPERATORS[self.operator]
        if _is_number(policy, self.column, self.value):
            numbers = read_numbers(policy, table, self.column)
            bound = read_centered(policy, self.column, float(self.value))
            holds, present = compare(numbers.values, bound), numbers.present
        else:
            codes = read_groups(policy, table, self.column)
            present = _present(policy, self.column, codes)
            holds = compare(codes, _code(policy, self.column, self.value))
        return Truth(holds & present, ~holds & present)


@dataclass(frozen=True)
class Membership(_One):
    """A column that holds one of several constants."""

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise CorrDPError(
                f"the list of values of column {self.column!r} is empty. Name at least "
                "one."
            )

    @property
    def parts(self) -> tuple[Condition, ...]:
        """Comparisons with every value."""
        return tuple(Comparison(self.column, "=", value) for value in self.values)

    def evaluate(self, policy: Policy, table: Any) -> Truth:
        """Return where one of the comparisons is true."""
        found = [part.evaluate(policy, table) for part in self.parts]
        return Truth(
            np.logical_or.reduce([truth.true for truth in found]),
            np.logical_and.reduce([truth.false for truth in found]),
        )


@dataclass(frozen=True)
class Absence(_One):
    """A missing cell of a column that declares a slot for missing values."""

    def check(self, policy: Policy) -> None:
        """Raise unless the column has a missing slot."""
        if not may_be_missing(policy, self.column):
            raise PolicyError(
                f"column {self.column!r} has no slot for missing values, so none is "
                'missing. Declare missing = "slot", or leave the condition out.'
            )

    def evaluate(self, policy: Policy, table: Any) -> Truth:
        """Return where the cell is missing."""
        self.check(policy)
        if isinstance(column(policy, self.column).domain, CategoryDomain):
            codes = read_groups(policy, table, self.column)
            present = _present(policy, self.column, codes)
        else:
            present = read_numbers(policy, table, self.column).present
        return Truth(~present, present)


@dataclass(frozen=True)
class Verdict(_One):
    """A boolean that is present and has a value: false, not neither, where missing."""

    value: str

    @property
    def parts(self) -> tuple[Condition, ...]:
        """The comparison with the value."""
        return (Comparison(self.column, "=", self.value),)

    def evaluate(self, policy: Policy, table: Any) -> Truth:
        """Return where the comparison is true, and where it is not."""
        true = self.parts[0].evaluate(policy, table).true
        return Truth(true, ~true)


@dataclass(frozen=True)
class Joined(Condition):
    """Two conditions, joined by a word."""

    left: Condition
    right: Condition
    word: ClassVar[str]

    @property
    def parts(self) -> tuple[Condition, ...]:
        """Both sides."""
        return self.left, self.right

    def evaluate(self, policy: Policy, table: Any) -> Truth:
        """Return where it is true and where it is false, row by row."""
        left = self.left.evaluate(policy, table)
        right = self.right.evaluate(policy, table)
        if self.word == "and":
            return Truth(left.true & right.true, left.false | right.false)
        return Truth(left.true | right.true, left.false & right.false)


class Both(Joined):
    """Two conditions that hold together."""

    word = "and"


class Either(Joined):
    """Two conditions of which at least one holds."""

    word = "or"


@dataclass(frozen=True)
class Negation(Condition):
    """A condition that is false; where it is neither, so is its negation."""

    part: Condition

    @property
    def parts(self) -> tuple[Condition, ...]:
        """What is negated."""
        return (self.part,)

    def evaluate(self, policy: Policy, table: Any) -> Truth:
        """Swap true and false."""
        truth = self.part.evaluate(policy, table)
        return Truth(truth.false, truth.true)


def _literal(value: object) -> str:
    if isinstance(value, str):
        return value
    text = canonical_text(value) if isinstance(value, bool | int | float) else None
    if text is None:
        raise CorrDPError(
            f"a condition compares with a text, a number, true or false, got a "
            f"{type(value).__name__}. Write the constant itself."
        )
    return text


def _is_number(policy: Policy, name: str, value: str) -> bool:
    """Return whether a comparison is one of numbers, not of declared groups."""
    is_declared = isinstance(column(policy, name).domain, NumberDomain)
    return is_declared and not math.isnan(spelled_number(value))


def _checked_bound(policy: Policy, name: str, value: str) -> None:
    domain = column(policy, name).domain
    assert isinstance(domain, NumberDomain)
    if not domain.lower <= float(value) <= domain.upper:
        raise PolicyError(
            f"column {name!r} is compared with {value}, outside its declared bounds "
            f"{domain.lower:g} to {domain.upper:g}, where cells are clipped. Compare "
            "inside the bounds, or declare wider ones."
        )


def _code(policy: Policy, name: str, value: str) -> int:
    domain = column(policy, name).domain
    if isinstance(domain, BooleanDomain):
        if value.lower() in _TRUE + _FALSE:
            return int(value.lower() in _TRUE)
        declared: tuple[str, ...] = ("true", "false")
    else:
        # By place, not by name: a category may be called as the slot is.
        declared = group_names(policy, name)
        declared = declared[:-1] if may_be_missing(policy, name) else declared
        if declared.count(value) == 1:
            return declared.index(value)
        if isinstance(domain, CategoryDomain) and value in domain.merged:
            raise PolicyError(
                f"category {value!r} of column {name!r} is merged into "
                f"{declared[domain.codes[value]]!r}. Compare with that."
            )
    raise PolicyError(
        f"column {name!r} is compared with {value!r}, which the policy does not "
        f"declare. Its values are: {', '.join(declared)}."
    )


def _present(policy: Policy, name: str, codes: Any) -> NDArray[np.bool_]:
    present: NDArray[np.bool_] = np.ones(codes.shape, dtype=np.bool_)
    if may_be_missing(policy, name):
        present = codes < len(group_names(policy, name)) - 1
    return present
