"""Questions in words: ``mean(age) by race (White, Black)`` becomes a query.

Grammar::

    ask       = name "(" [argument {"," argument}] ")" ["by" column [groups]]
    groups    = "(" value {"," value} ")"
    argument  = column | column "=" value | number
    column, value = a word, or text in double quotes (a quote inside is doubled)
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from corrdp.exceptions import CorrDPError
from corrdp.queries._kinds import (
    Correlation,
    Count,
    Covariance,
    Histogram,
    Mean,
    Quantiles,
    Query,
    Total,
    Variance,
)

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"]|"")*")
      | (?P<mark>[(),=])
      | (?P<word>[^\s(),="]+)
    )""",
    re.VERBOSE,
)
_WORD = re.compile(r'[^\s(),="]+')
_NAMES = (
    "count",
    "sum",
    "mean",
    "variance",
    "histogram",
    "quantiles",
    "covariance",
    "correlation",
)


Item = TypeVar("Item")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


def parse_ask(text: str) -> Query:
    """Read a question.

    Parameters
    ----------
    text : str
        ``count()``, ``count(race = White)``, ``sum(age)``, ``mean(age)``,
        ``variance(age)``, ``histogram(race)``, ``quantiles(age, 0.25, 0.5)``,
        ``covariance(age, hours)``, ``correlation(age, hours)``; count, sum and mean
        may be followed by ``by race`` or ``by race (White, Black)``. Names with blanks
        or marks are written in double quotes.

    Raises
    ------
    CorrDPError
        With the position of what cannot be read.

    Examples
    --------
    >>> parse_ask("mean(age) by race (White, Black)")
    Mean(column='age', by='race', groups=('White', 'Black'))
    >>> parse_ask('quantiles("hours per week", 0.5)')
    Quantiles(column='hours per week', probabilities=(0.5,))
    """
    return _Parser(text).ask()


def ask_text(query: Query) -> str:
    """Return a question that `parse_ask` reads back as the same query."""
    if isinstance(query, Count):
        if query.by is not None and query.groups is not None and len(query.groups) == 1:
            return f"count({_quoted(query.by)} = {_quoted(query.groups[0])})"
        return "count()" + _by_text(query.by, query.groups)
    if isinstance(query, Total | Mean):
        name = "sum" if isinstance(query, Total) else "mean"
        return f"{name}({_quoted(query.column)})" + _by_text(query.by, query.groups)
    if isinstance(query, Covariance | Correlation):
        name = type(query).__name__.lower()
        return f"{name}({_quoted(query.first)}, {_quoted(query.second)})"
    if isinstance(query, Quantiles):
        rest = ", ".join(repr(float(p)) for p in query.probabilities)
        return f"quantiles({_quoted(query.column)}, {rest})"
    if isinstance(query, Variance | Histogram):
        return f"{type(query).__name__.lower()}({_quoted(query.column)})"
    raise CorrDPError(
        f"a {type(query).__name__} has no text. Use the queries of corrdp."
    )


def _by_text(by: str | None, groups: tuple[str, ...] | None) -> str:
    if by is None:
        return ""
    listed = "" if groups is None else f" ({', '.join(map(_quoted, groups))})"
    return f" by {_quoted(by)}{listed}"


def _quoted(name: str) -> str:
    if _WORD.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


class _Parser:
    """One token of look-ahead over one question."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0

    def ask(self) -> Query:
        name = self._take("word", f"one of {', '.join(_NAMES)}")
        if name not in _NAMES:
            self._next -= 1
            raise self._error(f"one of {', '.join(_NAMES)}")
        self._take_mark("(")
        arguments = [] if self._at(")") else self._list(self._argument)
        self._take_mark(")")
        by, groups = self._by_clause()
        if self._next < len(self._tokens):
            raise self._error("the end of the question")
        return self._build(name, arguments, by, groups)

    def _argument(self) -> tuple[str, str | None]:
        name = self._value("a column or a number")
        if self._at("="):
            self._take_mark("=")
            return name, self._value("a group of the column")
        return name, None

    def _by_clause(self) -> tuple[str | None, tuple[str, ...] | None]:
        if self._next == len(self._tokens) or self._peek().text != "by":
            return None, None
        self._next += 1
        column = self._value("a column after 'by'")
        if not self._at("("):
            return column, None
        self._take_mark("(")
        groups = tuple(self._list(lambda: self._value("a group")))
        self._take_mark(")")
        return column, groups

    def _build(
        self,
        name: str,
        arguments: list[tuple[str, str | None]],
        by: str | None,
        groups: tuple[str, ...] | None,
    ) -> Query:
        if name == "count" and len(arguments) == 1 and arguments[0][1] and by is None:
            column, group = arguments[0]
            return Count(column, (str(group),))
        if any(group is not None for _, group in arguments):
            raise self._refusal("only count(column = group) takes a '='")
        columns = [column for column, _ in arguments]
        if by is not None and name not in ("count", "sum", "mean"):
            raise self._refusal(f"{name} cannot be split by groups")
        if name == "quantiles" and columns:
            return Quantiles(columns[0], tuple(map(self._number, columns[1:])))
        expected = {"count": 0, "covariance": 2, "correlation": 2}.get(name, 1)
        if len(columns) != expected:
            raise self._refusal(
                f"{name} takes {expected} column(s), got {len(columns)}"
            )
        if name == "count":
            return Count(by, groups)
        if name in ("sum", "mean"):
            return (Total if name == "sum" else Mean)(columns[0], by, groups)
        if name in ("variance", "histogram"):
            return (Variance if name == "variance" else Histogram)(columns[0])
        return (Covariance if name == "covariance" else Correlation)(*columns)

    def _number(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise self._refusal(f"{text!r} is not a probability") from None

    def _list(self, item: Callable[[], Item]) -> list[Item]:
        items = [item()]
        while self._at(","):
            self._take_mark(",")
            items.append(item())
        return items

    def _value(self, expected: str) -> str:
        if self._next < len(self._tokens) and self._peek().kind == "quoted":
            text = self._peek().text[1:-1].replace('""', '"')
            self._next += 1
            if text:
                return text
            self._next -= 1
            raise self._error(expected)
        return self._take("word", expected)

    def _take_mark(self, mark: str) -> None:
        if not self._at(mark):
            raise self._error(f"'{mark}'")
        self._next += 1

    def _take(self, kind: str, expected: str) -> str:
        if self._next == len(self._tokens) or self._peek().kind != kind:
            raise self._error(expected)
        self._next += 1
        return self._tokens[self._next - 1].text

    def _at(self, mark: str) -> bool:
        return self._next < len(self._tokens) and self._peek() == _Token(
            "mark", mark, self._peek().position
        )

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _error(self, expected: str) -> CorrDPError:
        at_end = self._next == len(self._tokens)
        found = "the end" if at_end else repr(self._peek().text)
        position = len(self._text) if at_end else self._peek().position
        return self._refusal(f"expected {expected} at {position}, found {found}")

    def _refusal(self, what: str) -> CorrDPError:
        return CorrDPError(
            f"cannot read the question {self._text!r}: {what}. "
            "Ask for example mean(age) or count() by race."
        )


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise CorrDPError(
                f"cannot read the question {text!r}: a double quote at {position} is "
                "not closed. Close it; a quote inside a name is doubled."
            )
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        position = match.end()
    return tokens
