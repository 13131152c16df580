"""Declared knowledge: combinations that never occur, columns that others determine."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from corrdp.exceptions import PolicyError
from corrdp.policy import BooleanDomain, CategoryDomain, Domain, NumberDomain
from corrdp.synthesis._columns import TableColumns
from corrdp.synthesis._junction_tree import Region, n_cells

Zeros = tuple[tuple[Region, np.ndarray], ...]


def structural_zeros(
    columns: TableColumns,
    *,
    impossible: Sequence[Mapping[str, Any]] = (),
    determines: Sequence[Mapping[str, Any]] = (),
    max_cells: int,
    is_saved: bool = False,
) -> Zeros:
    """Return the cells that never occur, by region.

    An entry of `impossible` maps columns to a value, a list of values, or for numbers
    ``(low, high)``: rows that match all of them never occur. One of `determines` has
    ``column``, ``gives`` and ``values``: a mapping from the value of the first column
    to the only value of the second. None may have more than `max_cells` cells, and an
    interval without any bin is refused: its rule would be ignored, as it once was, and
    is in models that were saved then (`is_saved`).
    """
    found: dict[Region, np.ndarray] = {}

    def add(region: Region, never: np.ndarray) -> None:
        if region in found:
            never = never | found[region]
        if never.all():
            raise PolicyError(
                f"the declared zeros leave no possible value of columns "
                f"{', '.join(columns.names[c] for c in region)}. Remove one of them."
            )
        found[region] = never

    def matches(name: str, value: Any) -> np.ndarray:
        hit = _matches(columns, name, value)
        if not hit.any() and not is_saved:
            raise _without_codes(columns, name, value)
        return hit

    for name, rules in (("impossible", impossible), ("determines", determines)):
        if not isinstance(rules, list | tuple):
            raise PolicyError(
                f"{name} must be a list of rules, got {name}={rules!r}. List them, "
                "one mapping each."
            )
    for rule in impossible:
        if not isinstance(rule, Mapping):
            raise PolicyError(
                f"an entry of impossible maps columns to values, got {rule!r}. Name "
                "the columns."
            )
        region = _region(columns, rule, max_cells)
        never = np.ones([columns.sizes[c] for c in region], dtype=bool)
        for axis, column in enumerate(region):
            name = columns.names[column]
            hit = matches(name, rule[name])
            shape = [1] * len(region)
            shape[axis] = hit.size
            never &= hit.reshape(shape)
        add(region, never)
    for rule in determines:
        _check_determines(rule)
        source, target = rule["column"], rule["gives"]
        region = _region(columns, {source: None, target: None}, max_cells)
        places = columns.index(source), columns.index(target)
        never = np.zeros([columns.sizes[place] for place in places], dtype=bool)
        for value, given in rule["values"].items():
            rows = matches(source, value)
            never[np.ix_(rows, ~matches(target, given))] = True
        add(region, never if places[0] < places[1] else never.T)
    return tuple(sorted(found.items(), key=lambda item: item[0]))


def _check_determines(rule: Any) -> None:
    shape = {"column": str, "gives": str, "values": Mapping}
    if (
        not isinstance(rule, Mapping)
        or set(rule) != set(shape)
        or not all(isinstance(rule[name], kind) for name, kind in shape.items())
        or not all(isinstance(value, str | int | float) for value in rule["values"])
    ):
        raise PolicyError(
            "an entry of determines has column, gives and values, which map what is in "
            f"the one to what is in the other, got {rule!r}. Declare the three."
        )


def _without_codes(columns: TableColumns, name: str, value: Any) -> PolicyError:
    domain = columns.domain(name)
    bins = "."
    if isinstance(domain, NumberDomain):
        edges = ", ".join(f"{edge:g}" for edge in domain.edges[:4])
        bins = f": its bins begin at {edges}, ... Widen it, or declare more bins."
    return PolicyError(
        f"a declared zero names {value!r} of {name!r}, which holds nothing that is "
        f"counted, so that it would not be kept, or says nothing{bins} Remove it "
        "otherwise."
    )


def _region(columns: TableColumns, rule: Mapping[str, Any], max_cells: int) -> Region:
    region = tuple(sorted(columns.index(name) for name in rule))
    if len(region) < 2 or n_cells(region, columns.sizes) > max_cells:
        raise PolicyError(
            f"a declared zero joins two columns or more with at most {max_cells} "
            f"cells, got {', '.join(map(repr, rule))}. Coarsen the columns, or name "
            "others."
        )
    return region


def _matches(columns: TableColumns, name: str, value: Any) -> np.ndarray:
    """Return which codes of a column a declared value stands for."""
    column = columns.index(name)
    hit = np.zeros(columns.sizes[column], dtype=bool)
    domain = columns.domain(name)
    if isinstance(domain, NumberDomain):
        hit[_bins_inside(name, domain, value)] = True
        return hit
    for single in value if isinstance(value, list | tuple) else [value]:
        hit[_code(name, domain, single)] = True
    return hit


def _bins_inside(name: str, domain: NumberDomain, value: Any) -> np.ndarray:
    is_interval = isinstance(value, list | tuple) and len(value) == 2
    if not is_interval or not all(isinstance(v, Real) for v in value):
        raise PolicyError(
            f"{name!r} is a number: declare the interval of its impossible values as "
            f"[low, high], got {value!r}."
        )
    edges = np.asarray(domain.edges)
    inside = (edges[:-1] >= value[0]) & (edges[1:] <= value[1])
    return np.flatnonzero(inside)


def _code(name: str, domain: Domain, value: Any) -> int:
    if isinstance(domain, BooleanDomain):
        # Keys of a TOML table are texts.
        known = {True: 1, False: 0, "true": 1, "false": 0}
        if isinstance(value, bool | str) and value in known:
            return known[value]
    if isinstance(domain, CategoryDomain) and str(value) in domain.merged:
        return domain.codes[str(value)]
    raise PolicyError(
        f"{value!r} is not a declared value of {name!r}. Name a category, or true "
        "or false."
    )
