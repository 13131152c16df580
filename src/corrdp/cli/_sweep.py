"""``corrdp sweep``: the privacy-utility curve of all methods, for research."""

from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp._files import csv_text, write_text
from corrdp.cli import _options as options
from corrdp.cli._models import Model
from corrdp.cli._output import JsonOption, counting, json_text, results, show
from corrdp.exceptions import BudgetError, GuaranteeVoidError

if TYPE_CHECKING:
    from corrdp.estimators import SweepResult


# What a sweep trains: models that share one pass over the rows.
Swept = StrEnum("Swept", ["LOGISTIC", "LINEAR", "ADDITIVE"])


METHODS = "corr,standard,semi,partial,nonprivate"


def sweep(
    data: options.DataArgument,
    policy: options.PolicyOption,
    epsilons: Annotated[str, typer.Option(help="Budgets: 0.1,0.5,1.")],
    out: options.ResultsOption,
    delta: Annotated[
        float, typer.Option(help="Failure probability of every budget.")
    ] = 1e-5,
    seeds: Annotated[int, typer.Option(help="Models per method and epsilon.")] = 20,
    methods: Annotated[str, typer.Option(help="Methods to compare.")] = METHODS,
    model: Annotated[
        Swept, typer.Option(help="What is trained: logistic, linear or additive.")
    ] = Swept.LOGISTIC,
    leakage: options.LeakageOption = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File of finished models, to resume an interrupted sweep."),
    ] = None,
    research: Annotated[
        bool, typer.Option(help="Required: scores are computed without noise.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train every method at every epsilon and compare scores. Not private.

    Example: corrdp sweep data.csv --policy policy.toml --epsilons 0.1,1 --research
    --out sweep
    """
    from corrdp import estimators
    from corrdp.cli._models import estimator_class, read_policy
    from corrdp.policy import read_declared

    if not research:
        raise GuaranteeVoidError(
            "a sweep trains many models on the same rows and shows their exact scores. "
            "Pass --research, on data that may be disclosed."
        )
    declared, known = read_policy(policy, leakage)
    budgets = _numbers(epsilons)
    classifies = hasattr(estimator_class(Model(model.value), declared), "predict_proba")
    with results(out, private=True) as staging:
        rows = read_declared(data, declared)
        with counting("Training") as progress:
            result = estimators.sweep(
                rows,
                None if declared.label is None else rows[declared.label.name],
                policy=declared,
                methods=options.names(methods),
                epsilons=budgets,
                delta=delta,
                seeds=seeds,
                model=model.value,
                leakage=known,
                research=True,
                checkpoint=checkpoint,
                progress=progress,
            )
        document = _document(result, "accuracy" if classifies else "R squared")
        write_text(staging / "sweep.json", json_text(document))
        lines = [list(row.values()) for row in result.rows]
        table = csv_text(list(result.rows[0]), lines, spreadsheet_safe=False)
        write_text(staging / "sweep.csv", table)
    show(document, as_json=as_json, text=f"{result.to_text()}\n\nSaved in {out}")


def _document(result: "SweepResult", metric: str) -> dict[str, Any]:
    return {
        "notice": result.stamp,
        "metric": metric,
        "points": [
            {
                "method": row["method"],
                "epsilon": row["epsilon"],
                "mean": row["mean"],
                "low": row["lower"],
                "high": row["upper"],
                "n_models": row["n_models"],
            }
            for row in result.summary()
        ],
    }


def _numbers(text: str) -> list[float]:
    with suppress(ValueError):
        if numbers := [float(part) for part in options.names(text)]:
            return numbers
    raise BudgetError(
        f"--epsilons must be numbers with commas between, got {text!r}. Write for "
        "example 0.1,0.5,1."
    )
