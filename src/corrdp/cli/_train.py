"""``corrdp train``: a model and its certificate, all or nothing, then a report."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp._files import require_room, write_text
from corrdp.cli import _models as models
from corrdp.cli import _options as options
from corrdp.cli._models import BoundsChoice, CalibrationChoice, MethodChoice, Model
from corrdp.cli._output import JsonOption, results, show, working
from corrdp.cli._paying import NO_LEDGER, LedgerOptions, buy_leakage, takes_ledger
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, PolicyError

if TYPE_CHECKING:
    from corrdp.certificate import Certificate
    from corrdp.ledger import Payment
    from corrdp.policy import Policy
    from corrdp.report import Measured

NOT_PRIVATE = "research: not private"


@takes_ledger
def train(
    data: options.DataArgument,
    policy: options.PolicyOption,
    out: options.ResultsOption,
    model: Annotated[Model, typer.Option(help="What is trained.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Budget of sensitive features.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Failure probability.")] = None,
    method: Annotated[
        MethodChoice, typer.Option(help="What is protected.")
    ] = MethodChoice.CORR,
    calibration: Annotated[
        CalibrationChoice, typer.Option(help="How noise is set.")
    ] = CalibrationChoice.CERTIFIED,
    leakage: Annotated[
        Path | None,
        typer.Option(
            help="Leakage table of corrdp leakage --out, or auto: bought with a part "
            "of epsilon if that is worth it; default: declared."
        ),
    ] = None,
    bounds: Annotated[
        BoundsChoice,
        typer.Option(
            help="Bounds that numbers are read between: those of the policy, or "
            "narrower ones that a small part of epsilon finds (auto: for logistic)."
        ),
    ] = BoundsChoice.AUTO,
    fall_back: Annotated[
        bool,
        typer.Option(
            help="Train a linear model where noise leaves a network less than it (mlp)."
        ),
    ] = True,
    public_test: Annotated[
        str | None,
        typer.Option(help="Table that you declare public, to measure quality on."),
    ] = None,
    public_rows: Annotated[
        str | None,
        typer.Option(help="Table that you declare public, to start training from."),
    ] = None,
    title: options.TitleOption = None,
    paying: LedgerOptions = NO_LEDGER,
    seed: options.SeedOption = None,
    workers: options.WorkersOption = 1,
    engine: options.EngineOption = None,
    address: options.AddressOption = None,
    cache_dir: options.CacheOption = None,
    research: Annotated[
        bool, typer.Option(help="Allow and show what is not private, stamped so.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model and write it with its certificate and a report.

    Without --research nothing that was computed from the rows leaves unpaid: no score,
    no training curve. A ledger is charged before the first gradient; a run that breaks
    off afterwards has been paid for. The model appears once it is trained, the report
    in one move at the end.

    Example: corrdp train data.csv --policy policy.toml --model logistic --epsilon 1
    --delta 1e-6 --out model
    """
    from corrdp.leakage import LeakageTable
    from corrdp.ledger import Payment
    from corrdp.policy import Policy, read_declared
    from corrdp.report import with_ledger

    declared = Policy.from_file(policy)
    declared.require_confirmed()
    target = _target(declared)
    buys = leakage is not None and str(leakage) == "auto"
    options.refuse_on_engine(
        engine,
        address,
        {
            "--ledger": paying.ledger is not None,
            "--research": research,
            "--leakage auto": buys,
            f"--model {model.value}": model is Model.MLP,
            "--cache-dir": cache_dir is not None,
        },
    )
    table = None if buys else models.read_leakage(leakage, declared)
    declared = models.policy_with(table, declared)
    _refuse_needless(method, table)
    choice = paying.choice(delta=delta, leakage=table, research=research)
    if choice is not None:
        _refuse_unpriced(method)
    models.require_place(out)
    bought = out / "leakage.json"
    if buys:
        require_room(bought)

    # Engines have workers of their own, as many as they like unless told.
    hosts = None if engine is not None and workers == 1 else workers
    settings = _own_options(model, hosts, cache_dir, fall_back, bounds) | {
        "epsilon": epsilon,
        "delta": delta,
        "method": method.value,
        "calibration": calibration.value,
        "random_state": seed,
        "research": research,
    }
    kind = models.estimator_class(model, declared)
    estimator = kind(declared, leakage=table, **settings)
    start: dict[str, Any] = {}
    if public_rows is not None:
        if model is Model.MLP:
            what = "--public-rows starts linear and additive models"
            raise _other_model(what, model, "Leave it out, or choose another model.")
        start["public_rows"] = read_declared(public_rows, declared)
    tested = None if public_test is None else _rows_to_test(public_test, declared)
    # Read in batches, unless all rows are needed at once.
    whole = research or buys or model is Model.MLP
    with options.rows_for(engine, address, data, declared) as rows:
        with results(out, private=research) as staging:
            if whole:
                with working("Reading the table"):
                    rows = read_declared(data, declared)
            started = time.perf_counter()
            if buys:
                with working("Buying the leakage"):
                    given, decision = buy_leakage(estimator, rows, choice, seed=seed)
                if isinstance(given, LeakageTable):
                    table = given
                    declared = models.policy_with(table, declared)
                    # At once: it is paid for, whatever becomes of the training.
                    write_text(bought, json.dumps(table.to_dict()), private=research)
                estimator = kind(declared, leakage=given, **settings)
            payment, charge = None, None
            if choice is not None:
                if choice.path.exists():  # by now, if it has paid for the leakage
                    choice = replace(choice, budget=None)
                purpose = f"{model.value} model, method {method.value}"
                payment = Payment(choice, rows, table, purpose)
                charge = partial(_charge, payment, estimator)
            with working("Training"), _naming(bought if buys and table else None):
                labels = rows[target] if whole else None
                fitted = estimator.fit(rows, labels, charge=charge, **start)
            document: dict[str, Any] = {"certificate": None}
            if buys:
                document["leakage"] = decision
            charged = None
            if fitted.certificate_ is not None:
                document["certificate"] = fitted.certificate_.to_dict()
                if payment is not None:
                    charged = payment.settle(fitted.certificate_, fitted.policy_)
            # How long it took depends on the rows, and nobody pays for it.
            document["seconds"] = time.perf_counter() - started if research else None
            fitted.save(staging)
            if fitted.certificate_ is not None:
                text = fitted.certificate_.to_text()
                write_text(staging / "certificate.txt", text)
        # The model is paid for and kept, whatever becomes of scores and the report.
        with results(out, private=research) as staging:
            measured, curve = [], []
            if public_rows is not None:
                alone = " of the public rows alone, cross-validated"
                score = fitted.public_score_
                measured.append(_measured(fitted, score, "public", alone))
                document["public_rows"] = {
                    "n_rows": fitted.n_public_rows_,
                    "score_alone": score,
                }
            if tested is not None:
                score = float(fitted.score(tested, tested[target]))
                measured.append(_measured(fitted, score, "public"))
                curve = _curve(fitted, tested, target, "public")
                document["public_score"] = score
            if research:
                score = float(fitted.score(rows, rows[target]))
                measured.append(_measured(fitted, score, "research"))
                curve = curve or _curve(fitted, rows, target, "research")
                document |= {"train_score": score, "notice": NOT_PRIVATE}
            with working("Writing the report"):
                summary = models.describe(
                    fitted,
                    title=title or f"Model of {target}",
                    n_rows=rows.num_rows if whole else fitted.plan_.n_rows,
                    leakage=table,
                    measured=measured,
                    curve=curve,
                )
                if charged is not None:
                    summary = with_ledger(summary, charged)
                models.write_summary(staging, summary)
    document["out"] = str(out)
    show(document, as_json=as_json, text=_text(document, fitted, out))


