"""The written form of a policy: one nested table, as in TOML and JSON.

Reading is strict: a key that is not known is refused, since a misspelt key would
otherwise be a promise silently dropped.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrdp._typing import JSONObject
from corrdp._validate import shown
from corrdp.exceptions import PolicyError
from corrdp.policy._checks import checked_text
from corrdp.policy._domains import (
    BooleanDomain,
    CategoryDomain,
    Domain,
    MissingTreatment,
    NumberDomain,
    Refuse,
    Replace,
    Slot,
)
from corrdp.policy._features import Feature, Label

if TYPE_CHECKING:
    from corrdp.policy._policy import Policy

_SETTINGS = (
    "relation",
    "conditioning",
    "distance_floor",
    "epsilon_cap",
    "block_leakage",
    "unconfirmed",
    "unit",
    "max_rows",
)
# Fields of a domain that are written as they are, in the order of a file, unless they
# are empty or false.
_FIELDS: dict[str, tuple[str, ...]] = {
    "number": ("bins", "knots", "joined", "whole"),
    "category": ("groups", "joined", "joined_with_other", "other"),
    "boolean": ("digits",),
}
_DOMAIN_KEYS = {
    "number": {"bounds", *_FIELDS["number"]},
    "category": {"categories", "unknown", *_FIELDS["category"]},
    "boolean": {*_FIELDS["boolean"]},
}
_AS_DECLARED = {"whole", "digits"}
_MISSING_KEYS = {"missing", "missing_value"}


def parse_toml(text: str) -> JSONObject:
    """Return the tables of a TOML text, or raise `PolicyError`."""
    if not isinstance(text, str):
        raise PolicyError(
            f"A policy is read from text, got {type(text).__name__}. Pass a str."
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        reason = "its tables are nested too deeply"
    except ValueError as error:  # TOMLDecodeError, or a number with too many digits
        reason = str(error)
    raise PolicyError(
        f"The policy is not TOML: {reason}. Correct that place; docs/policy.md shows "
        "a whole file."
    )


def read_text(path: str | Path) -> str:
    """Return the text of a policy file, or raise `PolicyError`."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except ValueError:  # not UTF-8, or a null character in the path
        reason = "it is not UTF-8 text"
    raise PolicyError(
        f"The policy file {str(path)!r} cannot be read: {reason}. "
        "Check the path, or write one with `corrdp init`."
    )


def policy_arguments(document: Any) -> dict[str, Any]:
    """Return the arguments of `Policy` that a document spells out."""
    document = _table("policy", document)
    _refuse_unknown_keys(
        "policy", document, {"target", "features", "label", *_SETTINGS}
    )
    features = _table("features", document.get("features", {}))
    if ("target" in document) != ("label" in document):
        present, absent = ("target", "[label]")
        if "label" in document:
            present, absent = ("[label]", "target")
        raise PolicyError(
            f"The policy has {present} but no {absent}. Declare both, or neither."
        )
    label = None
    if "label" in document:
        label = _label(document["target"], _table("label", document["label"]))
    settings = {key: document[key] for key in _SETTINGS if key in document}
    return {
        "features": tuple(_feature(name, features[name]) for name in features),
        "label": label,
        **settings,
    }


def policy_document(policy: "Policy", *, as_declared: bool = True) -> JSONObject:
    """Return the document that `policy_arguments` reads back.

    If it is `as_declared` it says how values are written: categories declared as
    numbers as numbers, ``whole`` and ``digits``; canonical text otherwise, which is all
    that comparisons see.
    """
    document: JSONObject = {}
    if policy.label is not None:
        document["target"] = policy.label.name
    document |= {
        "relation": policy.relation.value,
        "conditioning": policy.conditioning.value,
        "distance_floor": policy.distance_floor,
        "epsilon_cap": policy.epsilon_cap,
    }
    if policy.block_leakage is not None:
        document["block_leakage"] = policy.block_leakage
    if policy.unconfirmed:
        document["unconfirmed"] = list(policy.unconfirmed)
    if policy.unit is not None:
        document |= {"unit": policy.unit, "max_rows": policy.max_rows}
    document["features"] = {
        f.name: _feature_table(f, as_declared) for f in policy.features
    }
    if policy.label is not None:
        table = _domain_table(policy.label.domain, as_declared)
        document["label"] = {**table, "score": policy.label.score}
        if policy.label.joins is not None:
            document["label"]["joins"] = policy.label.joins.value
    return document


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise PolicyError(
            f"{name} must be a table of named fields, got {shown(value)}. "
            "docs/policy.md lists them."
        )
    return value


