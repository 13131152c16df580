"""What every question has: the sums it needs, its answer, arithmetic with others."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from corrdp._validate import check_real
from corrdp.exceptions import CorrDPError
from corrdp.policy import Policy
from corrdp.queries._conditions import Column, Condition, as_condition
from corrdp.queries._estimates import Estimate
from corrdp.queries._moments import Moment

Cell: TypeAlias = tuple[str, ...]
Estimates: TypeAlias = Mapping[Moment, list[Estimate]]
Labeled: TypeAlias = list[tuple[Cell, Estimate]]
By: TypeAlias = str | tuple[str, ...] | None
Where: TypeAlias = Condition | Column | None


Operation: TypeAlias = Callable[["Query", "Query | float"], "Query"]


def _combining(sign: str) -> tuple[Operation, Operation]:
    """Return what combines a question with what follows, or with what precedes it."""
    return (
        lambda own, other: Arithmetic(sign, own, as_query(other)),
        lambda own, other: Arithmetic(sign, as_query(other), own),
    )


class Query(ABC):
    """A question about a table whose answer is computed from moments.

    Questions can be added, subtracted, multiplied and divided, with each other and with
    numbers: arithmetic on answers, after the release. Questions that can be split or
    filtered have these three as fields.
    """

    by: By = None
    groups: tuple[str, ...] | None = None
    where: Where = None

    @abstractmethod
    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return the noisy sums that the answer needs; raise if it has none."""

    @abstractmethod
    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Compute the answer of every cell from noisy sums: post-processing."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns whose groups name the cells of the answer."""
        return as_columns(self.by)

    def weight(self, moment: Moment) -> float:
        """Return how much the variance of a sum, relative to its range, matters."""
        del moment
        return 1.0

    __add__, __radd__ = _combining("+")
    __sub__, __rsub__ = _combining("-")
    __mul__, __rmul__ = _combining("*")
    __truediv__, __rtruediv__ = _combining("/")


@dataclass(frozen=True)
class Questions:
    """Queries, and a name for the answer of each.

    Parameters
    ----------
    queries : tuple of Query
        What is asked.
    names : tuple of str
        Names of the answers, such as the columns of a select.
    """

    queries: tuple[Query, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Constant(Query):
    """A public number, to calculate with answers."""

    value: float

    def __post_init__(self) -> None:
        check_real("a number in a question", self.value)

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return none."""
        return ()

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the number."""
        return [((), Estimate.exactly(float(self.value)))]


_OPERATIONS: dict[str, Callable[[Estimate, Estimate], Estimate]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left.over(right),
}


@dataclass(frozen=True)
class Arithmetic(Query):
    """Two answers combined cell by cell; one number is combined with every cell."""

    operator: str
    left: Query
    right: Query

    def __post_init__(self) -> None:
        by = self.right
        if self.operator == "/" and isinstance(by, Constant) and by.value == 0:
            raise CorrDPError(
                "a question divides by 0, which has no answer. Divide by another "
                "number, or by a count."
            )

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of the side that has cells."""
        left, right = self.left.key_columns, self.right.key_columns
        if left and right and left != right:
            raise CorrDPError(
                f"answers by {', '.join(left)} and by {', '.join(right)} cannot be "
                "combined cell by cell. Split both by the same columns."
            )
        return left or right

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return the sums of both sides."""
        _ = self.key_columns  # refuses sides that do not match
        return self.left.moments(policy) + self.right.moments(policy)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Combine both sides; intervals enclose what intervals enclosed."""
        sides = [
            dict(side.answer(policy, n_rows, estimates))
            for side in (self.left, self.right)
        ]
        left, right = sides
        cells = list(left if len(left) >= len(right) else right)
        combine = _OPERATIONS[self.operator]
        answers: Labeled = []
        for cell in cells:
            pair = [side.get(cell, side.get(())) for side in sides]
            if pair[0] is None or pair[1] is None:
                raise CorrDPError(
                    "answers with different groups cannot be combined cell by cell. "
                    "List the same groups on both sides."
                )
            answers.append((cell, combine(pair[0], pair[1])))
        return answers


def with_parts(query: Query, change: Callable[[Query], Query]) -> Query:
    """Return a question with every part of its arithmetic changed."""
    if not isinstance(query, Arithmetic):
        return change(query)
    left, right = (with_parts(side, change) for side in (query.left, query.right))
    return replace(query, left=left, right=right)


def aggregates(query: Query) -> list[Query]:
    """Return the parts of a question that read the table."""
    if isinstance(query, Arithmetic):
        return aggregates(query.left) + aggregates(query.right)
    return [] if isinstance(query, Constant) else [query]


def as_query(given: "Query | float") -> Query:
    """Return a question; a number is a constant."""
    if isinstance(given, Query):
        return given
    return Constant(given)


def as_columns(by: By) -> tuple[str, ...]:
    """Return the columns of a `by` as a tuple."""
    if by is None:
        return ()
    return (by,) if isinstance(by, str) else tuple(by)


def normalized(query: Query) -> None:
    """Give `by` and `where` of a new query one form each, so that equals are equal."""
    columns = as_columns(query.by)
    by: By = None if not columns else columns[0] if len(columns) == 1 else columns
    object.__setattr__(query, "by", by)
    if query.where is not None:
        object.__setattr__(query, "where", as_condition(query.where))
    if query.groups is not None and not columns:
        raise CorrDPError(
            f"groups={list(query.groups)} were named without a column. Say by which "
            "column."
        )
