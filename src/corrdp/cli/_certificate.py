"""``corrdp certificate``: read a certificate, or recompute all of its numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corrdp.cli._output import JsonOption, show

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

    Example: corrdp certificate verify model
    """
    from corrdp.policy import Policy

    certificate = _read(directory)
    beside = directory / "policy.toml"
    path = policy or (beside if beside.is_file() else None)
    checks = certificate.verify(None if path is None else Policy.from_file(path))
    show(
        {"verified": True, "checks": list(checks)},
        as_json=as_json,
        text="\n".join([*checks, "verified"]),
    )


def _read(directory: Path) -> "Certificate":
    from corrdp.certificate import Certificate

    path = directory / "certificate.json" if directory.is_dir() else directory
    return Certificate.from_file(path)
