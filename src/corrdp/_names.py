"""Names that rooms share which may not enter each other, and the nearest known name."""

import difflib
import unicodedata
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
    said = {reading(other): other for other in known}
    close = difflib.get_close_matches(reading(name), said, n=1)
    if not close:
        return ""
    shown = ascii if close[0] == reading(name) else repr
    return f" Did you mean {shown(said[close[0]])}?"


def reading(name: str) -> str:
    """Return what a person reads in a name, however its letters are put together."""
    return unicodedata.normalize("NFKC", name).strip().casefold()
