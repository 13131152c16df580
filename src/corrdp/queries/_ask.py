"""Questions in words: ``mean(age) by race (White, Black)`` becomes a query.

Grammar::

    ask        = sum ["by" split] ["where" condition]
    sum        = product {("+" | "-") product}
    product    = factor {("*" | "/") factor}
    factor     = number | "(" sum ")" | name "(" [argument {"," argument}] ")"
    split      = column [groups] {"," column}
    groups     = "(" value {"," value} ")"
    argument   = column | column "=" value | number
    condition  = conjunction {"or" conjunction}
    conjunction = statement {"and" statement}
    statement  = "not" statement | "(" condition ")" | column
               | column ("=" | "!=" | "<" | "<=" | ">" | ">=") value
               | column ["not"] "in" groups
               | column "is" ["not"] ("missing" | "true" | "false")
               | column "between" value "and" value
    column, value = a word, or text in double quotes (a quote inside is doubled)

Blanks stand around signs: ``age >= 40``, ``mean(age) - 40``. What is split or filtered
is every part of a sum.
"""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

from corrdp.exceptions import CorrDPError
from corrdp.queries._conditions import (
    Absence,
    Comparison,
    Condition,
    Membership,
    Verdict,
    as_condition,
    col,
)
from corrdp.queries._kinds import Correlation, Count, Covariance, Mean, Total, Variance
from corrdp.queries._metrics import ModelMetric
from corrdp.queries._quantiles import Histogram, Quantiles
from corrdp.queries._query import (
    Arithmetic,
    By,
    Constant,
    Query,
    Where,
    aggregates,
    as_columns,
    with_parts,
)
from corrdp.queries._question_text import (
    ARITHMETIC,
    KEYWORDS,
    Token,
    condition_text,
    not_too_deep,
    quoted,
    tokens_of,
)
from corrdp.tables import spelled_number

_SPLITTABLE: dict[str, type[Total | Mean | Variance | Histogram]] = {
    "sum": Total,
    "mean": Mean,
    "variance": Variance,
    "histogram": Histogram,
}
_PAIRS: dict[str, type[Covariance | Correlation]] = {
    "covariance": Covariance,
    "correlation": Correlation,
}
_NAMES = ("count", *_SPLITTABLE, "median", "quantiles", *_PAIRS)

Item = TypeVar("Item")
_END = "end"


@not_too_deep
def parse_ask(text: str) -> Query:
    """Read a question.

    Parameters
    ----------
    text : str
        ``count()``, ``count(race = White)``, ``sum(age)``, ``mean(age)``,
        ``variance(age)``, ``histogram(race)``, ``median(age)``,
        ``quantiles(age, 0.25, 0.5)``, ``covariance(age, hours)``,
        ``correlation(age, hours)``; all but the last two may be followed by
        ``by race, sex`` or ``by race (White, Black)``, and by
        ``where age >= 40 and not smoker``. Answers may be added, subtracted,
        multiplied and divided. Names with blanks or marks are written in double
        quotes.

    Raises
    ------
    CorrDPError
        With the position of what cannot be read.

    Examples
    --------
    >>> parse_ask("mean(age) by race (White, Black)")
    Mean(column='age', by='race', groups=('White', 'Black'), where=None)
    >>> parse_ask('quantiles("hours per week", 0.5)').probabilities
    (0.5,)
    """
    return _Parser(text).ask()


def ask_text(query: Query) -> str:
    """Return a question that `parse_ask` reads back as the same query."""
    clauses = {_clauses(part) for part in aggregates(query)}
    if isinstance(query, Arithmetic) and len(clauses) > 1:
        # Parts that are split or filtered differently: shown, not read back.
        return _combined(query, ask_text)
    tail = next(iter(clauses), "")
    return _combined(query, _head) + tail


def split_and_filtered(
    query: Query, by: By, groups: tuple[str, ...] | None, where: Where
) -> Query:
    """Return a question with every part of it split and filtered."""
    if isinstance(query, Arithmetic):
        return with_parts(
            query, lambda part: split_and_filtered(part, by, groups, where)
        )
    if isinstance(query, Constant) or (by is None and where is None):
        return query
    if "by" not in {field.name for field in fields(query)}:  # type: ignore[arg-type]
        raise CorrDPError(
            f"{type(query).__name__.lower()} cannot be split by groups nor filtered. "
            "Ask for it alone."
        )
    if by is not None:
        if query.by is not None:
            raise CorrDPError(
                "a question that names a group already cannot be split once more. "
                "Write the group into the condition: where column = group."
            )
        query = replace(query, by=by, groups=groups)  # type: ignore[type-var]
    if where is not None:
        both = where if query.where is None else query.where & where
        query = replace(query, where=both)  # type: ignore[type-var]
    return query


