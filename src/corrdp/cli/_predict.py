"""``corrdp predict``: apply a saved model to a table."""

from pathlib import Path
from typing import Annotated

import typer

from corrdp._files import csv_text, write_text
from corrdp.cli._options import DataArgument, RunArgument
from corrdp.cli._output import (
    JsonOption,
    check_out,
    refuse_formulas,
    refuse_other_kind,
    require_csv_name,
    show,
    working,
)


def predict(
    directory: RunArgument,
    data: DataArgument,
    out: Annotated[Path, typer.Option(help="CSV file to write, one line per row.")],
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help="Write labels that a spreadsheet would run as formulas with an "
            "apostrophe in front; they are refused otherwise.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the label of every row; a changed model is refused with exit code 4.

    A model may be applied to any table without further cost to those it was trained
    on. A prediction says something about its own row: treat it like the row. The file
    is readable for its owner alone.

    Example: corrdp predict model new.csv --out predictions.csv
    """
    from corrdp.cli._models import load_estimator
    from corrdp.policy import read_declared

    check_out(out, data)
    require_csv_name(out)
    refuse_other_kind(out, lambda text: text.startswith("prediction"))
    model = load_estimator(directory)
    labels = getattr(model, "classes_", ())
    if not spreadsheet_safe:
        refuse_formulas(labels, "labels")
    with working("Predicting"):
        rows = read_declared(data, model.policy_, with_label=False)
        columns = {"prediction": model.predict(rows).tolist()}
        if hasattr(model, "predict_proba"):
            chances = model.predict_proba(rows)
            columns |= {
                f"probability of {label}": chances[:, index].tolist()
                for index, label in enumerate(labels)
            }
    lines = zip(*columns.values(), strict=True)
    text = csv_text(list(columns), lines, spreadsheet_safe=spreadsheet_safe)
    write_text(out, text, private=True)
    show(
        {"predictions": str(out), "rows": rows.num_rows},
        as_json=as_json,
        text=f"wrote {rows.num_rows} predictions to {out}",
    )
