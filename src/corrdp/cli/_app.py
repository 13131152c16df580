"""The command tree, defaults from ``corrdp.toml``, and errors as exit codes.

The file has one table per command, keys as the options are typed: ``[train]`` with
``epsilon = 1``. What is typed wins. A message on stderr names what was taken from the
file, so that no run depends on it unseen.
"""

import errno
import signal
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from corrdp._defects import defect_text
from corrdp._names import did_you_mean
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
from corrdp.cli._options import read_toml
from corrdp.exceptions import CorrDPError, GuaranteeVoidError

DEFAULTS_FILE = Path("corrdp.toml")
MUST_BE_TYPED = frozenset(
    {"accept-new-data", "all", "help", "research", "seed"}
    # What a table is declared: left from another run, it would print a private one.
    | {"public-rows", "public-test", "source"}
)
"""Whoever takes a responsibility, or gives up the promise, does so in that run."""

DEFECT = 1
REFUSED = 3
VOID = 4
TERMINATED = 143
app = typer.Typer(
    name="corrdp",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Correlation-aware differential privacy: less noise where less leaks.",
    epilog="Exit codes: 0 success, 1 an error not foreseen, 2 wrong command line, "
    "3 input refused, 4 guarantee void, 130 or 143 interrupted.",
)


def option_defaults(group: Any, chosen: str | None) -> dict[str, dict[str, Any]]:
    """Return the defaults of every command by parameter, as click takes them.

    What the chosen command takes from the file is told.
    """
    if not DEFAULTS_FILE.is_file():
        return {}
    document = read_toml(DEFAULTS_FILE, "Correct it, or move it away.")
    found = {
        name: _of_command(name, table, group.commands)
        for name, table in document.items()
    }
    if chosen is not None and found.get(chosen):
        told = ", ".join(f"--{option}" for option in document[chosen])
        print(f"corrdp: from {DEFAULTS_FILE}: {told}", file=sys.stderr)
    return found


def _of_command(name: str, table: Any, commands: Mapping[str, Any]) -> dict[str, Any]:
    if name not in commands or hasattr(commands[name], "commands"):
        raise CorrDPError(
            f"{str(DEFAULTS_FILE)!r} has a table [{name}], which is not a command."
            f"{did_you_mean(name, list(commands))} Remove it."
        )
    if not isinstance(table, dict):
        raise CorrDPError(
            f"{name} in {str(DEFAULTS_FILE)!r} must be a table of options, such as "
            f"[{name}] with epsilon = 1."
        )
    options = {
        option.removeprefix("--"): parameter.name
        for parameter in commands[name].params
        for option in parameter.opts
        if option.startswith("--")
    }
    for key in table:
        if key in MUST_BE_TYPED:
            raise CorrDPError(
                f"{str(DEFAULTS_FILE)!r} sets {key!r} for {name}, which has to be "
                "typed in the run that it is for. Remove it from the file."
            )
        if key not in options:
            raise CorrDPError(
                f"{str(DEFAULTS_FILE)!r} sets {key!r} for {name}, which has no option "
                f"--{key}.{did_you_mean(key, list(options))} Correct it."
            )
    return {options[key]: value for key, value in table.items()}


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
        from importlib.metadata import version  # which takes a tenth of a start

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
        _require_output()
        app()
    except GuaranteeVoidError as error:
        _stop(error, VOID)
    except CorrDPError as error:
        _stop(error, REFUSED)
    except OSError as error:
        if error.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            _stop_at_defect(error)
        path = f"there can be no {error.filename!r} ({error.strerror})"
        _stop(CorrDPError(f"{path}. Choose another path."), REFUSED)
    except Exception as error:
        _stop_at_defect(error)


def _require_output() -> None:
    """Raise if nobody will hear the answers, which may cost budget."""
    if sys.stdout is None:
        raise CorrDPError(
            "standard output is closed, and what is printed there would be lost. Send "
            "it to a file, or to /dev/null."
        )


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"corrdp: warning: {message}", file=sys.stderr)


def _terminate(_: int, __: FrameType | None) -> None:
    raise SystemExit(TERMINATED)  # unwinds, so that unfinished files are removed


def _stop_at_defect(error: Exception) -> None:
    """Show where an error that nobody foresaw came from, and not what it says."""
    print(defect_text(error), file=sys.stderr)
    raise SystemExit(DEFECT)


def _stop(error: CorrDPError, code: int) -> None:
    print(f"corrdp: {error}", file=sys.stderr)
    raise SystemExit(code)
