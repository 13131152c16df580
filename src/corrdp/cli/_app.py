"""The command tree and the translation of errors into exit codes."""

import signal
import sys
import warnings
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any

import typer

from corrdp.cli import (
    _account,
    _audit,
    _certificate,
    _check,
    _confirm,
    _demo,
    _evaluate,
    _init,
    _leakage,
    _ledger,
    _plan,
    _predict,
    _query,
    _report,
    _reproduce,
    _sample,
    _studio,
    _sweep,
    _synthesize,
    _train,
)
from corrdp.cli._defaults import option_defaults
from corrdp.exceptions import CorrDPError, GuaranteeVoidError

REFUSED = 3
VOID = 4
TERMINATED = 143

app = typer.Typer(
    name="corrdp",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Correlation-aware differential privacy: less noise where less leaks.",
    epilog="Exit codes: 0 success, 2 wrong command line, 3 input refused, "
    "4 guarantee void, 130 or 143 interrupted.",
)
app.command("studio")(_studio.studio)
app.command("init")(_init.init)
app.command("confirm")(_confirm.confirm)
app.command("check")(_check.check)
app.command("leakage")(_leakage.leakage)
app.command("plan")(_plan.plan)
app.command("train")(_train.train)
app.command("predict")(_predict.predict)
app.command("evaluate")(_evaluate.evaluate)
app.command("sweep")(_sweep.sweep)
app.command("report")(_report.report)
app.command("query")(_query.query)
app.command("synthesize")(_synthesize.synthesize)
app.command("sample")(_sample.sample)
app.add_typer(_ledger.app, name="ledger")
app.add_typer(_certificate.app, name="certificate")
app.command("audit")(_audit.audit)
app.add_typer(_account.app, name="account")
app.command("reproduce")(_reproduce.reproduce)
app.command("demo")(_demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"corrdp {version('corrdp')}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            is_eager=True,
            callback=_show_version,
        ),
    ] = False,
) -> None:
    del version  # its callback has done all
    context.default_map = dict(
        option_defaults(context.command, context.invoked_subcommand)
    )


def main() -> None:
    """Run the command line; errors become one line and an exit code."""
    warnings.showwarning = _warn
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except GuaranteeVoidError as error:
        _stop(error, VOID)
    except CorrDPError as error:
        _stop(error, REFUSED)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"corrdp: warning: {message}", file=sys.stderr)


def _terminate(_: int, __: FrameType | None) -> None:
    raise SystemExit(TERMINATED)  # unwinds, so that unfinished files are removed


def _stop(error: CorrDPError, code: int) -> None:
    print(f"corrdp: {error}", file=sys.stderr)
    raise SystemExit(code)
