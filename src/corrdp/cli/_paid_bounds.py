"""Bounds and categories of a drafted policy, drawn with noise, not read, and paid."""

from typing import TYPE_CHECKING, Any

import tomlkit

if TYPE_CHECKING:
    from corrdp.certificate import Certificate
    from corrdp.ledger import LedgerChoice
    from corrdp.policy import Draft


def paid_bounds(
    rows: Any,
    text: str,
    draft: "Draft",
    *,
    epsilon: float,
    delta: float,
    choice: "LedgerChoice | None",
    seed: int | None,
) -> "tuple[str, Certificate]":
    """Return the draft with what needs no confirmation any more, and what it cost.

    That a column holds numbers, and whether some are missing, was still read from the
    rows: both await confirmation in place of the bounds (docs/theory/queries.md). With
    `delta` the frequent categories of features are drawn too. Of the drafted `text`
    only roles and types go into the plan, in which every class is at distance 1; what
    is drawn is taken off the unconfirmed fields of `draft`.
    """
    from corrdp.cli._paying import paid_answers
    from corrdp.policy import DRAFT_BINS, READ_MARK, Budget, NumberDomain, Policy
    from corrdp.queries import bounds_from, plan_bounds, provisional_policy

    drafted = Policy.from_toml(text)
    places = {
        column.name: ("label" if column is drafted.label else f"features.{column.name}")
        for column in drafted.columns
        if isinstance(column.domain, NumberDomain)
    }
    # Public columns are read as they are, and so is a public label.
    wanted = [
        name
        for name, place in places.items()
        if f"{place}.bounds" in draft.unconfirmed and name not in drafted.unprotected
    ]
    texts = [
        feature.name
        for feature in drafted.features
        if delta > 0.0
        and f"features.{feature.name}.categories" in draft.unconfirmed
        and feature.name not in drafted.unprotected
    ]
    plan = plan_bounds(
        provisional_policy(drafted),
        wanted,
        budget=Budget(epsilon=epsilon, delta=delta),
        n_rows=rows.num_rows,
        texts=texts,
    )
    result = paid_answers(rows, plan, choice, seed=seed)
    document: Any = tomlkit.parse(text)
    note = f"drawn with noise at epsilon {epsilon:g}: no confirmation needed"
    for name, answer in zip(texts, result.answers[len(wanted) :], strict=True):
        if found := [text for (text,) in answer.cells]:
            _write_categories(document["features"][name], found, note)
            fields = [f"features.{name}.{key}" for key in _READ_KEYS]
            place = draft.unconfirmed.index(f"features.{name}.categories")
            draft.unconfirmed[place] = f"features.{name}.type"
            draft.unconfirmed[:] = [f for f in draft.unconfirmed if f not in fields]
    for name, answer in zip(wanted, result.answers[: len(wanted)], strict=True):
        drawn = bounds_from(answer)
        is_label = places[name] == "label"
        table = document["label"] if is_label else document["features"][name]
        table["bounds"] = [drawn.lower, drawn.upper]
        table["bounds"].comment(note)
        table["type"].comment(READ_MARK)
        guessed = [f"{places[name]}.type"]
        if f"{places[name]}.bins" in draft.unconfirmed:  # as many as there are values
            table["bins"] = DRAFT_BINS
            draft.unconfirmed.remove(f"{places[name]}.bins")
        if "missing_value" in table:  # where no cell is missing
            table["missing_value"] = (drawn.lower + drawn.upper) / 2
            table["missing_value"].comment(READ_MARK)
            guessed.append(f"{places[name]}.missing_value")
        place = draft.unconfirmed.index(f"{places[name]}.bounds")
        draft.unconfirmed[place : place + 1] = guessed
    # What was read from public columns needs no confirmation either.
    draft.unconfirmed[:] = [
        field for field in draft.unconfirmed if not _reads_public(drafted, field)
    ]
    waiting = tomlkit.array()
    waiting.extend(draft.unconfirmed)
    document["unconfirmed"] = waiting.multiline(True)
    return tomlkit.dumps(document), result.certificate


_READ_KEYS = ("categories", "unknown", "missing_value", "other", "missing", "groups")


def _write_categories(table: Any, found: list[str], note: str) -> None:
    """Put what was drawn in place of what was read, and slots for all the rest."""
    from corrdp.policy import READ_MARK

    for key in _READ_KEYS:
        table.pop(key, None)
    table["type"] = "category"
    table["type"].comment(READ_MARK)
    table["categories"] = found
    table["categories"].comment(note)
    table["other"] = True
    table["missing"] = "slot"


def _reads_public(policy: Any, field: str) -> bool:
    owner = field.rpartition(".")[0]  # a column's name may have dots of its own
    if owner == "label":
        return policy.label.name in policy.unprotected
    return owner.removeprefix("features.") in policy.public
