"""``corrdp audit``: try to break what a run, or a policy's plan, promises."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp.cli._options import SeedOption
from corrdp.cli._output import JsonOption, counting, show
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError

if TYPE_CHECKING:
    from corrdp.auditing import Challenge, Claim
    from corrdp.training import TrainingPlan


class Audited(StrEnum):
    """What is attacked if a policy is given."""

    LOGISTIC = "logistic"
    LINEAR = "linear"
    MEANS = "means"


def audit(
    run_or_policy: Annotated[
        Path,
        typer.Argument(help="Directory of corrdp train, or a policy file (TOML)."),
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
    rows: Annotated[int, typer.Option(help="Rows that the plan is made for.")] = 1000,
    confidence: Annotated[
        float, typer.Option(help="Probability that all lower bounds hold at once.")
    ] = 0.99,
    time_limit: Annotated[
        float, typer.Option(help="Seconds after which no further runs begin.")
    ] = 300.0,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Attack every neighbor class with crafted records and fresh noise.

    No data is read: the worst records of the declared domain are searched for, and the
    mechanism is run on them many times. A contradicted claim exits with code 4.
    """
    from corrdp.auditing import audit as run_audit

    challenges = _challenges(run_or_policy, epsilon, delta, model, rows)
    with counting("Auditing") as tell:
        report = run_audit(
            challenges,
            confidence=confidence,
            time_limit=time_limit,
            random_state=seed,
            progress=lambda _, done: tell(round(100 * done), 100),
        )
    show(report.to_json(), as_json=as_json, text=report.to_text())
    if not report.passed:
        broken = ", ".join(result.class_name for result in report.violations)
        raise GuaranteeVoidError(
            f"{len(report.violations)} claims are contradicted ({broken}). Do not "
            "release; report this as a defect."
        )


def _challenges(
    path: Path,
    epsilon: float | None,
    delta: float | None,
    model: Audited | None,
    rows: int,
) -> "tuple[Challenge[Any], ...]":
    from corrdp.policy import Policy

    if path.is_dir():
        if any(given is not None for given in (epsilon, delta, model)):
            raise CorrDPError(
                f"{str(path)!r} is a run, whose model, epsilon and delta are known. "
                "Leave --model, --epsilon and --delta out."
            )
        return _of_run(path, rows)
    if epsilon is None or delta is None:
        raise BudgetError(
            f"--epsilon is {epsilon} and --delta is {delta}: a policy file has no "
            "budget. Pass both."
        )
    policy = Policy.from_file(path)
    if model in (None, Audited.MEANS):
        return _of_means(policy, epsilon, delta, rows)
    from corrdp.cli._models import Model, estimator_class

    estimator = estimator_class(Model(model), policy)(
        policy, epsilon=epsilon, delta=delta
    )
    return _of_training(estimator.plan(rows), delta)


def _of_means(
    policy: Any, epsilon: float, delta: float, rows: int
) -> "tuple[Challenge[Any], ...]":
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


def _of_run(directory: Path, rows: int) -> "tuple[Challenge[Any], ...]":
    from corrdp.auditing import claims_of
    from corrdp.certificate import Calibration
    from corrdp.cli._models import load_estimator
    from corrdp.estimators import LinearRegression, LogisticRegression

    fitted = load_estimator(directory)
    certificate = fitted.certificate_
    if certificate is None:
        raise GuaranteeVoidError(
            f"the model in {str(directory)!r} protects nothing (method="
            f"{fitted.method!r}). There is no claim to audit."
        )
    is_linear = isinstance(fitted, LinearRegression | LogisticRegression)
    if not is_linear or certificate.calibration is not Calibration.CERTIFIED:
        raise CorrDPError(
            f"the run is a {type(fitted).__name__} of calibration "
            f"{str(certificate.calibration)!r}; this command attacks linear models of "
            "calibration 'certified'. Write challenges with corrdp.auditing."
        )
    leakage = certificate.leakage
    estimator = type(fitted)(
        fitted.policy_,
        epsilon=fitted.epsilon,
        delta=fitted.delta,
        leakage=leakage.distances() if leakage.values else None,
        method=fitted.method,
    )
    return _of_training(
        estimator.plan(rows), certificate.delta, claims=claims_of(certificate)
    )


def _of_training(
    plan: "TrainingPlan", delta: float, claims: "dict[str, Claim] | None" = None
) -> "tuple[Challenge[Any], ...]":
    from corrdp.auditing import gradient_challenges, model_challenges

    return (
        *gradient_challenges(plan, delta=delta),
        *model_challenges(plan, delta=delta, claims=claims, n_steps=2, n_runs=200),
    )
