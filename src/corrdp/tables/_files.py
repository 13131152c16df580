"""Tables from files, whole or in batches: CSV, Parquet, Arrow, SQLite, DuckDB.

Needs pyarrow (``pip install corrdp[files]``). Columns declared numbers are read as
floats, all others as canonical text, cell by cell (`_cells`): no type is ever inferred,
since one record could change how all others are read. Parsers quote what they stumble
over, so their messages never pass: a refusal names the file and the declared columns
only.
"""

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from corrdp._validate import check_count
from corrdp.exceptions import CorrDPError
from corrdp.tables._arrow_cells import Reader, check_names, guarded, texts_and_numbers
from corrdp.tables._databases import DATABASE_LOGS, database_reader
from corrdp.tables._directories import directory_batches, files_under
from corrdp.tables._sources import foreign_batches, is_foreign_source

BATCH_ROWS = 2**18
"""Rows of a batch, unless told otherwise."""

CSV_BLOCK_BYTES = 2**24
"""Bytes of CSV text parsed at once."""


def is_source(data: Any) -> bool:
    """Return whether rows are read in batches: a path, or what a library reads lazily.

    Frames and arrays are not: they are in memory.
    """
    return isinstance(data, str | Path) or is_foreign_source(data)


def files_of(data: Any) -> list[Path] | None:
    """Return the files whose bytes are all that a source holds; None if none are.

    Those of a path, with what a database has written beside itself. A dataset of files
    may be filtered or projected, so that they do not tell which rows it has.
    """
    if not isinstance(data, str | Path):
        return None
    if Path(data).is_dir():
        return files_under(Path(data))
    found = [part for part, _ in _parts(str(data))]
    if "::" in str(data):
        logs = [Path(f"{path}{end}") for path in found for end in DATABASE_LOGS]
        found += [path for path in logs if path.is_file()]
    return found


def read_table(
    path: Any,
    columns: Sequence[str] | None = None,
    *,
    number_columns: Sequence[str],
) -> Any:
    """Return a whole file as a pyarrow table of texts and floats.

    Parameters
    ----------
    path : str or Path
        See `iter_batches`.
    columns : sequence of str, optional
        Columns to read; all of them by default.
    number_columns : sequence of str
        Columns declared numbers, read as floats. Every other column is text; an
        empty sequence reads text everywhere.
    """
    require_pyarrow()
    import pyarrow as pa

    batches = list(iter_batches(path, columns, number_columns=number_columns))
    return pa.concat_tables(batches, promote_options="permissive")


def iter_batches(
    path: Any,
    columns: Sequence[str] | None = None,
    *,
    number_columns: Sequence[str],
    batch_rows: int = BATCH_ROWS,
    may_be_empty: bool = False,
) -> Iterator[Any]:
    """Yield a file as pyarrow tables of texts and floats, `batch_rows` rows at most.

    Parameters
    ----------
    path : str, Path or source
        A file ending in ``.csv``, ``.csv.gz`` (or ``.tsv``), ``.parquet``, ``.arrow``,
        ``.feather`` or ``.ipc``; a glob pattern of such files; or
        ``file.db::table`` for a table of an SQLite or DuckDB file; a directory of
        files, where ``name=value`` in a path is a column; a pyarrow ``Dataset`` or
        ``RecordBatchReader`` (which can be read once), a polars ``LazyFrame``, a
        DuckDB relation.
    columns : sequence of str, optional
        Columns to read; all of them by default.
    number_columns : sequence of str
        Columns declared numbers: floats, null where a cell says no number. Every
        other column holds canonical texts; only a cell without content in a typed
        file (null, NaN) is null there, the texts ``NA`` and ``""`` are texts.
    batch_rows : int
        Largest number of rows held at a time (CSV: a block of text).
    may_be_empty : bool
        Whether a file without rows is read, as one of several may be.

    Raises
    ------
    CorrDPError
        If the file cannot be found, has no known format, cannot be parsed or holds
        no rows.
    PolicyError
        If a column is absent, or two have the same name.

    Guarantee
    ---------
    A cell of a batch is a function of the same cell of the file, and of nothing else
    in it (docs/theory/encoder.md).
    """
    require_pyarrow()
    check_count("batch_rows", batch_rows)
    n_rows = 0
    terms = (columns, number_columns, batch_rows)
    for batch in (
        foreign_batches(path, *terms)
        if is_foreign_source(path)
        else _file_batches(Path(path), *terms)
    ):
        n_rows += batch.num_rows
        yield batch
    if is_foreign_source(path):
        path = type(path).__name__
    if n_rows == 0 and not may_be_empty:
        raise CorrDPError(f"{str(path)!r} has no rows. Pass a table with at least one.")


def _file_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    if path.is_dir():
        yield from directory_batches(path, columns, number_columns, batch_rows, _reader)
        return
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


def _reader(path: Path, table: str | None = None) -> Reader:
    if table is not None:
        return database_reader(path, table)
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

    delimiter = "\t" if ".tsv" in path.name.lower() else ","

    def opened(names: Sequence[str], n_columns: int) -> Any:
        return csv.open_csv(
            pa.input_stream(str(path), compression="detect"),
            read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
            parse_options=csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                # A row whose only cell is empty is a row: their number is public.
                ignore_empty_lines=n_columns > 1,
            ),
            convert_options=csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
            ),
        )

    def batches() -> Iterator[Any]:
        present, has_rows = _header(path, delimiter)
        if not has_rows:
            return
        check_names(path, columns, present)
        reader = opened(present if columns is None else columns, len(present))
        inferred = [f.name for f in reader.schema if not pa.types.is_string(f.type)]
        if inferred:
            raise AssertionError("a column of a CSV file was not read as text")
        for batch in reader:
            table = pa.Table.from_batches([batch])
            for start in range(0, table.num_rows, batch_rows):
                yield texts_and_numbers(table.slice(start, batch_rows), number_columns)

    hint = (
        "Rows of unequal length, or text that is not UTF-8? Correct it, or convert "
        "the file, for example with iconv -f latin1 -t utf8"
    )
    return guarded(path, batches, f"{hint}.")


def _header(path: Path, delimiter: str) -> tuple[list[str], bool]:
    """Return the names in the first line of a CSV file, and whether lines follow."""
    import csv
    import io

    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        names = next(csv.reader(text, delimiter=delimiter), [])
        return names, any(len(names) == 1 or line.strip("\r\n") for line in text)


def _parquet_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    def batches() -> Iterator[Any]:
        # Buffers that are read ahead are all kept until the last batch.
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            check_names(path, columns, file.schema_arrow.names)
            for batch in file.iter_batches(batch_rows, columns=columns):
                table = pa.Table.from_batches([batch])
                table = table if columns is None else table.select(list(columns))
                yield texts_and_numbers(table, number_columns)

    return guarded(path, batches, "Is it a Parquet file?")


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
            check_names(path, columns, reader.schema.names)
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
                    yield texts_and_numbers(
                        table.slice(start, batch_rows), number_columns
                    )

    return guarded(path, batches, "Is it an Arrow or Feather (version 2) file?")
