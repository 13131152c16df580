"""``corrdp report``: render a result again, with a sweep, audit or ledger added."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from corrdp._files import write_text
from corrdp._json import read_json
from corrdp.cli._options import RunArgument
from corrdp.cli._output import (
    JsonOption,
    has_schema,
    json_text,
    refuse_other_kind,
    show,
    working,
)

# How the report is written.
Format = StrEnum("Format", ["HTML", "MARKDOWN", "JSON"])


SUFFIX = {Format.HTML: "html", Format.MARKDOWN: "md", Format.JSON: "json"}


def report(
    directory: RunArgument,
    sweep: Annotated[
        Path | None, typer.Option(help="Directory of corrdp sweep, to add its curve.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger, to add its accounts and charges.")
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(help="Result of corrdp audit --out, of this very directory."),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="How the report is written.")
    ] = Format.HTML,
    out: Annotated[
        Path | None, typer.Option(help="File to write; default: in the directory.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report of a result: one file, no network, no private value.

    What is to be added is named every time: the report is written anew.

    Example: corrdp report model --sweep sweep --out report.html
    """
    from corrdp.cli._models import read_summary
    from corrdp.report import (
        render_html,
        render_markdown,
        with_audit,
        with_ledger,
        with_sweep,
    )

    path = out or directory / f"report.{SUFFIX[form]}"
    refuse_other_kind(path, lambda text: _is_report(text, form))
    summary = read_summary(directory)
    if sweep is not None:
        curve = sweep / "sweep.json" if sweep.is_dir() else sweep
        summary = with_sweep(summary, read_json(curve, "sweep", "corrdp sweep"))
    if audit is not None:
        document = read_json(audit, "audit", "corrdp audit --out")
        summary = with_audit(summary, document)
    if ledger is not None:
        from corrdp.ledger import Ledger

        summary = with_ledger(summary, Ledger.open(ledger))
    with working("Writing the report"):
        text = {
            Format.HTML: render_html,
            Format.MARKDOWN: render_markdown,
            Format.JSON: json_text,
        }[form](summary)
    write_text(path, text)
    show(
        {"report": str(path), "stamps": summary["stamps"]},
        as_json=as_json,
        text=f"report: {path}",
    )


def _is_report(text: str, form: Format) -> bool:
    """Return whether a file is a report: pages of answers, for one, are paid for."""
    if form is Format.JSON:
        return has_schema(text, "corrdp.report/")
    return ('<section id="verdict"' if form is Format.HTML else "\n## Roles\n") in text
