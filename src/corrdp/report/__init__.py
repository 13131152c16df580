"""Reports: a plain summary of a release, then its rendering as HTML or Markdown."""

from corrdp.report._audit import with_audit
from corrdp.report._html import render_html
from corrdp.report._markdown import render_markdown
from corrdp.report._promise import (
    coefficient_deviation,
    gradient_noise,
    plan_certificate,
    plan_verdict,
)
from corrdp.report._summary import Measured, summarize, with_ledger, with_sweep

__all__ = [
    "Measured",
    "coefficient_deviation",
    "gradient_noise",
    "plan_certificate",
    "plan_verdict",
    "render_html",
    "render_markdown",
    "summarize",
    "with_audit",
    "with_ledger",
    "with_sweep",
]
