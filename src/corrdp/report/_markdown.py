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

_TABLES = {
    "noise": (
        "Noise against ordinary DP",
        ("feature", "role", "noise", "ordinary", "ratio"),
    ),
    "quality": ("Quality", ("name", "value", "words")),
    "curve": ("Training curve", ("name", "value", "words")),
    "shapes": ("Curves", ("feature", "value", "label", "effect", "deviation")),
    "coefficients": ("Coefficients", ("column", "weight", "deviation")),
}


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
    leakage = summary["leakage"]
    metric = leakage["metric"].replace("_", " ")
    lines += ["## Leakage", "", f"Source: {leakage['source']}; metric {metric}.", ""]
    lines += _table(leakage["features"], ("feature", "estimate", "upper", "reason"))
    for key, (heading, columns) in _TABLES.items():
        rows = summary.get(key, []) if key == "shapes" else summary[key]
        if rows:  # earlier versions had no shapes
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
    columns = ("class", "target", "certified_epsilon", "audited_epsilon", "tightness")
    rows = _table(audit["rows"], (*columns, "n_runs", "verdict"))
    return ["## Audit", "", " ".join(lines), "", *rows]


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
