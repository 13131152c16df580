"""``corrdp leakage``: how much each insensitive feature gives away."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from corrdp._files import require_room
from corrdp.cli import _options as options
from corrdp.cli._output import (
    JsonOption,
    check_out,
    has_schema,
    keep_and_show,
    refuse_other_kind,
    working,
)
from corrdp.cli._paying import NO_LEDGER, LedgerOptions, paid_leakage, takes_ledger
from corrdp.exceptions import BudgetError, CorrDPError

# Where the leakage comes from.
Source = StrEnum("Source", ["DECLARED", "PUBLIC", "PRIVATE", "IN_SAMPLE"])


@takes_ledger
def leakage(
    data: options.DataArgument,
    policy: options.PolicyOption,
    source: Annotated[
        Source, typer.Option(help="Where the leakage comes from.")
    ] = Source.PRIVATE,
    epsilon: Annotated[
        float | None, typer.Option(help="Budget share of a private release.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Failure probability.")] = None,
    leakage: Annotated[
        Path | None,
        typer.Option(
            help="Earlier leakage table, whose distances the accounts of the ledger "
            "take; default: declared, or 1."
        ),
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(help="Estimator; chosen by column types if left out.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="total_variation, hellinger or wasserstein.")
    ] = "total_variation",
    failure_probability: Annotated[
        float, typer.Option(help="Probability that some upper bound is too small.")
    ] = 1e-3,
    join_levels: Annotated[
        bool,
        typer.Option(
            "--join-levels",
            help="Join thin levels of a public table too; private ones are joined.",
        ),
    ] = False,
    keep_levels: Annotated[
        str,
        typer.Option(help="Features whose thin levels are not joined, as a,b; or all."),
    ] = "",
    seed: options.SeedOption = None,
    research: Annotated[
        bool,
        typer.Option("--research", help="Show exact private numbers: not private."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also save the table as JSON here.")
    ] = None,
    paying: LedgerOptions = NO_LEDGER,
    workers: Annotated[
        int, typer.Option(min=1, help="Columns that are counted at the same time.")
    ] = 2,
    engine: options.EngineOption = None,
    address: options.AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate how much each insensitive feature tells about the sensitive ones.

    A private release is charged to the ledger after all options have been checked and
    before a row is counted. Other sources cost nothing and take no ledger.

    Example: corrdp leakage data.csv --policy policy.toml --epsilon 0.1 --delta 1e-6
    --out leakage.json
    """
    from corrdp.cli._models import read_leakage
    from corrdp.policy import Policy, read_declared

    declared = Policy.from_file(policy)
    _refuse_without_use(source, paying.ledger, leakage)
    options.refuse_on_engine(engine, address, {"--ledger": paying.ledger is not None})
    known = read_leakage(leakage, declared)
    choice = paying.choice(delta=delta, leakage=known)
    if choice is not None:
        declared.require_confirmed()
    if out is not None:
        check_out(out, data, policy, leakage)
        _refuse_second_table(out)
        if source is Source.PRIVATE:
            require_room(out)
        refuse_other_kind(out, lambda text: has_schema(text, "corrdp.leakage/"))
    with working("Counting"), options.rows_for(engine, address, data, declared) as rows:
        # One reading for fingerprint and counts; without a ledger, batches suffice.
        if choice is not None:
            rows = read_declared(data, declared)
        table = paid_leakage(
            rows,
            declared,
            choice,
            known,
            source=source.value,
            epsilon=epsilon,
            delta=delta,
            estimator=estimator,
            metric=metric,
            failure_probability=failure_probability,
            research=research,
            random_state=seed,
            join_levels=_is_joining(join_levels, keep_levels),
            keep_levels=() if keep_levels == "all" else options.names(keep_levels),
            n_threads=workers,
        )
    words = table.to_text()
    keep_and_show(out, table.to_dict(), as_json=as_json, text=words, private=research)


def _is_joining(join_levels: bool, keep_levels: str) -> bool | None:
    """Return whether thin levels are joined; None for what the source suggests."""
    if keep_levels == "all":
        return False
    return True if join_levels or keep_levels else None


def _refuse_second_table(out: Path) -> None:
    """Raise if a file holds a table that was paid for: nobody releases it again."""
    from corrdp.leakage import LeakageTable

    try:
        paid = LeakageTable.from_file(out).source == Source.PRIVATE.value
    except CorrDPError:
        return
    if paid:
        raise CorrDPError(
            f"{str(out)!r} already holds a leakage table, which has cost budget. "
            "Choose another --out."
        )


def _refuse_without_use(
    source: Source, ledger: Path | None, leakage: Path | None
) -> None:
    """Raise for options that would be ignored, since somebody relies on them."""
    if ledger is not None and source is not Source.PRIVATE:
        raise BudgetError(
            f"--ledger={str(ledger)!r} was given, but --source {source.value} charges "
            "nothing. Leave the ledger out, or use --source private."
        )
    if leakage is not None and ledger is None:
        raise BudgetError(
            f"--leakage={str(leakage)!r} was given without --ledger, whose accounts it "
            "would tell their distances. Leave it out."
        )