def _combined(query: Query, text: Callable[[Query], str]) -> str:
    if isinstance(query, Constant):
        return repr(float(query.value))
    if not isinstance(query, Arithmetic):
        return text(query)
    left, right = (_combined(side, text) for side in (query.left, query.right))
    loose = query.operator in "*/"
    if isinstance(query.left, Arithmetic) and loose and query.left.operator in "+-":
        left = f"({left})"
    if isinstance(query.right, Arithmetic):
        right = f"({right})"
    return f"{left} {query.operator} {right}"


def _is_one_group(query: Query) -> bool:
    return isinstance(query, Count) and query.by is not None and not query.key_columns


def _head(query: Query) -> str:
    if isinstance(query, Count):
        if _is_one_group(query):
            return f"count({quoted(str(query.by))} = {quoted((query.groups or '')[0])})"
        return "count()"
    if isinstance(query, Covariance | Correlation):
        name = type(query).__name__.lower()
        return f"{name}({quoted(query.first)}, {quoted(query.second)})"
    if isinstance(query, Quantiles):
        rest = ", ".join(repr(float(p)) for p in query.probabilities)
        return f"quantiles({quoted(query.column)}, {rest})"
    if isinstance(query, ModelMetric):
        return query.text
    for name, kind in _SPLITTABLE.items():
        if isinstance(query, kind):
            return f"{name}({quoted(query.column)})"
    raise CorrDPError(
        f"a {type(query).__name__} has no text. Use the queries of corrdp."
    )


def _clauses(query: Query) -> str:
    text = ""
    if query.by is not None and not _is_one_group(query):
        first, *rest = map(quoted, as_columns(query.by))
        if query.groups is not None:
            first += f" ({', '.join(map(quoted, query.groups))})"
        text += " by " + ", ".join([first, *rest])
    if query.where is not None:
        text += f" where {condition_text(as_condition(query.where))}"
    return text


