"""The policy: every public fact that a privacy promise rests on."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import tomlkit

from corrdp._display import html_card
from corrdp._names import did_you_mean
from corrdp._typing import JSONObject
from corrdp._validate import check_count, shown
from corrdp.exceptions import PolicyError
from corrdp.policy._checks import (
    checked_choice,
    checked_number,
    checked_share,
    checked_text,
)
from corrdp.policy._document import (
    parse_toml,
    policy_arguments,
    policy_document,
    read_text,
)
from corrdp.policy._domains import NumberDomain, Replace
from corrdp.policy._features import (
    ColumnRole,
    Conditioning,
    Feature,
    Label,
    NeighborRelation,
)

_SHOWN = 5  # fields that a refusal names


@dataclass(frozen=True, slots=True)
class Policy:
    """Who is protected from what: features, label, neighbor relation, distances.

    Parameters
    ----------
    features : tuple of Feature
        Raw features in the order in which they are encoded.
    label : Label, optional
        The target, if there is one.
    relation : NeighborRelation
        Whether insensitive features change one at a time or all together.
    conditioning : Conditioning
        What leakage conditions on; stated on certificates.
    distance_floor : float
        Distances below it are raised to it; in (0, 1].
    epsilon_cap : float
        No class is promised an epsilon above it, unless the budget itself is.
    block_leakage : float, optional
        Declared upper bound in [0, 1] on what all insensitive features together tell
        about the sensitive ones; read under ``all_insensitive`` only.
    unconfirmed : tuple of str
        Fields, such as ``features.age.bounds``, that were read from data and that
        nobody has confirmed yet.
    unit : str, optional
        Column that says whose row it is, where one person has several rows: all rows
        of a unit are protected together. The number of units is public, how many rows
        each has is not.
    max_rows : int, optional
        Rows of a unit that are used, its first ones; declared along with `unit`.
    """

    features: tuple[Feature, ...]
    label: Label | None = None
    relation: NeighborRelation = field(
        default=NeighborRelation.ONE_INSENSITIVE, kw_only=True
    )
    conditioning: Conditioning = field(default=Conditioning.MARGINAL, kw_only=True)
    distance_floor: float = field(default=0.01, kw_only=True)
    epsilon_cap: float = field(default=10.0, kw_only=True)
    block_leakage: float | None = field(default=None, kw_only=True)
    unconfirmed: tuple[str, ...] = field(default=(), kw_only=True)
    unit: str | None = field(default=None, kw_only=True)
    max_rows: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_columns()
        checked: dict[str, Any] = {
            "features": tuple(self.features),
            "relation": checked_choice("relation", self.relation, NeighborRelation),
            "conditioning": checked_choice(
                "conditioning", self.conditioning, Conditioning
            ),
            "distance_floor": checked_number(
                "distance_floor",
                self.distance_floor,
                lower=0.0,
                open_lower=True,
                upper=1.0,
                remedy="Declare a small distance, for example 0.01.",
            ),
            "epsilon_cap": checked_number(
                "epsilon_cap",
                self.epsilon_cap,
                lower=0.0,
                open_lower=True,
                remedy="Declare the largest epsilon of any class, for example 10.",
            ),
        }
        if self.block_leakage is not None:
            remedy = "Declare a total variation distance."
            checked["block_leakage"] = checked_share(
                "block_leakage", self.block_leakage, remedy
            )
        if not isinstance(self.unconfirmed, list | tuple):
            raise PolicyError(
                "unconfirmed must be a list of field names, got "
                f"unconfirmed={shown(self.unconfirmed)}. Declare a list, or remove it."
            )
        checked["unconfirmed"] = tuple(
            checked_text("entry of unconfirmed", entry) for entry in self.unconfirmed
        )
        checked |= self._checked_unit()
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Names of the sensitive features."""
        return self._names(ColumnRole.SENSITIVE)

    @property
    def insensitive(self) -> tuple[str, ...]:
        """Names of the insensitive features."""
        return self._names(ColumnRole.INSENSITIVE)

    @property
    def unknown_leakages(self) -> tuple[str, ...]:
        """Names of the insensitive features whose leakage is yet to be found."""
        return tuple(
            feature.name
            for feature in map(self.feature, self.insensitive)
            if feature.known_leakage is None and feature.score < 1.0
        )

    @property
    def public(self) -> tuple[str, ...]:
        """Names of the public features."""
        return self._names(ColumnRole.PUBLIC)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Names of all columns that no class changes: public ones, a public label."""
        if self.label is None or self.label.is_protected:
            return self.public
        return (*self.public, self.label.name)

    @property
    def columns(self) -> tuple[Feature | Label, ...]:
        """All declared columns: the features, then the label if there is one."""
        return self.features if self.label is None else (*self.features, self.label)

    @property
    def label_is_protected(self) -> bool:
        """Whether there is a label and a change of it is protected."""
        return self.label is not None and self.label.is_protected

    def leakage_view(self) -> "Policy":
        """Return the policy whose sensitive features leakage is about.

        A label that is one more sensitive feature is one of them; otherwise this is
        the policy itself.
        """
        label = self.label
        if label is None or not label.is_sensitive:
            return self
        own = Feature(label.name, ColumnRole.SENSITIVE, label.domain)
        return replace(self, features=(*self.features, own), label=None)

    def feature(self, name: str) -> Feature:
        """Return the feature of that name, or raise `PolicyError`."""
        for feature in self.features:
            if feature.name == name:
                return feature
        names = [feature.name for feature in self.features]
        raise PolicyError(
            f"The policy has no feature {shown(name)}.{did_you_mean(name, names)} Its "
            f"features are: {', '.join(names)}."
        )

    @classmethod
    def from_file(cls, path: str | Path) -> "Policy":
        """Read a policy from a TOML file."""
        return cls.from_toml(read_text(path))

    @classmethod
    def from_toml(cls, text: str) -> "Policy":
        """Read a policy from TOML text."""
        return cls.from_dict(parse_toml(text))

    @classmethod
    def from_dict(cls, document: JSONObject) -> "Policy":
        """Read a policy from the nested table that `to_dict` returns."""
        return cls(**policy_arguments(document))

    def to_file(self, path: str | Path) -> None:
        """Write the policy as a TOML file; an existing file is replaced."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def to_toml(self) -> str:
        """Return the policy as TOML text, equal after a round trip."""
        return tomlkit.dumps(self.to_dict())

    def to_dict(self) -> JSONObject:
        """Return the policy as a nested table of JSON values."""
        return policy_document(self)

    def _repr_html_(self) -> str:
        rows = [
            (
                f.name,
                f.role.value,
                type(f.domain).__name__.removesuffix("Domain"),
                f.leakage,
            )
            for f in self.features
        ]
        target = "no label" if self.label is None else f"label {self.label.name}"
        protected = "protected" if self.label_is_protected else "not protected"
        return html_card(
            "Policy",
            [f"relation {self.relation}, {target} ({protected})"],
            ("feature", "role", "type", "leakage"),
            rows,
        )

    def fingerprint(self) -> str:
        """Return a SHA-256 of the policy that ignores the order of features."""
        document = policy_document(self, as_declared=False)
        # Not `corrdp._json.digest`, which leaves letters beyond ASCII as they are:
        # certificates and ledgers hold fingerprints of policies with such names.
        text = json.dumps(
            document, sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def is_within(self, declared: "Policy") -> bool:
        """Return whether this is `declared`, but for narrower bounds of numbers.

        What replaces a missing number may have been cut along with the others.
        """
        if len(self.features) != len(declared.features):
            return False
        pairs = zip(self.features, declared.features, strict=True)
        widened = tuple(
            replace(own, domain=other.domain)
            if _lies_within(own.domain, other.domain)
            else own
            for own, other in pairs
        )
        return replace(self, features=widened) == declared

    def with_leakage(self, leakage: Mapping[str, float] | float) -> "Policy":
        """Return a copy that declares other leakages.

        Parameters
        ----------
        leakage : mapping of str to float, or float
            One value per insensitive feature named, or one for the whole block.
        """
        if not isinstance(leakage, Mapping):
            return replace(self, block_leakage=leakage)
        for name in leakage:
            self.feature(name)
        return replace(
            self,
            features=tuple(
                replace(feature, leakage=leakage[feature.name])
                if feature.name in leakage
                else feature
                for feature in self.features
            ),
        )

    def require_confirmed(self) -> None:
        """Raise `PolicyError` if a field read from data awaits confirmation."""
        if self.unconfirmed:
            shown, more = self.unconfirmed[:_SHOWN], len(self.unconfirmed) - _SHOWN
            raise PolicyError(
                "The policy holds values that were read from data and are not "
                f"confirmed: {', '.join(shown)}{f' and {more} more' * (more > 0)}. "
                "Check that each could be known without the data, correct the file "
                "where needed, then confirm them (corrdp confirm FILE --all) or remove "
                "them from unconfirmed."
            )

    def require_single_rows(self, what: str) -> None:
        """Raise if units have several rows, of which `what` protects single ones."""
        if self.unit is not None:
            raise PolicyError(
                f"The policy protects all rows of one {self.unit!r} together, and "
                f"{what} protects single rows. Ask queries about this table, or bring "
                "it to one row per unit and declare a policy without unit."
            )

    def _checked_unit(self) -> dict[str, Any]:
        if (self.unit is None) != (self.max_rows is None):
            raise PolicyError(
                f"unit and max_rows are declared together, got unit={shown(self.unit)} "
                f"and max_rows={shown(self.max_rows)}. Declare both, or neither."
            )
        if self.unit is None:
            return {}
        unit = checked_text("unit", self.unit)
        if unit in (column.name for column in self.columns):
            raise PolicyError(
                f"unit={unit!r} is declared as a feature or the target as well. A unit "
                "says whose row it is and is never released: remove its feature."
            )
        if not self.sensitive:
            raise PolicyError(
                f"unit={unit!r} is declared without a sensitive feature, so that no "
                "class would protect how many rows a unit has. Declare one."
            )
        return {
            "unit": unit,
            "max_rows": check_count("max_rows", self.max_rows, error=PolicyError),
        }

    def _names(self, role: ColumnRole) -> tuple[str, ...]:
        return tuple(f.name for f in self.features if f.role is role)

    def _check_columns(self) -> None:
        features: Any = self.features
        if isinstance(features, list | tuple) and not features:
            raise PolicyError(
                "the policy declares no features, got features=(). Declare each "
                "feature, as [features.name]."
            )
        if not isinstance(features, list | tuple) or not all(
            isinstance(feature, Feature) for feature in features
        ):
            raise PolicyError(
                "features must be a non-empty tuple of Feature, got "
                f"features={shown(features)}. Declare each feature once."
            )
        if self.label is not None and not isinstance(self.label, Label):
            raise PolicyError(
                f"label must be a Label or None, got {shown(self.label)}. "
                "Declare the target's domain and score."
            )
        for name, count in Counter(column.name for column in self.columns).items():
            if count > 1:
                raise PolicyError(
                    f"Column {name!r} is declared more than once. A column is one "
                    "feature with one role, or the target: keep one declaration."
                )
        if len(self.features) == len(self.public) and not self.label_is_protected:
            raise PolicyError(
                "The policy protects nothing: no feature is sensitive or insensitive "
                "and the label is not protected. Declare a role or a label score."
            )


class Method(StrEnum):
    """What is protected, from the most to the least.

    ``standard`` protects every feature alike (ordinary DP); ``corr`` protects
    insensitive features by what they leak; ``semi`` protects sensitive features only;
    ``partial`` leaves sensitive features out and ``nonprivate`` protects nothing.
    """

    STANDARD = "standard"
    CORR = "corr"
    SEMI = "semi"
    PARTIAL = "partial"
    NONPRIVATE = "nonprivate"

    @property
    def is_private(self) -> bool:
        """Whether anything about the rows it reads is protected."""
        return self not in (Method.PARTIAL, Method.NONPRIVATE)


def protected_policy(policy: Policy, method: Method) -> Policy:
    """Return the policy that a method keeps.

    Guarantee
    ---------
    ``standard``: a change of any set of features is a sensitive one, so what is
    proved is ordinary replace-one DP of all that is not public. ``semi``: insensitive
    features count as public and nothing is promised about them
    (`docs/theory/neighbors.md`).
    """
    role = {Method.STANDARD: ColumnRole.SENSITIVE, Method.SEMI: ColumnRole.PUBLIC}
    if method not in role:
        return policy
    return replace(
        policy,
        features=tuple(
            replace(feature, role=role[method], leakage=None, score=0.0)
            if feature.role is ColumnRole.INSENSITIVE
            else feature
            for feature in policy.features
        ),
        block_leakage=None,
    )


def partial_policy(policy: Policy) -> Policy:
    """Return the policy without its sensitive features."""
    kept = tuple(f for f in policy.features if f.role is not ColumnRole.SENSITIVE)
    if not kept:
        raise PolicyError(
            "method='partial' leaves the sensitive features out, and the policy has no "
            "others. Choose another method."
        )
    return replace(policy, features=kept)


def _lies_within(own: Any, other: Any) -> bool:
    """Return whether a number's domain is another one's with narrower bounds."""
    if not isinstance(own, NumberDomain) or not isinstance(other, NumberDomain):
        return False
    wider = replace(own, lower=other.lower, upper=other.upper)
    if isinstance(own.missing, Replace) and isinstance(other.missing, Replace):
        wider = replace(wider, missing=other.missing)
    return other.lower <= own.lower < own.upper <= other.upper and wider == other


def require_policy(
    policy: Any, *, remedy: str = "Load one with Policy.from_file."
) -> Policy:
    """Return what is a policy, or raise `PolicyError`, which shows no rows."""
    if not isinstance(policy, Policy):
        is_word = isinstance(policy, str | None)
        got = shown(policy) if is_word else type(policy).__name__
        raise PolicyError(f"policy must be a Policy, got policy={got}. {remedy}")
    return policy
