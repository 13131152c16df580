"""What one cell says: its canonical text, its number, whether it is missing.

Every door to data (files, frames, arrays, lists) reads cells by these functions alone,
so that the code of a row never depends on what other rows hold: a cell that a program
has turned from ``"1"`` into 1 or 1.0, because of its neighbors, says the same.
"""

import datetime
import math
import re
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from numbers import Integral, Real
from typing import Any

import numpy as np

MISSING_TEXTS = frozenset(("", "NA", "NaN", "nan", "null", "NULL"))
"""Texts that say that a value is missing, unless a category is declared so."""

NO_TEXT = "\x00"
"""Stands for cells without a text (lists, times); no category can be declared so."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITY = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), "1"),
    **dict.fromkeys(("false", "False", "FALSE"), "0"),
}
_BLANKS = " \t\r\n"


def canonical_text(value: Any) -> str | None:
    """Return the text by which a category is compared, or None if it has none.

    Text stands for itself, and bytes for the text that they spell in UTF-8; true and
    false are written in lower case; a whole number has no decimal point, so that 1 and
    1.0 are both ``"1"``; a date, or a time of day at midnight, is written 2020-01-31.

    Examples
    --------
    >>> [canonical_text(value) for value in ("1.0", 1.0, 1, 2.5, True)]
    ['1.0', '1', '1', '2.5', 'true']
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.timedelta64):  # numpy counts it among the integers
        return None
    if isinstance(value, Integral):
        with suppress(ValueError):  # more digits than Python writes
            return str(int(value))
        return None
    if isinstance(value, Real):
        number = number_of(value)
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.datetime):
        at_midnight = value.time() == datetime.time() and value.tzinfo is None
        return str(value.date() if at_midnight else value)
    return value.isoformat() if isinstance(value, datetime.date) else None


def loose_text(text: str) -> str:
    """Return the canonical text of the number that a text spells; true is 1.

    Examples
    --------
    >>> [loose_text(text) for text in ("1.0", "01", " 1e3", "TRUE", "V58", "1,5")]
    ['1', '1', '1000', '1', 'V58', '1,5']
    """
    bare = text.strip(_BLANKS)
    if bare in _BOOLEANS:
        return _BOOLEANS[bare]
    if _NUMBER.fullmatch(bare) is None:
        return text
    try:
        return _decimal_text(Decimal(bare)) or text
    except InvalidOperation:  # an exponent of more digits than decimals can have
        return canonical_text(float(bare)) or text


def is_missing(value: Any) -> bool:
    """Return whether an object says that a value is missing: None, NaN, NaT, NA."""
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, Real | np.datetime64):
        return bool(value != value)
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def number_of(value: Any) -> float:
    """Return the number that a cell says, NaN if it says none.

    Text is read as a decimal number, blanks around it ignored; true is 1, false is 0.
    Bytes are the text that they spell, as among categories: a column has that type
    because of one cell that is no Unicode, and the others say what they said.

    Examples
    --------
    >>> [number_of(value) for value in (True, "True", "1e3", " -.5 ", "1,5", None)]
    [1.0, 1.0, 1000.0, -0.5, nan, nan]
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        bare = value.strip(_BLANKS)
        if bare in _BOOLEANS:
            return float(_BOOLEANS[bare])
        if _NUMBER.fullmatch(bare) or _INFINITY.fullmatch(bare):
            return float(bare)
        return math.nan
    if isinstance(value, np.timedelta64):
        return math.nan
    if isinstance(value, Real | Decimal | np.bool_):
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, 1 if value == abs(value) else -1)
        except ValueError:  # a signaling NaN
            return math.nan
    return math.nan


def _decimal_text(value: Decimal) -> str | None:
    if value.is_nan():
        return None
    if value.is_finite() and value.as_tuple().exponent == 0:
        # digits alone: exact, however many; else as a program would store the number
        return format(value, "f") if value else "0"
    return canonical_text(float(value))
