"""From a raw column to its declared domain: clipped numbers, level indices.

What becomes of a cell depends on the cell and its domain, never on the type that the
column has in the table: other rows decide that type (docs/theory/encoder.md).
A refusal names the column and the declared facts, never what the column held; it is
raised outside of `except` blocks so that no traceback carries a value either.

Curves over numbers are hat functions on declared knots. Between two knots the code of a
number is the pair of weights that interpolates it, so a weighted sum of the code is a
broken line over the number. Hats are non-negative and add up to 1: a code lies in the
convex hull of the codes at the knots, which are the rows of an identity matrix, as the
levels of a category are.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import PolicyError
from corrdp.policy._domains import (
    BooleanDomain,
    CategoryDomain,
    Domain,
    NumberDomain,
    Replace,
    Slot,
)
from corrdp.policy._features import Feature
from corrdp.policy._policy import Policy
from corrdp.tables import (
    MISSING_TEXTS,
    Column,
    DistinctColumn,
    canonical_text,
    is_missing,
    loose_text,
    number_of,
)

_UNKNOWN = -1
_MISSING = -2
_BOOLEANS = {"false": 0, "0": 0, "true": 1, "1": 1}


class Coded(NamedTuple):
    """A column in its domain; where `missing` holds, the value is a placeholder."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]


def level_count(domain: Domain) -> int | None:
    """Return the number of levels at the declared resolution, without missing."""
    if isinstance(domain, NumberDomain):
        return domain.n_levels
    if isinstance(domain, CategoryDomain):
        return len(domain.levels) + domain.other
    return 2


class _Lookup(NamedTuple):
    """Codes of declared texts, and of the numbers that they spell."""

    exact: dict[str, int]
    loose: dict[str, int]


def coded_numbers(
    name: str, domain: NumberDomain, column: Column | DistinctColumn
) -> Coded:
    """Return the numbers of a column clipped to the declared bounds.

    A cell that says no number is missing. Numbers of joined bins are one number.
    """
    if isinstance(column, DistinctColumn):
        return _coded_once(column, lambda cells: coded_numbers(name, domain, cells))
    values = as_floats(column)
    missing = np.isnan(values)
    if missing.any():
        fill = domain.lower / 2 + domain.upper / 2
        if isinstance(domain.missing, Replace):
            fill = float(domain.missing.value)
        values = np.where(missing, fill, values)
        missing = _treated(name, domain, missing)
    values = np.clip(values, domain.lower, domain.upper)
    return Coded(_as_one(domain, values), missing)


def coded_levels(
    name: str,
    domain: CategoryDomain | BooleanDomain,
    column: Column | DistinctColumn,
) -> Coded:
    """Return the level index of each entry; ``other`` comes after the levels.

    A cell of a boolean column that is neither true nor false is missing.
    """
    if isinstance(column, DistinctColumn):
        return _coded_once(column, lambda cells: coded_levels(name, domain, cells))
    lookup = _lookup(domain)
    codes = _looked_up(lookup, column)
    if isinstance(domain, BooleanDomain):
        codes[codes == _UNKNOWN] = _MISSING
    missing = codes == _MISSING
    if missing.any():
        fill = 0
        if isinstance(domain.missing, Replace):
            fill = lookup.exact[str(canonical_text(domain.missing.value))]
        codes[missing] = fill
        missing = _treated(name, domain, missing)
    unknown = codes == _UNKNOWN
    if isinstance(domain, CategoryDomain) and unknown.any():
        codes[unknown] = _code_of_unknown(name, domain, lookup)
    return Coded(codes, missing)


def _coded_once(column: DistinctColumn, coded: Callable[[list[Any]], Coded]) -> Coded:
    """Code each distinct cell that some row holds, then put the codes in place."""
    used = np.flatnonzero(np.bincount(column.places, minlength=len(column.values)))
    found = coded([column.values[place] for place in used])
    values = np.zeros(len(column.values), dtype=found.values.dtype)
    missing = np.zeros(len(column.values), dtype=np.bool_)
    values[used], missing[used] = found.values, found.missing
    return Coded(values[column.places], missing[column.places])


def centered(domain: NumberDomain, values: FloatArray) -> FloatArray:
    """Map numbers inside the bounds to [-1/2, 1/2]."""
    unit = (values - domain.lower) / (domain.upper - domain.lower)
    return np.clip(unit - 0.5, -0.5, 0.5)


def binned(domain: NumberDomain, values: FloatArray) -> IntArray:
    """Map numbers inside the bounds to their equal-width bin, joined ones to one."""
    places = _places(domain, values)
    for first, last, _ in reversed(domain.joined):
        after = np.where(places > last, places - (last - first), places)
        places = np.where((places >= first) & (places <= last), first, after)
    return places


def _as_one(domain: NumberDomain, values: FloatArray) -> FloatArray:
    """Give all numbers of joined bins their one value."""
    if not domain.joined:
        return values
    places = _places(domain, values)
    for first, last, value in domain.joined:
        values = np.where((places >= first) & (places <= last), value, values)
    return values


def _places(domain: NumberDomain, values: FloatArray) -> IntArray:
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
    odd = ""
    if isinstance(domain, NumberDomain):
        odd = " or cells that are not numbers,"
    elif isinstance(domain, BooleanDomain):
        odd = " or cells that are not boolean (true, false, 1, 0),"
    raise PolicyError(
        f"Column {name!r} has missing values{odd} and its policy refuses them. Declare "
        'missing = "slot" or a missing_value. Convert those cells, or leave their '
        "rows out."
    )


