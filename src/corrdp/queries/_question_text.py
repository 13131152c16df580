"""Questions as text: names and conditions as written, pieces as they are read."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from corrdp.exceptions import CorrDPError
from corrdp.queries._conditions import (
    Absence,
    Comparison,
    Condition,
    Joined,
    Membership,
    Negation,
    Verdict,
)

# A comparison is followed by a blank or the end, so that names such as <=50K are words.
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"]|"")*")
      | (?P<sign>(?:<=|>=|!=|<>|<|>)(?=\s|$))
      | (?P<mark>[(),=])
      | (?P<word>[^\s(),="]+)
    )""",
    re.VERBOSE,
)

_P = ParamSpec("_P")
_R = TypeVar("_R")

KEYWORDS = frozenset(
    {"and", "between", "by", "in", "is", "missing", "not", "or", "where"}
)
ARITHMETIC = frozenset("+-*/")
_COMPARISON_WORDS = frozenset({"<", ">", "<=", ">=", "!=", "<>", "!"})
_WORD = re.compile(r'[^\s(),="]+')


def not_too_deep(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse, in words, a question with more parts in each other than Python follows.

    For what comes before any payment: nothing afterwards descends as far.
    """

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise CorrDPError(
                "the question has too many parts within each other. Ask for less at "
                "once; a list of values is shorter with in."
            ) from None

    return checked


@dataclass(frozen=True)
class Token:
    """A piece of a question, and where it begins."""

    kind: str
    text: str
    position: int


def tokens_of(text: str) -> list[Token]:
    """Return the pieces of a question; a quote that is not closed is refused.

    Examples
    --------
    >>> [token.text for token in tokens_of('count() where income = ">50K"')]
    ['count', '(', ')', 'where', 'income', '=', '">50K"']
    """
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
        tokens.append(Token(kind, match[kind], match.start(kind)))
        position = match.end()
    return tokens


def quoted(name: str) -> str:
    """Return a name as it is written in a question, in double quotes where needed.

    Examples
    --------
    >>> quoted("age"), quoted("hours per week"), quoted("by")
    ('age', '"hours per week"', '"by"')
    """
    plain = _WORD.fullmatch(name) is not None
    reserved = KEYWORDS | ARITHMETIC | _COMPARISON_WORDS
    if plain and name not in reserved and name[-1] not in "<>!":
        return name
    return '"' + name.replace('"', '""') + '"'


def condition_text(condition: Condition) -> str:
    """Return a condition in the words of a question.

    Examples
    --------
    >>> from corrdp.queries import col
    >>> condition_text((col("age") >= 40) & ~col("ward").is_in("a", "b"))
    'age >= 40 and not ward in (a, b)'
    """
    if isinstance(condition, Comparison):
        column, value = quoted(condition.column), quoted(condition.value)
        return f"{column} {condition.operator} {value}"
    if isinstance(condition, Membership):
        listed = ", ".join(map(quoted, condition.values))
        return f"{quoted(condition.column)} in ({listed})"
    if isinstance(condition, Absence):
        return f"{quoted(condition.column)} is missing"
    if isinstance(condition, Verdict):
        return f"{quoted(condition.column)} is {condition.value}"
    if isinstance(condition, Negation):
        return f"not {_inner(condition.part)}"
    if isinstance(condition, Joined):
        # The left side may go on without parentheses: it is read from the left.
        alike = isinstance(condition.left, type(condition))
        left = condition_text(condition.left) if alike else _inner(condition.left)
        return f"{left} {condition.word} {_inner(condition.right)}"
    raise CorrDPError(
        f"a {type(condition).__name__} has no text. Use the conditions of corrdp."
    )


def _inner(condition: Condition) -> str:
    text = condition_text(condition)
    return f"({text})" if isinstance(condition, Joined) else text
