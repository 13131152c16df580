"""Names and conditions as questions write them, so that they can be read back."""

import re

from corrdp.exceptions import CorrDPError
from corrdp.queries._conditions import (
    Absence,
    Both,
    Comparison,
    Condition,
    Either,
    Membership,
    Negation,
)

KEYWORDS = frozenset(
    {"and", "between", "by", "in", "is", "missing", "not", "or", "where"}
)
ARITHMETIC = frozenset("+-*/")
_COMPARISON_WORDS = frozenset({"<", ">", "<=", ">=", "!=", "<>", "!"})
_WORD = re.compile(r'[^\s(),="]+')


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
    if isinstance(condition, Negation):
        return f"not {_inner(condition.part)}"
    if isinstance(condition, Both | Either):
        # The left side may go on without parentheses: it is read from the left.
        word = "and" if isinstance(condition, Both) else "or"
        alike = isinstance(condition.left, type(condition))
        left = condition_text(condition.left) if alike else _inner(condition.left)
        return f"{left} {word} {_inner(condition.right)}"
    raise CorrDPError(
        f"a {type(condition).__name__} has no text. Use the conditions of corrdp."
    )


def _inner(condition: Condition) -> str:
    text = condition_text(condition)
    return f"({text})" if isinstance(condition, Both | Either) else text
