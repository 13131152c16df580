"""Tables from files, in batches: CSV, JSON lines, Parquet, Arrow, SQLite, DuckDB.

Needs pyarrow (``pip install corrdp[files]``). Columns declared numbers are read as
floats, all others as canonical text, cell by cell (`_cells`): no type is ever inferred,
since one record could change how all others are read. Parsers quote what they stumble
over, so their messages never pass: a refusal names the file and the declared columns
only.
"""

import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from corrdp._validate import check_count
from corrdp.exceptions import CorrDPError
from corrdp.tables._databases import DATABASE_LOGS
from corrdp.tables._directories import directory_batches, files_under
from corrdp.tables._formats import reader_of
from corrdp.tables._sources import foreign_batches, is_foreign_source

BATCH_ROWS = 2**18
"""Rows of a batch, unless told otherwise."""
_WATCHER: ContextVar[Callable[[int], None] | None] = ContextVar("watcher", default=None)


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
    terms = (columns, number_columns, batch_rows)
    for batch in (
        foreign_batches(path, *terms)
        if is_foreign_source(path)
        else _file_batches(Path(path), *terms)
    ):
        n_rows += batch.num_rows
        _tell_rows(n_rows)
        yield batch
    if is_foreign_source(path):
        path = type(path).__name__
    if n_rows == 0:
        raise CorrDPError(f"{str(path)!r} has no rows. Pass a table with at least one.")


@contextmanager
def watching_rows(tell: Callable[[int], None]) -> Iterator[None]:
    """Call `tell` with the number of rows read so far, after every batch of a source.

    Parameters
    ----------
    tell : callable
        Takes a number of rows. How many a table has is public; how long a batch took
        is not, so nothing else is told.
    """
    token = _WATCHER.set(tell)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def _tell_rows(n_rows: int) -> None:
    """Tell the watcher, if there is one."""
    tell = _WATCHER.get()
    if tell is not None:
        tell(n_rows)


def _file_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    if path.is_dir():
        yield from directory_batches(
            path, columns, number_columns, batch_rows, reader_of
        )
        return
    for part, table in _parts(str(path)):
        reader = reader_of(part, table)
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
