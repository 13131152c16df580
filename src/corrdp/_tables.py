"""Tables from files, whole or in batches: CSV, Parquet, Arrow, SQLite, DuckDB.

Needs pyarrow (``pip install corrdp[files]``). Parsers quote what they stumble over, so
their messages never pass: a refusal names the file and the declared columns only.
"""

import glob
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from corrdp._validate import check_count
from corrdp.exceptions import CorrDPError, PolicyError

BATCH_ROWS = 2**18
"""Rows of a batch, unless told otherwise."""

CSV_BLOCK_BYTES = 2**24
"""Bytes of CSV text parsed at once; column types are read from the first block."""

MISSING_TEXTS = ("", "NA", "NaN", "nan", "null", "NULL")
"""What counts as missing in a CSV file."""

Reader = Callable[[Path, Sequence[str] | None, Sequence[str], int], Iterator[Any]]


def read_table(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    number_columns: Sequence[str] = (),
) -> Any:
    """Return a whole file as a pyarrow table.

    Parameters
    ----------
    path : str or Path
        See `iter_batches`.
    columns : sequence of str, optional
        Columns to read; all of them by default.
    number_columns : sequence of str
        CSV columns to read as floats whatever the first rows look like.
    """
    require_pyarrow()
    import pyarrow as pa

    batches = list(iter_batches(path, columns, number_columns=number_columns))
    try:
        return pa.concat_tables(batches, promote_options="permissive")
    except pa.ArrowException:
        pass
    raise CorrDPError(
        f"the parts of {str(path)!r} have columns of different types. "
        "Write them with one schema."
    )


def iter_batches(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    number_columns: Sequence[str] = (),
    batch_rows: int = BATCH_ROWS,
) -> Iterator[Any]:
    """Yield a file as pyarrow tables of at most `batch_rows` rows.

    Parameters
    ----------
    path : str or Path
        A file ending in ``.csv``, ``.csv.gz`` (or ``.tsv``), ``.parquet``, ``.arrow``,
        ``.feather`` or ``.ipc``; a glob pattern of such files; or
        ``file.db::table`` for a table of an SQLite or DuckDB file.
    columns : sequence of str, optional
        Columns to read; all of them by default.
    number_columns : sequence of str
        CSV columns to read as floats whatever the first rows look like.
    batch_rows : int
        Largest number of rows held at a time (CSV: a block of text).

    Raises
    ------
    CorrDPError
        If the file cannot be found, has no known format or cannot be parsed.
    PolicyError
        If a column is absent.
    """
    require_pyarrow()
    check_count("batch_rows", batch_rows)
    for part, table in _parts(str(path)):
        reader = _reader(part, table)
        yield from reader(part, columns, number_columns, batch_rows)


