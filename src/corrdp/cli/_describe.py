"""From a fitted model to the summary of its report, and from a summary to files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrdp._files import write_text
from corrdp._json import read_json
from corrdp.exceptions import CorrDPError

if TYPE_CHECKING:
    from corrdp.leakage import LeakageTable
    from corrdp.report import Measured

SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"


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
    ordinary = None
    if plan is not None:
        ordinary = type(fitted)(
            fitted.policy_,
            epsilon=fitted.epsilon,
            delta=fitted.delta,
            method="standard",
        ).plan(n_rows)
    return summarize(
        fitted.policy_,
        fitted.certificate_,
        title=title,
        n_rows=n_rows,
        plan=plan,
        ordinary=ordinary,
        coefficients=getattr(fitted, "coef_by_name_", None),
        leakage=leakage,
        measured=measured,
        curve=curve,
        shapes=[shape.to_json() for shape in getattr(fitted, "shapes", tuple)()],
    )


def write_summary(directory: Path, summary: dict[str, Any]) -> None:
    """Write a summary and its page."""
    from corrdp.report import render_html

    text = json.dumps(summary, indent=2, allow_nan=False)
    write_text(directory / SUMMARY_FILE, text)
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
