"""``corrdp certificate``: read a certificate, or recompute all of its numbers."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corrdp._files import write_text
from corrdp.cli._output import JsonOption, json_text, show
from corrdp.exceptions import CorrDPError

if TYPE_CHECKING:
    from corrdp.certificate import Certificate

app = typer.Typer(no_args_is_help=True, help="Show, verify or explain a certificate.")

DirectoryArgument = Annotated[
    Path, typer.Argument(help="A result directory, or a certificate file.")
]


@app.command("show")
def show_certificate(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Print a certificate in plain words, or as it was saved.

    Example: corrdp certificate show model
    """
    certificate = _read(directory)
    show(certificate.to_dict(), as_json=as_json, text=certificate.to_text())


@app.command()
def risk(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Say what an attacker gains at most, by what changes in a record.

    Example: corrdp certificate risk model
    """
    from corrdp.certificate import RISK_SCOPE, risk_words

    certificate = _read(directory)
    risks = {name: certificate.risk(name) for name in certificate.classes}
    lines = [f"{name}: {risk_words(found)}." for name, found in risks.items()]
    show(
        {
            "classes": {name: found.to_json() for name, found in risks.items()},
            "scope": RISK_SCOPE,
        },
        as_json=as_json,
        text="\n".join([*lines, RISK_SCOPE]),
    )


class ExportFormat(StrEnum):
    """For whom a certificate is written anew."""

    NIST = "nist"
    REGISTRY = "registry"
    DP_EVENT = "dp-event"


@app.command()
def export(
    directory: DirectoryArgument,
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="nist: the layers of SP 800-226; registry: an entry for the public "
            "deployments registry (YAML); dp-event: events of dp-accounting (JSON).",
        ),
    ],
    title: Annotated[
        str | None, typer.Option(help="Name of the product, for the registry.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; default: standard output.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a certificate in a form that regulators or other accountants read.

    Example: corrdp certificate export model --format registry --out entry.yaml
    """
    from corrdp.report.exports import (
        dp_events,
        nist_statement,
        nist_text,
        registry_entry,
        yaml_text,
    )

    certificate = _read(directory)
    if form is ExportFormat.NIST:
        document = nist_statement(certificate)
        text = nist_text(document)
    elif form is ExportFormat.REGISTRY:
        name = title or f"{directory.name} (corrdp)"
        today = datetime.now(UTC).date()
        document = registry_entry(certificate, title=name, created=today)
        text = yaml_text(document)
    else:
        document = dp_events(certificate)
        text = json_text(document) + "\n"
    if out is not None:
        if out.exists():
            raise CorrDPError(
                f"the file {str(out)!r} exists. Choose another --out, so that nothing "
                "is overwritten."
            )
        write_text(out, text)
        document, text = {"out": str(out)}, f"wrote {out}"
    show(document, as_json=as_json, text=text.rstrip())


@app.command()
def verify(
    directory: DirectoryArgument,
    policy: Annotated[
        Path | None,
        typer.Option(help="Policy file; default: policy.toml beside the certificate."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute every number; exit code 4 if one cannot be reproduced.

    In a result directory, the model must be the one that the certificate is of.

    Example: corrdp certificate verify model
    """
    from corrdp.estimators import read_model
    from corrdp.policy import Policy

    certificate = _read(directory)
    beside = directory / "policy.toml"
    path = policy or (beside if beside.is_file() else None)
    checks = [*certificate.verify(None if path is None else Policy.from_file(path))]
    if (directory / "model.json").is_file():
        read_model(directory)
        checks.append("model.json: the model of this certificate and policy")
    show(
        {"verified": True, "checks": checks},
        as_json=as_json,
        text="\n".join([*checks, "verified"]),
    )


def _read(directory: Path) -> "Certificate":
    from corrdp.certificate import Certificate

    path = directory / "certificate.json" if directory.is_dir() else directory
    return Certificate.from_file(path)
