"""``corrdp studio``: a local page that leads from a table to a certificate."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from corrdp._files import cannot_write
from corrdp.cli import _options as options
from corrdp.cli._paying import LedgerOptions
from corrdp.exceptions import CorrDPError


def studio(
    data: options.DataArgument,
    out: Annotated[
        Path, typer.Option(help="Directory for the policy and all results.")
    ] = Path("studio"),
    ledger: options.LedgerOption = None,
    ledger_epsilon: options.LedgerEpsilonOption = None,
    port: Annotated[
        int, typer.Option(help="Port on this machine; 0 takes any free one.", min=0)
    ] = 0,
    browser: Annotated[
        bool, typer.Option(help="Open the page in the default browser.")
    ] = True,
) -> None:
    """Lead from a table to a policy, a plan, a model and its certificate, by click.

    The page is served on this machine alone, behind a token that works once; nothing
    leaves the machine. Drafts stay in memory until every value is confirmed. The page
    runs the same commands as this command line, and shows them.

    Example: corrdp studio data.csv --ledger budget.ledger --ledger-epsilon 3
    """
    try:
        from corrdp.studio import Session, serve
    except ImportError:
        raise CorrDPError(
            "the studio needs starlette, uvicorn and jinja2, which are not installed. "
            "Install them with pip install 'corrdp[studio]'."
        ) from None
    if ledger is None:
        LedgerOptions(ledger_epsilon=ledger_epsilon).refuse_without_ledger()
    where = data if "://" in data else str(Path(data).absolute())
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(out, error) from None
    session = Session(
        where,
        out.absolute(),
        ledger=None if ledger is None else ledger.absolute(),
        ledger_epsilon=ledger_epsilon,
    )
    serve(session, port=port, tell=_teller(browser))


def _teller(browser: bool) -> Callable[[str], None]:
    def tell(address: str) -> None:
        print(f"The studio listens on this machine alone. Open:\n\n  {address}\n")
        print("Stop it with Ctrl-C.", flush=True)
        if browser:
            import webbrowser

            webbrowser.open(address)

    return tell
