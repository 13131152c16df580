"""The same summary as Markdown, for a wiki or a pull request."""

import re
from typing import Any

from corrdp._json import decoding
from corrdp._typing import JSONObject
from corrdp.report._html import assumptions, page_view, shown_number, visible

# What Markdown takes for markup: an underline between letters is none, and addresses
# become links without any.
_MARKUP = re.compile(
    r"[\\|`\[*~@]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE
)


@decoding("summary")
def render_markdown(summary: JSONObject) -> str:
    """Return the summary as Markdown, without charts."""
    lines = [f"# {plain(summary['title'])}", ""]
    lines += [f"> **{stamp.upper()}**\n" for stamp in summary["stamps"]]
    promise = summary["promise"]
    if promise is None:
        lines += ["This model protects nothing.", ""]
    else:
        lines += ["## What is promised", "", plain(promise["headline"]), ""]
        view = page_view(summary)
        whole = shown_number(view["verdict"]["whole"])
        lines += [f"Whole record: epsilon {whole}, a price and no promise.", ""]
        lines += [f"**Usefulness**: {plain(view['useful'])}", ""]
        lines += _table(
            promise["classes"], ("name", "sentence", "proved", "allowed", "distance")
        )
        if view["risks"]:
            lines += ["### Risk, in percent", ""]
            lines += _table(view["risks"], tuple(view["risks"][0]))
        lines += ["### Assumptions", ""]
        lines += [f"- {plain(text)}" for text in assumptions(promise)]
        lines += ["", "### Not covered", ""]
        lines += [f"- {plain(text)}" for text in promise["not_covered"]]
        lines.append("")
    lines += ["## Roles", ""]
    lines += _table(summary["roles"], ("feature", "role", "domain"))
    lines += ["## Leakage", "", _leakage_line(summary), ""]
    lines += _table(
        summary["leakage"]["features"], ("feature", "estimate", "upper", "reason")
    )
    for heading, rows, columns in (
        (
            "Noise against ordinary DP",
            summary["noise"],
            ("feature", "role", "noise", "ordinary", "ratio"),
        ),
        ("Quality", summary["quality"], ("name", "value", "words")),
        ("Training curve", summary["curve"], ("name", "value", "words")),
        (
            "Curves",
            summary.get("shapes") or [],
            ("feature", "value", "label", "effect", "deviation"),
        ),
        (
            "Coefficients",
            summary["coefficients"],
            ("column", "weight", "deviation"),
        ),
    ):
        if rows:
            lines += [f"## {heading}", "", *_table(rows, columns)]
    if summary["sweep"] is not None:
        sweep = summary["sweep"]
        lines += [f"## Privacy against utility ({sweep['basis']})", ""]
        lines += _table(sweep["points"], ("method", "epsilon", "mean", "low", "high"))
    lines += _audit(summary.get("audit"))
    if summary["ledger"] is not None:
        lines += ["## Ledger", ""]
        lines += _table(
            summary["ledger"]["accounts"], ("class", "epsilon", "spent", "share_left")
        )
        lines += _table(summary["ledger"]["charges"], ("number", "when", "purpose"))
    versions = ", ".join(f"{n} {v}" for n, v in summary["software"].items())
    lines += [f"Policy `{summary['policy_fingerprint']}`; {versions}.", ""]
    return "\n".join(lines)


def _audit(audit: JSONObject | None) -> list[str]:
    if audit is None:
        return []
    found = "No attack contradicts the certificate"
    if not audit["passed"]:
        found = "**A claim is contradicted**"
    lines = [f"{found}, at joint confidence {shown_number(audit['confidence'])}."]
    if audit["cut"]:
        lines.append(f"A time limit cut {' and '.join(audit['cut'])}.")
    columns = ("class", "target", "certified_epsilon", "audited_epsilon")
    rest = ("tightness", "n_runs", "verdict")
    rows = _table(audit["rows"], (*columns, *rest))
    return ["## Audit", "", " ".join(lines), "", *rows]


def _leakage_line(summary: JSONObject) -> str:
    leakage = summary["leakage"]
    return f"Source: {leakage['source']}; metric {leakage['metric'].replace('_', ' ')}."


def _table(rows: list[JSONObject], columns: tuple[str, ...]) -> list[str]:
    head = " | ".join(column.replace("_", " ") for column in columns)
    body = [
        "| " + " | ".join(plain(shown_number(row[c])) for c in columns) + " |"
        for row in rows
    ]
    return [f"| {head} |", "|" + "---|" * len(columns), *body, ""]


def plain(text: Any) -> str:
    """Return a text that Markdown shows as it is, on one line.

    Names of columns are other people's: none is a tag, a link, or a picture that is
    fetched from elsewhere by whoever reads the page.
    """
    escaped = _MARKUP.sub(r"\\\g<0>", " ".join(visible(str(text)).splitlines()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")
