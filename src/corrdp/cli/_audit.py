"""``corrdp audit``: try to break what a run, or a policy's plan, promises."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp.cli._options import SeedOption
from corrdp.cli._output import (
    JsonOption,
    counting,
    has_schema,
    keep_and_show,
    refuse_other_kind,
)
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError

if TYPE_CHECKING:
    from corrdp.auditing import AuditReport


# What is attacked if a policy is given.
Audited = StrEnum(
    "Audited", ["LOGISTIC", "LINEAR", "ADDITIVE", "MLP", "MEANS", "SYNTHESIS"]
)


def audit(
    run_or_policy: Annotated[
        Path,
        typer.Argument(
            help="Directory of corrdp train or synthesize, or a policy file."
        ),
    ],
    epsilon: Annotated[
        float | None, typer.Option(help="Budget; needed with a policy file.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Failure probability; with a policy file.")
    ] = None,
    model: Annotated[
        Audited | None,
        typer.Option(help="What is attacked; with a policy file. Default: means."),
    ] = None,
    leakage: Annotated[
        Path | None,
        typer.Option(
            help="Leakage table of corrdp leakage --out; with a policy file. "
            "Default: declared."
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="Rows that the plan is made for; default: those of the run, 1000 with "
            "a policy file."
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability that all lower bounds hold at once.")
    ] = 0.99,
    time_limit: Annotated[
        float,
        typer.Option(help="Seconds for the search for neighbors and all runs."),
    ] = 300.0,
    membership: Annotated[
        str | None,
        typer.Option(
            help="Instead: train models on this table and guess who was in. Research."
        ),
    ] = None,
    research: Annotated[
        bool,
        typer.Option(help="Required with --membership: rows are read without noise."),
    ] = False,
    seed: SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also save the result as JSON here, for corrdp report."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack every neighbor class with crafted records and fresh noise.

    No data is read, except by --membership: the worst records of the declared domain
    are searched for, and the code that trains is run on them many times. A contradicted
    claim exits with code 4.

    Example: corrdp audit model --time-limit 60
    """
    from corrdp.auditing import audit as run_audit

    if out is not None:
        own = ("corrdp.audit/", "corrdp.membership/")
        refuse_other_kind(out, lambda text: has_schema(text, *own))
    subject = _subject(run_or_policy, epsilon, delta, model, rows, leakage)
    if membership is not None or research:
        _guess_membership(subject, membership, research, seed, out, as_json)
        return
    with counting("Auditing") as tell:
        report = run_audit(
            subject,
            n_rows=rows,
            confidence=confidence,
            time_limit=time_limit,
            random_state=seed,
            progress=lambda _, done: tell(round(100 * done), 100),
        )
    keep_and_show(out, report.to_json(), as_json=as_json, text=report.to_text())
    _refuse_violations(report)


def _guess_membership(
    subject: Any,
    table: str | None,
    research: bool,
    seed: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Attack models that are trained on a table, and say how often it guessed right."""
    from corrdp.auditing import infer_membership
    from corrdp.estimators import PrivateEstimator
    from corrdp.policy import read_declared

    if table is None:
        raise CorrDPError("--research belongs to --membership TABLE. Pass both.")
    if not isinstance(subject, PrivateEstimator):
        raise CorrDPError(
            "--membership attacks models, got something else. Pass a directory of "
            "corrdp train, or a policy with --model."
        )
    if not research:
        raise GuaranteeVoidError(
            "--membership trains many models on the rows and shows what it computes "
            "from them without noise. Pass --research, on data that may be disclosed."
        )
    policy: Any = getattr(subject, "policy_", subject.policy)
    found = infer_membership(
        subject, read_declared(table, policy), research=True, random_state=seed
    )
    words = found.to_text()
    keep_and_show(out, found.to_json(), as_json=as_json, text=words, private=True)
    if found.exceeds_certificate:
        raise GuaranteeVoidError(
            "the attack guessed more than the certificate allows. Do not release; "
            "report this as a defect."
        )


def _refuse_violations(report: "AuditReport") -> None:
    if report.passed:
        return
    broken = ", ".join(result.class_name for result in report.violations)
    remedy = "Do not release; report this as a defect."
    if all(result.target.endswith("nominal") for result in report.violations):
        remedy = (
            "They are nominal claims of calibration 'theorem', which states what is "
            "provable beside them. Train with calibration 'certified'."
        )
    raise GuaranteeVoidError(
        f"{len(report.violations)} claims are contradicted ({broken}). {remedy}"
    )


def _subject(
    path: Path,
    epsilon: float | None,
    delta: float | None,
    model: Audited | None,
    rows: int | None,
    leakage: Path | None,
) -> Any:
    """Return the model of a run, or what a policy and a budget describe."""
    from corrdp.cli._models import (
        Model,
        estimator_class,
        load_estimator,
        model_kind,
        read_policy,
    )
    from corrdp.synthesis import Synthesizer

    if path.is_dir():
        if any(given is not None for given in (epsilon, delta, model, leakage)):
            raise CorrDPError(
                f"{str(path)!r} is a run, whose model, budget and leakage are known. "
                "Leave --model, --epsilon, --delta and --leakage out."
            )
        if model_kind(path) == "Synthesizer":
            return Synthesizer.load(path)
        return load_estimator(path)
    if not path.exists():
        raise CorrDPError(
            f"there is no {str(path)!r}. Pass a directory of corrdp train or "
            "synthesize, or a policy file."
        )
    if epsilon is None or delta is None:
        raise BudgetError(
            f"--epsilon is {epsilon} and --delta is {delta}: a policy file has no "
            "budget. Pass both."
        )
    policy, table = read_policy(path, leakage)
    if table is not None:
        policy = policy.with_leakage(table.distances(policy=policy))
    if model in (None, Audited.MEANS):
        return _of_means(policy, epsilon, delta, 1000 if rows is None else rows)
    if model == Audited.SYNTHESIS:
        return Synthesizer(policy, epsilon=epsilon, delta=delta)
    return estimator_class(Model(model), policy)(policy, epsilon=epsilon, delta=delta)


def _of_means(policy: Any, epsilon: float, delta: float, rows: int) -> Any:
    from corrdp.auditing import column_sum_challenges
    from corrdp.mechanisms import plan_means
    from corrdp.policy import Budget, neighbor_classes, policy_blocks

    budget = Budget(epsilon=epsilon, delta=delta)
    planned = plan_means(policy, budget=budget, n_rows=rows)
    return column_sum_challenges(
        planned.noise,
        policy_blocks(policy),
        neighbor_classes(policy),
        name="column means",
    )
