"""``corrdp ledger``: what was released, and what is left."""

from pathlib import Path
from typing import Annotated

import typer

from corrdp.cli._output import JsonOption, show

app = typer.Typer(no_args_is_help=True, help="Show the budget of a data set.")


@app.callback()
def _group() -> None:
    """Keep ``show`` a command of its own although it is the only one."""


@app.command("show")
def show_ledger(
    file: Annotated[Path, typer.Argument(help="A ledger file.")],
    as_json: JsonOption = False,
) -> None:
    """Check a ledger and print its charges and what every class has left.

    Example: corrdp ledger show budget.ledger
    """
    from corrdp.ledger import Ledger

    ledger = Ledger.open(file)
    show(ledger.to_json(), as_json=as_json, text=ledger.to_text())
