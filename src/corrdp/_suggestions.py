"""Nearest known names, for messages about unknown ones."""

import difflib
from collections.abc import Sequence


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a sentence that offers the nearest known name, or nothing."""
    lowered = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f" Did you mean {lowered[close[0]]!r}?" if close else ""
