"""``corrdp reproduce``: the paper's experiments and their certified twins."""

from enum import StrEnum
from typing import Annotated

import typer

from corrdp.cli._options import ResultsOption
from corrdp.cli._output import JsonOption, counting, results, show


class Name(StrEnum):
    """What can be reproduced."""

    SYNTHETIC = "synthetic"
    SYNTHETIC_MS = "synthetic-ms"
    ADULT = "adult"
    SEPSIS = "sepsis"
    CREDIT = "credit"
    MEDICAL_LINEAR = "medical-linear"
    MEDICAL_NN = "medical-nn"
    TABLES = "tables"
    ALL = "all"


def reproduce(
    name: Annotated[Name, typer.Argument(help="An experiment, the tables, or all.")],
    out: ResultsOption,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small tables and few steps: a rehearsal.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(help="Models per point; default 20, or 2 if quick.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", "--jobs", min=1, help="Processes; default one per core."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the paper's experiments again, beside their certified twins.

    Real tables come from CORRDP_DATA_DIR, the user's cache, or their public origin.
    Finished points are kept in OUT/cache: an interrupted run goes on from there.

    Example: corrdp reproduce adult --quick --out results
    """
    from corrdp.reproduction import reproduce as run

    with results(out) as staging, counting("Training") as progress:
        done = run(
            name.value,
            out=staging,
            cache=out / "cache",
            quick=quick,
            seeds=seeds,
            jobs=workers,
            progress=progress,
        )
        files = [path.name for path in done.files]
    document = {"name": name.value, "quick": quick, "files": files}
    show(document, as_json=as_json, text=f"Saved in {out}: {', '.join(files)}")
