"""``corrdp leakage``: how much each insensitive feature gives away."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from corrdp._validate import check_delta, check_epsilon
from corrdp.cli._options import (
    LedgerDeltaOption,
    LedgerEpsilonOption,
    LedgerOption,
)
from corrdp.cli._output import JsonOption, show, working, write_text


class Source(StrEnum):
    """Where the leakage comes from."""

    DECLARED = "declared"
    PUBLIC = "public"
    PRIVATE = "private"
    IN_SAMPLE = "in_sample"


def leakage(
    data: Annotated[
        str,
        typer.Argument(
            help="CSV, Parquet or Arrow file, a glob of them, or file.db::table."
        ),
    ],
    policy: Annotated[Path, typer.Option(help="Policy file (TOML).")],
    source: Annotated[
        Source, typer.Option(help="Where the leakage comes from.")
    ] = Source.PRIVATE,
    epsilon: Annotated[
        float | None, typer.Option(help="Budget share of a private release.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Failure probability.")] = None,
    estimator: Annotated[
        str | None, typer.Option(help="Estimator; chosen by column types if left out.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="total_variation, hellinger or wasserstein.")
    ] = "total_variation",
    failure_probability: Annotated[
        float, typer.Option(help="Probability that some upper bound is too small.")
    ] = 1e-3,
    seed: Annotated[
        int | None, typer.Option(help="Fixed seed: noise becomes replayable.")
    ] = None,
    research: Annotated[
        bool,
        typer.Option("--research", help="Show exact private numbers: not private."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also save the table as JSON here.")
    ] = None,
    ledger: LedgerOption = None,
    ledger_epsilon: LedgerEpsilonOption = None,
    ledger_delta: LedgerDeltaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate how much each insensitive feature tells about the sensitive ones."""
    import json

    from corrdp.cli._paying import pay_for_leakage, total_budget
    from corrdp.mechanisms import estimate_leakage, plan_leakage_release
    from corrdp.policy import Policy

    declared = Policy.from_file(policy)
    paid = None
    if ledger is not None and source is Source.PRIVATE:
        declared.require_confirmed()
        plan = plan_leakage_release(
            declared, epsilon=check_epsilon(epsilon), delta=check_delta(delta)
        )
        total = total_budget(
            ledger_epsilon, delta if ledger_delta is None else ledger_delta
        )
        if plan is not None:
            paid = pay_for_leakage(ledger, plan, declared, data, budget=total)
    with working("Counting"):
        table = estimate_leakage(
            data,
            declared,
            source=source.value,
            epsilon=epsilon,
            delta=delta,
            estimator=estimator,
            metric=metric,
            failure_probability=failure_probability,
            research=research,
            random_state=seed,
        )
    if paid is not None:
        paid.settle(table)
    if out is not None:
        write_text(out, json.dumps(table.to_dict(), indent=2, allow_nan=False))
    show(table.to_dict(), as_json=as_json, text=table.to_text())
