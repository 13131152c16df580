"""What an audit of the certificate found, class by class."""

from collections.abc import Mapping
from typing import Any

from corrdp._json import decoding
from corrdp._typing import JSONObject
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.report._html import brief_number

SCHEMA = "corrdp.audit/1"
_KEYS = (
    *("class", "target", "certified_epsilon", "audited_epsilon", "delta"),
    *("verdict", "tightness", "n_runs"),
)
_CUT = {
    "search": "the search for neighbors",
    "runs": "the number of runs",
    "classes": "the number of classes",
}


@decoding("audit")
def with_audit(summary: JSONObject, audit: Any) -> JSONObject:
    """Return the summary with the result of an audit of its certificate.

    Parameters
    ----------
    summary : JSON object
        From `summarize`.
    audit : JSON object
        From ``AuditReport.to_json``, or a file of ``corrdp audit --out``.

    Raises
    ------
    GuaranteeVoidError
        If another certificate was audited than the one of the summary.
    """
    if not isinstance(audit, Mapping) or audit.get("schema") != SCHEMA:
        raise CorrDPError(
            f"the audit must have the schema {SCHEMA!r}. Pass what AuditReport.to_json "
            "returned, or corrdp audit --out wrote."
        )
    audited, own = audit["certificate_digest"], summary.get("certificate_digest")
    if own is None or audited != own:
        raise GuaranteeVoidError(
            f"the audit is one of certificate {_short(audited)}, the report is one of "
            f"certificate {_short(own)}. Audit the directory that is reported, without "
            "--rows."
        )
    rows = [{key: result[key] for key in _KEYS} for result in audit["results"]]
    return summary | {
        "audit": {
            "passed": audit["passed"],
            "confidence": audit["confidence"],
            "cut": [_CUT[what] for what in audit["cut"]],
            "rows": rows,
            "words": "; ".join(_in_words(row) for row in rows),
            "roc": [  # how often attacks raise true and false alarms, point by point
                {
                    "what": f"{result['class']}, {result['target']}",
                    "false_alarms": false,
                    "true_alarms": true,
                }
                for result in audit["results"]
                for false, true in result.get("roc", ())
            ],
        }
    }


def _in_words(row: JSONObject) -> str:
    """Return one result as a phrase: the text alternative of its bar."""
    return (
        f"{row['class']}, {row['target']}: at least "
        f"{brief_number(row['audited_epsilon'])} of "
        f"{brief_number(row['certified_epsilon'])}, {row['verdict']}"
    )


def _short(digest: str | None) -> str:
    return "none" if digest is None else digest[:12]