def _code_of_unknown(name: str, domain: CategoryDomain, lookup: _Lookup) -> int:
    if domain.other:
        return len(domain.levels)
    if isinstance(domain.unknown, Replace):
        return lookup.exact[str(domain.unknown.value)]
    raise PolicyError(
        f"Column {name!r} holds a value outside its {len(domain.categories)} declared "
        "categories. Declare it, or declare other = true or unknown = a category. "
        "Numbers are compared by canonical text: 1.0 is '1'."
    )


def _lookup(domain: CategoryDomain | BooleanDomain) -> _Lookup:
    if isinstance(domain, BooleanDomain):
        return _Lookup(_BOOLEANS, _BOOLEANS)
    exact = domain.codes
    loose: dict[str, int] = {}
    for category in exact:
        loose.setdefault(loose_text(category), exact[category])
    return _Lookup(exact, loose | {c: exact[c] for c in exact if loose_text(c) == c})


def _looked_up(lookup: _Lookup, column: Column) -> IntArray:
    if isinstance(column, list):
        return _codes_of_objects(lookup, column)
    values, places = np.unique(column, return_inverse=True)
    # Numbers that no category spells are most of a column of many, and cost no look.
    spelled = [number_of(text) for text in lookup.loose]
    near = np.isin(values.astype(np.float64), spelled) | (values != values)
    codes = np.full(values.shape, _UNKNOWN, dtype=np.int64)
    codes[near] = _codes_of_objects(lookup, values[near].tolist())
    return codes[places]


def _codes_of_objects(lookup: _Lookup, values: list[Any]) -> IntArray:
    try:
        found = map(lookup.exact.get, values, repeat(_UNKNOWN))
        codes = np.fromiter(found, dtype=np.int64, count=len(values))
    except TypeError:  # an entry that cannot be hashed
        codes = np.full(len(values), _UNKNOWN, dtype=np.int64)
    for row in np.flatnonzero(codes == _UNKNOWN):
        codes[row] = _code_of_object(lookup, values[row])
    return codes


def _code_of_object(lookup: _Lookup, value: Any) -> int:
    if is_missing(value):
        return _MISSING
    text = canonical_text(value)
    if text is None:
        return _UNKNOWN
    if text in lookup.exact:
        return lookup.exact[text]
    if text in MISSING_TEXTS:
        return _MISSING
    return lookup.loose.get(loose_text(text), _UNKNOWN)


def as_floats(column: Column) -> FloatArray:
    """Return the number that each cell says, NaN where it says none."""
    if not isinstance(column, list):
        return column.astype(np.float64, copy=False)
    if set(map(type, column)) <= {float, int, bool}:
        with suppress(OverflowError):
            return np.asarray(column, dtype=np.float64)
    return np.fromiter(map(number_of, column), dtype=np.float64, count=len(column))


_FRACTIONS = 4096.0  # weights are whole parts of this, so that pairs add up exactly


def hat_codes(knots: Sequence[float], values: FloatArray) -> FloatArray:
    """Return the weight of every knot for every value, shape (n_values, n_knots).

    Values beyond the first or the last knot count as that knot.

    Guarantee
    ---------
    The code of a value is a function of that value and of the knots, has at most two
    non-zero entries, next to each other, and adds up to 1 exactly
    (`docs/theory/additive.md`, Lemma 1).
    """
    places = np.asarray(knots, dtype=np.float64)
    inside = np.clip(np.nan_to_num(values), places[0], places[-1])
    left = np.searchsorted(places, inside, side="right") - 1
    left = np.clip(left, 0, places.size - 2)
    width = places[left + 1] - places[left]
    second = np.rint((inside - places[left]) / width * _FRACTIONS) / _FRACTIONS
    codes = np.zeros((inside.size, places.size))
    rows = np.arange(inside.size)
    codes[rows, left] = 1.0 - second
    codes[rows, left + 1] = second
    return codes


def knots_of(feature: Feature) -> tuple[float, ...]:
    """Return the knots of a number that is coded with a curve; of others, none."""
    domain = feature.domain
    return (domain.knots or ()) if isinstance(domain, NumberDomain) else ()


def knot_positions(feature: Feature) -> tuple[float, ...]:
    """Return the code of a number, in [-1/2, 1/2], at each of its knots."""
    domain = feature.domain
    assert isinstance(domain, NumberDomain)  # others have no knots
    knots = np.array(knots_of(feature))
    return tuple(centered(domain, knots).tolist())


def even_knots(domain: NumberDomain, n_knots: int) -> tuple[float, ...]:
    """Return knots at equal distances between the bounds."""
    inner = np.linspace(domain.lower, domain.upper, n_knots)[1:-1]
    return (domain.lower, *inner.tolist(), domain.upper)


def with_knots(
    policy: Policy, choose: Callable[[Feature], Sequence[float] | None]
) -> Policy:
    """Return the policy with knots for its numbers; those that it declares stay.

    What `choose` returns for a number must be public; None is for no knots.
    """

    def curved(feature: Feature, domain: NumberDomain) -> NumberDomain:
        knots = choose(feature) if domain.knots is None else domain.knots
        return domain if knots is None else replace(domain, knots=tuple(knots))

    return _with_numbers(policy, curved)


def without_knots(policy: Policy) -> Policy:
    """Return the policy with numbers as straight lines, whatever it declares."""
    return _with_numbers(policy, lambda _, domain: replace(domain, knots=None))


def _with_numbers(
    policy: Policy, change: Callable[[Feature, NumberDomain], NumberDomain]
) -> Policy:
    features = tuple(
        replace(feature, domain=change(feature, feature.domain))
        if isinstance(feature.domain, NumberDomain)
        else feature
        for feature in policy.features
    )
    return replace(policy, features=features)
