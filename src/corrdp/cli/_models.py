"""Models by the names that commands use, and what a command writes about one."""

from collections.abc import Sequence
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrdp._files import write_text
from corrdp._json import check_shape, read_json
from corrdp.cli._output import json_text
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, PolicyError

if TYPE_CHECKING:
    from corrdp.leakage import LeakageTable
    from corrdp.policy import Policy
    from corrdp.report import Measured

SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"
_POLICY_AND_CERTIFICATE = ("policy.toml", "certificate.json", "certificate.txt")


# What can be trained.
Model = StrEnum("Model", ["LOGISTIC", "LINEAR", "ADDITIVE", "MLP"])


# For a label that is a number, and for one of categories.
_CLASSES = {
    Model.LOGISTIC: ("LogisticRegression", "LogisticRegression"),
    Model.LINEAR: ("LinearRegression", "LinearRegression"),
    Model.ADDITIVE: ("AdditiveRegressor", "AdditiveClassifier"),
    Model.MLP: ("MLPRegressor", "MLPClassifier"),
}


# What is protected; the last two protect nothing and need --research.
MethodChoice = StrEnum(
    "MethodChoice", ["CORR", "STANDARD", "SEMI", "PARTIAL", "NONPRIVATE"]
)


# How noise is set: proved constants, or the paper's closed forms.
CalibrationChoice = StrEnum("CalibrationChoice", ["CERTIFIED", "THEOREM"])
# Between which bounds numbers are read: the policy's, or paid ones.
BoundsChoice = StrEnum("BoundsChoice", ["AUTO", "DECLARED", "RELEASED"])


def estimator_class(model: Model, policy: "Policy") -> Any:
    """Return the estimator that a model's name stands for, given the label's type."""
    from corrdp import estimators
    from corrdp.policy import NumberDomain

    label = policy.label
    is_number = label is not None and isinstance(label.domain, NumberDomain)
    if label is not None and model is (Model.LOGISTIC if is_number else Model.LINEAR):
        raise PolicyError(_other_label(model, label.name))
    of_numbers, of_categories = _CLASSES[model]
    return getattr(estimators, of_numbers if is_number else of_categories)


def _other_label(model: Model, name: str) -> str:
    wanted, found = "categories, and", "a number"
    other, remedy = Model.LINEAR, "the categories"
    if model is Model.LINEAR:
        wanted, found = "a number, and", "no number"
        other, remedy = Model.LOGISTIC, "the bounds"
    return (
        f"--model {model.value} predicts {wanted} the label {name!r} is {found} in the "
        f"policy. Choose --model {other.value} or additive, or declare {remedy} of the "
        "label."
    )


def model_kind(directory: Path) -> str:
    """Return the class whose model a result directory holds."""
    document = read_json(directory / "model.json", "model", "corrdp train")
    check_shape(document, {"content": {"kind": str}}, "model")
    return str(document["content"]["kind"])


def load_estimator(directory: Path) -> Any:
    """Return the fitted model of a result directory, every digest checked."""
    from corrdp import estimators

    kind = model_kind(directory)
    if not any(kind in classes for classes in _CLASSES.values()):
        raise CorrDPError(
            f"the model in {str(directory)!r} is a {kind!r}, which this version does "
            "not know. Read it with the version that wrote it."
        )
    return getattr(estimators, kind).load(directory)


def require_place(out: Path, *more: str) -> None:
    """Raise, before anything is paid for, if a run could not leave all of its results.

    A directory that holds a model would get one that costs a second time; a policy, or
    a page of answers that were paid for, would be replaced by a file of the same name,
    one of every run or of `more`.
    """
    if not all(map(find_spec, ("jinja2", "vl_convert"))):
        raise CorrDPError(
            "a run leaves a report, which needs jinja2 and vl-convert-python, and they "
            "are not installed. Install them with pip install 'corrdp[report]'."
        )
    if (out / "model.json").exists():
        raise CorrDPError(
            f"{str(out)!r} already holds a model, which has cost budget. Choose "
            "another --out."
        )
    own = (*_POLICY_AND_CERTIFICATE, SUMMARY_FILE, REPORT_FILE, *more)
    for path in (out / name for name in own):
        if path.exists():
            raise CorrDPError(
                f"there is a file {str(path)!r} already, which the results would "
                "replace. Choose another --out."
            )


