"""``corrdp evaluate``: measure a model on private rows, with noise."""

from typing import Annotated

import typer

from corrdp._files import require_room
from corrdp.cli import _options as options
from corrdp.cli._output import JsonOption, keep_and_show, working
from corrdp.cli._paying import NO_LEDGER, LedgerOptions, paid_answers, takes_ledger


@takes_ledger
def evaluate(
    directory: options.RunArgument,
    data: options.DataArgument,
    epsilon: Annotated[float, typer.Option(help="Budget of all metrics together.")],
    delta: options.AnswersDeltaOption = 0.0,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="accuracy, log_loss, confusion, auc, roc, calibration, r_squared or "
            "mean_squared_error; may be repeated."
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Columns that split every metric, with commas.")
    ] = None,
    leakage: options.LeakageOption = None,
    paying: LedgerOptions = NO_LEDGER,
    failure_probability: Annotated[
        float, typer.Option(help="Probability that some metric misses its radius.")
    ] = 0.05,
    out: options.PageOption = None,
    seed: options.SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model on private rows, those of its training included.

    A ledger is charged before a row is read. What is refused costs nothing.

    Example: corrdp evaluate model data.csv --epsilon 0.1 --metric accuracy --by sex
    """
    from corrdp.cli._models import load_estimator, read_leakage
    from corrdp.estimators import plan_evaluation, require_paid_leakage
    from corrdp.policy import Budget, read_declared, without_knots

    if out is not None:
        require_room(out)
    model = load_estimator(directory)
    # Additive models bend numbers at knots of which a table knows nothing.
    # Nor does it know of bounds that training has narrowed.
    read = model.policy_
    known = read_leakage(leakage, read, without_knots(read), model.policy)
    choice = paying.choice(delta=delta, leakage=known)
    with working("Evaluating"):
        rows = read_declared(data, read)
        plan = plan_evaluation(
            model,
            metrics=metric,
            by=tuple(options.names(by)) or None,
            n_rows=rows.num_rows,
            budget=Budget(epsilon=epsilon, delta=delta),
            leakage=known,
        )
        if choice is not None and known is None:
            require_paid_leakage(None, plan, None)
        assert plan.derived is not None  # planned with predictions
        result = paid_answers(
            plan.derived.extend(rows),  # a cell that is refused costs nothing
            plan,
            choice,
            plan.leakage.distances(plan.policy),
            failure_probability=failure_probability,
            seed=seed,
        )
    keep_and_show(
        out,
        result.to_json(),
        as_json=as_json,
        text=result.to_text(),
        page=result.to_page,
    )
