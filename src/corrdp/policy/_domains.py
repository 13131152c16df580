"""Declared domains: what a column may hold, known before any row is read."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from corrdp._validate import check_count, shown
from corrdp.exceptions import PolicyError
from corrdp.policy._checks import checked_flag, checked_number, checked_text
from corrdp.tables import canonical_text


@dataclass(frozen=True, slots=True)
class Refuse:
    """A value that is not in the domain stops the run."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A missing value is encoded by a flag column of its own."""


@dataclass(frozen=True, slots=True)
class Replace:
    """A value that is not in the domain becomes one declared value of the domain."""

    value: float | str | bool


MissingTreatment: TypeAlias = Refuse | Slot | Replace
UnknownTreatment: TypeAlias = Refuse | Replace

_MOST_BINS = 1_000_000
_MOST_KNOTS = 64


def _declared_category(name: str, value: Any) -> str:
    text = None
    # NaN, infinity and numbers that no float holds are no categories.
    if not isinstance(value, int | float) or abs(value) <= 2**1000:
        text = canonical_text(value)
    if text == "":
        return ""  # the empty text is a category where it is declared
    return checked_text(name, value if text is None else text)


def _common_type(categories: Any) -> type:
    """Return the type that all declared categories have, text if there is none."""
    kinds = set(map(type, categories if isinstance(categories, list | tuple) else ()))
    if not kinds or not kinds <= {bool, int, float}:
        return str
    if bool in kinds:
        return bool if kinds == {bool} else str
    return int if kinds == {int} else float


def _checked_missing(missing: Any) -> None:
    if not isinstance(missing, Refuse | Slot | Replace):
        raise PolicyError(
            "missing must be Refuse(), Slot() or Replace(value), got "
            f"{shown(missing)}. Declare what happens to a missing value."
        )


