"""``corrdp init``: draft a policy from a table; bounds may be drawn and paid for."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp._files import require_room, write_text
from corrdp.cli import _options as options
from corrdp.cli._output import JsonOption, show, working
from corrdp.cli._paying import NO_LEDGER, LedgerOptions, paid_answers, takes_ledger
from corrdp.exceptions import BudgetError

if TYPE_CHECKING:
    from corrdp.certificate import Certificate
    from corrdp.ledger import LedgerChoice
    from corrdp.policy import Draft

# Whether a change of the label is protected.
LabelChoice = StrEnum("LabelChoice", ["PUBLIC", "PROTECTED"])


@takes_ledger
def init(
    data: options.DataArgument,
    target: Annotated[str, typer.Option(help="Column to predict.")],
    sensitive: Annotated[str, typer.Option(help="Sensitive columns: a,b,c.")],
    label: Annotated[
        LabelChoice,
        typer.Option(help="Whether labels are protected. There is no default."),
    ],
    public: Annotated[
        str | None, typer.Option(help="Columns that need no protection: a,b.")
    ] = None,
    leave_out: Annotated[
        str | None, typer.Option(help="Columns to leave out of the policy: a,b.")
    ] = None,
    category: Annotated[
        str | None,
        typer.Option(
            help="Columns of numbers, or of many values, that are categories: a,b."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Policy file to write.")] = Path(
        "policy.toml"
    ),
    epsilon: Annotated[
        float | None,
        typer.Option(help="Budget for bounds of numbers: drawn with noise, not read."),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(help="Above 0 frequent categories are drawn with noise as well."),
    ] = 0.0,
    paying: LedgerOptions = NO_LEDGER,
    seed: options.SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a policy: types and domains are guessed, and must be confirmed.

    What is read from the table is marked in the file and refused by every command that
    trains or releases, until it is confirmed. Free text, identifiers, dates and values
    of very few rows are not written down. The draft shows something of the table all
    the same: it is readable for its owner alone. With --epsilon the bounds of numbers
    are drawn with noise instead, charged to the ledger, and need no confirmation;
    types still do. With --delta the frequent categories are drawn as well. Public
    columns cost nothing.

    Example: corrdp init data.csv --target readmitted --sensitive diagnosis,income
    --label public
    """
    from corrdp.policy import DraftWishes, Policy, draft_policy
    from corrdp.tables import read_table

    require_room(out)  # bounds may be paid for
    wishes = DraftWishes(
        target=target,
        sensitive=tuple(options.names(sensitive)),
        public=tuple(options.names(public)),
        left_out=tuple(options.names(leave_out)),
        category=tuple(options.names(category)),
        label_protected=label is LabelChoice.PROTECTED,
    )
    # Whoever says so believes that what is read is drawn with noise.
    if epsilon is None and (paying.ledger, seed, delta) != (None, None, 0.0):
        raise BudgetError(
            "a delta, a ledger or a seed was given without --epsilon, so nothing would "
            "be drawn or charged. Give --epsilon, or leave them out."
        )
    choice = paying.choice(delta=delta)
    certificate = None
    with working("Reading the table"):
        rows = read_table(data, number_columns=())
        text, draft = draft_policy(rows, wishes)
        if epsilon is not None:
            text, certificate = _paid_bounds(
                rows,
                text,
                draft,
                epsilon=epsilon,
                delta=delta,
                choice=choice,
                seed=seed,
            )
    policy = Policy.from_toml(text)
    write_text(out, text, private=True)
    lines = [
        f"wrote {out}: {len(policy.sensitive)} sensitive, {len(policy.insensitive)} "
        f"insensitive, {len(policy.public)} public features",
        *(f"left out {name}: {reason}" for name, reason in draft.left_out.items()),
        *(f"doubtful: {name}: {reason}" for name, reason in draft.doubtful.items()),
        f"to confirm: {len(draft.unconfirmed)} fields read from the table. Edit the "
        f"file, then run: corrdp confirm {out} --all",
    ]
    if unknown := policy.unknown_leakages:
        lines.append("to declare or estimate: the leakage of " + ", ".join(unknown))
    document: dict[str, Any] = {
        "policy": str(out),
        "fingerprint": policy.fingerprint(),
        "sensitive": list(policy.sensitive),
        "insensitive": list(policy.insensitive),
        "public": list(policy.public),
        "left_out": draft.left_out,
        "doubtful": draft.doubtful,
        "unconfirmed": draft.unconfirmed,
    }
    if certificate is not None:
        document["certificate"] = certificate.to_dict()
        drawn = "bounds and categories" if delta > 0.0 else "bounds of numbers"
        lines.insert(1, f"{drawn} drawn at epsilon {certificate.epsilon:.6g}")
        read = [
            name
            for name in policy.insensitive + policy.sensitive
            if f"features.{name}.categories" in draft.unconfirmed
        ]
        if delta > 0.0 and read:
            lines.insert(
                2,
                "no text was frequent enough to be drawn, so those that were read from "
                f"the table await confirmation: categories of {', '.join(read)}",
            )
    show(document, as_json=as_json, text="\n".join(lines))


def _paid_bounds(
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
    import tomlkit

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