def require_pyarrow() -> None:
    """Raise unless pyarrow is there."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise CorrDPError(
            "Reading files needs pyarrow, which is not installed. Install it with "
            "pip install 'corrdp[files]', or pass a data frame."
        ) from None


def _parts(path: str) -> list[tuple[Path, str | None]]:
    name, _, table = path.partition("::")
    if Path(name).is_file():
        return [(Path(name), table or None)]
    found = sorted(glob.glob(name)) if glob.has_magic(name) else []
    if not found:
        raise CorrDPError(
            f"there is no file {name!r}. Check the path; a pattern such as "
            "'part-*.parquet' must match at least one file."
        )
    return [(Path(part), table or None) for part in found]


def _reader(path: Path, table: str | None) -> Reader:
    if table is not None:
        return _database_reader(path, table)
    suffix = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    readers: dict[str, Reader] = {
        ".csv": _csv_batches,
        ".csv.gz": _csv_batches,
        ".tsv": _csv_batches,
        ".tsv.gz": _csv_batches,
        ".parquet": _parquet_batches,
        ".arrow": _arrow_batches,
        ".feather": _arrow_batches,
        ".ipc": _arrow_batches,
    }
    known = [end for end in readers if suffix.lower().endswith(end)]
    if not known:
        raise CorrDPError(
            f"the format of {str(path)!r} is not known. Use one of "
            f"{', '.join(readers)}, or file.db::table for SQLite and DuckDB."
        )
    return readers[known[0]]


def _csv_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    types = dict.fromkeys(number_columns, pa.float64())

    def opened(column_types: dict[str, Any], names: Sequence[str] | None) -> Any:
        return csv.open_csv(
            pa.input_stream(str(path), compression="detect"),
            read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
            parse_options=csv.ParseOptions(
                delimiter="\t" if ".tsv" in path.name.lower() else ","
            ),
            convert_options=csv.ConvertOptions(
                include_columns=names,
                column_types=column_types,
                null_values=list(MISSING_TEXTS),
                strings_can_be_null=True,
            ),
        )

    def batches() -> Iterator[Any]:
        if columns is not None:
            _check_present(path, columns, opened({}, None).schema.names)
        reader = opened(types, columns)
        untyped = [f.name for f in reader.schema if pa.types.is_null(f.type)]
        if untyped:  # nothing but missing values in the first block
            reader = opened(dict.fromkeys(untyped, pa.string()) | types, columns)
        for batch in reader:
            table = pa.Table.from_batches([batch])
            for start in range(0, table.num_rows, batch_rows):
                yield table.slice(start, batch_rows)

    hint = (
        "Rows of unequal length, or a column that changes its type after the first "
        f"{CSV_BLOCK_BYTES >> 20} MB? Correct it, or convert the file to Parquet"
    )
    return _guarded(path, batches, hint)


def _parquet_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    def batches() -> Iterator[Any]:
        with parquet.ParquetFile(path) as file:
            _check_present(path, columns, file.schema_arrow.names)
            for batch in file.iter_batches(batch_rows, columns=columns):
                yield pa.Table.from_batches([batch])

    return _guarded(path, batches, "Is it a Parquet file?")


def _arrow_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        with pa.memory_map(str(path)) as source:
            is_stream = source.read(6) != b"ARROW1"
            source.seek(0)
            reader = (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(source)
            _check_present(path, columns, reader.schema.names)
            count = None if is_stream else reader.num_record_batches
            held = (
                iter(reader)
                if count is None
                else (reader.get_batch(index) for index in range(count))
            )
            for batch in held:
                table = pa.Table.from_batches([batch])
                table = table if columns is None else table.select(list(columns))
                for start in range(0, table.num_rows, batch_rows):
                    yield table.slice(start, batch_rows)

    return _guarded(path, batches, "Is it an Arrow or Feather (version 2) file?")


def _database_reader(path: Path, table: str) -> Reader:
    with path.open("rb") as file:
        header = file.read(16)
    if header.startswith(b"SQLite format 3"):
        return lambda p, columns, _, rows: _sqlite_batches(p, table, columns, rows)
    if header[8:12] == b"DUCK":
        return lambda p, columns, _, rows: _duckdb_batches(p, table, columns, rows)
    raise CorrDPError(
        f"{str(path)!r} is neither an SQLite nor a DuckDB file. "
        "Write file.db::table for those two only."
    )


def _sqlite_batches(
    path: Path, table: str, columns: Sequence[str] | None, batch_rows: int
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
            while rows := cursor.fetchmany(batch_rows):
                yield pa.table(
                    dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
                )

    return _guarded(path, batches, "Does a column mix text and numbers?")


def _duckdb_batches(
    path: Path, table: str, columns: Sequence[str] | None, batch_rows: int
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
                yield pa.Table.from_batches([batch])

    return _guarded(path, batches, "Is the DuckDB version that wrote it installed?")


def _query(
    path: Path, table: str, columns: Sequence[str] | None, present: Sequence[str]
) -> str:
    if not present:
        raise CorrDPError(
            f"{str(path)!r} has no table {table!r}. Write file.db::table with a table "
            "of the file."
        )
    _check_present(path, columns, present)
    chosen = ", ".join(_quoted(name) for name in columns or present)
    return f"select {chosen} from {_quoted(table)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_present(
    path: Path, columns: Sequence[str] | None, present: Sequence[str]
) -> None:
    absent = [name for name in columns or () if name not in present]
    if absent:
        raise PolicyError(
            f"{str(path)!r} lacks the columns {', '.join(map(repr, absent))}. "
            "Add them, or remove them from the policy."
        )


def _guarded(
    path: Path, batches: Callable[[], Iterator[Any]], hint: str
) -> Iterator[Any]:
    """Pass batches on; a parser's own error may quote rows and is dropped."""
    failure = ""
    try:
        yield from batches()
    except CorrDPError:
        raise
    except Exception as error:
        failure = type(error).__name__
    if failure:
        raise CorrDPError(f"cannot read {str(path)!r} ({failure}). {hint}")