@dataclass(frozen=True, slots=True)
class NumberDomain:
    """Numbers between two declared bounds; values outside are clipped to them.

    Parameters
    ----------
    lower, upper : float
        Bounds known without looking at the data, ``lower < upper``.
    bins : int, optional
        Equal-width bins over the bounds: the resolution at which leakage is counted.
    missing : Refuse, Slot or Replace
        What happens to a missing value; refused unless declared.
    knots : tuple of float, optional
        Where a curve over the number may bend: rising, from `lower` to `upper`. A
        number with knots is coded by hat functions beside its own column.
    joined : tuple of (first bin, last bin, value)
        Adjacent bins, counted from 0, that are one value: in the model, which sees
        `value` for all of them, as in leakage estimates.
    whole : bool
        Whether the numbers are whole: how synthetic rows and names of bins write them.
        Values are not rounded, and it has no part in comparisons and fingerprints.
    """

    lower: float
    upper: float
    bins: int | None = None
    missing: MissingTreatment = Refuse()
    knots: tuple[float, ...] | None = None
    joined: tuple[tuple[int, int, float], ...] = ()
    whole: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        lower = checked_number("bounds[0]", self.lower)
        upper = checked_number("bounds[1]", self.upper)
        if not lower < upper or not math.isfinite(upper - lower):
            raise PolicyError(
                "bounds must be [lower, upper] with lower < upper and a finite width, "
                f"got bounds=[{lower:g}, {upper:g}]. Put the smaller bound first."
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        if self.bins is not None:
            remedy = "Declare the number of equal-width bins."
            checked_number("bins", self.bins, lower=1, upper=_MOST_BINS, remedy=remedy)
            bins = check_count("bins", self.bins, remedy=remedy, error=PolicyError)
            object.__setattr__(self, "bins", bins)
        _checked_missing(self.missing)
        if isinstance(self.missing, Replace):
            value = checked_number(
                "missing_value",
                self.missing.value,
                lower=lower,
                upper=upper,
                remedy="Declare a replacement inside the bounds.",
            )
            object.__setattr__(self, "missing", Replace(value))
        if self.knots is not None:
            object.__setattr__(self, "knots", _checked_knots(self))
        object.__setattr__(self, "joined", self._checked_joined())
        checked_flag("whole", self.whole)

    @property
    def edges(self) -> tuple[float, ...]:
        """Ends of the bins in order, joined ones as one; needs `bins`."""
        edges = np.linspace(self.lower, self.upper, (self.bins or 1) + 1)
        inner = [
            b for first, last, _ in self.joined for b in range(first + 1, last + 1)
        ]
        return tuple(np.delete(edges, inner).tolist())

    @property
    def n_levels(self) -> int | None:
        """Number of bins, joined ones as one; None without bins."""
        if self.bins is None:
            return None
        return self.bins - sum(last - first for first, last, _ in self.joined)

    @property
    def steps(self) -> tuple[int, ...] | None:
        """The whole number in every bin, where each bin holds one; None elsewhere."""
        if not self.whole or self.bins is None or self.bins > self.upper - self.lower:
            return None
        edges = self.edges
        last = math.floor(self.upper) + 1  # the last bin is closed
        ends = [*map(math.ceil, edges[:-1]), last]
        if any(b - a != 1 for a, b in pairwise(ends)):
            return None
        return tuple(ends[:-1])

    def _checked_joined(self) -> tuple[tuple[int, int, float], ...]:
        declared: Any = self.joined
        if not isinstance(declared, list | tuple) or (declared and self.bins is None):
            raise PolicyError(
                f"joined must be a list of [first bin, last bin, value], and needs "
                f"bins, got joined={shown(declared)}. Declare bins, or remove it."
            )
        joined, earlier = [], -1
        for entry in declared:
            if not isinstance(entry, list | tuple) or len(entry) != 3:
                raise PolicyError(
                    "an entry of joined must be [first bin, last bin, value], got "
                    f"{shown(entry)}. Declare all three."
                )
            first, last = (
                check_count("bin of joined", place, lower=0, error=PolicyError)
                for place in entry[:2]
            )
            if not earlier < first < last < (self.bins or 0):
                raise PolicyError(
                    "joined must name rising, disjoint ranges of two bins or more, "
                    f"counted from 0 to {(self.bins or 0) - 1}, got "
                    f"joined={shown(declared)}. Correct the bins."
                )
            earlier = last
            value = checked_number("value of joined", entry[2])
            unit = (value - self.lower) / (self.upper - self.lower)
            if not first <= unit * (self.bins or 1) < last + 1:
                raise PolicyError(
                    f"the value of joined bins must lie inside them, got "
                    f"{shown(entry)}. Declare a value between their ends."
                )
            joined.append((first, last, value))
        return tuple(joined)


def _checked_knots(domain: NumberDomain) -> tuple[float, ...]:
    knots: Any = domain.knots
    if not isinstance(knots, list | tuple) or not 3 <= len(knots) <= _MOST_KNOTS:
        raise PolicyError(
            f"knots must be a list of 3 to {_MOST_KNOTS} numbers, got "
            f"knots={shown(knots)}. List where the curve may bend."
        )
    numbers = tuple(checked_number("knots", knot) for knot in knots)
    rising = all(a < b for a, b in pairwise(numbers))
    if not rising or (numbers[0], numbers[-1]) != (domain.lower, domain.upper):
        raise PolicyError(
            "knots must rise from the lower to the upper bound, got "
            f"knots={shown(knots)} for bounds=[{domain.lower:g}, {domain.upper:g}]. "
            "Begin and end with the bounds."
        )
    return numbers


@dataclass(frozen=True, slots=True)
class CategoryDomain:
    """A declared list of categories, compared by canonical text.

    Parameters
    ----------
    categories : tuple of str
        Every value that is accepted. Numbers and booleans are stored by their
        canonical text: 1 and 1.0 as ``"1"``, True as ``"true"``.
    other : bool
        Whether unknown values have a slot of their own.
    missing : Refuse, Slot or Replace
        What happens to a missing value; refused unless declared.
    unknown : Refuse or Replace
        What happens to a value that is not declared, unless `other` holds it.
    groups : tuple of (name, categories) pairs, or a mapping
        Categories merged into one level, in the model as in leakage estimates.
    value_type : type, optional
        How predictions write the categories: int, float, bool or str; by default as
        they are given here. It has no part in comparisons and fingerprints.
    joined : tuple of str
        Levels, which are categories or names of groups, that leakage estimates found
        thin and that are one level. What a cell is read as does not change, but for
        its code: joining comes after reading.
    joined_with_other : bool
        Whether they are one level with unknown values.
    """

    categories: tuple[str, ...]
    other: bool = False
    missing: MissingTreatment = Refuse()
    unknown: UnknownTreatment = Refuse()
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    value_type: type | None = field(default=None, compare=False, repr=False)
    joined: tuple[str, ...] = ()
    joined_with_other: bool = False

    def __post_init__(self) -> None:
        if self.value_type is None:
            object.__setattr__(self, "value_type", _common_type(self.categories))
        object.__setattr__(self, "categories", self._checked_categories())
        object.__setattr__(self, "groups", self._checked_groups())
        checked_flag("other", self.other)
        _checked_missing(self.missing)
        if isinstance(self.missing, Replace):
            self._check_replacement("missing", "missing_value")
        if isinstance(self.unknown, Replace):
            self._check_replacement("unknown", "unknown")
            if self.other:
                raise PolicyError(
                    "other = true and unknown are both declared, got "
                    f"unknown={shown(self.unknown.value)}. Keep one of them."
                )
        elif not isinstance(self.unknown, Refuse):
            raise PolicyError(
                f"unknown must be Refuse() or Replace(category), got "
                f"{shown(self.unknown)}. Declare what happens to an unknown value."
            )
        object.__setattr__(self, "joined", self._checked_joined())

    @property
    def merged(self) -> dict[str, str]:
        """Level of every declared category: its group's name, or itself."""
        level = {category: category for category in self.categories}
        for group, members in self.groups:
            level.update(dict.fromkeys(members, group))
        return level

    @property
    def apart(self) -> tuple[str, ...]:
        """Distinct levels before any are joined, in the order of their categories."""
        merged = self.merged
        return tuple(dict.fromkeys(merged[category] for category in self.categories))

    @property
    def levels(self) -> tuple[str, ...]:
        """Distinct levels, in the order of their first category; `other` is none."""
        joined = dict.fromkeys(self.joined, self._joined_name)
        if self.joined_with_other:
            return tuple(level for level in self.apart if level not in joined)
        return tuple(dict.fromkeys(joined.get(level, level) for level in self.apart))

    @property
    def codes(self) -> dict[str, int]:
        """Code of every text that is read as a level; names of groups are read, too.

        A joined level has a name as well, which is read where any other text would be
        refused: elsewhere it is an unknown value, as it was when levels were counted.
        """
        place = {level: code for code, level in enumerate(self.levels)}
        joined = (
            len(place) if self.joined_with_other else place.get(self._joined_name, 0)
        )
        code = {level: place.get(level, joined) for level in self.apart}
        codes = {category: code[level] for category, level in self.merged.items()}
        # Tables that were made with the policy hold names of groups.
        codes |= {group: code[group] for group, _ in self.groups}
        if self._reads_joined_name:
            codes[self._joined_name] = joined
        return codes

    @property
    def written(self) -> tuple[str, ...]:
        """Texts of the levels that are read as them: a member of joined ones."""
        if not self.joined or self._reads_joined_name:
            return self.levels
        member = next(level for level in self.apart if level in self.joined)
        one = self._joined_name
        return tuple(member if level == one else level for level in self.levels)

    @property
    def _reads_joined_name(self) -> bool:
        refuses = not self.other and isinstance(self.unknown, Refuse)
        return bool(self.joined) and refuses

    @property
    def _joined_name(self) -> str:
        name = f"{len(self.joined)} levels joined"
        while name in self.categories or name in dict(self.groups):
            name += "+"
        return name

    @property
    def values(self) -> tuple[int | float | bool | str, ...]:
        """Categories in the type in which they were declared."""
        if self.value_type is bool:
            return tuple(category == "true" for category in self.categories)
        convert = self.value_type or str
        return tuple(convert(category) for category in self.categories)

    def _checked_categories(self) -> tuple[str, ...]:
        declared: Any = self.categories
        if not isinstance(declared, list | tuple) or not declared:
            raise PolicyError(
                "categories must be a non-empty list, got "
                f"categories={shown(declared)}. List every value to accept."
            )
        texts = tuple(_declared_category("category", c) for c in declared)
        _refuse_repeats("categories", texts)
        return texts

    def _checked_groups(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        declared: Any = self.groups
        pairs = tuple(declared.items() if isinstance(declared, Mapping) else declared)
        groups, known = [], set(self.categories)
        for name, members in pairs:
            checked_text("group name", name)
            if not isinstance(members, list | tuple) or not members:
                raise PolicyError(
                    f"groups.{name} must be a non-empty list of categories, got "
                    f"{shown(members)}. List the categories to merge."
                )
            texts = tuple(_declared_category(f"groups.{name}", m) for m in members)
            for text in texts:
                if text not in known:
                    raise PolicyError(
                        f"groups.{name} names {shown(text)}, which is not among the "
                        "categories. Add it to categories or remove it."
                    )
            groups.append((name, texts))
        _refuse_repeats("members of groups", [m for _, texts in groups for m in texts])
        _refuse_repeats("group names", [name for name, _ in groups])
        members_of = dict(groups)
        for name in members_of:
            if name in self.categories and name not in members_of[name]:
                raise PolicyError(
                    f"groups.{name} has the name of a category outside the group. "
                    "Rename the group or add the category to it."
                )
        return tuple(groups)

    def _checked_joined(self) -> tuple[str, ...]:
        with_other = checked_flag("joined_with_other", self.joined_with_other)
        declared: Any = self.joined
        if not isinstance(declared, list | tuple):
            raise PolicyError(
                f"joined must be a list of levels, got joined={shown(declared)}. List "
                "categories, or names of groups."
            )
        joined = tuple(_declared_category("joined", level) for level in declared)
        _refuse_repeats("levels of joined", joined)
        apart = set(self.apart)
        for level in joined:
            if level not in apart:
                raise PolicyError(
                    f"joined names {shown(level)}, which is no level. Name a category "
                    "that is in no group, or a group."
                )
        if with_other and not (self.other and joined):
            raise PolicyError(
                "joined_with_other needs other = true and joined levels, got other="
                f"{self.other!r} and joined={shown(declared)}. Declare both."
            )
        if len(joined) == 1 and not with_other:
            raise PolicyError(
                f"joined must name two levels or more, got joined={shown(declared)}. "
                "Remove it, or name another."
            )
        return joined

    def _check_replacement(self, field: str, key: str) -> None:
        text = _declared_category(key, getattr(self, field).value)
        if text not in self.categories:
            raise PolicyError(
                f"{key} must be one of the categories, got {key}={shown(text)}. "
                "Name a declared category."
            )
        object.__setattr__(self, field, Replace(text))


@dataclass(frozen=True, slots=True)
class BooleanDomain:
    """True or false; data may also write 1 and 0, or true, True, TRUE and so on.

    Parameters
    ----------
    missing : Refuse, Slot or Replace
        What happens to a missing value; refused unless declared.
    digits : bool
        Whether synthetic rows write 1 and 0. It has no part in what is read, nor in
        comparisons and fingerprints.
    """

    missing: MissingTreatment = Refuse()
    digits: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        checked_flag("digits", self.digits)
        _checked_missing(self.missing)
        if isinstance(self.missing, Replace):
            checked_flag("missing_value", self.missing.value)


Domain: TypeAlias = NumberDomain | CategoryDomain | BooleanDomain


def _refuse_repeats(what: str, texts: Iterable[str]) -> None:
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise PolicyError(
                f"{what} must be distinct, got {shown(text)} twice. "
                "Numbers are compared by canonical text (1.0 is '1'). Remove one."
            )
        seen.add(text)
