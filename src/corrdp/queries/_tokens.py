"""The words, quoted names and marks of a question."""

import re
from dataclasses import dataclass

from corrdp.exceptions import CorrDPError

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
