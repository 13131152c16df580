"""``corrdp query``: ask questions about a table, answered with noise."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from corrdp._files import require_room
from corrdp.cli import _options as options
from corrdp.cli._output import JsonOption, keep_and_show, working
from corrdp.cli._paying import NO_LEDGER, LedgerOptions, paid_answers, takes_ledger
from corrdp.exceptions import CorrDPError

# Which noise to add.
NoiseChoice = StrEnum("NoiseChoice", ["AUTO", "LAPLACE", "GAUSSIAN"])
# How noise is shared between coordinates.
VariantChoice = StrEnum("VariantChoice", ["OPTIMAL", "TIGHT", "PAPER", "ORDINARY"])
# How quantiles are answered.
QuantileChoice = StrEnum("QuantileChoice", ["AUTO", "CHOICE", "COUNTS"])


@takes_ledger
def query(
    data: options.DataArgument,
    policy: options.PolicyOption,
    epsilon: Annotated[float, typer.Option(help="Budget of all questions together.")],
    ask: Annotated[
        list[str] | None,
        typer.Option(
            help="A question such as 'mean(age)' or 'count() by race'; may be repeated."
        ),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(help="The questions as one select of aggregates, instead."),
    ] = None,
    delta: options.AnswersDeltaOption = 0.0,
    leakage: options.LeakageOption = None,
    paying: LedgerOptions = NO_LEDGER,
    noise: Annotated[
        NoiseChoice, typer.Option(help="Noise to add; auto picks the smaller.")
    ] = NoiseChoice.AUTO,
    variant: Annotated[
        VariantChoice, typer.Option(help="How noise is shared between answers.")
    ] = VariantChoice.OPTIMAL,
    quantiles: Annotated[
        QuantileChoice,
        typer.Option(
            help="Draw quantiles by rank, read them off counts of bins (which gives a "
            "radius in the value), or whichever errs less."
        ),
    ] = QuantileChoice.AUTO,
    failure_probability: Annotated[
        float, typer.Option(help="Probability that some answer misses its radius.")
    ] = 0.05,
    consistent: Annotated[
        bool,
        typer.Option(
            "--consistent", help="Make counts agree and not negative; costs nothing."
        ),
    ] = False,
    out: options.PageOption = None,
    seed: options.SeedOption = None,
    engine: options.EngineOption = None,
    address: options.AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer questions within a budget; a ledger is charged before any sum.

    Questions are understood and their noise is planned first: what is refused costs
    nothing and creates no ledger.

    Example: corrdp query data.csv --policy policy.toml --ask 'mean(age)' --epsilon 0.5
    """
    from corrdp.cli._models import read_leakage
    from corrdp.policy import Budget, Policy, read_declared
    from corrdp.queries import (
        answer_queries,
        consistent_counts,
        parse_sql,
        plan_queries,
        public_size,
    )

    if (sql is None) == (not ask):
        raise CorrDPError(
            f"ask with --ask or with --sql, got {'neither' if sql is None else 'both'}."
            " Give one of them."
        )
    questions = ask if sql is None else parse_sql(sql)
    options.refuse_on_engine(engine, address, {"--ledger": paying.ledger is not None})
    rules = Policy.from_file(policy)
    known = read_leakage(leakage, rules)
    choice = paying.choice(delta=delta, leakage=known)
    if out is not None:
        require_room(out)
    wishes: dict[str, Any] = {
        "leakage": known,
        "kind": None if noise is NoiseChoice.AUTO else noise.value,
        "variant": variant.value,
        "quantiles": quantiles.value,
    }
    with working("Answering"), options.rows_for(engine, address, data, rules) as rows:
        if engine is not None:  # no ledger, and rows are counted once
            result = answer_queries(
                rows,
                rules,
                questions or [],
                epsilon=epsilon,
                delta=delta,
                failure_probability=failure_probability,
                random_state=seed,
                **wishes,
            )
        else:
            rows = read_declared(data, rules)
            plan = plan_queries(
                rules,
                questions or [],
                budget=Budget(epsilon=epsilon, delta=delta),
                n_rows=public_size(rows, rules),
                **wishes,
            )
            if consistent:
                plan.count_tables()  # refuses before anything is paid
            result = paid_answers(
                rows,
                plan,
                choice,
                None if known is None else plan.leakage.distances(plan.policy),
                failure_probability=failure_probability,
                seed=seed,
            )
        if consistent:
            result = consistent_counts(result)
    text = result.to_text()
    if choice is None and known is not None and known.source == "private":
        text += (
            "\n(the leakage table was paid for before, from the same rows; that is not "
            "in this epsilon. A ledger adds both up)"
        )
    keep_and_show(
        out, result.to_json(), as_json=as_json, text=text, page=result.to_page
    )
