"""Tables from files, in batches: CSV, JSON lines, Parquet, Arrow, SQLite, DuckDB.

Needs pyarrow (``pip install corrdp[files]``). How cells are read says `_formats`.
Parsers quote what they stumble over, so their messages never pass: a refusal names the
file and the declared columns only.

Rows that other libraries hold or read lazily come the same way: datasets and readers of
pyarrow, lazy frames of polars, relations of DuckDB. Each is known by its type alone, so
that none of the libraries is imported here first.
"""

import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from corrdp._validate import check_count
from corrdp.exceptions import CorrDPError
from corrdp.tables._cells import Wanted, arrow_batches, check_names, guarded
from corrdp.tables._databases import DATABASE_LOGS, quoted
from corrdp.tables._directories import files_under, folder_columns, with_folders
from corrdp.tables._formats import reader_of

BATCH_ROWS = 2**18
"""Rows of a batch, unless told otherwise."""
_WATCHER: ContextVar[Callable[[int], None] | None] = ContextVar("watcher", default=None)


def is_source(data: Any) -> bool:
    """Return whether rows are read in batches: a path, or what a library reads lazily.

    Frames and arrays are not: they are in memory.
    """
    return isinstance(data, str | Path) or is_foreign_source(data)


def reads_once(data: Any) -> bool:
    """Return whether the rows of a source are gone when they have been read."""
    return _kind(data) == "pyarrow.RecordBatchReader"


def reads_again(data: Any, column: str) -> bool:
    """Return whether a source that has been read still yields a row.

    Others than readers may hold one that is gone, as a DuckDB relation may.
    """
    if not is_foreign_source(data):
        return True
    try:
        next(iter(iter_batches(data, [column], number_columns=(), batch_rows=1)))
    except CorrDPError:
        return False
    return True


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
    """Return a whole source as a pyarrow table, read as `iter_batches` reads it."""
    batches = list(iter_batches(path, columns, number_columns=number_columns))
    import pyarrow as pa

    return pa.concat_tables(batches, promote_options="permissive")


def iter_batches(
    path: Any,
    columns: Sequence[str] | None = None,
    *,
    number_columns: Sequence[str],
    batch_rows: int = BATCH_ROWS,
) -> Iterator[Any]:
    """Yield a file as pyarrow tables of texts and floats, `batch_rows` rows at most.

    Parameters
    ----------
    path : str, Path or source
        A file ending in ``.csv``, ``.csv.gz`` (or ``.tsv``), ``.jsonl`` (or
        ``.ndjson``), ``.parquet``, ``.arrow``, ``.feather`` or ``.ipc``; a glob pattern
        of such files; or ``file.db::table`` for a table of an SQLite or DuckDB file; a
        directory of files, where ``name=value`` in a path is a column; a pyarrow
        ``Dataset`` or ``RecordBatchReader`` (which can be read once), a polars
        ``LazyFrame``, a DuckDB relation.
    columns : sequence of str, optional
        Columns to read; all of them by default.
    number_columns : sequence of str
        Columns declared numbers: floats, null where a cell says no number. Every
        other column holds canonical texts; only a cell without content in a typed
        file (null, NaN) is null there, the texts ``NA`` and ``""`` are texts.
    batch_rows : int
        Largest number of rows held at a time (CSV: a block of text).

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
    wanted = Wanted(columns, number_columns, batch_rows)
    if is_foreign_source(path):
        name = Path(type(path).__name__)  # stands for the path in messages
        batches = _foreign_batches(name, path, wanted)
        path = name
    else:
        batches = _file_batches(Path(path), wanted)
    for batch in batches:
        n_rows += batch.num_rows
        if (tell := _WATCHER.get()) is not None:
            tell(n_rows)
        yield batch
    if n_rows == 0:
        raise CorrDPError(f"{str(path)!r} has no rows. Pass a table with at least one.")


@contextmanager
def watching_rows(tell: Callable[[int], None]) -> Iterator[None]:
    """Call `tell` with the number of rows read so far, after every batch of a source.

    How many a table has is public; how long a batch took is not, so nothing else is
    told.
    """
    token = _WATCHER.set(tell)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def _file_batches(path: Path, wanted: Wanted) -> Iterator[Any]:
    if path.is_dir():
        for file in files_under(path):
            keys = folder_columns(file.relative_to(path))
            yield from with_folders(keys, reader_of(file), file, wanted)
        return
    for part, table in _parts(str(path)):
        yield from reader_of(part, table)(part, wanted)


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


def is_foreign_source(data: Any) -> bool:
    """Return whether rows are held or read lazily by another library."""
    return _kind(data) is not None


@guarded("Read it to its end by itself first, to see what is wrong.")
def _foreign_batches(name: Path, data: Any, wanted: Wanted) -> Iterator[Any]:
    kind = _kind(data)
    assert kind is not None
    for held in _READERS[kind](data, name, wanted):
        yield from arrow_batches(held, wanted)


def _kind(data: Any) -> str | None:
    for base in type(data).__mro__:
        place = base.__module__.partition(".")[0].lstrip("_")
        if (place, base.__name__) in _KINDS:
            return f"{place}.{base.__name__}"
    return None


def _dataset(data: Any, name: Path, wanted: Wanted) -> Iterator[Any]:
    """Read fragment by fragment, each by its own types and not those of the first."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    present = data.schema.names
    check_names(name, wanted.columns, present)
    columns = list(present if wanted.columns is None else wanted.columns)
    try:
        fragments = list(data.get_fragments())
    except ValueError:  # a filter or a projection: rows are what the dataset says
        _refuse_guesses(data, ds.CsvFileFormat | ds.JsonFileFormat)
        yield from data.to_batches(columns=columns, batch_size=wanted.batch_rows)
        return
    _refuse_guesses(data, ds.JsonFileFormat)
    for fragment in fragments:
        keys = ds.get_partition_keys(fragment.partition_expression)
        schema = fragment.physical_schema
        if isinstance(getattr(fragment, "format", None), ds.CsvFileFormat):
            # Its own types are guesses from all rows of a block.
            schema = pa.schema([(column, pa.string()) for column in schema.names])
        own = [column for column in columns if column in schema.names]
        check_names(name, [c for c in columns if c not in keys], schema.names)
        for batch in fragment.to_batches(
            schema=schema, columns=own or schema.names[:1], batch_size=wanted.batch_rows
        ):
            table = pa.Table.from_batches([batch])
            for column in columns:
                if column not in table.column_names:
                    value = pa.scalar(keys[column])
                    table = table.append_column(
                        column, pa.repeat(value, table.num_rows)
                    )
            yield table.select(columns)


