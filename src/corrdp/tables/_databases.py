"""Tables of SQLite and DuckDB files, in batches."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from corrdp.exceptions import CorrDPError
from corrdp.tables._cells import (
    Reader,
    Wanted,
    arrow_batches,
    check_names,
    guarded,
    object_batch,
)

DATABASE_LOGS = ("-wal", "-journal", ".wal")
"""Ends of files beside a database that hold rows which it does not have yet."""


def database_reader(path: Path, table: str) -> Reader:
    """Return the reader of a table of a database file."""
    with path.open("rb") as file:
        header = file.read(16)
    if header.startswith(b"SQLite format 3"):
        return partial(_sqlite_batches, table=table)
    if header[8:12] == b"DUCK":
        return partial(_duckdb_batches, table=table)
    raise CorrDPError(
        f"{str(path)!r} is neither an SQLite nor a DuckDB file. "
        "Write file.db::table for those two only."
    )


@guarded("Is its text UTF-8?")
def _sqlite_batches(path: Path, wanted: Wanted, *, table: str) -> Iterator[Any]:
    import sqlite3
    from contextlib import closing

    uri = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        found = connection.execute(f"pragma table_xinfo({quoted(table)})")
        present = [row[1] for row in found if row[6] != 1]  # 1: hidden, of a module
        # Text that is no UTF-8 is a cell's own matter: it must not end all others.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        # An index that holds all that is wanted would be read instead of the table:
        # rows would come in the order of its cells, by what else is asked for.
        query = _query(path, table, wanted, present)
        cursor = connection.execute(f"{query} not indexed")
        names = [entry[0] for entry in cursor.description]
        while rows := cursor.fetchmany(wanted.batch_rows):  # a cell has its own type
            yield object_batch(zip(names, zip(*rows, strict=True), strict=True), wanted)


@guarded("Is the DuckDB version that wrote it installed?")
def _duckdb_batches(path: Path, wanted: Wanted, *, table: str) -> Iterator[Any]:
    try:
        import duckdb
    except ImportError:
        raise CorrDPError(
            "Reading a DuckDB file needs duckdb, which is not installed. Install it "
            "with pip install duckdb."
        ) from None
    with duckdb.connect(str(path), read_only=True) as connection:
        found: Any = connection.execute(
            "select column_name from information_schema.columns "
            "where table_name = ? and table_schema = current_schema() "
            "order by ordinal_position",
            [table],
        ).fetchall()
        present = [row[0] for row in found]
        result = connection.sql(_query(path, table, wanted, present))
        for batch in result.to_arrow_reader(wanted.batch_rows):
            yield from arrow_batches(batch, wanted)


def _query(path: Path, table: str, wanted: Wanted, present: Sequence[str]) -> str:
    if not present:
        raise CorrDPError(
            f"{str(path)!r} has no table {table!r}. Write file.db::table with a table "
            "of the file."
        )
    check_names(path, wanted.columns, present)
    chosen = ", ".join(quoted(name) for name in wanted.columns or present)
    return f"select {chosen} from {quoted(table)}"


def quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
