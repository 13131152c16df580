"""``corrdp init``: draft a policy from a table."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from corrdp._files import write_text
from corrdp.cli import _options as options
from corrdp.cli._output import JsonOption, show, working
from corrdp.exceptions import BudgetError, CorrDPError

# Whether a change of the label is protected.
LabelChoice = StrEnum("LabelChoice", ["PUBLIC", "PROTECTED"])


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
        str | None, typer.Option(help="Number columns that are categories: a,b.")
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
    ledger: options.LedgerOption = None,
    ledger_epsilon: options.LedgerEpsilonOption = None,
    ledger_delta: options.LedgerDeltaOption = None,
    accept_new_data: options.AcceptNewDataOption = False,
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
    from corrdp.cli._paid_bounds import paid_bounds
    from corrdp.cli._paying import ledger_choice
    from corrdp.policy import DraftWishes, Policy, draft_policy
    from corrdp.tables import read_table

    if out.exists():
        raise CorrDPError(
            f"there is a file {str(out)!r} already. Choose another --out, so that no "
            "edited policy is lost."
        )
    wishes = DraftWishes(
        target=target,
        sensitive=tuple(options.names(sensitive)),
        public=tuple(options.names(public)),
        left_out=tuple(options.names(leave_out)),
        category=tuple(options.names(category)),
        label_protected=label is LabelChoice.PROTECTED,
    )
    if epsilon is None and (ledger is not None or seed is not None):
        raise BudgetError(
            "a ledger or a seed was given without --epsilon, so nothing would be drawn "
            "or charged. Give --epsilon, or leave them out."
        )
    choice = ledger_choice(
        ledger, ledger_epsilon, ledger_delta, accept_new_data, delta=delta
    )
    certificate = None
    with working("Reading the table"):
        rows = read_table(data, number_columns=())
        text, draft = draft_policy(rows, wishes)
        if epsilon is not None:
            text, certificate = paid_bounds(
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
    show(document, as_json=as_json, text="\n".join(lines))
