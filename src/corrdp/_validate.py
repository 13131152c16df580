"""Range checks with one wording: what was wrong, the value seen, what to do.

The values checked here are parameters that a caller chose, never data, so they may
appear in messages.
"""

import math
import reprlib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp.exceptions import BudgetError, CorrDPError

MOST = 2**63 - 1
"""Counts beyond it are no counts: nothing here could hold or price them."""


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def _as_float(value: Any) -> float:
    """Return a real number as a float, or NaN for what a float cannot hold."""
    if type(value) is float:  # nearly always, and plans check some ten thousand
        return value
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def shown(value: Any) -> str:
    """Return a short text of a chosen value, for messages; of rows, their type alone.

    Very long numbers are told by their length.
    """
    if isinstance(value, int) and abs(value) >= 10**100:
        return f"a whole number of {value.bit_length()} bits"
    if getattr(value, "shape", ()) != ():
        return type(value).__name__
    return _SHORT.repr(value)


def check_real(
    name: str,
    value: Any,
    *,
    lower: float = -math.inf,
    upper: float = math.inf,
    open_lower: bool = False,
    open_upper: bool = False,
    allow_infinite: bool = False,
    remedy: str = "",
    error: type[CorrDPError] = CorrDPError,
) -> float:
    """Return `value` as a float inside the interval, or raise `error`."""
    number = _as_float(value)
    fits = (
        not math.isnan(number)
        and (math.isfinite(number) or allow_infinite)
        and (number > lower if open_lower else number >= lower)
        and (number < upper if open_upper else number <= upper)
    )
    if not fits:
        interval = (
            f"{'(' if open_lower or lower == -math.inf else '['}{lower:g}, "
            f"{upper:g}{')' if open_upper or upper == math.inf else ']'}"
        )
        finite = "" if allow_infinite else "finite "
        raise error(
            f"{name} must be a {finite}number in {interval}, got "
            f"{name}={shown(value)}." + (f" {remedy}" if remedy else "")
        )
    return number


def check_count(
    name: str,
    value: Any,
    *,
    lower: int = 1,
    remedy: str = "",
    error: type[CorrDPError] = CorrDPError,
) -> int:
    """Return `value` as an int not below `lower`, or raise `error`."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not is_whole or not lower <= int(value) <= MOST:
        most = f" and at most {MOST}" if is_whole and int(value) > MOST else ""
        raise error(
            f"{name} must be a whole number of at least {lower}{most}, got "
            f"{name}={shown(value)}." + (f" {remedy}" if remedy else "")
        )
    return int(value)


def check_choice(
    name: str,
    value: Any,
    choices: Iterable[str],
    *,
    remedy: str = "Choose one.",
    error: type[CorrDPError] = CorrDPError,
) -> Any:
    """Return `value` if it is one of the words, or raise `error`."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        raise error(
            f"{name} must be one of {', '.join(words)}, got {name}={shown(value)}. "
            f"{remedy}"
        )
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return True or False, or raise: any text, "no" too, would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise CorrDPError(
            f"{name} must be True or False, got {name}={shown(value)}. Choose one."
        )
    return bool(value)


def check_epsilon(epsilon: Any, *, name: str = "epsilon") -> float:
    """Return a positive finite epsilon, or raise `BudgetError`."""
    if epsilon is None:
        raise BudgetError(
            f"{name} is None: a budget is chosen, never inherited. "
            f"Pass one, for example {name}=1.0."
        )
    return check_real(
        name,
        epsilon,
        lower=0.0,
        open_lower=True,
        remedy=f"Choose a budget, for example {name}=1.0.",
        error=BudgetError,
    )


def check_delta(delta: Any, *, name: str = "delta", allow_zero: bool = False) -> float:
    """Return a delta in (0, 1), or [0, 1) if zero is allowed, or raise."""
    if delta is None:
        raise BudgetError(
            f"{name} is None: a budget is chosen, never inherited. "
            f"Pass one well below 1 / rows, for example {name}=1e-6."
        )
    return check_real(
        name,
        delta,
        lower=0.0,
        upper=1.0,
        open_lower=not allow_zero,
        open_upper=True,
        remedy=f"Choose a small probability, for example {name}=1e-6.",
        error=BudgetError,
    )


def check_failure_probability(value: Any) -> float:
    """Return a probability strictly between 0 and 1, or raise."""
    return check_real(
        "failure_probability",
        value,
        lower=0.0,
        upper=1.0,
        open_lower=True,
        open_upper=True,
        remedy="Choose a small probability, for example 1e-3.",
    )


def check_nonnegative_array(
    name: str,
    values: Any,
    *,
    ndim: int,
    allow_infinite: bool = False,
    error: type[CorrDPError] = CorrDPError,
) -> FloatArray:
    """Return `values` as a float array without NaN or negative entries, or raise."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(
            f"{name} must be an array of numbers, got {type(values).__name__}. "
            f"Pass {ndim} dimension(s) of non-negative numbers."
        ) from None
    if array.ndim != ndim:
        raise error(
            f"{name} must have {ndim} dimension(s), got shape {array.shape}. "
            f"Reshape it before the call."
        )
    # False for NaN too.
    if array.size and array.min() >= 0 and (allow_infinite or array.max() < np.inf):
        return array
    wrong = np.isnan(array) | (array < 0) | (np.isinf(array) & (not allow_infinite))
    if wrong.any():
        where = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise error(
            f"{name} must hold non-negative finite numbers, got "
            f"{float(array[where])!r} at index {where}. Correct that entry."
        )
    return array