@contextmanager
def _naming(bought: Path | None) -> Iterator[None]:
    """Say in a refusal of the training where the leakage is that was bought for it."""
    try:
        yield
    except CorrDPError as error:
        if bought is None:
            raise
        raise type(error)(
            f"{error} The leakage that was bought is kept: train with --leakage "
            f"{str(bought)!r} instead of buying another."
        ) from None


def _charge(payment: "Payment", estimator: Any, certificate: "Certificate") -> None:
    payment.charge(certificate, estimator.policy_)


def _own_options(
    model: Model,
    workers: int | None,
    cache_dir: Path | None,
    fall_back: bool,
    bounds: BoundsChoice,
) -> dict[str, Any]:
    """Return what only some models take; raise for what this one does not."""
    own: dict[str, Any] = {}
    if model is not Model.MLP:
        own = {"n_jobs": workers, "cache_dir": cache_dir}
    elif workers != 1 or cache_dir is not None:
        what = "--workers and --cache-dir are for linear and additive models"
        raise _other_model(what, model, "Leave them out.")
    if not fall_back:
        if model is not Model.MLP:
            raise _other_model("--no-fall-back is for --model mlp", model)
        own["fall_back"] = False
    if model in (Model.LOGISTIC, Model.LINEAR):
        own["bounds"] = bounds.value
    elif bounds is BoundsChoice.RELEASED:
        what = "--bounds released is for --model logistic and linear"
        remedy = "Leave it out, or declare narrower bounds."
        raise _other_model(what, model, remedy)
    return own


