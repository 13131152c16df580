"""Rows that other libraries hold or read lazily, as batches of texts and floats.

Datasets and readers of pyarrow, lazy frames of polars, relations of DuckDB. Each is
known by its type alone, so that none of the libraries is imported here first.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from corrdp.exceptions import CorrDPError
from corrdp.tables._arrow_cells import check_names, guarded, texts_and_numbers

_HINT = "Read it to its end by itself first, to see what is wrong."


def is_foreign_source(data: Any) -> bool:
    """Return whether rows are held or read lazily by another library."""
    return _kind(data) is not None


def foreign_batches(
    data: Any,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    """Yield what a foreign source holds, as `iter_batches` does a file."""
    kind = _kind(data)
    assert kind is not None
    name = Path(type(data).__name__)  # stands for the path in messages
    read = _READERS[kind]

    def batches() -> Iterator[Any]:
        import pyarrow as pa

        for held in read(data, columns, name, batch_rows):
            table = (
                held if isinstance(held, pa.Table) else pa.Table.from_batches([held])
            )
            table = table if columns is None else table.select(list(columns))
            for start in range(0, table.num_rows, batch_rows):
                yield texts_and_numbers(table.slice(start, batch_rows), number_columns)

    return guarded(name, batches, _HINT)


def _kind(data: Any) -> str | None:
    for base in type(data).__mro__:
        place = base.__module__.partition(".")[0].lstrip("_")
        if (place, base.__name__) in _KINDS:
            return f"{place}.{base.__name__}"
    return None


def _dataset(
    data: Any, columns: Sequence[str] | None, name: Path, batch_rows: int
) -> Iterator[Any]:
    """Read fragment by fragment, each by its own types and not those of the first."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    check_names(name, columns, data.schema.names)
    try:
        fragments = list(data.get_fragments())
    except ValueError:  # a filter or a projection: rows are what the dataset says
        _refuse_guesses(data, ds.CsvFileFormat | ds.JsonFileFormat)
        wanted = None if columns is None else list(columns)
        yield from data.to_batches(columns=wanted, batch_size=batch_rows)
        return
    _refuse_guesses(data, ds.JsonFileFormat)
    for fragment in fragments:
        keys = ds.get_partition_keys(fragment.partition_expression)
        schema = fragment.physical_schema
        if isinstance(getattr(fragment, "format", None), ds.CsvFileFormat):
            # Its own types are guesses from all rows of a block.
            schema = pa.schema([(column, pa.string()) for column in schema.names])
        wanted = list(data.schema.names) if columns is None else list(columns)
        own = [column for column in wanted if column in schema.names]
        check_names(name, [c for c in wanted if c not in keys], schema.names)
        for batch in fragment.to_batches(
            schema=schema, columns=own or schema.names[:1], batch_size=batch_rows
        ):
            table = pa.Table.from_batches([batch])
            for column in wanted:
                if column not in table.column_names:
                    value = pa.scalar(keys[column])
                    table = table.append_column(
                        column, pa.repeat(value, table.num_rows)
                    )
            yield table.select(wanted)


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


def _reader(
    data: Any, columns: Sequence[str] | None, name: Path, batch_rows: int
) -> Iterator[Any]:
    del batch_rows  # the reader's own; larger ones are cut afterwards
    check_names(name, columns, data.schema.names)
    yield from data


def _lazy_frame(
    data: Any, columns: Sequence[str] | None, name: Path, batch_rows: int
) -> Iterator[Any]:
    check_names(name, columns, data.collect_schema().names())
    wanted = data if columns is None else data.select(list(columns))
    for frame in wanted.collect_batches(chunk_size=batch_rows, maintain_order=True):
        yield frame.to_arrow()


def _relation(
    data: Any, columns: Sequence[str] | None, name: Path, batch_rows: int
) -> Iterator[Any]:
    check_names(name, columns, data.columns)
    wanted = data
    if columns is not None:
        quoted = ('"' + column.replace('"', '""') + '"' for column in columns)
        wanted = data.project(", ".join(quoted))
    newest = hasattr(wanted, "to_arrow_reader")  # the other name is older than 1.4
    read = wanted.to_arrow_reader if newest else wanted.fetch_arrow_reader
    yield from read(batch_rows)


_READERS: dict[str, Callable[..., Iterator[Any]]] = {
    "pyarrow.Dataset": _dataset,
    "pyarrow.RecordBatchReader": _reader,
    "polars.LazyFrame": _lazy_frame,
    "duckdb.DuckDBPyRelation": _relation,
}
_KINDS = {tuple(kind.split(".")) for kind in _READERS}
