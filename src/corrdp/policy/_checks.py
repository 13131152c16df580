"""Checks of what a person declared: a field that is not as asked is a `PolicyError`."""

import re
from enum import StrEnum
from typing import Any, TypeVar

from corrdp._validate import check_choice, check_real, shown
from corrdp.exceptions import PolicyError

Choice = TypeVar("Choice", bound=StrEnum)
# Arabic and Hebrew text has marks of its own direction; those that turn that of others
# are refused.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def checked_choice(name: str, value: Any, choices: type[Choice]) -> Choice:
    """Return a declared word as a member of `choices`, or raise `PolicyError`."""
    words = [member.value for member in choices]
    remedy = "Declare one of them."
    return choices(check_choice(name, value, words, remedy=remedy, error=PolicyError))


def checked_number(name: str, value: Any, **limits: Any) -> float:
    """Return a declared number as a float, or raise `PolicyError`."""
    if isinstance(value, int) and abs(value) > 2**1000:
        raise PolicyError(
            f"{name} must be a number that fits in a float, got {name}={shown(value)}. "
            "Declare a smaller number."
        )
    # adding zero turns -0.0 into 0.0, so that equal policies have equal fingerprints
    return check_real(name, value, error=PolicyError, **limits) + 0.0


def checked_share(name: str, value: Any, remedy: str) -> float:
    """Return a declared number in [0, 1], or raise `PolicyError`."""
    return checked_number(name, value, lower=0.0, upper=1.0, remedy=remedy)


def checked_flag(name: str, value: Any) -> bool:
    """Return a declared true or false, or raise `PolicyError`."""
    if not isinstance(value, bool):
        raise PolicyError(
            f"{name} must be true or false, got {name}={shown(value)}. Declare one."
        )
    return value


def checked_text(name: str, value: Any) -> str:
    """Return a declared non-empty text without control characters, or raise."""
    if not isinstance(value, str) or not value or not is_plain(value):
        raise PolicyError(
            f"{name} must be a non-empty text without control characters, "
            f"got {shown(value)}. Declare one."
        )
    return value


def is_plain(text: str) -> bool:
    """Return whether a text has no control characters, so that it can be declared.

    Marks that begin a line, or turn the direction in which a text is read, are some.
    """
    return _CONTROL.search(text) is None
