"""``corrdp predict``: apply a saved model to a table."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from corrdp.cli._options import DataArgument
from corrdp.cli._output import JsonOption, show, working, write_text


def predict(
    directory: Annotated[Path, typer.Argument(help="A directory of corrdp train.")],
    data: DataArgument,
    out: Annotated[Path, typer.Option(help="CSV file to write, one line per row.")],
    as_json: JsonOption = False,
) -> None:
    """Predict the label of every row; a changed model is refused with exit code 4.

    A model may be applied to any table without further cost to those it was trained
    on. A prediction says something about its own row: treat it like the row.
    """
    from corrdp.cli._data import read_data
    from corrdp.cli._models import load_estimator

    model = load_estimator(directory)
    with working("Predicting"):
        rows = read_data(data, model.policy_, with_label=False)
        columns = {"prediction": model.predict(rows).tolist()}
        if hasattr(model, "predict_proba"):
            chances = model.predict_proba(rows)
            columns |= {
                f"probability of {label}": chances[:, index].tolist()
                for index, label in enumerate(model.classes_)
            }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_text(out, text.getvalue())
    show(
        {"predictions": str(out), "rows": rows.num_rows},
        as_json=as_json,
        text=f"wrote {rows.num_rows} predictions to {out}",
    )
