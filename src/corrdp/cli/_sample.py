"""``corrdp sample``: more synthetic rows from a saved synthesizer, at no cost."""

from pathlib import Path
from typing import Annotated

import typer

from corrdp._files import require_room
from corrdp.cli._options import SpreadsheetSafeOption
from corrdp.cli._output import (
    JsonOption,
    refuse_formulas,
    require_csv_name,
    show,
    working,
)
from corrdp.cli._synthesize import declared_texts, write_table


def sample(
    directory: Annotated[
        Path, typer.Argument(help="A directory of corrdp synthesize.")
    ],
    out: Annotated[Path, typer.Option(help="CSV file to write.")],
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many; default: as many as the private table had."
        ),
    ] = None,
    given: Annotated[
        str | None,
        typer.Option(help="Table of public columns, kept as they are, row by row."),
    ] = None,
    spreadsheet_safe: SpreadsheetSafeOption = False,
    seed: Annotated[
        int | None, typer.Option(help="Fixed seed, to draw the same rows again.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw synthetic rows; a changed model is refused with exit code 4.

    Drawing is post-processing: any number of rows, any number of times. No file is
    replaced.

    Example: corrdp sample synthetic --rows 1000 --out more.csv
    """
    from corrdp.policy import read_declared
    from corrdp.synthesis import Synthesizer

    require_csv_name(out)
    require_room(out)  # the private table has the same columns: no file is replaced
    maker = Synthesizer.load(directory)
    if not spreadsheet_safe:
        refuse_formulas(declared_texts(maker.policy_), "names and categories")
    with working("Drawing rows"):
        drawn = maker.sample(
            rows,
            given=None
            if given is None
            else read_declared(given, maker.policy_, with_others=True),
            random_state=seed,
            output="pyarrow",
        )
    write_table(out, drawn, spreadsheet_safe=spreadsheet_safe)
    show(
        {"rows": drawn.num_rows, "out": str(out)},
        as_json=as_json,
        text=f"wrote {drawn.num_rows} synthetic rows to {out}",
    )
