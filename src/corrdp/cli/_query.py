"""``corrdp query``: ask questions about a table, answered with noise."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from corrdp.cli._output import JsonOption, show, working


class NoiseChoice(StrEnum):
    """Which noise to add."""

    AUTO = "auto"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class VariantChoice(StrEnum):
    """How noise is shared between coordinates."""

    OPTIMAL = "optimal"
    TIGHT = "tight"
    PAPER = "paper"
    ORDINARY = "ordinary"


def query(
    data: Annotated[Path, typer.Argument(help="Table file (CSV, Parquet, Arrow).")],
    policy: Annotated[Path, typer.Option(help="Policy file (TOML).")],
    ask: Annotated[
        list[str],
        typer.Option(
            help="A question such as 'mean(age)' or 'count() by race'; may be repeated."
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="Budget of all questions together.")],
    delta: Annotated[
        float, typer.Option(help="Failure probability; 0 means Laplace noise.")
    ] = 0.0,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Ledger to charge; created with --ledger-epsilon if absent."),
    ] = None,
    ledger_epsilon: Annotated[
        float | None,
        typer.Option(help="Total budget of a new ledger, for all releases ever."),
    ] = None,
    ledger_delta: Annotated[
        float | None, typer.Option(help="Total delta of a new ledger; default --delta.")
    ] = None,
    noise: Annotated[
        NoiseChoice, typer.Option(help="Noise to add; auto picks the smaller.")
    ] = NoiseChoice.AUTO,
    variant: Annotated[
        VariantChoice, typer.Option(help="How noise is shared between answers.")
    ] = VariantChoice.OPTIMAL,
    failure_probability: Annotated[
        float, typer.Option(help="Probability that some answer misses its radius.")
    ] = 0.05,
    accept_new_data: Annotated[
        bool, typer.Option(help="Charge a table that the ledger has not seen.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Answer questions within a budget; charge a ledger before data is read."""
    from corrdp.cli._data import read_data
    from corrdp.cli._paying import open_ledger, total_budget
    from corrdp.mechanisms import answer_queries
    from corrdp.policy import Policy

    rules = Policy.from_file(policy)
    account = None
    if ledger is not None:
        total = total_budget(
            ledger_epsilon, delta if ledger_delta is None else ledger_delta
        )
        account = open_ledger(ledger, rules, budget=total)
    with working("Answering"):
        result = answer_queries(
            read_data(str(data), rules),
            rules,
            ask,
            epsilon=epsilon,
            delta=delta,
            ledger=account,
            kind=None if noise is NoiseChoice.AUTO else noise.value,
            variant=variant.value,
            failure_probability=failure_probability,
            accept_new_data=accept_new_data,
        )
    show(result.to_json(), as_json=as_json, text=result.to_text())
