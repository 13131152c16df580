"""``corrdp leakage``: how much each insensitive feature gives away."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from corrdp.cli._output import JsonOption, show, write_text


class Source(StrEnum):
    """Where the leakage comes from."""

    DECLARED = "declared"
    PUBLIC = "public"
    PRIVATE = "private"
    IN_SAMPLE = "in_sample"


def leakage(
    data: Annotated[
        str,
        typer.Argument(
            help="CSV, Parquet or Arrow file, a glob of them, or file.db::table."
        ),
    ],
    policy: Annotated[Path, typer.Option(help="Policy file (TOML).")],
    source: Annotated[
        Source, typer.Option(help="Where the leakage comes from.")
    ] = Source.PRIVATE,
    epsilon: Annotated[
        float | None, typer.Option(help="Budget share of a private release.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Failure probability.")] = None,
    estimator: Annotated[
        str | None, typer.Option(help="Estimator; chosen by column types if left out.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="total_variation, hellinger or wasserstein.")
    ] = "total_variation",
    failure_probability: Annotated[
        float, typer.Option(help="Probability that some upper bound is too small.")
    ] = 1e-3,
    seed: Annotated[
        int | None, typer.Option(help="Fixed seed: noise becomes replayable.")
    ] = None,
    research: Annotated[
        bool,
        typer.Option("--research", help="Show exact private numbers: not private."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also save the table as JSON here.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate how much each insensitive feature tells about the sensitive ones."""
    import json

    from corrdp.mechanisms import estimate_leakage
    from corrdp.policy import Policy

    table = estimate_leakage(
        data,
        Policy.from_file(policy),
        source=source.value,
        epsilon=epsilon,
        delta=delta,
        estimator=estimator,
        metric=metric,
        failure_probability=failure_probability,
        research=research,
        random_state=seed,
    )
    if out is not None:
        write_text(out, json.dumps(table.to_dict(), indent=2, allow_nan=False))
    show(table.to_dict(), as_json=as_json, text=table.to_text())
