"""The command tree and the translation of errors into exit codes."""

import sys

import typer

from corrdp.cli import _account, _certificate, _demo, _plan
from corrdp.exceptions import CorrDPError, GuaranteeVoidError

REFUSED = 3
VOID = 4

app = typer.Typer(
    name="corrdp",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Correlation-aware differential privacy: less noise where less leaks.",
    epilog="Exit codes: 0 success, 2 wrong command line, 3 input refused, "
    "4 guarantee void.",
)
app.add_typer(_account.app, name="account")
app.add_typer(_certificate.app, name="certificate")
app.command("plan")(_plan.plan)
app.command("demo")(_demo.demo)


def main() -> None:
    """Run the command line; errors become one line and an exit code."""
    try:
        app()
    except GuaranteeVoidError as error:
        _stop(error, VOID)
    except CorrDPError as error:
        _stop(error, REFUSED)


def _stop(error: CorrDPError, code: int) -> None:
    print(f"corrdp: {error}", file=sys.stderr)
    raise SystemExit(code)
