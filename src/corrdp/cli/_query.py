"""``corrdp query``: ask questions about a table, answered with noise."""

from enum import StrEnum
from typing import Annotated

import typer

from corrdp.cli._options import (
    AcceptNewDataOption,
    DataArgument,
    LeakageOption,
    LedgerDeltaOption,
    LedgerEpsilonOption,
    LedgerOption,
    PolicyOption,
    SeedOption,
)
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
    data: DataArgument,
    policy: PolicyOption,
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
    leakage: LeakageOption = None,
    ledger: LedgerOption = None,
    ledger_epsilon: LedgerEpsilonOption = None,
    ledger_delta: LedgerDeltaOption = None,
    accept_new_data: AcceptNewDataOption = False,
    noise: Annotated[
        NoiseChoice, typer.Option(help="Noise to add; auto picks the smaller.")
    ] = NoiseChoice.AUTO,
    variant: Annotated[
        VariantChoice, typer.Option(help="How noise is shared between answers.")
    ] = VariantChoice.OPTIMAL,
    failure_probability: Annotated[
        float, typer.Option(help="Probability that some answer misses its radius.")
    ] = 0.05,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer questions within a budget; a ledger is charged before any sum.

    Questions are understood and their noise is planned first: what is refused costs
    nothing and creates no ledger.

    Example: corrdp query data.csv --policy policy.toml --ask 'mean(age)' --epsilon 0.5
    """
    from corrdp.cli._data import read_data
    from corrdp.cli._models import read_leakage, refuse_unstamped
    from corrdp.cli._paying import ledger_choice, open_ledger, refuse_unrecorded
    from corrdp.policy import Budget, Policy
    from corrdp.queries import answer_plan, plan_queries

    rules = Policy.from_file(policy)
    known = read_leakage(leakage, rules)
    refuse_unstamped(known, research=False)
    choice = ledger_choice(
        ledger, ledger_epsilon, ledger_delta, accept_new_data, delta=delta
    )
    if choice is not None:
        refuse_unrecorded(choice, known)
    with working("Answering"):
        rows = read_data(data, rules)
        plan = plan_queries(
            rules,
            ask,
            budget=Budget(epsilon=epsilon, delta=delta),
            n_rows=rows.num_rows,
            leakage=known,
            kind=None if noise is NoiseChoice.AUTO else noise.value,
            variant=variant.value,
        )
        plan.noise.radius(failure_probability)  # refuses before there is a ledger
        account = None
        if choice is not None:
            account = open_ledger(
                choice.path,
                plan.policy,
                budget=choice.budget,
                leakage=None if known is None else known.distances(),
                events=plan.noise.charged_events(),
            )
        result = answer_plan(
            rows,
            plan,
            ledger=account,
            failure_probability=failure_probability,
            accept_new_data=accept_new_data,
            random_state=seed,
        )
    show(result.to_json(), as_json=as_json, text=result.to_text())