def _refuse_unknown_keys(owner: str, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise PolicyError(
                f"{owner} has a field {shown(key)} that is not known here. "
                f"Known fields: {', '.join(sorted(known))}."
            )


def _required(owner: str, table: Mapping[str, Any], key: str) -> Any:
    if key not in table:
        raise PolicyError(
            f"{owner}.{key} is not declared. Declare it; docs/policy.md shows how."
        )
    return table[key]


def _feature(name: str, value: Any) -> Feature:
    owner = f"features.{checked_text('feature name', name)}"
    table = _table(owner, value)
    return Feature(
        name=name,
        role=_required(owner, table, "role"),
        domain=_domain(owner, table, {"role", "leakage", "score"}),
        leakage=table.get("leakage"),
        score=table.get("score", 0.0),
    )


def _label(target: Any, table: Mapping[str, Any]) -> Label:
    return Label(
        name=target,
        domain=_domain("label", table, {"score", "joins"}),
        score=_required("label", table, "score"),
        joins=table.get("joins"),
    )


def _domain(owner: str, table: Mapping[str, Any], others: set[str]) -> Domain:
    kind = _required(owner, table, "type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise PolicyError(
            f"{owner}.type must be one of {', '.join(_FIELDS)}, got "
            f"type={shown(kind)}. Declare one of them."
        )
    known = {"type", *_DOMAIN_KEYS[kind], *_MISSING_KEYS, *others}
    _refuse_unknown_keys(f"{owner} ({kind})", table, known)
    given = {key: table[key] for key in _FIELDS[kind] if key in table}
    try:
        given["missing"] = _missing(table)
        if kind == "number":
            return NumberDomain(*_bounds(_required(owner, table, "bounds")), **given)
        if kind == "boolean":
            return BooleanDomain(**given)
        if "groups" in given:
            given["groups"] = _table("groups", given["groups"])
        if "unknown" in table:
            given["unknown"] = Replace(table["unknown"])
        return CategoryDomain(_required(owner, table, "categories"), **given)
    except PolicyError as error:
        message = str(error)
    raise PolicyError(message if message.startswith(owner) else f"{owner}: {message}")


def _bounds(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise PolicyError(
            f"bounds must be a list of two numbers, got bounds={shown(value)}. "
            "Declare [lower, upper]."
        )
    return value[0], value[1]


def _missing(table: Mapping[str, Any]) -> MissingTreatment:
    if "missing" in table and "missing_value" in table:
        raise PolicyError(
            f"missing={shown(table['missing'])} and missing_value="
            f"{shown(table['missing_value'])} are both declared. Keep one of them."
        )
    if "missing_value" in table:
        return Replace(table["missing_value"])
    word = table.get("missing", "refuse")
    if word == "slot":
        return Slot()
    if word == "refuse":
        return Refuse()
    raise PolicyError(
        f'missing must be "refuse" or "slot", got missing={shown(word)}. '
        "Declare one of them, or a missing_value."
    )


def _feature_table(feature: Feature, as_declared: bool) -> JSONObject:
    table = {"role": feature.role.value, **_domain_table(feature.domain, as_declared)}
    if feature.leakage is not None:
        table["leakage"] = feature.leakage
    if feature.score:
        table["score"] = feature.score
    return table


def _domain_table(domain: Domain, as_declared: bool) -> JSONObject:
    table: JSONObject
    if isinstance(domain, NumberDomain):
        table = {"type": "number", "bounds": [domain.lower, domain.upper]}
    elif isinstance(domain, CategoryDomain):
        categories = domain.values if as_declared else domain.categories
        table = {"type": "category", "categories": list(categories)}
    else:
        table = {"type": "boolean"}
    for key in _FIELDS[table["type"]]:
        value = getattr(domain, key)
        if value and (as_declared or key not in _AS_DECLARED):
            table[key] = _listed(dict(value) if key == "groups" else value)
    if isinstance(domain, CategoryDomain) and isinstance(domain.unknown, Replace):
        table["unknown"] = domain.unknown.value
    if isinstance(domain.missing, Slot):
        table["missing"] = "slot"
    elif isinstance(domain.missing, Replace):
        table["missing_value"] = domain.missing.value
    return table


def _listed(value: Any) -> Any:
    """Return a value with lists in the place of tuples, as JSON reads them back."""
    if isinstance(value, Mapping):
        return {key: _listed(held) for key, held in value.items()}
    return [_listed(held) for held in value] if isinstance(value, tuple) else value
