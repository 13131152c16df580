"""From a raw column to its declared domain: clipped numbers, level indices.

A refusal names the column and the declared facts, never what the column held; it is
raised outside of `except` blocks so that no traceback carries a value either.
"""

from contextlib import suppress
from decimal import Decimal
from itertools import repeat
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrdp._frames import Column
from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import PolicyError
from corrdp.policy._domains import (
    BooleanDomain,
    CategoryDomain,
    Domain,
    NumberDomain,
    Replace,
    Slot,
    canonical_text,
)

_UNKNOWN = -1
_MISSING = -2
_BOOLEANS = {
    **dict.fromkeys(("false", "False", "FALSE", "0"), 0),
    **dict.fromkeys(("true", "True", "TRUE", "1"), 1),
}


class Coded(NamedTuple):
    """A column in its domain; where `missing` holds, the value is a placeholder."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]


def level_count(domain: Domain) -> int | None:
    """Return the number of levels at the declared resolution, without missing."""
    if isinstance(domain, NumberDomain):
        return domain.bins
    if isinstance(domain, CategoryDomain):
        return len(domain.levels) + domain.other
    return 2


def coded_numbers(name: str, domain: NumberDomain, column: Column) -> Coded:
    """Return the numbers of a column clipped to the declared bounds."""
    values = _as_floats(name, column)
    missing = np.isnan(values)
    if missing.any():
        fill = domain.lower / 2 + domain.upper / 2
        if isinstance(domain.missing, Replace):
            fill = float(domain.missing.value)
        values = np.where(missing, fill, values)
        missing = _treated(name, domain, missing)
    return Coded(np.clip(values, domain.lower, domain.upper), missing)


def coded_levels(
    name: str, domain: CategoryDomain | BooleanDomain, column: Column
) -> Coded:
    """Return the level index of each entry; ``other`` comes after the levels."""
    lookup = _lookup(domain)
    codes = _looked_up(lookup, column)
    missing = codes == _MISSING
    if missing.any():
        fill = 0
        if isinstance(domain.missing, Replace):
            fill = lookup[str(canonical_text(domain.missing.value))]
        codes[missing] = fill
        missing = _treated(name, domain, missing)
    unknown = codes == _UNKNOWN
    if unknown.any():
        codes[unknown] = _code_of_unknown(name, domain, lookup)
    return Coded(codes, missing)


def centered(domain: NumberDomain, values: FloatArray) -> FloatArray:
    """Map numbers inside the bounds to [-1/2, 1/2]."""
    unit = (values - domain.lower) / (domain.upper - domain.lower)
    return np.clip(unit - 0.5, -0.5, 0.5)


def binned(domain: NumberDomain, values: FloatArray) -> IntArray:
    """Map numbers inside the bounds to their equal-width bin."""
    n_bins = domain.bins or 1
    unit = (values - domain.lower) / (domain.upper - domain.lower)
    return np.minimum((unit * n_bins).astype(np.int64), n_bins - 1)


def _treated(
    name: str, domain: Domain, missing: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    if isinstance(domain.missing, Slot):
        return missing
    if isinstance(domain.missing, Replace):
        return np.zeros_like(missing)
    raise PolicyError(
        f"Column {name!r} has missing values and its policy refuses them. Declare "
        'missing = "slot" or a missing_value, or leave those rows out.'
    )


def _code_of_unknown(
    name: str, domain: CategoryDomain | BooleanDomain, lookup: dict[str, int]
) -> int:
    if isinstance(domain, BooleanDomain):
        raise PolicyError(
            f"Column {name!r} is declared boolean and holds something else than true, "
            "false, 1 or 0. Declare it as a category with its values."
        )
    if domain.other:
        return len(domain.levels)
    if isinstance(domain.unknown, Replace):
        return lookup[str(domain.unknown.value)]
    raise PolicyError(
        f"Column {name!r} holds a value outside its {len(domain.categories)} declared "
        "categories. Declare it, or declare other = true or unknown = a category. "
        "Numbers are compared by canonical text: 1.0 is '1'."
    )


def _lookup(domain: CategoryDomain | BooleanDomain) -> dict[str, int]:
    if isinstance(domain, BooleanDomain):
        return dict(_BOOLEANS)
    index = {level: code for code, level in enumerate(domain.levels)}
    return {category: index[level] for category, level in domain.merged.items()}


def _looked_up(lookup: dict[str, int], column: Column) -> IntArray:
    if isinstance(column, list):
        return _codes_of_objects(lookup, column)
    if column.dtype.kind == "b":
        pair = [lookup.get("false", _UNKNOWN), lookup.get("true", _UNKNOWN)]
        return np.asarray(pair, dtype=np.int64)[column.astype(np.int64)]
    if column.dtype == np.uint64:
        return _codes_of_objects(lookup, column.tolist())
    return _codes_of_numbers(lookup, column)


def _codes_of_numbers(lookup: dict[str, int], column: NDArray[Any]) -> IntArray:
    kind = np.float64 if column.dtype.kind == "f" else np.int64
    values = column.astype(kind)
    known = sorted(
        (number, code)
        for text, code in lookup.items()
        if (number := _number_of(text, kind)) is not None
    )
    codes = np.full(values.shape, _UNKNOWN, dtype=np.int64)
    if known:
        numbers = np.asarray([number for number, _ in known], dtype=kind)
        place = np.minimum(np.searchsorted(numbers, values), numbers.size - 1)
        found = numbers[place] == values
        codes[found] = np.asarray([code for _, code in known])[place[found]]
    if kind is np.float64:
        codes[np.isnan(values)] = _MISSING
    return codes


def _number_of(text: str, kind: type[np.float64] | type[np.int64]) -> Any:
    """Return the number whose canonical text this is, if it fits the kind."""
    try:
        number = float(text) if kind is np.float64 else int(text)
    except ValueError:
        return None
    if number != number or (kind is np.int64 and abs(number) >= 2**63):
        return None
    return number if canonical_text(number) == text else None


def _codes_of_objects(lookup: dict[str, int], values: list[Any]) -> IntArray:
    try:
        found = map(lookup.get, values, repeat(_UNKNOWN))
        codes = np.fromiter(found, dtype=np.int64, count=len(values))
    except TypeError:  # an entry that cannot be hashed
        codes = np.full(len(values), _UNKNOWN, dtype=np.int64)
    for row in np.flatnonzero(codes == _UNKNOWN):
        codes[row] = _code_of_object(lookup, values[row])
    return codes


def _code_of_object(lookup: dict[str, int], value: Any) -> int:
    if _is_missing(value):
        return _MISSING
    text = canonical_text(value)
    return _UNKNOWN if text is None else lookup.get(text, _UNKNOWN)


def _is_missing(value: Any) -> bool:
    if isinstance(value, Real | Decimal):
        return bool(value != value)
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def _as_floats(name: str, column: Column) -> FloatArray:
    if not isinstance(column, list):
        return column.astype(np.float64, copy=False)
    if set(map(type, column)) <= {float, int, bool}:
        with suppress(OverflowError):
            return np.asarray(column, dtype=np.float64)
    floats = np.empty(len(column), dtype=np.float64)
    for row, value in enumerate(column):
        if _is_missing(value):
            floats[row] = np.nan
        elif isinstance(value, Real | Decimal):
            floats[row] = _to_float(value)
        else:
            raise PolicyError(
                f"Column {name!r} is declared a number and holds something else. "
                "Convert it to numbers, or declare it as a category."
            )
    return floats


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
