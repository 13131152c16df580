"""The draft of a policy: what can be guessed from a table, marked as guessed."""

import math
from dataclasses import dataclass, field
from typing import Any

from corrdp.exceptions import PolicyError

MOST_CATEGORIES = 30
BINS = 8
_MARK = "read from data: confirm"


@dataclass
class Draft:
    """Columns as guessed, and what was read from data to guess them.

    Parameters
    ----------
    unconfirmed : list of str
        Fields whose values came from private rows.
    left_out : dict of str to str
        Columns that the policy does not mention, and why.
    """

    unconfirmed: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wishes:
    """What the user said of the columns."""

    target: str
    sensitive: tuple[str, ...]
    public: tuple[str, ...]
    left_out: tuple[str, ...]
    category: tuple[str, ...]
    label_protected: bool


def draft_policy(table: Any, wishes: Wishes) -> tuple[str, Draft]:
    """Return a commented policy file and what in it awaits confirmation.

    Parameters
    ----------
    table : pyarrow.Table
        Private rows. Bounds are rounded outwards and categories listed; each such
        field is named in ``unconfirmed``, and training refuses the file until a
        person has taken responsibility for it.
    wishes : Wishes
        Roles and target.
    """
    import tomlkit

    _check_names(table, wishes)
    draft = Draft(left_out=dict.fromkeys(wishes.left_out, "you left it out"))
    features = tomlkit.table(is_super_table=True)
    for name in table.column_names:
        if name == wishes.target or name in draft.left_out:
            continue
        domain = _domain(
            table[name], f"features.{name}", draft, name in wishes.category
        )
        if isinstance(domain, str):
            if name in wishes.sensitive:
                raise PolicyError(
                    f"the sensitive column {name!r} cannot be drafted: {domain}. "
                    "Prepare it (merge its values, convert it), then run init again."
                )
            draft.left_out[name] = domain
            continue
        features.add(name, _feature_table(name, domain, wishes))
    label = _label_table(table[wishes.target], wishes, draft)
    document = tomlkit.document()
    for line in _header(draft):
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    document["target"] = wishes.target
    document["relation"] = "one_insensitive"
    document["conditioning"] = "marginal"
    waiting = tomlkit.array()
    waiting.extend(draft.unconfirmed)
    document["unconfirmed"] = waiting.multiline(True)
    document["features"] = features
    document["label"] = label
    return tomlkit.dumps(document), draft


def _header(draft: Draft) -> list[str]:
    lines = [
        "Draft of a policy. Values marked 'confirm' were read from the private table.",
        "Replace each by a value known without the data (a codebook, a law of nature),",
        "then remove its field from `unconfirmed`: corrdp confirm policy.toml --all",
        "",
        "An insensitive feature needs a `leakage`: an upper bound in [0, 1] on what it",
        "tells about the sensitive ones. Declare it, or estimate it: corrdp leakage.",
    ]
    if draft.left_out:
        lines += ["", "Columns left out:"]
        lines += [f"  {name}: {reason}" for name, reason in draft.left_out.items()]
    return lines


def _feature_table(name: str, domain: dict[str, Any], wishes: Wishes) -> Any:
    import tomlkit

    role = "insensitive"
    if name in wishes.sensitive:
        role = "sensitive"
    elif name in wishes.public:
        role = "public"
    table = tomlkit.table()
    table["role"] = role
    _write_domain(table, domain)
    if role == "insensitive":
        table.add(tomlkit.comment("leakage = 1.0"))
    return table


def _label_table(column: Any, wishes: Wishes, draft: Draft) -> Any:
    import tomlkit

    if column.null_count:
        raise PolicyError(
            f"the target {wishes.target!r} has missing values. Leave those rows out, "
            "then run init again."
        )
    domain = _domain(column, "label", draft, wishes.target in wishes.category)
    if isinstance(domain, str):
        raise PolicyError(
            f"the target {wishes.target!r} cannot be drafted: {domain}. Prepare it, "
            "then run init again."
        )
    domain.pop("bins", None)
    table = tomlkit.table()
    _write_domain(table, domain)
    table["score"] = 1.0 if wishes.label_protected else 0.0
    table["score"].comment(
        "labels are protected like sensitive features"
        if wishes.label_protected
        else "labels are not protected"
    )
    return table


def _write_domain(table: Any, domain: dict[str, Any]) -> None:
    import tomlkit

    for key, value in domain.items():
        item = tomlkit.item(value)
        if key in {"bounds", "categories", "missing"} or value == "boolean":
            item.comment(_MARK)
        table[key] = item


def _domain(
    column: Any, owner: str, draft: Draft, as_category: bool
) -> dict[str, Any] | str:
    """Return the fields of a domain, or why there are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    values = pc.drop_null(column)
    domain: dict[str, Any]
    if len(values) == 0:
        return "it has no values"
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        values = values.cast(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if pa.types.is_boolean(kind) or (is_number and _is_binary(values)):
        domain = {"type": "boolean"}
        draft.unconfirmed.append(f"{owner}.type")
    elif is_number and not as_category:
        domain = {"type": "number", "bounds": _rounded_bounds(values), "bins": BINS}
        draft.unconfirmed.append(f"{owner}.bounds")
    elif is_number or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if pc.count_distinct(values).as_py() > MOST_CATEGORIES:
            return f"more than {MOST_CATEGORIES} different values"
        domain = {
            "type": "category",
            "categories": sorted(pc.unique(values).to_pylist()),
        }
        draft.unconfirmed.append(f"{owner}.categories")
    else:
        return f"columns of type {kind} are not supported"
    if column.null_count:
        domain["missing"] = "slot"
        draft.unconfirmed.append(f"{owner}.missing")
    return domain


def _is_binary(values: Any) -> bool:
    import pyarrow.compute as pc

    ends = pc.min_max(values).as_py()
    return (ends["min"], ends["max"]) == (0, 1) and pc.count_distinct(
        values
    ).as_py() == 2


def _rounded_bounds(values: Any) -> list[float | int]:
    """Return bounds moved outwards to round numbers, so that no exact value shows."""
    import pyarrow.compute as pc

    finite = values.filter(pc.is_finite(values))
    ends = pc.min_max(finite).as_py()
    low, high = float(ends["min"] or 0.0), float(ends["max"] or 0.0)
    width = high - low or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(width)) / 5
    lower, upper = math.floor(low / step) * step, math.ceil(high / step) * step
    if lower == upper:
        upper += step
    bounds = [float(f"{bound:.12g}") for bound in (lower, upper)]
    return [int(b) if b.is_integer() and abs(b) < 2**53 else b for b in bounds]


def _check_names(table: Any, wishes: Wishes) -> None:
    named = {
        "--target": (wishes.target,),
        "--sensitive": wishes.sensitive,
        "--public": wishes.public,
        "--leave-out": wishes.left_out,
        "--category": wishes.category,
    }
    for option, columns in named.items():
        for name in columns:
            if name not in table.column_names:
                raise PolicyError(
                    f"{option} names {name!r}, which is not a column. Columns: "
                    f"{', '.join(table.column_names)}."
                )
    roles = [*wishes.sensitive, *wishes.public, *wishes.left_out, wishes.target]
    for name in roles:
        if roles.count(name) > 1:
            raise PolicyError(
                f"column {name!r} is given two roles. A column is sensitive, public, "
                "left out or the target: name it once."
            )