def _refuse_guesses(data: Any, formats: Any) -> None:
    """Raise if a dataset, or one that it joins, has files of certain formats."""
    for part in getattr(data, "children", ()):
        _refuse_guesses(part, formats)
    if isinstance(getattr(data, "format", None), formats):
        raise CorrDPError(
            "a dataset of JSON files, or of CSV files that is filtered or projected, "
            "guesses the types of its columns from the rows, so that a row could "
            "change how others are read. Pass the path of CSV files, or write the "
            "rows to Parquet."
        )


def _reader(data: Any, name: Path, wanted: Wanted) -> Iterator[Any]:
    check_names(name, wanted.columns, data.schema.names)
    yield from data  # batches of its own size; larger ones are cut afterwards


def _lazy_frame(data: Any, name: Path, wanted: Wanted) -> Iterator[Any]:
    check_names(name, wanted.columns, data.collect_schema().names())
    rows = data if wanted.columns is None else data.select(list(wanted.columns))
    if not hasattr(rows, "collect_batches"):
        raise CorrDPError(
            "lazy frames are read in batches, which needs polars 1.34 or newer. "
            "Collect the frame, or pass the path of its file."
        )
    batches = rows.collect_batches(chunk_size=wanted.batch_rows, maintain_order=True)
    for frame in batches:
        yield frame.to_arrow()


def _relation(data: Any, name: Path, wanted: Wanted) -> Iterator[Any]:
    check_names(name, wanted.columns, data.columns)
    rows = data
    if wanted.columns is not None:
        rows = data.project(", ".join(map(quoted, wanted.columns)))
    newest = hasattr(rows, "to_arrow_reader")  # the other name is older than 1.4
    read = rows.to_arrow_reader if newest else rows.fetch_arrow_reader
    yield from read(wanted.batch_rows)


_READERS: dict[str, Callable[..., Iterator[Any]]] = {
    "pyarrow.Dataset": _dataset,
    "pyarrow.RecordBatchReader": _reader,
    "polars.LazyFrame": _lazy_frame,
    "duckdb.DuckDBPyRelation": _relation,
}
_KINDS = {tuple(kind.split(".")) for kind in _READERS}