def _other_model(what: str, model: Model, remedy: str = "Leave it out.") -> CorrDPError:
    """Return the refusal of an option that is for other models."""
    return CorrDPError(f"{what}, got --model {model.value}. {remedy}")


def _refuse_needless(method: MethodChoice, table: Any) -> None:
    if method is MethodChoice.STANDARD and table is not None:
        raise CorrDPError(
            "--method standard fully protects all that is not public and has no use "
            "for a leakage table. Leave --leakage out: the model gets the whole "
            "epsilon, and what the table has cost is added up by a ledger, if there is "
            "one."
        )


def _refuse_unpriced(method: MethodChoice) -> None:
    if method in (MethodChoice.PARTIAL, MethodChoice.NONPRIVATE):
        raise GuaranteeVoidError(
            f"--method {method.value} protects nothing, so nothing bounds its cost and "
            "it cannot be charged to a ledger. Leave --ledger out, or choose corr "
            "or standard."
        )


def _rows_to_test(path: str, policy: "Policy") -> Any:
    """Return public rows that fit the policy: refused later, they cost a model."""
    from corrdp.policy import read_declared, table_problems

    rows = read_declared(path, policy)
    for column, problem in table_problems(policy, rows).items():
        raise PolicyError(f"--public-test {path!r}, column {column!r}: {problem}")
    return rows


def _target(policy: "Policy") -> str:
    if policy.label is None:
        raise PolicyError(
            "the policy declares no label, so there is nothing to learn. Declare "
            "target and [label]."
        )
    return policy.label.name


def _measured(fitted: Any, score: float, basis: str, of: str = "") -> "Measured":
    from corrdp.report import Measured

    name = "accuracy" if hasattr(fitted, "predict_proba") else "R squared"
    return Measured(name=name + of, value=score, basis=basis)


def _curve(fitted: Any, rows: Any, target: str, basis: str) -> "list[Measured]":
    """Return the score on the way; models without iterates have no curve."""
    from corrdp.report import Measured

    if not hasattr(fitted, "score_path"):
        return []
    return [
        Measured(name=str(step), value=score, basis=basis)
        for step, score in fitted.score_path(rows, rows[target])
    ]


def _text(document: dict[str, Any], fitted: Any, out: Path) -> str:
    lines = []
    if fitted.certificate_ is None:
        lines.append("NOT PRIVATE: this method protects nothing.")
    else:
        lines.append(fitted.certificate_.to_short_text())
    if "leakage" in document:
        lines.append(document["leakage"]["reason"])
    if "public_rows" in document:
        public = document["public_rows"]
        lines.append(
            f"your {public['n_rows']} public rows alone reach "
            f"{public['score_alone']:.4f} (cross-validated on them)"
        )
    if "public_score" in document:
        lines.append(f"score on the public table: {document['public_score']:.4f}")
    if "train_score" in document:
        lines.append(f"train score: {document['train_score']:.4f} ({NOT_PRIVATE})")
    if "notice" in document:
        lines.append(f"{NOT_PRIVATE} (took {document['seconds']:.1f} s)")
    lines.append(
        f"Saved in {out}. Report: {out / 'report.html'}; every claim in words: corrdp "
        f"certificate show {out}"
    )
    return "\n".join(lines)