class _Parser:
    """One token of look-ahead over one question."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*tokens_of(text), Token(_END, "the end", len(text))]
        self._next = 0

    def ask(self) -> Query:
        query = self._sum()
        by, groups = self._by_clause()
        where = self._condition() if self._accept("where") else None
        if self._peek().kind != _END:
            raise self._error("the end of the question")
        try:
            return split_and_filtered(query, by, groups, where)
        except CorrDPError as error:
            raise CorrDPError(
                f"cannot read the question {self._text!r}: {error}"
            ) from None

    def _sum(self) -> Query:
        query = self._product()
        while sign := self._accept("+", "-"):
            query = Arithmetic(sign, query, self._product())
        return query

    def _product(self) -> Query:
        query = self._factor()
        while sign := self._accept("*", "/"):
            query = Arithmetic(sign, query, self._factor())
        return query

    def _factor(self) -> Query:
        expected = f"one of {', '.join(_NAMES)}"
        if self._accept_mark("("):
            query = self._sum()
            self._take_mark(")")
            return query
        name = self._take("word", expected)
        if name not in _NAMES:
            try:
                return Constant(spelled_number(name))
            except CorrDPError:
                self._next -= 1
                raise self._error(expected) from None
        self._take_mark("(")
        arguments = [] if self._at(")") else self._list(self._argument)
        self._take_mark(")")
        return self._build(name, arguments)

    def _argument(self) -> tuple[str, str | None]:
        name = self._value("a column or a number")
        if self._accept_mark("="):
            return name, self._value("a group of the column")
        return name, None

    def _by_clause(self) -> tuple[By, tuple[str, ...] | None]:
        if not self._accept("by"):
            return None, None
        columns = [self._value("a column after 'by'")]
        groups = self._groups() if self._at("(") else None
        while self._accept_mark(","):
            columns.append(self._value("a column"))
        return (columns[0] if len(columns) == 1 else tuple(columns)), groups

    def _groups(self) -> tuple[str, ...]:
        self._take_mark("(")
        groups = tuple(self._list(lambda: self._value("a group")))
        self._take_mark(")")
        return groups

    def _condition(self) -> Condition:
        condition = self._conjunction()
        while self._accept("or"):
            condition = condition | self._conjunction()
        return condition

    def _conjunction(self) -> Condition:
        condition = self._statement()
        while self._accept("and"):
            condition = condition & self._statement()
        return condition

    def _statement(self) -> Condition:
        if self._accept("not"):
            return ~self._statement()
        if self._accept_mark("("):
            condition = self._condition()
            self._take_mark(")")
            return condition
        first = self._peek()
        name = self._value("a column")
        if first.kind == "word" and name[-1] in "<>!":
            raise self._refusal(f"write blanks around the sign after {name[:-1]!r}")
        if self._peek().kind == "sign":
            sign = self._take("sign", "a comparison")
            sign = "!=" if sign == "<>" else sign
            return Comparison(name, sign, self._value("a value"))
        if self._accept_mark("="):
            return Comparison(name, "=", self._value("a value"))
        if self._accept("between"):
            lower = Comparison(name, ">=", self._value("a value"))
            if not self._accept("and"):
                raise self._error("'and'")
            return lower & Comparison(name, "<=", self._value("a value"))
        if self._accept("is"):
            plain = self._accept("not") is None
            word = self._accept("missing", "true", "false")
            if word is None:
                raise self._error("'missing', 'true' or 'false'")
            found = Absence(name) if word == "missing" else Verdict(name, word)
            return found if plain else ~found
        inside = self._accept("not") is None
        if self._accept("in"):
            membership = Membership(name, self._groups())
            return membership if inside else ~membership
        if not inside:
            raise self._error("'in'")
        return col(name) == "true"

    def _build(self, name: str, arguments: list[tuple[str, str | None]]) -> Query:
        if name == "count" and len(arguments) == 1 and arguments[0][1]:
            column, group = arguments[0]
            return Count(column, (str(group),))
        if any(group is not None for _, group in arguments):
            raise self._refusal("only count(column = group) takes a '='")
        columns = [column for column, _ in arguments]
        if name == "count" and not columns:
            return Count()
        if name == "count":
            raise self._refusal(
                f"count({columns[0]}) names no group: count({columns[0]} = group) "
                f"counts one, count() by {columns[0]} all of them"
            )
        if name == "quantiles" and columns:
            return Quantiles(columns[0], tuple(map(self._number, columns[1:])))
        expected = {"covariance": 2, "correlation": 2}.get(name, 1)
        if len(columns) != expected:
            raise self._refusal(
                f"{name} takes {expected} column(s), got {len(columns)}"
            )
        if name == "median":
            return Quantiles(columns[0], (0.5,))
        if name in _PAIRS:
            return _PAIRS[name](*columns)
        return _SPLITTABLE[name](columns[0])

    def _number(self, text: str) -> float:
        number = spelled_number(text)
        if math.isnan(number):
            raise self._refusal(f"{text!r} is not a probability")
        return number

    def _list(self, item: Callable[[], Item]) -> list[Item]:
        items = [item()]
        while self._accept_mark(","):
            items.append(item())
        return items

    def _value(self, expected: str) -> str:
        token = self._peek()
        if token.kind == "quoted" and len(token.text) > 2:
            self._next += 1
            return token.text[1:-1].replace('""', '"')
        if token.kind == "word" and token.text in KEYWORDS | ARITHMETIC:
            raise self._error(f"{expected}, in double quotes if that is its name")
        return self._take("word", expected)

    def _accept(self, *words: str) -> str | None:
        """Take one of the words if it comes next."""
        token = self._peek()
        if token.kind != "word" or token.text not in words:
            return None
        self._next += 1
        return token.text

    def _accept_mark(self, mark: str) -> bool:
        """Take the mark if it comes next."""
        found = self._at(mark)
        self._next += found
        return found

    def _take_mark(self, mark: str) -> None:
        if not self._accept_mark(mark):
            raise self._error(f"'{mark}'")

    def _take(self, kind: str, expected: str) -> str:
        token = self._peek()
        if token.kind != kind:
            raise self._error(expected)
        self._next += 1
        return token.text

    def _at(self, mark: str) -> bool:
        return self._peek().kind == "mark" and self._peek().text == mark

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _error(self, expected: str) -> CorrDPError:
        token = self._peek()
        found = token.text if token.kind == _END else repr(token.text)
        return self._refusal(f"expected {expected} at {token.position}, found {found}")

    def _refusal(self, what: str) -> CorrDPError:
        return CorrDPError(
            f"cannot read the question {self._text!r}: {what}. "
            "Ask for example mean(age) or count() by race; names with blanks or marks "
            "stand in double quotes."
        )
