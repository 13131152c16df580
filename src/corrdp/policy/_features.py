"""Columns of a policy: role, domain, and what a change of the column gives away."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from corrdp._validate import shown
from corrdp.exceptions import PolicyError
from corrdp.policy._checks import checked_choice, checked_share, checked_text
from corrdp.policy._domains import (
    BooleanDomain,
    CategoryDomain,
    Domain,
    NumberDomain,
    Slot,
)


class ColumnRole(StrEnum):
    """What a policy says of a feature."""

    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"
    PUBLIC = "public"


class NeighborRelation(StrEnum):
    """How many insensitive features of a record may change at once."""

    ONE_INSENSITIVE = "one_insensitive"
    ALL_INSENSITIVE = "all_insensitive"


class LabelJoining(StrEnum):
    """Along with which columns a protected label may change.

    ``sensitive``: the label is one more sensitive feature. ``every``: it may change
    along with every class, which is stricter and leaves little to gain.
    """

    SENSITIVE = "sensitive"
    EVERY = "every"


class Conditioning(StrEnum):
    """What leakage conditions on: the changed features, or any set (Def. 2.5)."""

    MARGINAL = "marginal"
    DEFINITION = "definition"


def _check_domain(owner: str, domain: Any) -> None:
    if not isinstance(domain, NumberDomain | CategoryDomain | BooleanDomain):
        raise PolicyError(
            f"{owner}: domain must be a NumberDomain, CategoryDomain or BooleanDomain, "
            f"got {shown(domain)}. Declare what the column may hold."
        )


@dataclass(frozen=True, slots=True)
class Feature:
    """One raw feature.

    Parameters
    ----------
    name : str
        Column name in the table.
    role : ColumnRole
        Sensitive features are protected at the full budget, insensitive ones at the
        budget divided by their distance, public ones not at all.
    domain : NumberDomain, CategoryDomain or BooleanDomain
        What the column may hold.
    leakage : float, optional
        Declared upper bound in [0, 1] on what the column, taken alone, tells about
        the sensitive features. Only for insensitive features.
    score : float
        Sensitivity in its own right, in [0, 1]; 1 is fully sensitive. Only for
        insensitive features (a sensitive one may repeat its 1).
    """

    name: str
    role: ColumnRole
    domain: Domain
    leakage: float | None = None
    score: float = 0.0

    def __post_init__(self) -> None:
        checked_text("feature name", self.name)
        owner = f"features.{self.name}"
        role = checked_choice(f"{owner}.role", self.role, ColumnRole)
        object.__setattr__(self, "role", role)
        _check_domain(owner, self.domain)
        if self.leakage is not None:
            remedy = "Declare a total variation distance."
            leakage = checked_share(f"{owner}.leakage", self.leakage, remedy)
            object.__setattr__(self, "leakage", leakage)
            if role is not ColumnRole.INSENSITIVE:
                raise PolicyError(
                    f"{owner}.leakage={leakage:g} is declared for a {role} feature. "
                    "Only insensitive features have a leakage: remove it."
                )
        remedy = "Declare 0 (insensitive) to 1 (fully sensitive)."
        score = checked_share(f"{owner}.score", self.score, remedy)
        object.__setattr__(self, "score", score)
        allowed = {ColumnRole.SENSITIVE: {0.0, 1.0}, ColumnRole.PUBLIC: {0.0}}
        if role in allowed and score not in allowed[role]:
            raise PolicyError(
                f"{owner}.score={score:g} contradicts role={role.value!r}. "
                "Declare the role insensitive, or remove the score."
            )

    @property
    def known_leakage(self) -> float | None:
        """Leakage as declared, or 0 where every value has one code; None otherwise.

        Guarantee
        ---------
        Tables that differ in a column of one code are encoded alike, so that whatever
        is released from codes has the same law on both: the distance 0 needs no
        estimate and no assumption (docs/theory/neighbors.md, "A column of one value").
        """
        if self.leakage is None and self.role is ColumnRole.INSENSITIVE:
            return 0.0 if self.has_one_code else None
        return self.leakage

    @property
    def has_one_code(self) -> bool:
        """Whether all that the domain accepts is coded alike.

        A number of one bin is not: models read the number itself.
        """
        domain = self.domain
        if not isinstance(domain, CategoryDomain):
            return False
        has_slot = domain.other or isinstance(domain.missing, Slot)
        return len(domain.levels) == 1 and not has_slot


@dataclass(frozen=True, slots=True)
class Label:
    """The target column.

    Parameters
    ----------
    name : str
        Column name in the table.
    domain : NumberDomain, CategoryDomain or BooleanDomain
        What the label may hold; a missing slot is refused.
    score : float
        Protection of the label in [0, 1]: 0 is public, 1 is fully sensitive. There
        is no default, because either choice would be a promise nobody made.
    joins : LabelJoining, optional
        At score 1 the label is one more ``sensitive`` feature by default, or joins
        ``every`` class. Scores in between always join every class.
    """

    name: str
    domain: Domain
    score: float
    joins: LabelJoining | None = None

    def __post_init__(self) -> None:
        checked_text("target", self.name)
        _check_domain("label", self.domain)
        if isinstance(self.domain.missing, Slot):
            raise PolicyError(
                'label.missing="slot" is declared, but a label has no flag column. '
                "Declare missing_value, or leave missing labels refused."
            )
        remedy = "Declare 0 (labels are public) to 1 (fully sensitive)."
        score = checked_share("label.score", self.score, remedy)
        object.__setattr__(self, "score", score)
        joins = LabelJoining.SENSITIVE if score == 1.0 else LabelJoining.EVERY
        if self.joins is not None:
            declared = checked_choice("label.joins", self.joins, LabelJoining)
            if score == 0.0 or (score < 1.0 and declared is not joins):
                raise PolicyError(
                    f"label.joins={declared.value!r} is declared for label.score="
                    f"{score:g}. Only a label of score 1 has a choice: remove it."
                )
            joins = declared
        object.__setattr__(self, "joins", joins if score > 0.0 else None)

    @property
    def is_protected(self) -> bool:
        """Whether a change of the label is protected at all."""
        return self.score > 0.0

    @property
    def is_sensitive(self) -> bool:
        """Whether the label is one more sensitive feature."""
        return self.joins is LabelJoining.SENSITIVE


def number_columns(columns: Iterable[Feature | Label]) -> list[str]:
    """Return the names of the columns declared numbers, as readers of files ask."""
    return [c.name for c in columns if isinstance(c.domain, NumberDomain)]
