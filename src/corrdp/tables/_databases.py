"""Tables of SQLite and DuckDB files, in batches."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from corrdp.exceptions import CorrDPError
from corrdp.tables._cells import (
    Reader,
    check_names,
    guarded,
    number_array,
    text_array,
    texts_and_numbers,
)

DATABASE_LOGS = ("-wal", "-journal", ".wal")
"""Ends of files beside a database that hold rows which it does not have yet."""


def database_reader(path: Path, table: str) -> Reader:
    """Return the reader of a table of a database file."""
    with path.open("rb") as file:
        header = file.read(16)
    if header.startswith(b"SQLite format 3"):
        return partial(_sqlite_batches, table)
    if header[8:12] == b"DUCK":
        return partial(_duckdb_batches, table)
    raise CorrDPError(
        f"{str(path)!r} is neither an SQLite nor a DuckDB file. "
        "Write file.db::table for those two only."
    )


def _sqlite_batches(
    table: str,
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    import sqlite3
    from contextlib import closing

    import pyarrow as pa

    def batches() -> Iterator[Any]:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            present = [
                row[1]
                for row in connection.execute(f"pragma table_info({_quoted(table)})")
            ]
            cursor = connection.execute(_query(path, table, columns, present))
            names = [entry[0] for entry in cursor.description]
            while rows := cursor.fetchmany(batch_rows):  # each cell has its own type
                cells = zip(names, zip(*rows, strict=True), strict=True)
                yield pa.table(
                    {
                        name: (number_array if name in number_columns else text_array)(
                            column
                        )
                        for name, column in cells
                    }
                )

    return guarded(path, batches, "Is its text UTF-8?")


def _duckdb_batches(
    table: str,
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    try:
        import duckdb
    except ImportError:
        raise CorrDPError(
            "Reading a DuckDB file needs duckdb, which is not installed. Install it "
            "with pip install duckdb."
        ) from None
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        with duckdb.connect(str(path), read_only=True) as connection:
            found: Any = connection.execute(
                "select column_name from information_schema.columns "
                "where table_name = ? order by ordinal_position",
                [table],
            ).fetchall()
            present = [row[0] for row in found]
            result = connection.sql(_query(path, table, columns, present))
            for batch in result.to_arrow_reader(batch_rows):
                yield texts_and_numbers(pa.Table.from_batches([batch]), number_columns)

    return guarded(path, batches, "Is the DuckDB version that wrote it installed?")


def _query(
    path: Path, table: str, columns: Sequence[str] | None, present: Sequence[str]
) -> str:
    if not present:
        raise CorrDPError(
            f"{str(path)!r} has no table {table!r}. Write file.db::table with a table "
            "of the file."
        )
    check_names(path, columns, present)
    chosen = ", ".join(_quoted(name) for name in columns or present)
    return f"select {chosen} from {_quoted(table)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
