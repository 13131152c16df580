"""Names that rooms share which may not enter each other, and the nearest known name."""

import difflib
from collections.abc import Sequence

WHOLE_RECORD = "whole_record"
"""The class of neighbors in which all of a record changes: priced, never promised."""

BLOCK = "block"
"""The leakage of all insensitive features together, under ``all_insensitive``."""

INTERCEPT = "intercept"
"""The constant of a model, by which no feature of one may be called."""

NUMBER_COUNTS = "where numbers lie"
"""The part of a release that finds narrower bounds, so that its policy is another."""


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a sentence that offers the nearest known name, or nothing."""
    lowered = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f" Did you mean {lowered[close[0]]!r}?" if close else ""
