"""Arguments and options that several commands share."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp.exceptions import CorrDPError

if TYPE_CHECKING:
    from corrdp.policy import Policy


# Who hosts the partitions of a table.
EngineChoice = StrEnum("EngineChoice", ["DASK", "RAY", "SPARK"])


DataArgument = Annotated[
    str,
    typer.Argument(
        help="CSV, JSON lines, Parquet or Arrow file, a glob or a directory of them, "
        "or file.db::table (SQLite, DuckDB)."
    ),
]
PolicyOption = Annotated[Path, typer.Option(help="Policy file (TOML).")]
RunArgument = Annotated[Path, typer.Argument(help="A directory of corrdp train.")]
ResultsOption = Annotated[Path, typer.Option(help="Directory for the results.")]
TitleOption = Annotated[str | None, typer.Option(help="Heading of the report.")]
PageOption = Annotated[
    Path | None, typer.Option(help="Also write tables and pictures to this page.")
]
SpreadsheetSafeOption = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="Write texts that a spreadsheet would run as formulas with an "
        "apostrophe in front; they are refused otherwise.",
    ),
]
EpsilonOption = Annotated[float, typer.Option(help="Budget of sensitive features.")]
DeltaOption = Annotated[
    float, typer.Option(help="Failure probability, well below one over the rows.")
]
AnswersDeltaOption = Annotated[
    float, typer.Option(help="Failure probability; 0 means Laplace noise.")
]
LeakageOption = Annotated[
    Path | None,
    typer.Option(help="Leakage table of corrdp leakage --out; default: declared."),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        help="Fixed seed, for research: whoever knows it subtracts the noise."
    ),
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(help="Ledger to charge; created with --ledger-epsilon if absent."),
]
LedgerEpsilonOption = Annotated[
    float | None,
    typer.Option(help="Total budget of a new ledger, for all releases ever."),
]
LedgerDeltaOption = Annotated[
    float | None, typer.Option(help="Total delta of a new ledger; default --delta.")
]
AcceptNewDataOption = Annotated[
    bool,
    typer.Option(
        "--accept-new-data", help="Charge a table that the ledger has not seen."
    ),
]
WorkersOption = Annotated[
    int, typer.Option(min=1, help="Processes that sum over the rows.")
]
EngineOption = Annotated[
    EngineChoice | None,
    typer.Option(help="Let workers of an engine read the files and sum over the rows."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        help="Where the engine runs: a Dask scheduler, auto for Ray, a master of "
        "Spark; default: this machine."
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(help="Private directory that keeps the encoded rows for later runs."),
]


_NAME = re.compile(
    r"""\s*(?:"(?P<quoted>(?:[^"]|"")*)(?:"\s*|$)|(?P<bare>[^,]*))(?:,|$)"""
)


def names(text: str | None) -> list[str]:
    """Return the names in a comma-separated option; quotes keep commas and blanks."""
    found = (
        match["bare"].strip().replace("\n", " ")
        if match["quoted"] is None
        else match["quoted"].replace('""', '"')
        for match in _NAME.finditer(text or "")
    )
    return [name for name in found if name]


def read_toml(path: Path, remedy: str) -> dict[str, Any]:
    """Return the tables of a TOML file of options, or raise `CorrDPError`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorrDPError(
            f"cannot read {str(path)!r} ({type(error).__name__}: {error}). {remedy}"
        ) from None


def refuse_on_engine(
    engine: EngineChoice | None, address: str | None, needs_rows: Mapping[str, bool]
) -> None:
    """Raise for options that need the rows in this process, before anything is read."""
    if engine is None:
        if address is not None:
            raise CorrDPError(
                f"--address={address!r} was given without --engine, so nobody would be "
                "asked there. Name the engine, or leave the address out."
            )
        return
    given = [option for option, was_given in needs_rows.items() if was_given]
    if given:
        raise CorrDPError(
            f"{given[0]} needs the rows in this process, and with --engine "
            f"{engine.value} they stay with its workers. Leave one of them out."
        )


@contextmanager
def rows_for(
    engine: EngineChoice | None, address: str | None, data: str, policy: "Policy"
) -> Iterator[Any]:
    """Give the files to an engine for as long as a command takes; or as they are."""
    if engine is None:
        yield data
        return
    from corrdp.engines import engine_files, engine_session
    from corrdp.policy import number_columns

    table = engine_files(engine.value, data, number_columns(policy.columns))
    with engine_session(engine.value, address):
        yield table