def read_leakage(path: Path | None, *policies: "Policy") -> "LeakageTable | None":
    """Return a leakage table that was saved for this policy, or for one of some."""
    if path is None:
        return None
    if str(path) == "auto" and not path.exists():
        raise CorrDPError(
            "--leakage auto is bought by corrdp train alone. Release a table first "
            "(corrdp leakage --out leakage.json), and pass it."
        )
    from corrdp.leakage import LeakageTable

    table = LeakageTable.from_file(path)
    own = [policy for policy in policies if table.is_for(policy)]
    if not own:
        raise PolicyError(
            f"the leakage table {str(path)!r} was estimated for policy "
            f"{table.declared_fingerprint[:12]}, this one is "
            f"{policies[0].fingerprint()[:12]}. Estimate it again."
        )
    table.require_policy(table.policy_for(own[0]))
    return table


def read_policy(
    path: Path, leakage: Path | None
) -> "tuple[Policy, LeakageTable | None]":
    """Return the policy by which rows are read, and the leakage table if there is."""
    from corrdp.policy import Policy

    declared = Policy.from_file(path)
    table = read_leakage(leakage, declared)
    return policy_with(table, declared), table


def policy_with(table: "LeakageTable | None", policy: "Policy") -> "Policy":
    """Return the policy by which rows are read: thin levels joined as a table says."""
    return policy if table is None else table.policy_for(policy)


def refuse_unstamped(table: "LeakageTable | None", *, research: bool) -> None:
    """Raise if a leakage table shows exact numbers to a release that is private."""
    if table is not None and table.research and not research:
        raise GuaranteeVoidError(
            "the leakage table shows exact private numbers (research=true). Estimate "
            "it without --research, or pass --research here too."
        )


def describe(
    fitted: Any,
    *,
    title: str,
    n_rows: int,
    leakage: "LeakageTable | None",
    measured: "Sequence[Measured]",
    curve: "Sequence[Measured]" = (),
) -> dict[str, Any]:
    """Return the summary of a fitted model, with ordinary DP beside it."""
    from corrdp.report import summarize
    from corrdp.training import TrainingPlan

    plan = fitted.plan_ if isinstance(fitted.plan_, TrainingPlan) else None
    stand_in = getattr(fitted, "linear_", None)
    ordinary, linear = None, stand_in or fitted
    if plan is not None:
        ordinary = linear.ordinary_plan(
            fitted.policy_, n_rows, label_deviation=plan.label_deviation
        )
    return summarize(
        fitted.policy_,
        fitted.certificate_,
        title=title,
        n_rows=n_rows,
        plan=plan,
        ordinary=ordinary,
        coefficients=getattr(linear, "coef_by_name_", None),
        leakage=leakage,
        measured=measured,
        curve=curve,
        shapes=[shape.to_json() for shape in getattr(fitted, "shapes", tuple)()],
        in_place_of=None if stand_in is None else "network",
        hindsight=getattr(linear, "hindsight_", None),
    )


def write_summary(directory: Path, summary: dict[str, Any]) -> None:
    """Write a summary and its page."""
    from corrdp.report import render_html

    write_text(directory / SUMMARY_FILE, json_text(summary))
    write_text(directory / REPORT_FILE, render_html(summary))


def read_summary(directory: Path) -> dict[str, Any]:
    """Return the summary that a training run left in a directory."""
    path = directory / SUMMARY_FILE
    summary = read_json(path, "summary", "corrdp train")
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if schema != "corrdp.report/1":
        raise CorrDPError(
            f"the summary schema must be 'corrdp.report/1', got {schema!r}. Read it "
            "with the version of corrdp that wrote it."
        )
    return dict(summary)
